//! [`Log`]: the entries of a run, as they were found. The manifests of a run are one dense log: entries are numbered without gaps, each
//! is written once, and the next one always has the next number. So whoever finds its next slot taken has been overtaken.

use std::collections::BTreeMap;

use super::manifest::{LogEntry, Manifest};
use super::paths;
use crate::plan::Location;

/// The entries of a run, as they were found.
#[derive(Clone, Debug)]
pub struct Log {
    /// The run.
    pub run: u32,
    /// The run's directory, for messages and to find its files.
    pub dir: Location,
    /// Every entry by its slot; one that can't be read with the reason.
    pub entries: BTreeMap<u64, Result<LogEntry, String>>,
}

impl Log {
    /// Where the entry in `slot` lies.
    pub fn path(&self, slot: u64) -> Location {
        self.dir.join(&paths::entry(slot))
    }

    /// The highest slot in use; 0 when there is none.
    pub fn last_slot(&self) -> u64 {
        self.entries.keys().next_back().copied().unwrap_or(0)
    }

    /// The first slot of the dense end of the log. What lies below a gap is left from an unfinished collection, or was written into a
    /// freed slot by an attempt that had been overtaken.
    pub fn first_slot(&self) -> u64 {
        dense_from(&self.entries)
    }

    /// Manifests that can be read, from the newest to the oldest.
    pub fn manifests(&self) -> impl Iterator<Item = (u64, &Manifest)> {
        let readable = self.entries.iter().rev().filter_map(|(&slot, entry)| Some((slot, entry.as_ref().ok()?)));
        readable.filter_map(|(slot, entry)| Some((slot, entry.manifest()?)))
    }

    /// The highest attempt among entries that can be read; 0 when there is none.
    pub fn last_attempt(&self) -> u32 {
        self.entries.values().flatten().map(|entry| entry.attempt().attempt).max().unwrap_or(0)
    }

    /// How many entries can't be read.
    pub fn broken(&self) -> usize {
        self.entries.values().filter(|entry| entry.is_err()).count()
    }
}

/// The first slot of the dense end of entries by slot; 0 when there is none.
pub fn dense_from<T>(entries: &BTreeMap<u64, T>) -> u64 {
    let mut first = entries.keys().next_back().copied().unwrap_or(0);
    while first > 1 && entries.contains_key(&(first - 1)) {
        first -= 1;
    }
    first
}
