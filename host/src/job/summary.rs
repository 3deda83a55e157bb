//! What a run of a job was, told at its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::clock;
use crate::dataflow::{OwnMetrics, Pauses};
use crate::error::Result;
use crate::plan::{Node, Plan};
use crate::record::AttemptId;
use crate::state::Usage;

use super::migrate::MigrationProgress;

/// How a run ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All input was read, everything is published, nothing is left to resume.
    Finished,
    /// Stopped on request with a last checkpoint; the next run resumes from it.
    Stopped,
    /// Ended at once on request; the next run resumes from the newest checkpoint, unless `on-cancel` has them deleted.
    Cancelled,
}

/// What an attempt began from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Restored {
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// When it was committed, RFC 3339.
    pub created: String,
    /// Its manifest, as a path.
    pub path: String,
    /// Whether it is a savepoint.
    pub savepoint: bool,
    /// Operators with states, and sources, of which it has nothing: they begin empty.
    pub empty: Vec<String>,
    /// Operators and sources of which it has something, and that the job has no longer.
    pub left_out: Vec<String>,
}

/// An attempt that failed and was followed by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailedAttempt {
    /// Which.
    pub attempt: AttemptId,
    /// When it failed, RFC 3339.
    pub time: String,
    /// Why.
    pub error: String,
}

/// The attempts of a process that have failed and were followed by others.
#[derive(Debug, Default)]
pub(super) struct FailedAttempts {
    /// The newest of these attempts, the oldest first.
    newest: VecDeque<FailedAttempt>,
    /// How many of these attempts there were in all.
    count: u64,
}

impl FailedAttempts {
    /// How many of these attempts are kept: a job may be begun again for months.
    const KEPT: usize = 20;

    pub(super) fn add(&mut self, failed: FailedAttempt) {
        self.count += 1;
        self.newest.push_back(failed);
        if self.newest.len() > Self::KEPT {
            self.newest.pop_front();
        }
    }

    /// Tells of them in what the last attempt came to.
    pub(super) fn told_with(self, ended: Result<Summary>) -> Result<Summary> {
        let (failures, failed_attempts) = (Vec::from(self.newest), self.count);
        match ended {
            Ok(summary) => Ok(Summary { failures, failed_attempts, ..summary }),
            Err(error) => {
                // They are plain data, so that nothing can go wrong.
                let failures = serde_json::to_value(failures).unwrap_or_default();
                Err(error.detail("failures", failures).detail("failed-attempts", failed_attempts.into()))
            }
        }
    }
}

/// Records through one node, over all its subtasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct NodeTotals {
    /// The node's uid.
    pub uid: String,
    /// "source", "operator" or "sink".
    pub kind: &'static str,
    /// Records that it took (for a source: read).
    pub records_in: u64,
    /// Records that it sent on (for a sink: wrote).
    pub records_out: u64,
    /// Records that it could not work on, and that were left out.
    pub records_failed: u64,
    /// What its keyed state took at last, if it may be larger than memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Usage>,
    /// What it has counted itself.
    #[serde(flatten)]
    pub own: OwnMetrics,
}

/// What a run was.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// The job's name.
    pub job: String,
    /// Which run and attempt.
    pub attempt: AttemptId,
    /// How it ended.
    pub outcome: Outcome,
    /// The signal that stopped it, if one did: 2 for SIGINT, 15 for SIGTERM.
    pub signal: Option<i32>,
    /// What it began from; none: without state.
    pub restored: Option<Restored>,
    /// The newest of the attempts of this process that failed before it, oldest first. Counts and times below are the last attempt's.
    pub failures: Vec<FailedAttempt>,
    /// How many failed before it.
    pub failed_attempts: u64,
    /// Worker threads.
    pub parallelism: u16,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// CPU time of the process, in seconds.
    pub cpu_seconds: f64,
    /// Every node in topological order.
    pub nodes: Vec<NodeTotals>,
    /// Checkpoints committed.
    pub checkpoints: u64,
    /// Checkpoints that failed.
    pub failed_checkpoints: u64,
    /// The number of the last one committed.
    pub last_checkpoint: Option<u64>,
    /// Bytes of state written by them.
    pub checkpoint_bytes: u64,
    /// How long barriers held operators up.
    pub freezes: Pauses,
    /// How long slices of frozen state held them up between later batches.
    pub slices: Pauses,
}

impl Summary {
    /// Of a job that had nothing left to do after the attempt, because that has failed after the last commit, or that was not to begin
    /// another.
    pub(super) fn nothing_done(plan: &Plan, attempt: AttemptId, outcome: Outcome, started: Instant) -> Self {
        let node = |node: &Node| NodeTotals {
            uid: node.uid.clone(),
            kind: node.kind.role().name(),
            records_in: 0,
            records_out: 0,
            records_failed: 0,
            state: None,
            own: OwnMetrics::default(),
        };
        Summary {
            job: plan.name.clone(),
            attempt,
            outcome,
            signal: None,
            restored: None,
            failures: Vec::new(),
            failed_attempts: 0,
            parallelism: plan.parallelism,
            seconds: (clock::now() - started).as_secs_f64(),
            cpu_seconds: clock::cpu().as_secs_f64(),
            nodes: plan.nodes.iter().map(node).collect(),
            checkpoints: 0,
            failed_checkpoints: 0,
            last_checkpoint: None,
            checkpoint_bytes: 0,
            freezes: Pauses::default(),
            slices: Pauses::default(),
        }
    }
}

/// Where a running job stands, for a progress line.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Records read by sources.
    pub records_in: u64,
    /// Records written by sinks.
    pub records_out: u64,
    /// Checkpoints committed.
    pub checkpoints: u64,
    /// The last one's number.
    pub last_checkpoint: Option<u64>,
    /// Checkpoints that failed.
    pub failed_checkpoints: u64,
    /// Bytes of state written by those committed.
    pub checkpoint_bytes: u64,
    /// How its checkpoints fare.
    pub health: Health,
    /// How far the migration of a swap has come, while it is under way.
    pub migration: Option<MigrationProgress>,
}

/// How a job's checkpoints fare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// How many have failed since the last good one, in whatever attempt.
    pub failed_in_a_row: u64,
    /// Why the newest has, if it has, or what one that takes long waits for, or what is damaged.
    pub reason: Option<Arc<str>>,
    /// The oldest one under way that has taken half of its `timeout`, and for how long it is under way.
    pub late: Option<(u64, Duration)>,
    /// Which file of state is missing or damaged, so that the last good one can't be restored, as far as a merge has come upon it.
    pub damage: Option<Arc<str>>,
    /// The last good one's number, and how long ago it was committed. The attempt may have begun from it.
    pub last_good: Option<(u64, Duration)>,
}

impl Health {
    /// Whether the newest has failed, or one takes long, or the last good one can't be restored.
    pub fn is_degraded(&self) -> bool {
        self.failed_in_a_row > 0 || self.late.is_some() || self.damage.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Kind};

    #[test]
    fn of_many_failed_attempts_the_newest_are_kept_and_all_are_counted() {
        let mut failed = FailedAttempts::default();
        for attempt in 1..=50 {
            failed.add(FailedAttempt { attempt: AttemptId { run: 1, attempt }, time: String::new(), error: format!("reason {attempt}") });
        }
        let error = failed.told_with(Err(Error::new(Kind::Job, "the last one"))).unwrap_err();
        let (failures, count) = (error.details()["failures"].as_array().unwrap(), &error.details()["failed-attempts"]);
        let numbers: Vec<_> = failures.iter().filter_map(|failed| failed["attempt"]["attempt"].as_u64()).collect();
        assert_eq!((numbers, count), ((31..=50).collect(), &50.into()));
        assert_eq!(failures[19]["error"], "reason 50");
    }
}
