//! [`Order`]s: what a running job is told to do from outside.

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::plan::Location;

use super::Saved;
use super::swap::{SwapReply, SwapRequest};

/// What a running job is told to do.
#[derive(Debug)]
pub enum Order {
    /// To end. The first such order counts, but [`End::Cancel`] overrules the others.
    End(End),
    /// To take a savepoint.
    Savepoint(SavepointOrder),
    /// To run another component in an operator from a barrier on. What has come of it is answered.
    Swap(SwapRequest, SwapReply),
}

/// How a job is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With a last checkpoint, from which it can go on.
    Stop {
        /// The signal that asked for it, if one did.
        signal: Option<i32>,
    },
    /// As if all input ended here: operators finish, and nothing is left to go on with.
    Drain,
    /// At once, without a last checkpoint.
    Cancel,
}

/// A savepoint to be taken.
#[derive(Debug)]
pub struct SavepointOrder {
    /// Names it: the end of its directory's name. Letters and digits, another one for each savepoint.
    pub trigger_id: String,
    /// Who writes it: the id of the job, and after a blank what tells this time from all others.
    pub writer: String,
    /// The directory in which it gets one of its own.
    pub target: Location,
    /// Whether the operators' components go into it.
    pub with_components: bool,
    /// What comes after it.
    pub then: Then,
    /// Told once it is whole, or why there is none. Dropped without a word if the job has ended before it took the order.
    pub reply: oneshot::Sender<Result<Saved>>,
}

impl SavepointOrder {
    /// Tells whoever asked why there is no savepoint.
    pub fn refuse(self, error: Error) {
        // The receiver may be gone.
        self.reply.send(Err(error)).unwrap_or(());
    }
}

/// What comes after a savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The job goes on, as if nothing had been.
    GoOn,
    /// The job ends. What comes after the savepoint is not published. Without a savepoint the job goes on.
    Stop,
    /// Before it the job ends as if all input ended here: the savepoint has what is left then, which is nothing to go on with.
    Drain,
}
