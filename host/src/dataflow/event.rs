//! [`Event`]: what a running dataflow tells the job's controller.

use std::sync::Arc;
use std::time::Duration;

use super::credit::Held;
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
        part: SnapshotSlice,
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
    /// An operator's subtask runs the component of a swap.
    ChangedOver {
        /// The subtask.
        subtask: u16,
        /// At the barrier that ends this epoch.
        epoch: u64,
        /// From the end of the last call before it to the first that it can take.
        took: Duration,
    },
    /// A component on probation has failed, and its operator's subtasks go back to the old one.
    Unfit {
        /// Why, naming the record.
        error: Error,
    },
    /// A subtask has not put into its state what the guest keeps in memory, so that there can be no checkpoint with this epoch.
    Unsaved {
        /// The epoch.
        epoch: u64,
        /// Why, naming the operator.
        error: Error,
        /// Whether the instance is spent; else the subtask goes on, with its state as it was before.
        is_spent: bool,
    },
    /// Something failed; the dataflow is being torn down.
    Failed(Error),
}

/// Part of an operator's snapshot.
#[derive(Debug)]
pub struct SnapshotSlice {
    /// What it says of keyed state.
    pub slice: Slice,
    /// With the last part: operator state.
    pub operator_state: OperatorSnapshot,
    /// What the barrier cost.
    pub cost: BarrierCost,
    /// To be dropped when nothing of the part is in memory any more: the operator hands over more then.
    pub held: Option<Held>,
}

/// How long a barrier has kept an operator's subtask from its records.
#[derive(Clone, Copy, Debug, Default)]
pub struct BarrierCost {
    /// Records were held back for so long, because others that come before the barrier had not come yet.
    pub aligned: Duration,
    /// The snapshot hook and the freeze took so long.
    pub froze: Duration,
}

/// Takes events, from any thread, without blocking.
pub type Events = Arc<dyn Fn(Event) + Send + Sync>;
