//! [`OperatorState`]: what belongs to a subtask as a whole: its lists, and how they are spread over subtasks at a restore. What is equal
//! on all of them is in `broadcast`.
//!
//! A list is a shared column that is replaced and never changed. So the freeze at a barrier only counts references, and undoing a call
//! puts the column of before back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::broadcast::{BroadcastState, Maps};
use super::lists::ListTooLong;
use super::rewrite::{Unwritten, rewrite_elements};
use crate::plan::{StateDescriptor, StateKind};
use crate::record::Column;

/// All operator state of one subtask of one operator. In the methods that serve a call, the caller has checked states and columns.
#[derive(Clone, Debug, Default)]
pub struct OperatorState {
    /// By the states' places in the descriptor.
    lists: BTreeMap<usize, List>,
    /// Whether a snapshot of it would differ from the last one.
    changed: bool,
    /// Lists as they were before the call at hand, each once.
    undo: Vec<(usize, List)>,
    /// What is equal on all subtasks.
    pub broadcast: BroadcastState,
}

/// One list.
#[derive(Clone, Debug, Default)]
struct List {
    /// What the guest sees.
    seen: Arc<Column>,
    /// What the next snapshot holds. Differs only for a union list that was not written since a restore: were it the same, every
    /// restore would multiply the elements.
    own: Arc<Column>,
}

/// The lists of one subtask at a barrier: for each its state, by its place in the descriptor, and its elements.
pub type Lists = Vec<(usize, Arc<Column>)>;

/// The operator state of one subtask at a barrier. Its states are told by their places in the descriptor.
#[derive(Clone, Debug, Default)]
pub struct OperatorSnapshot {
    /// The lists; none if the last snapshot holds the same.
    pub lists: Option<Lists>,
    /// Broadcast state; none if the last snapshot holds the same.
    pub maps: Option<Maps>,
    /// The digest of each broadcast state.
    pub digests: Vec<(usize, u128)>,
}

impl OperatorState {
    /// Empty lists and maps for those of `states` that are operator state. The `state` arguments below are indices into `states`.
    pub fn new(states: &[StateDescriptor]) -> Self {
        let lists = places(states).map(|(place, _)| (place, List::default())).collect();
        OperatorState { lists, changed: false, undo: Vec::new(), broadcast: BroadcastState::new(states) }
    }

    /// Has room for `states`, of which those that are there stand first.
    pub(super) fn arrange(&mut self, states: &[StateDescriptor]) {
        for (place, _) in places(states) {
            self.lists.entry(place).or_default();
        }
        self.broadcast.arrange(states);
    }

    /// The elements of a list, as the guest sees them; none of a state that is no such list.
    pub fn get(&self, state: usize) -> Option<&Arc<Column>> {
        self.lists.get(&state).map(|list| &list.seen)
    }

    /// Replaces a list.
    pub fn update(&mut self, state: usize, elements: Column) {
        let elements = Arc::new(elements);
        let list = List { seen: Arc::clone(&elements), own: elements };
        if let Some(old) = self.lists.insert(state, list)
            && self.undo.iter().all(|(place, _)| *place != state)
        {
            self.undo.push((state, old));
        }
    }

    /// The call succeeded: what it wrote stays.
    pub fn commit(&mut self) {
        self.changed |= !self.undo.is_empty();
        self.undo.clear();
        self.broadcast.commit();
    }

    /// The call failed: takes back everything written since the last commit or undo.
    pub fn undo(&mut self) {
        self.lists.extend(self.undo.drain(..));
        self.broadcast.undo();
    }

    /// Rewrites all values of a state, as [`KeyedState::rewrite`](super::KeyedState::rewrite) does: elements of a list, or values of a
    /// broadcast state's fields. Returns how many the subtask's next snapshot holds.
    ///
    /// # Errors
    /// What `rewrite` says, with the place of the value that is to blame. The state is as it was then.
    pub fn rewrite<E: From<ListTooLong>>(
        &mut self,
        state: usize,
        rewrite: &mut impl FnMut(&Column) -> Result<Column, Unwritten<usize, E>>,
    ) -> Result<u64, Unwritten<usize, E>> {
        let Some(list) = self.lists.get_mut(&state) else { return self.broadcast.rewrite(state, rewrite) };
        let own = Arc::new(rewrite_elements(&list.own, rewrite)?);
        let seen = if Arc::ptr_eq(&list.own, &list.seen) { Arc::clone(&own) } else { Arc::new(rewrite_elements(&list.seen, rewrite)?) };
        *list = List { seen, own };
        Ok(list.own.len() as u64)
    }

    /// The next snapshot holds it, whether or not it has changed.
    pub(super) fn save_anew(&mut self) {
        self.changed = true;
        self.broadcast.save_anew();
    }

    /// The barrier: the state as it is now. Never within a call.
    pub fn freeze(&mut self) -> OperatorSnapshot {
        debug_assert!(self.undo.is_empty(), "a barrier falls between calls");
        let lists = || self.lists.iter().map(|(&state, list)| (state, Arc::clone(&list.own))).collect();
        let lists = std::mem::take(&mut self.changed).then(lists);
        let (digests, maps) = self.broadcast.freeze();
        OperatorSnapshot { lists, maps, digests }
    }
}

/// The places of those states that are lists, with their kinds.
fn places(states: &[StateDescriptor]) -> impl Iterator<Item = (usize, StateKind)> {
    states.iter().enumerate().filter(|(_, state)| state.kind.is_operator_list()).map(|(place, state)| (place, state.kind))
}

/// The operator state of each of `parallelism` subtasks, from a snapshot of `before`, the lists of the subtasks at that time, in order,
/// and `maps`, the broadcast state that all had and all get. With as many subtasks as before, each has the lists that it had. Else all
/// elements are spread in their order, each once, so that any two subtasks differ by one at most, and all lists count as changed. Of a
/// union list every subtask sees all.
///
/// # Errors
/// The place of a state that has grown beyond what a column holds.
pub fn spread(states: &[StateDescriptor], before: &[Lists], maps: Maps, parallelism: u16) -> Result<Vec<OperatorState>, usize> {
    let same = before.len() == usize::from(parallelism);
    let broadcast = BroadcastState::restored(states, maps);
    let empty = OperatorState { changed: !same, broadcast, ..OperatorState::new(states) };
    let mut after = vec![empty; usize::from(parallelism)];
    for (place, kind) in places(states) {
        let of = |lists: &Lists| lists.iter().find(|(state, _)| *state == place).map(|(_, list)| Arc::clone(list)).unwrap_or_default();
        let old: Vec<Arc<Column>> = before.iter().map(of).collect();
        let new = if same { old } else { spread_evenly(&old, parallelism).ok_or(place)? };
        let all = if kind == StateKind::OperatorUnionList { Some(Arc::new(concatenated(&new).ok_or(place)?)) } else { None };
        for (state, own) in after.iter_mut().zip(new) {
            let seen = all.as_ref().map_or_else(|| Arc::clone(&own), Arc::clone);
            state.lists.insert(place, List { seen, own });
        }
    }
    Ok(after)
}

/// The elements of all columns in order, cut into `parts` parts; none if one would be too many bytes for a column.
fn spread_evenly(columns: &[Arc<Column>], parts: u16) -> Option<Vec<Arc<Column>>> {
    let total: usize = columns.iter().map(|column| column.len()).sum();
    let parts = usize::from(parts);
    let mut elements = columns.iter().flat_map(|column| column.iter());
    // The first ones take what is left over.
    let length = |part: usize| total / parts + usize::from(part < total % parts);
    let part = |part| {
        let elements: Vec<&[u8]> = elements.by_ref().take(length(part)).collect();
        u32::try_from(elements.iter().map(|element| element.len()).sum::<usize>()).ok()?;
        Some(Arc::new(elements.into_iter().collect::<Column>()))
    };
    (0..parts).map(part).collect()
}

/// The elements of all columns in order; none if they are too many bytes for a column.
fn concatenated(columns: &[Arc<Column>]) -> Option<Column> {
    let bytes: usize = columns.iter().map(|column| column.bytes.len()).sum();
    u32::try_from(bytes).ok()?;
    Some(columns.iter().flat_map(|column| column.iter()).collect())
}

#[cfg(test)]
#[path = "operator_tests.rs"]
mod tests;
