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
    /// Whether it exports the hook for checkpoints that are given up.
    pub checkpoint_aborted_hook: bool,
    /// Whether it exports the close hook.
    pub close_hook: bool,
    /// Whether it exports migrations of what other versions of it have written.
    pub migration: bool,
}

impl Descriptor {
    /// The schema of the keys by which its keyed state is kept; none if it has no such state.
    pub fn state_key_schema(&self) -> Option<&Schema> {
        let keyed = self.inputs.iter().find(|input| input.partitioning == Partitioning::Keyed);
        keyed.filter(|_| self.states.iter().any(|state| state.kind.is_keyed())).map(|input| &input.key_schema)
    }
}

impl Descriptor {
    /// The place of the input that a job file means: the one with this name, or without a name the only one.
    pub fn input(&self, name: Option<&str>) -> Option<usize> {
        match (name, self.inputs.as_slice()) {
            (Some(name), inputs) => inputs.iter().position(|input| input.name == name),
            (None, [_]) => Some(0),
            (None, _) => None,
        }
    }

    /// The place of the output that a job file means: the one with this name, or without a name the first.
    pub fn output(&self, name: Option<&str>) -> Option<usize> {
        match name {
            Some(name) => self.outputs.iter().position(|output| output.name == name),
            None => (!self.outputs.is_empty()).then_some(0),
        }
    }
}

/// How an input wants its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioning {
    /// Records stay on the subtask where they are.
    Any,
    /// Records with the same key reach the same subtask.
    Keyed,
    /// Every subtask gets every record, all of them in the same order.
    Broadcast,
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
    /// The broadcast input of the same operator that has to be worked off before a record comes here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
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
