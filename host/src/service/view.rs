//! What is told of a job to those who ask.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::deployment::Ended;
use super::job::{Job, Live};
use super::state::{Fault, JobState};
use super::swap::{Intended, SwapCounts, TakenBack};
use crate::job::{MigrationProgress, Usage};

/// A job in the list of jobs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct JobOverview {
    /// Its name, which is its id.
    pub name: String,
    /// Where it stands.
    pub state: JobState,
    /// Worker threads.
    pub parallelism: u16,
    /// When it came into this state, RFC 3339.
    pub since: String,
    /// Attempts of this host's process that failed and were followed by another.
    pub restarts: u64,
    /// Records read by its sources in this attempt.
    pub records_in: u64,
    /// Records written by its sinks in this attempt.
    pub records_out: u64,
    /// The newest checkpoint that this attempt has committed.
    pub last_checkpoint: Option<u64>,
}

/// All that is to be known about a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct JobDetails {
    /// As in the list.
    #[serde(flatten)]
    pub overview: JobOverview,
    /// The job file that it was deployed from.
    pub file: String,
    /// When it was deployed, RFC 3339.
    pub deployed: String,
    /// The run and attempt that work, or did last.
    pub run: Option<u32>,
    /// See `run`.
    pub attempt: Option<u32>,
    /// The checkpoint that the attempt began from.
    pub restored_from: Option<u64>,
    /// How its checkpoints fare.
    pub checkpoints: CheckpointHealth,
    /// Its operators' components.
    pub components: Vec<OperatorComponent>,
    /// Swaps in this host's process.
    pub swaps: SwapCounts,
    /// A swap that is not over.
    pub swap: Option<Intended>,
    /// How far its migration has come, while it is under way.
    pub migration: Option<MigrationProgress>,
    /// The last component that was taken back since the job was first deployed.
    pub taken_back: Option<TakenBack>,
    /// Its nodes, in topological order.
    pub nodes: Vec<NodeView>,
    /// The last error of an attempt.
    pub last_error: Option<String>,
    /// How it has ended, if it has.
    pub ended: Option<Ended>,
}

/// How a job's checkpoints fare. What has failed in a row counts over attempts, all else in this one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CheckpointHealth {
    /// Checkpoints committed.
    pub completed: u64,
    /// Checkpoints that failed.
    pub failed: u64,
    /// How many have failed since the last good one.
    pub failed_in_a_row: u64,
    /// The oldest one under way that has taken half of its `timeout`.
    pub late: Option<u64>,
    /// For how long it is under way, in seconds.
    pub late_seconds: Option<f64>,
    /// The last good one. The attempt may have begun from it.
    pub last_good: Option<u64>,
    /// How long ago that was committed, in seconds.
    pub last_good_age_seconds: Option<f64>,
    /// Bytes of state written by those committed.
    pub bytes: u64,
    /// Why the newest has failed, if it has, or what one that takes long waits for, or which file that it needs is damaged.
    pub reason: Option<String>,
}

/// What an operator runs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OperatorComponent {
    /// The operator.
    pub operator: String,
    /// BLAKE3 of the component.
    pub digest: String,
}

/// Records through a node, over all its subtasks, in this attempt.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct NodeView {
    /// Its uid.
    pub uid: String,
    /// Source, operator or sink.
    pub kind: String,
    /// Records that it took; for a source: read.
    pub records_in: u64,
    /// Records that it sent on; for a sink: wrote.
    pub records_out: u64,
    /// Records that it could not work on, and that were left out.
    pub records_failed: u64,
    /// What its keyed state takes, if it may be larger than memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateView>,
    /// What it counts itself, over all subtasks.
    pub counters: BTreeMap<String, u64>,
    /// What it has set gauges of its own to, for each subtask.
    pub gauges: BTreeMap<String, Vec<Option<f64>>>,
}

/// What keyed state takes that may be larger than memory, over all subtasks, and how often memory had what was looked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct StateView {
    /// Entries that were looked for and found in memory.
    pub hits: u64,
    /// Entries that were looked for on disk, whether or not there were any.
    pub misses: u64,
    /// Entries in memory.
    pub entries_in_memory: u64,
    /// About how many bytes they take.
    pub bytes_in_memory: u64,
    /// Bytes of files on disk.
    pub bytes_on_disk: u64,
}

impl From<Usage> for StateView {
    fn from(usage: Usage) -> Self {
        let Usage { hits, misses, entries_in_memory, bytes_in_memory, bytes_on_disk } = usage;
        StateView { hits, misses, entries_in_memory, bytes_in_memory, bytes_on_disk }
    }
}

/// What has come of a savepoint so far.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SavepointView {
    /// By which name it was asked for.
    pub request_id: String,
    /// Whether it is still under way.
    pub status: Status,
    /// What has come of it, once it is not under way any more.
    pub operation: Option<Operation>,
}

/// Whether something is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// As Flink says it.
    pub id: StatusId,
}

/// See [`Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StatusId {
    /// It is under way.
    InProgress,
    /// It is over, whether it has succeeded or failed.
    Completed,
}

/// What has come of a savepoint.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", untagged)]
pub enum Operation {
    /// It is whole.
    #[serde(rename_all = "kebab-case")]
    Saved {
        /// Its directory.
        location: String,
        /// The checkpoint whose state it has.
        checkpoint: u64,
        /// Bytes of state.
        bytes: u64,
    },
    /// There is no savepoint.
    #[serde(rename_all = "kebab-case")]
    Failed {
        /// Why.
        failure_cause: Fault,
    },
}

/// What has come of the removal of a savepoint so far.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct DisposalView {
    /// By which name it was asked for.
    pub request_id: String,
    /// Whether it is still under way.
    pub status: Status,
    /// What has come of it, once it is not under way any more.
    pub operation: Option<DisposalOperation>,
}

/// What has come of the removal of a savepoint.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", untagged)]
pub enum DisposalOperation {
    /// It is gone.
    #[serde(rename_all = "kebab-case")]
    Disposed {
        /// Its directory.
        path: String,
        /// Whether it was whole, rather than one whose writing was interrupted.
        was_whole: bool,
        /// How many files were deleted.
        files: usize,
        /// Files that are none of a savepoint's, and are still there.
        foreign: Vec<String>,
    },
    /// It is not gone, or not all of it.
    #[serde(rename_all = "kebab-case")]
    Failed {
        /// Why.
        failure_cause: Fault,
    },
}

impl Job {
    /// As in the list.
    pub(super) fn overview(&self) -> JobOverview {
        self.live().overview(self.name())
    }

    /// All of it.
    pub(super) fn details(&self) -> JobDetails {
        let deployment = self.deployed();
        let live = self.live();
        let swapped = live.swapped.as_ref().map(|report| (&report.operator, &report.to.digest));
        let component = |(operator, digest): (&String, &String)| {
            let digest = swapped.filter(|(swapped, _)| *swapped == operator).map_or(digest, |(_, digest)| digest).clone();
            OperatorComponent { operator: operator.clone(), digest }
        };
        JobDetails {
            overview: live.overview(self.name()),
            file: deployment.file.display().to_string(),
            deployed: deployment.deployed,
            run: live.attempt.map(|attempt| attempt.run),
            attempt: live.attempt.map(|attempt| attempt.attempt),
            restored_from: live.restored_from,
            checkpoints: live.checkpoints(),
            components: deployment.components.iter().map(component).collect(),
            swaps: live.swaps,
            swap: deployment.swap,
            migration: live.progress.migration,
            taken_back: deployment.taken_back,
            nodes: live.node_views(),
            last_error: live.last_error.clone(),
            ended: deployment.ended,
        }
    }
}

impl Live {
    fn overview(&self, name: &str) -> JobOverview {
        JobOverview {
            name: name.into(),
            state: self.state,
            parallelism: self.parallelism,
            since: self.since.clone(),
            restarts: self.restarts,
            records_in: self.progress.records_in,
            records_out: self.progress.records_out,
            last_checkpoint: self.progress.last_checkpoint,
        }
    }

    fn checkpoints(&self) -> CheckpointHealth {
        let progress = &self.progress;
        CheckpointHealth {
            completed: progress.checkpoints,
            failed: progress.failed_checkpoints,
            failed_in_a_row: progress.health.failed_in_a_row,
            late: progress.health.late.map(|(checkpoint, _)| checkpoint),
            late_seconds: progress.health.late.map(|(_, taken)| taken.as_secs_f64()),
            last_good: progress.health.last_good.map(|(checkpoint, _)| checkpoint),
            last_good_age_seconds: progress.health.last_good.map(|(_, age)| age.as_secs_f64()),
            bytes: progress.checkpoint_bytes,
            reason: progress.health.reason.as_deref().map(String::from),
        }
    }

    fn node_views(&self) -> Vec<NodeView> {
        let view = |(index, (uid, kind)): (usize, &(String, &'static str))| {
            let metrics = self.metrics.as_ref();
            let counts = metrics.map(|metrics| metrics.node(index)).unwrap_or_default();
            let own = metrics.map(|metrics| metrics.own(index)).unwrap_or_default();
            NodeView {
                uid: uid.clone(),
                kind: (*kind).into(),
                records_in: counts.records_in,
                records_out: counts.records_out,
                records_failed: counts.records_failed,
                state: counts.state.map(StateView::from),
                counters: own.counters,
                gauges: own.gauges,
            }
        };
        self.nodes.iter().enumerate().map(view).collect()
    }
}
