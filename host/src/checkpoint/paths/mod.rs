//! Where everything lies below the checkpoint directory, and what a path found there is. Nothing else puts such paths together or
//! takes them apart.
//!
//! ```text
//! <dir>/<job>/run-0001/log/00000000000000000042.json             an entry of the log: a claim or a manifest
//! <dir>/<job>/run-0001/published                                 how far output is published
//! <dir>/<job>/run-0001/failed.json                               checkpoints that have failed
//! <dir>/<job>/run-0001/state/3-41/count-0.state                  attempt 3, epoch 41, operator count, subtask 0
//! <dir>/<job>/run-0001/state/3-41/count-0.1.part.state           the same, what there was no room for
//! <dir>/<job>/run-0001/state/3-41/count-0.operator.state         the lists of its operator state
//! <dir>/<job>/run-0001/state/3-41/count.broadcast.state          the operator's broadcast state
//! <dir>/<job>/run-0001/state/3-41/count.33-41.7.merged.state     the attempt's 7th merged file: epochs 33 to 41 in one
//! ```
//!
//! Paths within a run are relative to the run's directory, so that a run can be moved as a whole.

pub mod savepoint;

#[cfg(test)]
mod tests;

use super::manifest::Epochs;

/// What a path within a run's directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunPath {
    /// The log entry in this slot.
    Entry(u64),
    /// A state file.
    State(StatePath),
    /// The note of how far output is published.
    Published,
    /// The note of checkpoints that have failed.
    Failed,
    /// Nothing of ours: to be named, and left alone.
    Foreign,
}

/// What the path of a state file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePath {
    /// The attempt that wrote it.
    pub attempt: u32,
    /// The epoch that it is of; of a merged file, the last one.
    pub epoch: u64,
    /// The operator.
    pub uid: String,
    /// How it came about.
    pub origin: Origin,
}

/// How a state file came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A subtask's snapshot.
    Snapshot {
        /// The subtask.
        subtask: u16,
        /// Its number among the files of the snapshot, of which there is mostly one.
        part: u32,
    },
    /// The lists of a subtask's operator state.
    Lists {
        /// The subtask.
        subtask: u16,
    },
    /// Broadcast state, of which all subtasks have the same.
    Broadcast,
    /// Other state files were merged into it.
    Merged {
        /// The first epoch in it.
        first: u64,
        /// Its number among the attempt's merged files, so that no two share a path.
        serial: u64,
    },
}

impl Origin {
    /// Of operator state: of a subtask's lists, or of what is the same on all.
    pub fn of_operator_state(subtask: Option<u16>) -> Self {
        subtask.map_or(Origin::Broadcast, |subtask| Origin::Lists { subtask })
    }
}

/// The name of a job's directory below the checkpoint directory.
pub fn job_dir(job: &str) -> String {
    match job {
        // These two mean something to file systems.
        "." => "%2E".into(),
        ".." => "%2E%2E".into(),
        _ => escape(job),
    }
}

/// The name of a run's directory below the job's.
pub fn run_dir(run: u32) -> String {
    format!("run-{run:04}")
}

/// The run whose directory has this name, if it is one.
pub fn parse_run_dir(name: &str) -> Option<u32> {
    let run = name.strip_prefix("run-")?.parse().ok()?;
    (run > 0 && run_dir(run) == name).then_some(run)
}

/// The path of the log entry in `slot`, within its run.
pub fn entry(slot: u64) -> String {
    format!("log/{slot:020}.json")
}

/// The path of a file of a subtask's snapshot, within its run. Files are numbered from 0 on.
pub fn snapshot(attempt: u32, epoch: u64, uid: &str, subtask: u16, part: u32) -> String {
    StatePath { attempt, epoch, uid: uid.into(), origin: Origin::Snapshot { subtask, part } }.render()
}

/// The path of operator state, within its run: of a subtask's lists, or of what is the same on all.
pub fn operator_state(attempt: u32, epoch: u64, uid: &str, subtask: Option<u16>) -> String {
    StatePath { attempt, epoch, uid: uid.into(), origin: Origin::of_operator_state(subtask) }.render()
}

/// The path of a merged file, within its run.
pub fn merged(attempt: u32, epochs: Epochs, uid: &str, serial: u64) -> String {
    StatePath { attempt, epoch: epochs.last, uid: uid.into(), origin: Origin::Merged { first: epochs.first, serial } }.render()
}

/// Where the note lies that says how far the run's output is published, within its run.
pub const PUBLISHED: &str = "published";

/// Where the note lies that tells of checkpoints that have failed, within its run.
pub const FAILED: &str = "failed.json";

/// What a path, relative to a run's directory, is. Total: whatever is not exactly what this module would write is foreign.
pub fn classify(path: &str) -> RunPath {
    if let Some(slot) = parse_entry(path) {
        return RunPath::Entry(slot);
    }
    if path == PUBLISHED {
        return RunPath::Published;
    }
    if path == FAILED {
        return RunPath::Failed;
    }
    match parse_state(path) {
        Some(state) => RunPath::State(state),
        None => RunPath::Foreign,
    }
}

impl StatePath {
    /// The path that says this, within its run.
    pub fn render(&self) -> String {
        let (attempt, epoch, uid) = (self.attempt, self.epoch, escape(&self.uid));
        match self.origin {
            Origin::Snapshot { subtask, part: 0 } => format!("state/{attempt}-{epoch}/{uid}-{subtask}.state"),
            Origin::Snapshot { subtask, part } => format!("state/{attempt}-{epoch}/{uid}-{subtask}.{part}.part.state"),
            Origin::Lists { subtask } => format!("state/{attempt}-{epoch}/{uid}-{subtask}.operator.state"),
            Origin::Broadcast => format!("state/{attempt}-{epoch}/{uid}.broadcast.state"),
            Origin::Merged { first, serial } => format!("state/{attempt}-{epoch}/{uid}.{first}-{epoch}.{serial}.merged.state"),
        }
    }
}

fn parse_entry(path: &str) -> Option<u64> {
    let slot = path.strip_prefix("log/")?.strip_suffix(".json")?.parse().ok()?;
    (slot > 0 && entry(slot) == path).then_some(slot)
}

fn parse_state(path: &str) -> Option<StatePath> {
    let (dir, file) = path.strip_prefix("state/")?.split_once('/')?;
    let (attempt, epoch) = dir.split_once('-')?;
    let (attempt, epoch) = (attempt.parse().ok()?, epoch.parse().ok()?);
    let name = file.strip_suffix(".state")?;
    let (uid, origin) = if let Some(name) = name.strip_suffix(".merged") {
        parse_merged(name)?
    } else if let Some(name) = name.strip_suffix(".part") {
        let (name, part) = name.rsplit_once('.')?;
        let (uid, subtask) = name.rsplit_once('-')?;
        (uid, Origin::Snapshot { subtask: subtask.parse().ok()?, part: part.parse().ok()? })
    } else if let Some(name) = name.strip_suffix(".operator") {
        let (uid, subtask) = name.rsplit_once('-')?;
        (uid, Origin::Lists { subtask: subtask.parse().ok()? })
    } else if let Some(uid) = name.strip_suffix(".broadcast") {
        (uid, Origin::Broadcast)
    } else {
        let (uid, subtask) = name.rsplit_once('-')?;
        (uid, Origin::Snapshot { subtask: subtask.parse().ok()?, part: 0 })
    };
    let state = StatePath { attempt, epoch, uid: unescape(uid)?, origin };
    // Leading zeros, signs, other cases of escapes and so on: only what we would write ourselves is ours.
    (state.render() == path).then_some(state)
}

fn parse_merged(name: &str) -> Option<(&str, Origin)> {
    let (rest, serial) = name.rsplit_once('.')?;
    let (uid, epochs) = rest.rsplit_once('.')?;
    let (first, _) = epochs.split_once('-')?;
    Some((uid, Origin::Merged { first: first.parse().ok()?, serial: serial.parse().ok()? }))
}

/// A name as one part of a path: everything but ASCII letters, digits and `_ - .` is percent-encoded.
fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Undoes [`escape`]; none if it is no escaped name.
fn unescape(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                // Two hexadecimal digits are below 256.
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
