//! [`Event`]: what a running dataflow tells the job's controller.

use std::sync::Arc;

use crate::error::Error;
use crate::record::{SplitPosition, Staged};
use crate::state::{OperatorSnapshot, Slice};

/// What a running dataflow tells. Nodes are indices into the plan.
#[derive(Debug)]
pub enum Event {
    /// A source's subtask has passed the barrier that ends `epoch`, with its splits at these positions.
    Positions {
        /// The source.
        node: usize,
        /// Its subtask.
        subtask: u16,
        /// The epoch.
        epoch: u64,
        /// Every split of the subtask.
        splits: Vec<SplitPosition>,
    },
    /// Part of an operator's snapshot of `epoch`. Parts come in order, and snapshots too.
    Snapshot {
        /// The operator.
        node: usize,
        /// Its subtask.
        subtask: u16,
        /// The epoch.
        epoch: u64,
        /// The part.
        slice: Slice,
        /// With the last part: its operator state.
        operator_state: OperatorSnapshot,
    },
    /// A sink's subtask has made durable what it wrote in `epoch`.
    Staged {
        /// The sink.
        node: usize,
        /// Its subtask.
        subtask: u16,
        /// The epoch.
        epoch: u64,
        /// Where it lies.
        staged: Vec<Staged>,
    },
    /// A source's subtask has read all its splits to the end.
    Ended {
        /// The source.
        node: usize,
        /// Its subtask.
        subtask: u16,
    },
    /// Something failed; the dataflow is being torn down.
    Failed(Error),
}

/// Takes events, from any thread, without blocking.
pub type Events = Arc<dyn Fn(Event) + Send + Sync>;
