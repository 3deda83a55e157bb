//! [`SubtaskState`]: everything that the host keeps for one subtask of one operator, and [`Arrangement`]: where in it the states of a
//! component stand.

use std::sync::Arc;

use super::keyed::KeyedState;
use super::operator::OperatorState;
use crate::plan::StateDescriptor;

/// Where the states of a component stand. When another component takes over, what is there stays where it is, in whatever order that one
/// declares its states; so nothing that waits to be saved is disturbed.
#[derive(Clone, Debug)]
pub struct Arrangement {
    /// The states in the order in which they are kept.
    pub states: Arc<[StateDescriptor]>,
    /// For each state of the component's descriptor its place among them.
    pub places: Arc<[usize]>,
}

impl Arrangement {
    /// States kept in the order in which the first component declares them.
    pub fn new(declared: &[StateDescriptor]) -> Self {
        Arrangement { states: declared.into(), places: (0..declared.len()).collect() }
    }

    /// For a component that declares each of the states that are kept, and perhaps more: those stand behind.
    pub fn taken_over_by(&self, declared: &[StateDescriptor]) -> Self {
        let mut states = self.states.to_vec();
        let mut places = Vec::with_capacity(declared.len());
        for new in declared {
            let place = states.iter().position(|old| old.name == new.name).unwrap_or(states.len());
            match states.get_mut(place) {
                Some(old) => old.clone_from(new),
                None => states.push(new.clone()),
            }
            places.push(place);
        }
        Arrangement { states: states.into(), places: places.into() }
    }
}

/// All state of one subtask of one operator. A call is a transaction over all of it.
#[derive(Debug)]
pub struct SubtaskState {
    /// What belongs to keys.
    pub keyed: KeyedState,
    /// What belongs to the subtask as a whole.
    pub operator: OperatorState,
    /// For each state of the component's descriptor its place in both.
    pub places: Arc<[usize]>,
}

impl SubtaskState {
    /// Empty state for `states`, in the order of the descriptor.
    pub fn new(states: &[StateDescriptor], max_parallelism: u16) -> Self {
        let places = Arrangement::new(states).places;
        SubtaskState { keyed: KeyedState::new(states, max_parallelism), operator: OperatorState::new(states), places }
    }

    /// Another component takes over at `now`, in milliseconds since the Unix epoch, whose states stand as `arrangement` says. New ones begin
    /// empty. Never within a call.
    pub fn arrange(&mut self, arrangement: &Arrangement, now: i64) {
        self.keyed.arrange(&arrangement.states, now);
        self.operator.arrange(&arrangement.states);
        self.places = Arc::clone(&arrangement.places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Schema, StateKind};

    fn states(names: &[(&str, u32)]) -> Vec<StateDescriptor> {
        names.iter().map(|&(name, version)| StateDescriptor::new(name, StateKind::Value, Schema::text(), version)).collect()
    }

    #[test]
    fn what_is_kept_stays_where_it_is_and_what_is_new_stands_behind() {
        let first = Arrangement::new(&states(&[("a", 1), ("b", 1)]));
        let second = first.taken_over_by(&states(&[("c", 2), ("b", 2), ("a", 1)]));
        assert_eq!(*second.states, states(&[("a", 1), ("b", 2), ("c", 2)]));
        assert_eq!(*second.places, [2, 1, 0]);
        let third = second.taken_over_by(&states(&[("a", 1), ("b", 2), ("c", 3)]));
        assert_eq!(*third.states, states(&[("a", 1), ("b", 2), ("c", 3)]));
        assert_eq!(*third.places, [0, 1, 2]);
    }
}
