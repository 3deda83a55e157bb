//! What a component says about itself, as plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::StateDescriptor;

/// What a component says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Descriptor {
    /// The operator's name, for people.
    pub name: String,
    /// Its version, for people.
    pub version: String,
    /// Input ports, numbered by their place.
    pub inputs: Vec<InputPort>,
    /// Output ports, numbered by their place.
    pub outputs: Vec<OutputPort>,
    /// States, numbered by their place.
    pub states: Vec<StateDescriptor>,
    /// Whether it exports the finish hook.
    pub finish_hook: bool,
    /// Whether it exports the snapshot hook: it keeps memory from batch to batch.
    pub snapshot_hook: bool,
    /// Whether it exports the checkpoint hooks.
    pub checkpoint_hooks: bool,
    /// Whether it exports the close hook.
    pub close_hook: bool,
}

/// How an input wants its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioning {
    /// Records stay on the subtask where they are.
    Any,
    /// Records with the same key reach the same subtask.
    Keyed,
}

/// The schema of values: "text", "bytes", "json" or "postcard:…".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema(pub String);

impl Schema {
    /// UTF-8 text.
    pub fn text() -> Self {
        Schema("text".into())
    }

    /// Whether records of this schema can be written as lines.
    pub fn is_lines(&self) -> bool {
        self.0 == "text" || self.0 == "json"
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { &self.0 })
    }
}

/// An input port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InputPort {
    /// Its name.
    pub name: String,
    /// How it wants its records.
    pub partitioning: Partitioning,
    /// The keys' schema; empty when not keyed.
    pub key_schema: Schema,
    /// The values' schema.
    pub value_schema: Schema,
}

/// An output port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutputPort {
    /// Its name.
    pub name: String,
    /// Whether its records carry keys.
    pub keyed: bool,
    /// The keys' schema; empty when not keyed.
    pub key_schema: Schema,
    /// The values' schema.
    pub value_schema: Schema,
}
