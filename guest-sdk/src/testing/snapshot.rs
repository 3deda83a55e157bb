//! [`Snapshot`]: state as it was at one moment.

use std::collections::BTreeMap;

/// All state of an operator as it was at one moment: what a checkpoint holds of it. Two are equal exactly when the state is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By state name and key, the elements of a list, or the one element that a value is.
    pub(super) states: BTreeMap<String, BTreeMap<Vec<u8>, Vec<Vec<u8>>>>,
}

impl Snapshot {
    /// How many keys have an entry in the state of this name.
    pub fn keys(&self, state: &str) -> usize {
        self.states.get(state).map_or(0, BTreeMap::len)
    }
}
