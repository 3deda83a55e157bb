//! [`Usage`]: what state that may be larger than memory takes, and how well its cache does.

use serde::Serialize;

use super::KeyedState;

/// What state that may be larger than memory takes, and how often what was looked for was in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Usage {
    /// Entries that were looked for and found in memory.
    pub hits: u64,
    /// Entries that were looked for on disk, whether or not there were any.
    pub misses: u64,
    /// Entries in memory.
    pub entries_in_memory: u64,
    /// About how many bytes they take, and the room that others have left.
    pub bytes_in_memory: u64,
    /// Bytes of files on disk.
    pub bytes_on_disk: u64,
}

impl Usage {
    /// Both together.
    pub fn and(self, other: Usage) -> Usage {
        Usage {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            entries_in_memory: self.entries_in_memory + other.entries_in_memory,
            bytes_in_memory: self.bytes_in_memory + other.bytes_in_memory,
            bytes_on_disk: self.bytes_on_disk + other.bytes_on_disk,
        }
    }
}

impl KeyedState {
    /// What it takes; none where all of it is in memory anyway.
    pub fn usage(&self) -> Option<Usage> {
        let below = self.below.as_ref()?;
        Some(Usage {
            hits: below.hits,
            misses: below.misses,
            entries_in_memory: self.entries() as u64,
            bytes_in_memory: self.tables.iter().map(|table| table.memory() + table.spare()).sum::<usize>() as u64,
            bytes_on_disk: below.store.bytes(),
        })
    }
}
