//! What to restore from, and which numbers a new attempt takes.

use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::{LogEntry, Manifest};
use crate::error::{Error, Kind, Result};
use crate::plan::Location;

/// A checkpoint to restore from.
#[derive(Clone, Debug)]
pub struct RestorePoint {
    /// The directory of its run, which its files' paths are relative to.
    pub run_dir: Location,
    /// Where its manifest lies.
    pub path: Location,
    /// Its slot in the log.
    pub slot: u64,
    /// Its manifest.
    pub manifest: Manifest,
    /// The checkpoint before it, as the way out if this one turns out to be broken.
    pub before: Option<Before>,
    /// How many checkpoints of its run are newer, counting log entries that can't be read. Restoring from it could publish their output
    /// twice.
    pub newer: usize,
}

impl RestorePoint {
    /// As messages name it.
    pub fn name(&self) -> String {
        match self.manifest.savepoint {
            Some(_) => format!("savepoint {}", self.run_dir),
            None => format!("checkpoint {}", self.manifest.checkpoint),
        }
    }

    /// What to do if it turns out to be broken.
    pub fn way_out(&self) -> String {
        match self.manifest.savepoint {
            Some(_) => "bring back what it had when it was taken, or begin from another one".into(),
            None => Before::way_out(self.before.as_ref()),
        }
    }
}

/// An older checkpoint, as far as a message needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// Its number.
    pub checkpoint: u64,
    /// When it was committed.
    pub created: String,
    /// Where its manifest lies.
    pub path: Location,
}

impl Before {
    /// The way out, as help for an error about a newer checkpoint.
    pub fn way_out(before: Option<&Before>) -> String {
        match before {
            Some(Before { checkpoint, created, path }) => {
                format!(
                    "to go back to checkpoint {checkpoint} of {created}, run with `-s {path}`, or with `--fallback` to the newest one that is whole"
                )
            }
            None => "there is no older checkpoint; to begin a new run without state, run with `--fresh`".into(),
        }
    }
}

/// What an attempt whose claim lies in slot `below` restores from: the newest checkpoint below it; none when the run has none yet.
///
/// # Errors
/// [`Kind::Checkpoint`] if an entry that may be the newest checkpoint can't be read, or is missing. Nothing is skipped silently: the
/// error's help names the checkpoint before it.
pub fn restore_point(log: &Log, below: u64) -> Result<Option<RestorePoint>> {
    for slot in (1..below).rev() {
        match log.entries.get(&slot) {
            Some(Ok(LogEntry::Claim(_))) => {}
            Some(Ok(LogEntry::Checkpoint(_))) => return Ok(point_at(log, slot)),
            Some(Err(reason)) => return Err(unusable(log, slot, reason)),
            None => return Err(unusable(log, slot, "it is missing")),
        }
    }
    Ok(None)
}

/// The newest checkpoint of a run; none when it has none yet.
///
/// # Errors
/// As [`restore_point`].
pub fn newest_point(log: &Log) -> Result<Option<RestorePoint>> {
    restore_point(log, log.last_slot() + 1)
}

/// The checkpoint whose manifest lies in `slot`, if one does and can be read.
pub fn point_at(log: &Log, slot: u64) -> Option<RestorePoint> {
    let manifest = log.entries.get(&slot)?.as_ref().ok()?.manifest()?.clone();
    let may_be_manifest = |entry: &Result<LogEntry, String>| !matches!(entry, Ok(LogEntry::Claim(_)));
    let newer = log.entries.range(slot + 1..).filter(|(_, entry)| may_be_manifest(entry)).count();
    Some(RestorePoint { run_dir: log.dir.clone(), path: log.path(slot), slot, manifest, before: before(log, slot), newer })
}

/// Checkpoint number `checkpoint` of the run.
///
/// # Errors
/// [`Kind::Checkpoint`], naming those that there are, if it is not there.
pub fn by_number(log: &Log, checkpoint: u64) -> Result<RestorePoint> {
    let found = log.manifests().find(|(_, manifest)| manifest.checkpoint == checkpoint);
    if let Some(point) = found.and_then(|(slot, _)| point_at(log, slot)) {
        return Ok(point);
    }
    let mut there: Vec<String> = log.manifests().map(|(_, manifest)| manifest.checkpoint.to_string()).collect();
    there.reverse();
    let error = Error::new(Kind::Checkpoint, format!("{}: there is no checkpoint {checkpoint} that can be read", log.dir));
    Err(match there.as_slice() {
        [] => error.help("the run has no checkpoint that can be read"),
        _ => error.help(format!("there are {}; only the newest are kept", there.join(", "))),
    })
}

/// The number of a new attempt: one above every attempt before it.
///
/// # Errors
/// [`Kind::Checkpoint`] if there are entries and none of them can be read, so that nobody knows.
pub fn next_attempt(log: &Log) -> Result<u32> {
    let (last, broken) = (log.last_attempt(), log.broken());
    if last == 0 && broken > 0 {
        let message = format!("{}: no entry of the log can be read, so the attempts so far are unknown", log.dir);
        return Err(Error::new(Kind::Checkpoint, message).help("begin a new run without state with `--fresh`"));
    }
    // Every unreadable entry may have been a claim.
    let broken = u32::try_from(broken).unwrap_or(u32::MAX);
    last.checked_add(broken).and_then(|last| last.checked_add(1)).ok_or_else(|| Error::new(Kind::Internal, "the attempts are used up"))
}

/// The number of the next checkpoint: one above every checkpoint of the run, so that each number stands for one checkpoint, also when an
/// older one was restored. An attempt that restores a checkpoint of another run has to stay above that one too.
pub fn next_epoch(log: &Log) -> u64 {
    let last = log.manifests().map(|(_, manifest)| manifest.checkpoint).max().unwrap_or(0);
    // Every unreadable entry may have been a checkpoint.
    last + log.broken() as u64 + 1
}

/// The newest readable checkpoint below `slot`.
fn before(log: &Log, slot: u64) -> Option<Before> {
    let (slot, manifest) = log.manifests().find(|(older, _)| *older < slot)?;
    Some(Before { checkpoint: manifest.checkpoint, created: manifest.created.clone(), path: log.path(slot) })
}

fn unusable(log: &Log, slot: u64, reason: &str) -> Error {
    let message = format!("the newest checkpoint can't be restored: {}: {reason}", log.path(slot));
    Error::new(Kind::Checkpoint, message).help(Before::way_out(before(log, slot).as_ref()))
}
