//! [`Batch`]: records that travel together, and the hash that places their keys.

use serde::{Deserialize, Serialize};

use super::Column;

/// Records that travel together. Keys are dictionary-encoded: `keys` are the distinct ones, `key_of[i]` is record i's key as an index
/// into them. Each distinct key is hashed once, by whoever builds the batch; nobody hashes it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Distinct keys; empty when the stream carries none.
    pub keys: Column,
    /// [`hash_key`] of each distinct key.
    pub hashes: Vec<u64>,
    /// For each record its key's index; empty when the stream carries none.
    pub key_of: Vec<u32>,
    /// The records' values.
    pub values: Column,
    /// Event times in milliseconds since the Unix epoch, one for each record; empty when the stream carries none.
    pub timestamps: Vec<i64>,
}

impl Batch {
    /// How many records there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Bytes of memory that its content takes, for flow control and metrics.
    pub fn bytes(&self) -> usize {
        self.keys.bytes.len()
            + self.keys.ends.len() * 4
            + self.hashes.len() * 8
            + self.key_of.len() * 4
            + self.values.bytes.len()
            + self.values.ends.len() * 4
            + self.timestamps.len() * 8
    }

    /// Removes all records and keeps the room.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.hashes.clear();
        self.key_of.clear();
        self.values.clear();
        self.timestamps.clear();
    }
}

/// The hash that places a key: XXH3 with 64 bits and seed 0, the same in every process and release, because key groups in stored
/// state depend on it.
#[inline]
pub fn hash_key(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// A hash of a record's key, if it has one, and value.
pub fn hash_record(key: Option<&[u8]>, value: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(value, key.map_or(0, hash_key))
}
