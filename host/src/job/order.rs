//! [`Order`]s: what a running job is told to do from outside.

use super::swap::{SwapReply, SwapRequest};

/// What a running job is told to do.
#[derive(Debug)]
pub enum Order {
    /// To end. The first such order counts, but [`End::Cancel`] overrules the others.
    End(End),
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
