//! [`Event`]: what has happened to a job, for whoever asks later.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What has happened to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Which kind of thing.
    pub event: Happened,
    /// In one line, for people.
    pub text: String,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Happened {
    /// It was deployed.
    Deployed,
    /// An attempt has begun.
    Began,
    /// An attempt has failed, or could not go on after a savepoint that was refused, and another follows.
    Restarting,
    /// A checkpoint has failed, and the attempt goes on.
    Degraded,
    /// A checkpoint is good again.
    Healthy,
    /// Another component has taken an operator over.
    Swapped,
    /// A component that took over has failed, and the one before it goes on.
    TakenBack,
    /// A component that took over stays: its probation is over.
    Kept,
    /// A user has asked for it to stop, drain, end, or go on with another parallelism.
    Asked,
    /// A savepoint was taken, or could not be.
    Savepoint,
    /// The host ends, and it takes a last checkpoint.
    Suspended,
    /// It has come to an end.
    Ended,
}

impl Happened {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Happened::Deployed => "deployed",
            Happened::Began => "began",
            Happened::Restarting => "restarting",
            Happened::Degraded => "degraded",
            Happened::Healthy => "healthy",
            Happened::Swapped => "swapped",
            Happened::TakenBack => "taken-back",
            Happened::Kept => "kept",
            Happened::Asked => "asked",
            Happened::Savepoint => "savepoint",
            Happened::Suspended => "suspended",
            Happened::Ended => "ended",
        }
    }
}
