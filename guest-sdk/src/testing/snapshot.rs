//! [`Snapshot`]: state as it was at one moment.

use std::collections::BTreeMap;

use crate::backend::keyed::Entries;

/// All state of an operator as it was at one moment: what a checkpoint holds of it. Two are equal exactly when the state is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By state name.
    pub(super) states: BTreeMap<String, Entries>,
}

impl Snapshot {
    /// How many keys have an entry in the state of this name.
    pub fn keys(&self, state: &str) -> usize {
        self.states.get(state).map_or(0, BTreeMap::len)
    }
}
