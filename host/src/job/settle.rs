//! Settling what a checkpoint holds in a job that has changed since: nodes have other names, have gone, or are new.

use std::collections::BTreeSet;

use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, Kind, Result};
use crate::plan::{Node, NodeKind, Plan, Role};

/// What has changed between a checkpoint and the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Operators that had another uid, by the one that they have.
    pub(super) renamed: Vec<String>,
    /// Operators and sources of the checkpoint that the job has no longer.
    pub(super) left_out: Vec<String>,
    /// Operators with states, and sources, of which the checkpoint has nothing.
    pub(super) empty: Vec<String>,
}

/// Brings a manifest into the job's terms: nodes by the uids that they have, and none that it has not. `has_state` says of an operator, by
/// its place in the plan, whether it has states.
///
/// # Errors
/// [`Kind::Checkpoint`], naming them all, if operators or sources have gone and `may_leave_out` does not say that this is meant.
pub(super) fn settle(manifest: &mut Manifest, plan: &Plan, may_leave_out: bool, has_state: impl Fn(usize) -> bool) -> Result<Settled> {
    let mut settled = Settled { renamed: rename(manifest, plan), ..Settled::default() };
    let is_there = |role: Role, uid: &str| plan.nodes.iter().any(|node| node.uid == uid && node.kind.role() == role);
    let operators = manifest.operators.iter().map(|part| (Role::Operator, &part.uid));
    let sources = manifest.sources.iter().map(|part| (Role::Source, &part.uid));
    let gone: Vec<(Role, &String)> = operators.chain(sources).filter(|(role, uid)| !is_there(*role, uid)).collect();
    if !gone.is_empty() && !may_leave_out {
        return Err(left_over(&gone));
    }
    settled.left_out = gone.into_iter().map(|(_, uid)| uid.clone()).collect();
    manifest.operators.retain(|part| is_there(Role::Operator, &part.uid));
    manifest.sources.retain(|part| is_there(Role::Source, &part.uid));
    let known: BTreeSet<&str> = parts(manifest).collect();
    let is_new = |(place, node): &(usize, &Node)| match node.kind {
        NodeKind::Operator(_) => has_state(*place) && !known.contains(node.uid.as_str()),
        NodeKind::Source(_) => !known.contains(node.uid.as_str()),
        NodeKind::Sink(_) => false,
    };
    settled.empty = plan.nodes.iter().enumerate().filter(is_new).map(|(_, node)| node.uid.clone()).collect();
    Ok(settled)
}

/// Gives nodes their new uids, and returns those of operators. One of which the checkpoint knows the new uid already was renamed before it
/// was taken.
pub(super) fn rename(manifest: &mut Manifest, plan: &Plan) -> Vec<String> {
    let mut renamed = Vec::new();
    let known: BTreeSet<String> = parts(manifest).chain(manifest.sinks.iter().map(|part| part.uid.as_str())).map(str::to_owned).collect();
    for node in plan.nodes.iter().filter(|node| !known.contains(&node.uid)) {
        let Some(old) = &node.renamed_from else { continue };
        match node.kind {
            NodeKind::Source(_) => manifest.sources.iter_mut().filter(|part| part.uid == *old).for_each(|part| part.uid = node.uid.clone()),
            NodeKind::Sink(_) => manifest.sinks.iter_mut().filter(|part| part.uid == *old).for_each(|part| part.uid = node.uid.clone()),
            NodeKind::Operator(_) => {
                for part in manifest.operators.iter_mut().filter(|part| part.uid == *old) {
                    part.uid = node.uid.clone();
                    renamed.push(node.uid.clone());
                }
            }
        }
    }
    renamed
}

/// The uids of operators and sources.
fn parts(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let sources = manifest.sources.iter().map(|part| part.uid.as_str());
    manifest.operators.iter().map(|part| part.uid.as_str()).chain(sources)
}

fn left_over(gone: &[(Role, &String)]) -> Error {
    let names: Vec<String> = gone.iter().map(|(role, uid)| format!("{} `{uid}`", role.name())).collect();
    let message = format!("the checkpoint holds what belongs to {}, which the job no longer has", names.join(", "));
    let help = "put it back into the job file, say by `renamed-from` what is called otherwise now, or leave its state out for good with \
                `--allow-non-restored-state`";
    Error::new(Kind::Checkpoint, message).help(help)
}
