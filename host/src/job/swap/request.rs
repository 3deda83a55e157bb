//! What is asked for with a swap, and what is answered.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use utoipa::ToSchema;

use crate::checkpoint::manifest::ComponentFacts;
use crate::error::Result;

/// The way back when a component fails on probation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WayBack {
    /// Its batch is undone, and the old component goes on with the state as it is. Nothing is replayed.
    #[default]
    Forward,
    /// Nothing is published before its time is over, but by sinks that write records as they come; if it fails before that, the job goes back
    /// to the swap's checkpoint.
    Rewind,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct SwapRequest {
    /// The operator's uid.
    pub operator: String,
    /// The new component's file.
    pub component: PathBuf,
    /// Only find out whether it fits.
    pub dry_run: bool,
    /// How long the old component stays at hand.
    pub probation: Duration,
    /// What follows if the new one fails meanwhile.
    pub way_back: WayBack,
    /// It fails when the share of its records that fail is more than this many times that of the old one.
    pub error_factor: f64,
}

/// A swap that the process before this one may have been in the middle of: the newest checkpoint tells.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// What was asked for.
    pub request: SwapRequest,
    /// The component that was to take over.
    pub to: ComponentFacts,
}

/// Where the answer to a swap goes, once it is done or refused.
pub type SwapReply = oneshot::Sender<Result<SwapReport>>;

/// What a swap has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwapOutcome {
    /// It would fit, and was not to be done.
    Fits,
    /// The operator runs this component already.
    Unchanged,
    /// It is done.
    Swapped,
}

/// What becomes of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StateFate {
    /// It stays as it is.
    Same,
    /// Its values are rewritten.
    Migrated,
    /// It begins empty.
    New,
}

/// What becomes of a state of the new component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct StateReport {
    /// Its name.
    pub state: String,
    /// What becomes of it.
    pub fate: StateFate,
    /// Its version so far, if it is not new.
    pub from: Option<u32>,
    /// Its version in the new component.
    pub version: u32,
}

/// What a check of the new component has found, before anything has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CheckReport {
    /// What was checked: world, ports, limits, grants, states, or the way back.
    pub check: String,
    /// What was found, in one line.
    pub found: String,
}

/// The answer to a swap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SwapReport {
    /// The operator's uid.
    pub operator: String,
    /// What it has come to.
    pub outcome: SwapOutcome,
    /// The component that ran.
    pub from: ComponentFacts,
    /// The one that takes over.
    pub to: ComponentFacts,
    /// What was checked, and holds; nothing, if the operator runs it already.
    pub checks: Vec<CheckReport>,
    /// What becomes of each of its states.
    pub states: Vec<StateReport>,
    /// Outputs that it has and the one before has not: nothing is connected to them.
    pub new_outputs: Vec<String>,
    /// How long the old component stays at hand, in milliseconds.
    pub probation_ms: u64,
    /// What follows if the new one fails meanwhile.
    pub way_back: WayBack,
    /// The last checkpoint of the old component, once it is done.
    pub checkpoint: Option<u64>,
    /// How many values were rewritten for it, once it is done.
    pub migrated: u64,
    /// For how long each subtask had no component, in microseconds: from the old one's last call until the new one took calls.
    pub subtasks_us: Vec<u64>,
    /// The longest time in which no record reached a sink of the job, in microseconds: from when the barrier was asked for until the swap was
    /// done. None if it is not done, or another process has seen to it.
    pub lull_us: Option<u64>,
}
