//! A job as the rest of the host sees it: a validated graph of sources, operators and sinks, with their settings as plain data.

mod access;
mod backend;
mod chain;
mod checkpoint;
mod component;
mod descriptor;
mod difference;
mod fit;
mod grants;
mod graph;
mod limits;
mod location;
mod restart;
mod state;
pub(crate) mod suggest;
mod waits;

use std::path::PathBuf;
use std::sync::Arc;

pub use access::Access;
pub use backend::{Backend, StateSettings};
pub use chain::{Chain, Edge, Exchange, Layout, Route, Work};
pub use checkpoint::{CheckpointSettings, Compression, Mode, OnCancel};
pub use component::{ComponentRef, is_digest};
pub use descriptor::{Descriptor, InputPort, OutputPort, Partitioning, Schema};
pub use fit::fit;
pub use grants::{Grants, Variable};
pub use graph::{arrange, order};
pub use limits::Limits;
pub use location::{Location, ObjectPath, Service};
pub use restart::Restart;
pub use state::{More, StateDescriptor, StateKind, Ttl, TtlFrom};

/// A validated job. Its nodes stand in topological order: inputs before what they feed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The job file that it came from.
    pub file: PathBuf,
    /// The text of the job file.
    pub text: Arc<str>,
    /// The directory that paths in the job file count from; absolute.
    pub base: PathBuf,
    /// The job's name.
    pub name: String,
    /// Subtasks of every source, operator and sink: worker threads.
    pub parallelism: u16,
    /// How many key groups there are; fixed for the life of the state.
    pub max_parallelism: u16,
    /// What follows when an attempt fails.
    pub restart: Restart,
    /// Settings of its checkpoints.
    pub checkpoint: CheckpointSettings,
    /// The directory under which all jobs keep state that lies on disk; absolute.
    pub state_dir: PathBuf,
    /// Sources, operators and sinks.
    pub nodes: Vec<Node>,
}

/// A source, operator or sink.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its stable name, unique in the job; it owns the state.
    pub uid: String,
    /// The uid that it had before, under which older checkpoints and savepoints know it.
    pub renamed_from: Option<String>,
    /// What it is.
    pub kind: NodeKind,
    /// What feeds it; none for a source.
    pub inputs: Vec<Input>,
}

impl Node {
    /// Whether it is a source that never ends.
    pub fn is_endless(&self) -> bool {
        matches!(&self.kind, NodeKind::Source(SourceSettings { kind: SourceKind::Words(WordsSettings { lines: None, .. }), .. }))
    }
}

/// An edge, seen from its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The feeding node as an index into [`Plan::nodes`].
    pub node: usize,
    /// The feeding node's output port by name; none: its first, or a source's only one.
    pub port: Option<String>,
    /// The input port that it feeds, by name; none: the only one.
    pub to: Option<String>,
}

/// What a node is, with its settings.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Reads records from outside.
    Source(SourceSettings),
    /// Runs a component.
    Operator(OperatorSettings),
    /// Writes records to the outside.
    Sink(SinkSettings),
}

impl NodeKind {
    /// Which of the three it is.
    pub fn role(&self) -> Role {
        match self {
            NodeKind::Source(_) => Role::Source,
            NodeKind::Operator(_) => Role::Operator,
            NodeKind::Sink(_) => Role::Sink,
        }
    }
}

/// Which of the three a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It reads records from outside.
    Source,
    /// It runs a component.
    Operator,
    /// It writes records to the outside.
    Sink,
}

impl Role {
    /// As it is called in job files, messages and answers.
    pub fn name(self) -> &'static str {
        match self {
            Role::Source => "source",
            Role::Operator => "operator",
            Role::Sink => "sink",
        }
    }
}

/// A `[[source]]` of a job file.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Records per second over all its subtasks; none: as fast as downstream takes them.
    pub rate: Option<u64>,
    /// Where records come from.
    pub kind: SourceKind,
}

/// Where a source's records come from.
#[derive(Clone, Debug)]
pub enum SourceKind {
    /// `type = "file"`: each line of a file, or of each file in a directory, is a record.
    File {
        /// A file, or a directory whose files are the splits; absolute.
        path: PathBuf,
        /// Lines to leave out at the start of each file.
        skip_lines: u64,
    },
    /// `type = "generator"`, `kind = "words"`: lines of words, the same for the same settings.
    Words(WordsSettings),
}

/// Settings of the generator of words.
#[derive(Clone, Debug, PartialEq)]
pub struct WordsSettings {
    /// How many different words there are.
    pub keys: u64,
    /// Words in a line.
    pub words_per_line: u64,
    /// Lines in all; none: without end.
    pub lines: Option<u64>,
    /// Seed of the sequence.
    pub seed: u64,
    /// How often which word comes.
    pub distribution: Distribution,
}

/// How often which word comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Zipf with exponent 1: few words often, many seldom.
    Zipf,
    /// Each word equally often.
    Uniform,
}

/// An `[[operator]]` of a job file.
#[derive(Clone, Debug)]
pub struct OperatorSettings {
    /// Its component.
    pub component: ComponentRef,
    /// Handed to the operator as JSON.
    pub config: serde_json::Value,
    /// What an instance may use.
    pub limits: Limits,
    /// Where its keyed state lies.
    pub state: StateSettings,
    /// What it may see of the host's surroundings.
    pub grants: Grants,
    /// What becomes of a record that the operator can't work on.
    pub on_error: OnError,
    /// Records that may fail within a minute before the job does; for [`OnError::Fail`] of no importance.
    pub max_errors: u64,
}

/// What becomes of a record that an operator rejects, panics or traps on, or that exceeds a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The job fails.
    #[default]
    Fail,
    /// It is left out, as if it had not been there.
    Skip,
    /// It is left out, and told on the output [`DEAD_LETTER`].
    DeadLetter,
}

/// The output of every operator with `on-error = "dead-letter"`: a JSON line for each record that failed.
pub const DEAD_LETTER: &str = "dead-letter";

/// A `[[sink]]` of a job file.
#[derive(Clone, Debug)]
pub enum SinkSettings {
    /// `type = "file"`: a line per record, in files that appear when a checkpoint commits.
    File {
        /// The directory; absolute.
        path: PathBuf,
    },
    /// `type = "stdout"`: a line per record as it comes; after a failure lines may come again.
    Stdout,
    /// `type = "blackhole"`: counts and forgets.
    Blackhole,
}
