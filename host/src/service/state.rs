//! [`JobState`]: what becomes of a job, in Flink's words where it has them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::{Error, Kind};

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum JobState {
    /// It is being prepared: components are compiled, the checkpoint that it begins from is read.
    Created,
    /// It runs, and its newest checkpoint was good.
    Running,
    /// It runs, but its newest checkpoint has failed.
    Degraded,
    /// An attempt has failed, and another follows.
    Restarting,
    /// It was told to stop, and takes its last checkpoint.
    Stopping,
    /// It was told to end at once.
    Cancelling,
    /// All its input was read, or it was drained. Nothing is left to go on with.
    Finished,
    /// It was stopped with a last checkpoint, from which it goes on when it is deployed again.
    Stopped,
    /// It was ended at once. Deployed again, it goes on from its newest checkpoint.
    Cancelled,
    /// It has failed for good. Deployed again, it goes on from its newest checkpoint.
    Failed,
}

impl JobState {
    /// Whether nothing follows by itself.
    pub fn is_end(self) -> bool {
        matches!(self, JobState::Finished | JobState::Stopped | JobState::Cancelled | JobState::Failed)
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Created => "CREATED",
            JobState::Running => "RUNNING",
            JobState::Degraded => "DEGRADED",
            JobState::Restarting => "RESTARTING",
            JobState::Stopping => "STOPPING",
            JobState::Cancelling => "CANCELLING",
            JobState::Finished => "FINISHED",
            JobState::Stopped => "STOPPED",
            JobState::Cancelled => "CANCELLED",
            JobState::Failed => "FAILED",
        }
    }
}

/// An error as it is kept and told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Fault {
    /// What kind of error it is, by its stable name.
    pub code: String,
    /// What went wrong, in one line.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        Fault { code: error.kind().code().into(), message: error.message().into(), help: error.help_text().map(String::from) }
    }
}

impl Fault {
    /// As an error again.
    pub fn into_error(self) -> Error {
        let error = Error::new(Kind::from_code(&self.code).unwrap_or(Kind::Internal), self.message);
        self.help.into_iter().fold(error, Error::help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_written_as_they_are_named() {
        for state in [JobState::Created, JobState::Degraded, JobState::Stopped, JobState::Failed] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }
}
