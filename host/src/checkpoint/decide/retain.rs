//! What is superseded and may be deleted. Everything is classified before anything is deleted, and what is not known stays.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::log::{Log, dense_from};
use crate::checkpoint::manifest::LogEntry;
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
    /// The lowest slot that stays; 0: all do.
    pub kept: u64,
    /// Why no state file is deleted now, if so.
    pub held: Option<String>,
}

/// What the entries of a log name, without the rest of what they say.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// By slot; none: it can't be read.
    entries: BTreeMap<u64, Option<Named>>,
}

/// What an entry names.
#[derive(Clone, Debug)]
struct Named {
    attempt: u32,
    /// State files, if it is a manifest.
    files: Option<Vec<String>>,
}

impl Outline {
    /// The outline of a log.
    pub fn of(log: &Log) -> Self {
        let mut outline = Outline::default();
        log.entries.iter().for_each(|(&slot, entry)| outline.add(slot, entry.as_ref().ok()));
        outline
    }

    /// Adds an entry; none: it can't be read.
    pub fn add(&mut self, slot: u64, entry: Option<&LogEntry>) {
        let named = |entry: &LogEntry| Named {
            attempt: entry.attempt().attempt,
            files: entry.manifest().map(|manifest| manifest.state_files().map(str::to_owned).collect()),
        };
        self.entries.insert(slot, entry.map(named));
    }

    /// Forgets the entries below `slot`.
    pub fn forget_below(&mut self, slot: u64) {
        self.entries = self.entries.split_off(&slot);
    }

    /// The highest slot in use; 0 when there is none.
    pub fn last_slot(&self) -> u64 {
        self.entries.keys().next_back().copied().unwrap_or(0)
    }

    /// The highest attempt among entries that can be read; 0 when there is none.
    pub fn last_attempt(&self) -> u32 {
        self.entries.values().flatten().map(|entry| entry.attempt).max().unwrap_or(0)
    }

    /// Manifests that can be read, from the newest to the oldest.
    fn manifests(&self) -> impl Iterator<Item = (u64, &[String])> {
        self.entries.iter().rev().filter_map(|(&slot, entry)| Some((slot, entry.as_ref()?.files.as_deref()?)))
    }

    /// The lowest slot that is kept; none: all are. Slots below a gap are never kept once a checkpoint lies above it.
    fn oldest_kept(&self, retained: usize) -> Option<u64> {
        let first = dense_from(&self.entries);
        let manifests = self.manifests().map(|(slot, _)| slot).filter(|slot| *slot >= first);
        let kept: Vec<u64> = manifests.take(retained.max(1)).collect();
        let oldest = *kept.last()?;
        // With fewer checkpoints than are to be kept, claims are still the only trace of older attempts.
        Some(if kept.len() < retained { first } else { oldest })
    }
}

/// What of a run is superseded when its newest `retained` checkpoints are kept, given the outline of its log and the paths of its files, those
/// of entries included or not.
///
/// Never: a file that a kept manifest names, that is in use, that a newer attempt wrote, or that the attempt itself wrote for an epoch
/// not yet committed.
pub fn superseded<'a>(log: &Outline, paths: impl IntoIterator<Item = &'a str>, live: &Live, retained: usize) -> Superseded {
    let Classified { entries, states, foreign } = classify(paths);
    let mut result = Superseded { foreign, ..Superseded::default() };
    let newest = log.last_attempt();
    if newest > live.attempt.attempt {
        result.held = Some(format!("attempt {newest} has taken over"));
        return result;
    }
    let Some(oldest) = log.oldest_kept(retained) else {
        result.held = Some("there is no checkpoint yet".into());
        return result;
    };
    // Those that are not in the outline came late into a slot that was free already.
    let below: BTreeSet<u64> = log.entries.range(..oldest).map(|(&slot, _)| slot).chain(entries.range(..oldest).copied()).collect();
    result.entries = below.into_iter().map(paths::entry).collect();
    result.kept = oldest;
    if let Some((&slot, _)) = log.entries.range(oldest..).find(|(_, entry)| entry.is_none()) {
        result.held = Some(format!("{} can't be read, so what it names is unknown", paths::entry(slot)));
        return result;
    }
    let kept = log.manifests().filter(|(slot, _)| *slot >= oldest);
    let named: BTreeSet<&str> = kept.flat_map(|(_, files)| files).map(String::as_str).collect();
    let garbage = |path: &str, state: &StatePath| !named.contains(path) && !live.paths.contains(path) && is_over(state, live);
    result.files = states.into_iter().filter(|(path, state)| garbage(path, state)).map(|(path, _)| path.to_string()).collect();
    result
}

/// State files of attempts before `attempt` that no manifest of the run's log names, given the paths of the run's files. Those attempts can't
/// commit any more once `attempt` has claimed the run, so nobody ever names them. None as long as an entry can't be read.
pub fn abandoned<'a>(log: &Outline, paths: impl IntoIterator<Item = &'a str>, attempt: u32) -> Vec<String> {
    if log.entries.values().any(Option::is_none) {
        return Vec::new();
    }
    let named: BTreeSet<&str> = log.manifests().flat_map(|(_, files)| files).map(String::as_str).collect();
    let states = classify(paths).states.into_iter();
    states.filter(|(path, state)| state.attempt < attempt && !named.contains(path)).map(|(path, _)| path.into()).collect()
}

/// The paths of a run, taken apart.
#[derive(Default)]
struct Classified<'a> {
    /// Slots of log entries.
    entries: BTreeSet<u64>,
    states: Vec<(&'a str, StatePath)>,
    foreign: Vec<String>,
}

fn classify<'a>(paths: impl IntoIterator<Item = &'a str>) -> Classified<'a> {
    let mut classified = Classified::default();
    for path in paths {
        match paths::classify(path) {
            RunPath::Entry(slot) => _ = classified.entries.insert(slot),
            RunPath::Published | RunPath::Failed => {}
            RunPath::State(state) => classified.states.push((path, state)),
            RunPath::Foreign => classified.foreign.push(path.into()),
        }
    }
    classified
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
