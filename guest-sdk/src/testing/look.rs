//! What tests see of an operator's state and metrics.

use super::Harness;
use super::harness::Kind;
use crate::backend::keyed::Entry;
use crate::codec::{Decode, Malformed};
use crate::error::Result;
use crate::key::{AsKey, Key, MaybeKey};
use crate::operator::Operator;

impl<O: Operator> Harness<O> {
    /// The value of a key in a value or reducing state, or what an aggregating state keeps of it.
    ///
    /// # Panics
    /// If there is no such state, or what it holds is no `T`.
    pub fn value<T: for<'de> Decode<'de>>(&self, state: &str, key: impl AsKey<O::Key>) -> Option<T> {
        self.list(state, key).into_iter().next()
    }

    /// The list of a key in a list state.
    ///
    /// # Panics
    /// If there is no such state, or what it holds are no `T`.
    pub fn list<T: for<'de> Decode<'de>>(&self, state: &str, key: impl AsKey<O::Key>) -> Vec<T> {
        self.entry(state, &key).values().map(|cell| read(state, T::decode(&cell.value))).collect()
    }

    /// The fields of a key in a map state and their values, in order.
    ///
    /// # Panics
    /// If there is no such state, or what it holds are no `F` and `T`.
    pub fn map<F: Key, T: for<'de> Decode<'de>>(&self, state: &str, key: impl AsKey<O::Key>) -> Vec<(F, T)> {
        fields(state, &self.entry(state, &key))
    }

    fn entry(&self, state: &str, key: &impl AsKey<O::Key>) -> Entry {
        let index = self.index_of(state, |kind| kind == Kind::Keyed);
        let mut bytes = Vec::new();
        key.write_key(&mut bytes);
        self.backend.memory().states.entries(index).remove(&bytes).unwrap_or_default()
    }

    /// The elements of an operator or union list, as the operator sees them.
    ///
    /// # Panics
    /// If there is no such state, or what it holds are no `T`.
    pub fn operator_list<T: for<'de> Decode<'de>>(&self, state: &str) -> Vec<T> {
        let index = self.index_of(state, |kind| matches!(kind, Kind::List | Kind::UnionList));
        let memory = self.backend.memory();
        let elements = memory.lists.get(&index).into_iter().flat_map(|list| &list.seen);
        elements.map(|element| read(state, T::decode(element))).collect()
    }

    /// The fields of a broadcast state and their values, in order.
    ///
    /// # Panics
    /// If there is no such state, or what it holds are no `F` and `T`.
    pub fn broadcast_state<F: Key, T: for<'de> Decode<'de>>(&self, state: &str) -> Vec<(F, T)> {
        let index = self.index_of(state, |kind| kind == Kind::Broadcast);
        fields(state, &self.backend.memory().broadcast.entries(index).into_values().next().unwrap_or_default())
    }

    /// What a counter has come to since the harness was made; 0 if nothing was counted.
    pub fn counter(&self, metric: &str) -> u64 {
        self.backend.memory().counters.get(metric).copied().unwrap_or(0)
    }

    /// What a gauge was set to last, if it was.
    pub fn gauge(&self, metric: &str) -> Option<f64> {
        self.backend.memory().gauges.get(metric).copied()
    }

    fn index_of(&self, state: &str, is_meant: impl FnOnce(Kind) -> bool) -> usize {
        let Some(index) = self.states.iter().position(|(name, _)| name == state) else {
            let names: Vec<&str> = self.states.iter().map(|(name, _)| name.as_str()).collect();
            panic!("there is no state `{state}`; there are: {}", names.join(", "));
        };
        let kind = self.states[index].1;
        assert!(is_meant(kind), "state `{state}` is of another kind: {kind:?}");
        index
    }
}

fn fields<F: Key, T: for<'de> Decode<'de>>(state: &str, entry: &Entry) -> Vec<(F, T)> {
    entry.iter().map(|(field, cell)| (read(state, F::read(field)), read(state, T::decode(&cell.value)))).collect()
}

/// What was read from a state.
fn read<T>(state: &str, read: Result<T, Malformed>) -> T {
    read.unwrap_or_else(|error| panic!("state `{state}`: {error}"))
}
