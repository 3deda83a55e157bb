//! Places that can't be shared: what a job writes must not lie where it writes or reads something else.

use std::path::{Component, Path, PathBuf};

use super::faults::{Faults, Span};
use super::nodes::Draft;
use crate::plan::{Location, Role};

/// Notes sinks that write into one directory, into what a source reads, or among the job's checkpoints. `checkpoints` is the
/// directory of this job's checkpoints.
pub(super) fn check(faults: &Faults, nodes: &[Draft], checkpoints: Option<&Location>) {
    let placed = |node: &'_ Draft| node.location.as_ref().map(|location| (normal(location.get_ref()), location.span()));
    let located: Vec<(&Draft, PathBuf, Span)> =
        nodes.iter().filter_map(|node| placed(node).map(|(path, span)| (node, path, span))).collect();
    let checkpoints = match checkpoints {
        Some(Location::Path(path)) => Some(normal(path)),
        _ => None,
    };
    for (index, (node, path, span)) in located.iter().enumerate() {
        if checkpoints.as_ref().is_some_and(|checkpoints| path.starts_with(checkpoints)) {
            let message = format!("{}: its path lies in the directory of the job's checkpoints", node.name);
            faults.add(span.clone(), message, "choose another path, or another `dir` in [checkpoint]");
        }
        if node.role != Role::Sink {
            continue;
        }
        for (other, _, _) in located[..index].iter().filter(|(_, other, _)| other == path) {
            let verb = if other.role == Role::Sink { "writes" } else { "reads" };
            let message = format!("{}: {} {verb} there too", node.name, other.name);
            faults.add(span.clone(), message, "give the sink a directory of its own");
        }
    }
}

/// Without `.` and `..`, as far as that can be known without looking at the disk. Good enough to find a slip; never used to open.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
