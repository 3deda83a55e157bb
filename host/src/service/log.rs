//! [`Log`]: what the host and the operators log about each job, brought from wherever it is written to the job's own journal. Whoever writes
//! a line does not wait for a disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::job::Job;
use crate::error::{Error, Kind, Result};
use crate::telemetry::JobLine;

/// Lines that wait to be written. Of what comes when there are so many, only the number is told.
const WAITING: usize = 8192;

/// A line of a job's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// How important it is: `ERROR`, `WARN` or `INFO`.
    pub level: String,
    /// The operator that wrote it; none: the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The operator's subtask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtask: Option<u64>,
    /// What it says.
    pub text: String,
}

/// Where lines go that are about jobs.
#[derive(Clone, Debug)]
pub struct Log {
    lines: SyncSender<JobLine>,
    left_out: Arc<AtomicU64>,
}

/// The other end of it, for the host.
#[derive(Debug)]
pub struct LogReader {
    lines: Receiver<JobLine>,
    left_out: Arc<AtomicU64>,
}

impl Log {
    /// A log, and what the host needs to keep it.
    pub fn new() -> (Self, LogReader) {
        let (lines, taken) = sync_channel(WAITING);
        let left_out = Arc::<AtomicU64>::default();
        (Log { lines, left_out: Arc::clone(&left_out) }, LogReader { lines: taken, left_out })
    }

    /// Takes a line. Never waits.
    pub fn take(&self, line: JobLine) {
        if self.lines.try_send(line).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl LogReader {
    /// Writes all lines to the journals of the jobs that `find` finds, on a thread of its own.
    pub(super) fn run(self, find: impl Fn(&str) -> Option<Arc<Job>> + Send + 'static) -> Result<()> {
        let run = move || {
            for line in self.lines {
                let left_out = self.left_out.swap(0, Ordering::Relaxed);
                if left_out > 0 {
                    tracing::warn!("{left_out} lines about jobs were left out of their logs: more came than could be written");
                }
                if let Some(job) = find(&line.job) {
                    let JobLine { level, operator, subtask, text, .. } = line;
                    job.log().add(&LogLine { level: level.to_string(), operator, subtask, text });
                }
            }
        };
        let thread = std::thread::Builder::new().name("job-logs".into()).spawn(run);
        thread.map(drop).map_err(|error| Error::new(Kind::Internal, format!("no thread for the logs of jobs: {error}")))
    }
}
