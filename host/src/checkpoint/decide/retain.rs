//! What is superseded and may be deleted. Everything is classified before anything is deleted, and what is not known stays.

use std::collections::BTreeSet;

use crate::checkpoint::log::Log;
use crate::checkpoint::paths::{self, Origin, RunPath, StatePath};
use crate::record::AttemptId;

/// What the attempt that collects is using, or may be about to write. Taken before the run's files are listed.
#[derive(Clone, Debug)]
pub struct Live {
    /// The attempt.
    pub attempt: AttemptId,
    /// State files in use.
    pub paths: BTreeSet<String>,
    /// Merged files of the attempt with this number and above may be on their way.
    pub next_serial: u64,
    /// Its last checkpoint; none before the first. The log may know later ones by the time of the collection, whose files may be in use
    /// without being in `paths`.
    pub committed: Option<u64>,
}

/// What is superseded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superseded {
    /// Log entries, as paths within the run. To be deleted first, so that no manifest is left whose files are gone.
    pub entries: Vec<String>,
    /// State files, as paths within the run.
    pub files: Vec<String>,
    /// Paths that are none of ours. They stay.
    pub foreign: Vec<String>,
    /// Why no state file is deleted now, if so.
    pub held: Option<String>,
}

/// What of a run is superseded when its newest `retained` checkpoints are kept, given its log and the paths of all its files.
///
/// Never: a file that a kept manifest names, that is in use, that a newer attempt wrote, or that the attempt itself wrote for an epoch
/// not yet committed.
pub fn superseded(log: &Log, listed: &[String], live: &Live, retained: usize) -> Superseded {
    let mut result = Superseded::default();
    let states = classify(listed, &mut result);
    let newest = log.last_attempt();
    if newest > live.attempt.attempt {
        result.held = Some(format!("attempt {newest} has taken over"));
        return result;
    }
    let Some(oldest) = oldest_kept(log, retained) else {
        result.held = Some("there is no checkpoint yet".into());
        return result;
    };
    result.entries = log.entries.range(..oldest).map(|(&slot, _)| paths::entry(slot)).collect();
    if let Some((&slot, _)) = log.entries.range(oldest..).find(|(_, entry)| entry.is_err()) {
        result.held = Some(format!("{} can't be read, so what it names is unknown", paths::entry(slot)));
        return result;
    }
    let kept = log.manifests().filter(|(slot, _)| *slot >= oldest);
    let named: BTreeSet<&str> = kept.flat_map(|(_, manifest)| manifest.state_files()).collect();
    let garbage = |path: &str, state: &StatePath| !named.contains(path) && !live.paths.contains(path) && is_over(state, live);
    result.files = states.into_iter().filter(|(path, state)| garbage(path, state)).map(|(path, _)| path.to_string()).collect();
    result
}

/// State files, taken apart; what is foreign goes into `result`.
fn classify<'a>(listed: &'a [String], result: &mut Superseded) -> Vec<(&'a str, StatePath)> {
    let mut states = Vec::new();
    for path in listed {
        match paths::classify(path) {
            RunPath::Entry(_) | RunPath::Published | RunPath::Failed => {}
            RunPath::State(state) => states.push((path.as_str(), state)),
            RunPath::Foreign => result.foreign.push(path.clone()),
        }
    }
    states
}

/// The lowest slot that is kept; none: all are. Slots below a gap are never kept once a checkpoint lies above it.
fn oldest_kept(log: &Log, retained: usize) -> Option<u64> {
    let first = log.first_slot();
    let manifests = log.manifests().map(|(slot, _)| slot).filter(|slot| *slot >= first);
    let kept: Vec<u64> = manifests.take(retained.max(1)).collect();
    let oldest = *kept.last()?;
    // With fewer checkpoints than are to be kept, claims are still the only trace of older attempts.
    Some(if kept.len() < retained { first } else { oldest })
}

/// Whether nobody writes, or is about to name, such a file any more.
fn is_over(state: &StatePath, live: &Live) -> bool {
    if state.attempt != live.attempt.attempt {
        return state.attempt < live.attempt.attempt;
    }
    if matches!(state.origin, Origin::Merged { serial, .. } if serial >= live.next_serial) {
        return false;
    }
    live.committed.is_some_and(|committed| state.epoch <= committed)
}
