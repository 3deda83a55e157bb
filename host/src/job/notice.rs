//! What a running job tells whoever watches it.

use std::fmt;
use std::time::Duration;

use crate::record::AttemptId;

use super::{Progress, Restored};

/// Something worth a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A run begins without state.
    Starting {
        /// The attempt.
        attempt: AttemptId,
    },
    /// An attempt begins from a checkpoint.
    Resuming {
        /// The attempt.
        attempt: AttemptId,
        /// The checkpoint.
        restored: Restored,
    },
    /// An attempt has failed, and another follows.
    Restarting {
        /// The one that failed.
        attempt: AttemptId,
        /// Why.
        error: String,
        /// When the other begins.
        delay: Duration,
    },
    /// A signal has asked for a stop.
    Stopping {
        /// Which.
        signal: i32,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Starting { attempt: AttemptId { run, attempt: 1 } } => write!(f, "starting run {run}"),
            Notice::Starting { attempt: AttemptId { run, attempt } } => {
                write!(f, "starting run {run} again (attempt {attempt}): it has no checkpoint yet")
            }
            Notice::Resuming { attempt: AttemptId { run, attempt }, restored: Restored { checkpoint, created, .. } } => {
                write!(f, "resuming run {run} from checkpoint {checkpoint} of {created} (attempt {attempt})")
            }
            Notice::Restarting { attempt: AttemptId { attempt, .. }, error, delay } => {
                let delay = humantime::format_duration(Duration::from_millis(delay.as_millis() as u64));
                write!(f, "attempt {attempt} has failed, another follows in {delay}: {error}")
            }
            Notice::Stopping { .. } => f.write_str("stopping with a last checkpoint; the signal once more ends the process at once"),
        }
    }
}

/// Watches a running job. Called on the job's own threads: must return soon.
pub trait Observer: Send + Sync {
    /// Something worth a line has happened.
    fn notice(&self, notice: &Notice);
    /// Where the job stands; about five times a second.
    fn progress(&self, progress: &Progress);
}
