//! [`SubtaskState`]: everything that the host keeps for one subtask of one operator.

use super::keyed::KeyedState;
use super::operator::OperatorState;
use crate::plan::StateDescriptor;

/// All state of one subtask of one operator. A call is a transaction over all of it.
#[derive(Debug)]
pub struct SubtaskState {
    /// What belongs to keys.
    pub keyed: KeyedState,
    /// What belongs to the subtask as a whole.
    pub operator: OperatorState,
}

impl SubtaskState {
    /// Empty state for `states`, in the order of the descriptor.
    pub fn new(states: &[StateDescriptor], max_parallelism: u16) -> Self {
        SubtaskState { keyed: KeyedState::new(states, max_parallelism), operator: OperatorState::new(states) }
    }
}
