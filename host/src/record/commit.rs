//! What sources and sinks note at a barrier, and whose it is.

use serde::{Deserialize, Serialize};

/// Which run of a job, and which attempt within it. Every path and acknowledgement carries it, so that an older attempt that was
/// merely paused can't be taken for the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// A run begins without state and may have many attempts; numbered from 1 within a job's checkpoint directory.
    pub run: u32,
    /// An attempt begins with a claim in the run's log; numbered from 1.
    pub attempt: u32,
}

impl AttemptId {
    /// What comes before the first attempt.
    pub const NONE: AttemptId = AttemptId { run: 0, attempt: 0 };
}

/// How far a split has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Position {
    /// Where the next record begins: a byte offset in a file, the number of a line for a generator.
    pub offset: u64,
    /// How many records have been read from the split.
    pub records: u64,
    /// Whether the split has been read to its end.
    pub ended: bool,
}

/// A split of a source (a file, a partition) with its position. Positions belong to splits, never to subtasks: otherwise a change of
/// parallelism would lose or double records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPosition {
    /// The split's name, unique within its source.
    pub split: String,
    /// How far it has been read.
    #[serde(flatten)]
    pub position: Position,
}

/// Output that a sink has made durable but not yet visible. Publishing it is idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Staged {
    /// Where it lies now, relative to the sink's directory.
    pub from: String,
    /// Where readers are to see it, relative to the sink's directory.
    pub to: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many records it holds.
    pub records: u64,
}
