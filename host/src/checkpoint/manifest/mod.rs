//! What a run's log holds: claims, with which attempts begin, and manifests, which describe committed checkpoints. Plain data; the
//! text form is in `text`, what must hold in `check`.

mod check;
mod history;
mod inline;
mod text;

#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::plan::{Schema, StateDescriptor};
use crate::record::{AttemptId, KeyGroups, SplitPosition, Staged};

pub use history::{FailedCheckpoints, Fate, History, Past, Streak};
pub use inline::Inline;
pub use text::{FORMAT, ManifestError, parse, render};

/// An entry of a run's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum LogEntry {
    /// An attempt begins; every older one is over.
    Claim(Claim),
    /// A checkpoint is committed.
    Checkpoint(Manifest),
}

impl LogEntry {
    /// The attempt that wrote it.
    pub fn attempt(&self) -> AttemptId {
        match self {
            LogEntry::Claim(claim) => claim.attempt,
            LogEntry::Checkpoint(manifest) => manifest.attempt,
        }
    }

    /// The manifest, if it is one.
    pub fn manifest(&self) -> Option<&Manifest> {
        match self {
            LogEntry::Claim(_) => None,
            LogEntry::Checkpoint(manifest) => Some(manifest),
        }
    }
}

/// The first entry that an attempt writes. Older attempts find their next slot taken by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Claim {
    /// The job.
    pub job: String,
    /// The attempt.
    pub attempt: AttemptId,
    /// Who runs it, for people: host and process.
    pub by: String,
    /// When it began, RFC 3339.
    pub created: String,
    /// Different in every claim, so that a writer can tell its own from a twin's. Those of one who claims several times begin alike.
    pub token: String,
    /// The manifest that the attempt was told to begin from, rather than the newest below the claim. Holds until it commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether that is a savepoint which belongs to the job from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owns: bool,
    /// How many checkpoints newer than that one it was accepted to pass over; none: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes_over: Option<usize>,
}

/// Why a checkpoint was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The interval had passed.
    Interval,
    /// All input had been read.
    EndOfInput,
    /// The job was asked to stop.
    Stop,
    /// A savepoint was asked for.
    Savepoint,
    /// It is none: the job was cancelled, and its checkpoints are deleted. What stays says that nothing is left to resume.
    Cancel,
    /// A component takes over from another.
    Swap,
}

impl Trigger {
    /// Its name, as it stands in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Interval => "interval",
            Trigger::EndOfInput => "end-of-input",
            Trigger::Stop => "stop",
            Trigger::Savepoint => "savepoint",
            Trigger::Cancel => "cancel",
            Trigger::Swap => "swap",
        }
    }
}

/// The description of a committed checkpoint: everything that a restore needs, or where it lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Manifest {
    /// The job.
    pub job: String,
    /// The attempt that committed it.
    pub attempt: AttemptId,
    /// The checkpoint's number: the epoch that it ends. Unique within a run.
    pub checkpoint: u64,
    /// Why it was taken.
    pub trigger: Trigger,
    /// When it was triggered, RFC 3339; empty in manifests of earlier versions.
    #[serde(default)]
    pub triggered: String,
    /// When it was committed, RFC 3339.
    pub created: String,
    /// Whether all input had been read, so that nothing is left to resume.
    pub finished: bool,
    /// Subtasks of every node when it was taken.
    pub parallelism: u16,
    /// Key groups in all.
    pub max_parallelism: u16,
    /// Time from trigger to commit, in milliseconds.
    pub duration_ms: u64,
    /// Bytes of state files that it added to those of the checkpoint before.
    pub new_bytes: u64,
    /// Bytes of all state files that it names.
    pub total_bytes: u64,
    /// The manifest of another run from which this run began, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The savepoint that the run has begun from and owns, until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned: Option<String>,
    /// What makes it a savepoint, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint: Option<Box<SavepointPart>>,
    /// How far every source had read.
    pub sources: Vec<SourcePart>,
    /// The state of every operator.
    pub operators: Vec<OperatorPart>,
    /// What every sink had staged, to be published because of this commit.
    pub sinks: Vec<SinkPart>,
    /// What the snapshots of this epoch took, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<SnapshotPart>,
    /// The checkpoints before it, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Past>,
}

impl Manifest {
    /// The paths of all state files that it names and does not hold itself.
    pub fn state_files(&self) -> impl Iterator<Item = &str> {
        self.operators.iter().flat_map(|operator| {
            let whole = operator.operator_state.iter().filter(|file| file.inline.is_none()).map(|file| file.path.as_str());
            operator.files.iter().filter(|file| file.inline.is_none()).map(|file| file.path.as_str()).chain(whole)
        })
    }
}

/// What a savepoint is besides a checkpoint: whose it was, and what lies in it for a job on another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SavepointPart {
    /// By this name it was asked for; its directory's name ends in it.
    pub trigger_id: String,
    /// Who has written it: the id of the job, which no other has, and what tells this time from all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Where the manifest of its checkpoint lay. Whatever was committed after that is not in it.
    pub from: String,
    /// The job file inside.
    pub job_file: JobFilePart,
    /// Whether the operators' components are inside, each under its digest.
    pub has_components: bool,
}

/// The job file in a savepoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobFilePart {
    /// The directory that paths in it count from.
    pub directory: String,
    /// Its size.
    pub bytes: u64,
    /// Its crc32c, as eight hexadecimal digits.
    pub checksum: String,
}

/// What the snapshot of one subtask took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotPart {
    /// The operator.
    pub operator: String,
    /// Its subtask.
    pub subtask: u16,
    /// Its files; 0 in manifests of earlier versions.
    #[serde(default)]
    pub files: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// How long records were held back until all that come before the barrier had come, in microseconds.
    pub aligned_us: u64,
    /// How long the barrier itself took, in microseconds.
    pub froze_us: u64,
    /// How long it took to pack and write the files, in milliseconds.
    pub upload_ms: u64,
}

/// A source's part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SourcePart {
    /// The source.
    pub uid: String,
    /// All its splits, the ended ones too.
    pub splits: Vec<SplitPosition>,
}

/// An operator's part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OperatorPart {
    /// The operator.
    pub uid: String,
    /// The component that ran.
    pub component: ComponentFacts,
    /// The states that it declared.
    pub states: Vec<StateDescriptor>,
    /// The schema of the keys of its keyed state, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_schema: Option<Schema>,
    /// Its state: files from the oldest to the newest, each with the changes since the one before.
    pub files: Vec<StateFile>,
    /// Its operator state, of each the newest file: first broadcast state, then the lists of each subtask that has any, in order of
    /// subtask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operator_state: Vec<OperatorStateFile>,
}

/// Which component ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ComponentFacts {
    /// The digest of its file.
    pub digest: String,
    /// Its name, from its descriptor.
    pub name: String,
    /// Its version, from its descriptor.
    pub version: String,
}

/// A sink's part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SinkPart {
    /// The sink.
    pub uid: String,
    /// What a restore must publish before anything else.
    pub staged: Vec<Staged>,
}

/// A state file as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StateFile {
    /// Where it lies, relative to the run's directory; or would lie, if it is kept in the manifest.
    pub path: String,
    /// The key groups that it covers.
    pub groups: KeyGroups,
    /// The epochs whose changes it holds.
    pub epochs: Epochs,
    /// How many changes it holds.
    pub entries: u64,
    /// Its size.
    pub bytes: u64,
    /// The crc32c of the whole file, as eight hexadecimal digits.
    pub checksum: String,
    /// Whether nothing lies below it: it holds all state of its key groups.
    pub base: bool,
    /// Its content, if it is small; then nothing lies at its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Inline>,
}

/// A file of operator state as a manifest names it: all lists of one subtask, or all broadcast state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OperatorStateFile {
    /// Where it lies, relative to the run's directory; or would lie, if it is kept in the manifest.
    pub path: String,
    /// The subtask; none of broadcast state, of which all have the same.
    pub subtask: Option<u16>,
    /// The epoch at whose end it was written. What it holds has not changed since.
    pub epoch: u64,
    /// How many elements or fields it holds.
    pub elements: u64,
    /// Its size.
    pub bytes: u64,
    /// The crc32c of the whole file, as eight hexadecimal digits.
    pub checksum: String,
    /// Its content, if it is small; then nothing lies at its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Inline>,
}

/// A range of epochs, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Epochs {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl Epochs {
    /// One epoch.
    pub fn only(epoch: u64) -> Self {
        Epochs { first: epoch, last: epoch }
    }

    /// The smallest range with all epochs of both.
    pub fn union(self, other: Epochs) -> Self {
        Epochs { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}
