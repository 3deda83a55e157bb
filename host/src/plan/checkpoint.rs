//! [`CheckpointSettings`]: when checkpoints are taken, where they go, and what becomes of those that fail. Names are Flink's.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::{Access, Location};

/// `[checkpoint]` of a job file.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointSettings {
    /// Time between the triggers of two checkpoints; none: only the ones at the end of input and at a stop.
    pub interval: Option<Duration>,
    /// What a failure does to records.
    pub mode: Mode,
    /// How long one may take.
    pub timeout: Duration,
    /// The least time between the end of one and the trigger of the next.
    pub min_pause: Duration,
    /// How many may be under way at once.
    pub max_concurrent: usize,
    /// How many may fail in a row before the attempt does.
    pub tolerable_failures: u64,
    /// How many of the newest are kept.
    pub num_retained: usize,
    /// What becomes of them when the job is cancelled.
    pub on_cancel: OnCancel,
    /// Whether one writes only what has changed since the one before; else all keyed state.
    pub incremental: bool,
    /// State files with fewer bytes are kept in the manifest.
    pub memory_threshold: u64,
    /// How many bytes merges of state files read and write in a second, beside the job's work.
    pub merge_rate: u64,
    /// The directory for copies of state files that a restart in the same place reads first, absolute; none: there are no copies.
    pub local_recovery: Option<PathBuf>,
    /// How state files are packed.
    pub compression: Compression,
    /// The directory under which all jobs' checkpoints lie; a path is absolute.
    pub dir: Location,
    /// The directory for savepoints that are asked for without one.
    pub savepoint_dir: Option<Location>,
    /// How buckets of the service that the one or the other is in are reached.
    pub access: Access,
}

impl CheckpointSettings {
    /// The defaults, with checkpoints below `dir`.
    pub fn new(dir: Location) -> Self {
        CheckpointSettings {
            interval: None,
            mode: Mode::default(),
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            max_concurrent: 1,
            tolerable_failures: 0,
            num_retained: 3,
            on_cancel: OnCancel::default(),
            incremental: true,
            memory_threshold: 20 << 10,
            // Half of what a network of a gigabit carries: the other half is for checkpoints.
            merge_rate: 64 << 20,
            local_recovery: None,
            compression: Compression::default(),
            dir,
            savepoint_dir: None,
            access: Access::default(),
        }
    }
}

/// What a failure does to records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: what comes after a barrier is held back until all that is before it has come.
    #[default]
    ExactlyOnce,
    /// Some are worked on again. Nothing is held back, so that a barrier delays no record.
    AtLeastOnce,
}

/// What becomes of checkpoints when the job is cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCancel {
    /// The newest are kept, and the job can go on from them.
    #[default]
    Retain,
    /// They are deleted.
    Delete,
}

/// How state files are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// By LZ4.
    #[default]
    Lz4,
    /// Not at all.
    None,
}
