//! [`Snapshot`]: state as it was at one moment.

use std::collections::BTreeMap;

use crate::backend::keyed::Entries;
use crate::state::{StateDescriptor, Ttl, field_schema};

/// All state of an operator as it was at one moment: what a checkpoint holds of it. Two are equal exactly when the state is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By state name.
    pub(super) states: BTreeMap<String, Entries>,
    /// Operator state by name.
    pub(super) lists: BTreeMap<String, ListSnapshot>,
    /// Broadcast state by name.
    pub(super) broadcast: BTreeMap<String, Entries>,
    /// The schema of the keys of keyed state; none without such state.
    pub(super) key_schema: Option<String>,
    /// What the operator says of its states, by name.
    pub(super) declared: BTreeMap<String, Declared>,
}

/// What decides whether a state can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) kind: String,
    pub(super) schema: String,
    pub(super) version: u32,
    /// Of a map, the schema of its fields.
    pub(super) field_schema: Option<String>,
    /// Whether there is a time to live.
    pub(super) expires: bool,
}

impl From<&StateDescriptor> for Declared {
    fn from(state: &StateDescriptor) -> Self {
        let StateDescriptor { kind, schema, version, .. } = state.clone();
        Declared { kind, schema, version, field_schema: field_schema(state), expires: Ttl::of(state).is_some() }
    }
}

/// An operator or union list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListSnapshot {
    /// Whether every subtask sees all.
    pub(super) union: bool,
    /// What the subtask sees when this is restored, and what of it is its own.
    pub(super) seen: Vec<Vec<u8>>,
    pub(super) own: Vec<Vec<u8>>,
}

impl Snapshot {
    /// How many keys have an entry in the state of this name.
    pub fn keys(&self, state: &str) -> usize {
        self.states.get(state).map_or(0, BTreeMap::len)
    }

    /// What each of `parallelism` subtasks begins with after a restart from `parts`, the snapshots of all subtasks before, in order. As
    /// in the host, each keeps its lists when there are as many subtasks as before; else the elements of all are spread evenly. Of a
    /// union list each sees all, and each gets the broadcast state. A key's state goes to the subtask that `subtask_of` names for the
    /// key's bytes.
    ///
    /// # Panics
    /// If `subtask_of` names a subtask that there isn't, or the parts differ in their broadcast state: then the host fails the job.
    pub fn spread(parts: &[Snapshot], parallelism: usize, subtask_of: impl Fn(&[u8]) -> usize) -> Vec<Snapshot> {
        let declared = parts.iter().flat_map(|part| part.declared.clone()).collect();
        let key_schema = parts.iter().find_map(|part| part.key_schema.clone());
        let mut after = vec![Snapshot { key_schema, declared, ..Snapshot::default() }; parallelism];
        for (name, entries) in parts.iter().flat_map(|part| &part.states) {
            for part in &mut after {
                part.states.entry(name.clone()).or_default();
            }
            for (key, entry) in entries {
                let states = &mut after[subtask_of(key)].states;
                states.entry(name.clone()).or_default().insert(key.clone(), entry.clone());
            }
        }
        if let Some((first, others)) = parts.split_first() {
            assert!(others.iter().all(|part| part.broadcast == first.broadcast), "broadcast state differs between subtasks");
            after.iter_mut().for_each(|part| part.broadcast = first.broadcast.clone());
        }
        let names: BTreeMap<&String, bool> = parts.iter().flat_map(|part| &part.lists).map(|(name, list)| (name, list.union)).collect();
        for (name, union) in names {
            let of = |part: &Snapshot| part.lists.get(name).map(|list| list.own.clone()).unwrap_or_default();
            let old: Vec<_> = parts.iter().map(of).collect();
            let all = old.concat();
            let own = if old.len() == parallelism { old } else { spread_evenly(&all, parallelism) };
            for (part, own) in after.iter_mut().zip(own) {
                let seen = if union { all.clone() } else { own.clone() };
                part.lists.insert(name.clone(), ListSnapshot { union, seen, own });
            }
        }
        after
    }
}

/// The elements in order, cut into parts that differ by one at most.
fn spread_evenly(elements: &[Vec<u8>], parts: usize) -> Vec<Vec<Vec<u8>>> {
    let mut rest = elements.iter().cloned();
    let length = |part| elements.len() / parts + usize::from(part < elements.len() % parts);
    (0..parts).map(|part| rest.by_ref().take(length(part)).collect()).collect()
}
