//! Leftovers of interrupted writes. On a local disk a file is written beside its place, as `name#1`, and linked to it when it is whole;
//! a crash leaves such a file behind, and listings of the store never show it.

use std::path::Path;

use crate::checkpoint::paths::savepoint::{self, SavepointPath};
use crate::checkpoint::paths::{self, RunPath};

/// Removes what interrupted writes of attempts before `attempt`, and of log entries before `slot`, have left in a run. Writers that are
/// still at it have been overtaken long ago.
pub(super) fn remove_leftovers(run_dir: &Path, attempt: u32, slot: u64) {
    let over = |path: &str| match paths::classify(path) {
        RunPath::State(state) => state.attempt < attempt,
        RunPath::Entry(entry) => entry < slot,
        RunPath::Published | RunPath::Failed | RunPath::Foreign => false,
    };
    let state_dirs = names(&run_dir.join("state")).into_iter().map(|dir| format!("state/{dir}"));
    for dir in state_dirs.chain(["log".to_string()]) {
        let leftovers =
            names(&run_dir.join(&dir)).into_iter().filter(|name| target(name).is_some_and(|name| over(&format!("{dir}/{name}"))));
        let removed = leftovers.filter(|name| std::fs::remove_file(run_dir.join(&dir).join(name)).is_ok()).count();
        if removed > 0 {
            tracing::debug!(dir = %run_dir.join(&dir).display(), removed, "removed leftovers of interrupted writes");
            // Only succeeds when it is empty, and then nothing is lost with it.
            let _ = std::fs::remove_dir(run_dir.join(&dir));
        }
    }
}

/// Removes what the writes of a file that have failed have left: without room for the whole they would take what is there.
pub(super) fn remove_attempted(file: &Path) {
    let Some((dir, own)) = file.parent().zip(file.file_name()) else { return };
    for name in names(dir).iter().filter(|name| target(name).is_some_and(|target| *target == *own)) {
        // What can't be removed is invisible to everything else.
        let _ = std::fs::remove_file(dir.join(name));
    }
}

/// Removes what interrupted writes have left of a savepoint, and the directories that are empty then.
pub(super) fn remove_savepoint_leftovers(dir: &Path) {
    let state_dirs = names(&dir.join("state")).into_iter().map(|name| format!("state/{name}"));
    for below in state_dirs.chain(["state".into(), "components".into(), String::new()]) {
        let own = |name: &String| {
            let path = target(name).map(|name| if below.is_empty() { name.into() } else { format!("{below}/{name}") });
            path.is_some_and(|path| savepoint::classify(&path) != SavepointPath::Foreign)
        };
        for name in names(&dir.join(&below)).iter().filter(|name| own(name)) {
            // What can't be removed is invisible to everything else.
            let _ = std::fs::remove_file(dir.join(&below).join(name));
        }
        // Only succeeds when it is empty.
        let _ = std::fs::remove_dir(dir.join(&below));
    }
}

/// The names in a directory; none if it can't be read.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The file that a leftover was to become, if the name is that of a leftover.
fn target(name: &str) -> Option<&str> {
    let (target, number) = name.rsplit_once('#')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(target)
}
