//! Whether all subtasks have the same broadcast state: what one barrier ends is the same on all, or something has decided about writes
//! that is not the same on all, and no copy is better than another.

use std::collections::BTreeMap;

use super::{Epoch, Expected, Part};
use crate::error::{Error, Kind, Result};

/// Checks a complete checkpoint.
///
/// # Errors
/// [`Kind::Job`], naming operator, state and subtasks, if copies of a broadcast state differ.
pub(super) fn check(nodes: &[Expected], epoch: &Epoch) -> Result<()> {
    let mut copies: BTreeMap<(usize, &str), BTreeMap<u128, Vec<u16>>> = BTreeMap::new();
    for (&(node, subtask), part) in &epoch.parts {
        let Part::State { digests, .. } = part else { continue };
        for (state, digest) in digests {
            copies.entry((node, state)).or_default().entry(*digest).or_default().push(subtask);
        }
    }
    match copies.into_iter().find(|(_, copies)| copies.len() > 1) {
        None => Ok(()),
        Some(((node, state), copies)) => Err(disagreement(&nodes[node].uid, state, epoch.epoch, copies.into_values().collect())),
    }
}

fn disagreement(uid: &str, state: &str, epoch: u64, mut groups: Vec<Vec<u16>>) -> Error {
    // By their first subtask, so that the text does not depend on digests.
    groups.sort();
    let named = |subtasks: &Vec<u16>| {
        let subtasks: Vec<String> = subtasks.iter().map(u16::to_string).collect();
        format!("{} {}", if subtasks.len() == 1 { "subtask" } else { "subtasks" }, subtasks.join(", "))
    };
    let groups: Vec<String> = groups.iter().map(named).collect();
    let message = format!(
        "operator `{uid}`: the copies of broadcast state `{state}` differ at checkpoint {epoch}: {} have different ones",
        groups.join(" and ")
    );
    Error::new(Kind::Job, message)
        .help(
            "let nothing decide what is written there but broadcast records and broadcast state: not the subtask, the time, chance, other \
         state, or the order in a HashMap or HashSet; then run the job again: it resumes from its last checkpoint, with equal copies",
        )
        .for_people()
}
