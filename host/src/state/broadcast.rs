//! [`BroadcastState`]: maps of which every subtask has its own copy, equal on all of them.
//!
//! A map is a persistent tree: a second reference to it is as good as a copy, and a write copies no more than the path to what it
//! changes. So the freeze at a barrier costs the same whatever the size, and so does undoing a call. With each map goes a digest of its
//! content that is kept up to date with every write, so that the copies can be compared without being read.

use std::collections::BTreeMap;
use std::ops::Bound;

use rpds::RedBlackTreeMapSync;
use xxhash_rust::xxh3::xxh3_128;

use super::keyed::{Cells, PER_VALUE};
use super::rewrite::{Unwritten, rewrite_each};
use crate::plan::{StateDescriptor, StateKind};
use crate::record::Column;

/// One broadcast state: fields with their values.
#[derive(Clone, Debug)]
pub struct BroadcastMap {
    entries: RedBlackTreeMapSync<Box<[u8]>, Box<[u8]>>,
    /// The sum of the entries' digests, so that the order of writes leaves no trace.
    digest: u128,
}

/// Broadcast states by their places in the descriptor.
pub type Maps = Vec<(usize, BroadcastMap)>;

/// All broadcast state of one subtask of one operator. In the methods that serve a call, the caller has checked states and columns.
#[derive(Clone, Debug, Default)]
pub struct BroadcastState {
    /// By the states' places in the descriptor.
    maps: BTreeMap<usize, BroadcastMap>,
    /// Whether a snapshot of it would differ from the last one.
    changed: bool,
    /// Maps as they were before the call at hand, each once.
    undo: Maps,
}

impl Default for BroadcastMap {
    fn default() -> Self {
        BroadcastMap { entries: RedBlackTreeMapSync::new_sync(), digest: 0 }
    }
}

impl BroadcastMap {
    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.entries.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Fields with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|(field, value)| (&**field, &**value))
    }

    /// The same for the same content, and hardly ever for another.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// The same fields with new values: `rewrite` makes of a column of old ones a column of as many new ones.
    ///
    /// # Errors
    /// What `rewrite` says, with the place of the value that is to blame.
    pub fn rewritten<E>(
        &self,
        rewrite: &mut impl FnMut(&Column) -> Result<Column, Unwritten<usize, E>>,
    ) -> Result<BroadcastMap, Unwritten<usize, E>> {
        let (mut new, mut fields) = (self.clone(), self.iter().map(|(field, _)| field));
        let keep = |value: &[u8]| {
            if let Some(field) = fields.next() {
                new.put(field, value);
            }
            Ok(())
        };
        rewrite_each(self.iter().map(|(_, value)| value), rewrite, keep)?;
        Ok(new)
    }

    fn put(&mut self, field: &[u8], value: &[u8]) {
        self.forget(field);
        self.digest = self.digest.wrapping_add(digest_of(field, value));
        self.entries.insert_mut(field.into(), value.into());
    }

    /// Returns how many bytes that were, as what a call changes is counted.
    fn remove(&mut self, field: &[u8]) -> usize {
        let bytes = self.entries.get(field).map_or(0, |value| field.len() + value.len() + PER_VALUE);
        if self.forget(field) {
            self.entries.remove_mut(field);
        }
        bytes
    }

    /// Takes what the field has out of the digest, if it is there.
    fn forget(&mut self, field: &[u8]) -> bool {
        let old = self.entries.get(field).map(|value| digest_of(field, value));
        self.digest = self.digest.wrapping_sub(old.unwrap_or_default());
        old.is_some()
    }
}

/// Of both parts each on its own, so that no two entries run into the same bytes.
fn digest_of(field: &[u8], value: &[u8]) -> u128 {
    let mut both = [0; 32];
    both[..16].copy_from_slice(&xxh3_128(field).to_le_bytes());
    both[16..].copy_from_slice(&xxh3_128(value).to_le_bytes());
    xxh3_128(&both)
}

impl<'a> FromIterator<(&'a [u8], &'a [u8])> for BroadcastMap {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], &'a [u8])>>(entries: I) -> Self {
        let mut map = BroadcastMap::default();
        entries.into_iter().for_each(|(field, value)| map.put(field, value));
        map
    }
}

impl BroadcastState {
    /// Empty maps for those of `states` that are broadcast state. The `state` arguments below are indices into `states`.
    pub fn new(states: &[StateDescriptor]) -> Self {
        let maps = places(states).map(|place| (place, BroadcastMap::default())).collect();
        BroadcastState { maps, ..BroadcastState::default() }
    }

    /// The state as a snapshot has it, for each subtask, however many there are now.
    pub fn restored(states: &[StateDescriptor], maps: Maps) -> Self {
        let mut state = BroadcastState::new(states);
        state.maps.extend(maps);
        state
    }

    /// The map of a state; none of a state that is no broadcast state.
    pub fn map(&self, state: usize) -> Option<&BroadcastMap> {
        self.maps.get(&state)
    }

    /// The value of a field, appended to `cells`.
    pub fn get(&self, state: usize, field: &[u8], cells: &mut Cells) {
        let value = self.maps.get(&state).and_then(|map| map.entries.get(field));
        cells.present.push(u8::from(value.is_some()));
        cells.values.push(value.map(|value| &**value).unwrap_or_default());
    }

    /// Fields from `start` on, in the order of their bytes, and their values: as many as fit into `max_bytes`, but at least one.
    pub fn scan(&self, state: usize, start: &[u8], max_bytes: u32, fields: &mut Column, values: &mut Column) {
        let Some(map) = self.maps.get(&state) else { return };
        let mut room = max_bytes as usize;
        for (field, value) in map.entries.range::<[u8], _>((Bound::Included(start), Bound::Unbounded)) {
            if field.len() + value.len() > room && !fields.is_empty() {
                break;
            }
            room = room.saturating_sub(field.len() + value.len());
            fields.push(field);
            values.push(value);
        }
    }

    /// Replaces values of fields, one after the other.
    pub fn put<'a>(&mut self, state: usize, entries: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        let Some(map) = self.before_write(state) else { return };
        entries.for_each(|(field, value)| map.put(field, value));
    }

    /// Removes fields. Returns how many bytes that were, as what a call changes is counted.
    pub fn remove<'a>(&mut self, state: usize, fields: impl Iterator<Item = &'a [u8]>) -> usize {
        let Some(map) = self.before_write(state) else { return 0 };
        fields.map(|field| map.remove(field)).sum()
    }

    fn before_write(&mut self, state: usize) -> Option<&mut BroadcastMap> {
        let map = self.maps.get_mut(&state)?;
        if self.undo.iter().all(|(place, _)| *place != state) {
            self.undo.push((state, map.clone()));
        }
        Some(map)
    }

    /// Has room for the broadcast states among `states`.
    pub(super) fn arrange(&mut self, states: &[StateDescriptor]) {
        for place in places(states) {
            self.maps.entry(place).or_default();
        }
    }

    /// Rewrites all values of a state, if it is one of these. Returns how many there were.
    pub(super) fn rewrite<E>(
        &mut self,
        state: usize,
        rewrite: &mut impl FnMut(&Column) -> Result<Column, Unwritten<usize, E>>,
    ) -> Result<u64, Unwritten<usize, E>> {
        let Some(map) = self.maps.get_mut(&state) else { return Ok(0) };
        *map = map.rewritten(rewrite)?;
        Ok(map.len() as u64)
    }

    /// The next snapshot holds it, whether or not it has changed.
    pub(super) fn save_anew(&mut self) {
        self.changed = true;
    }

    /// The call succeeded: what it wrote stays.
    pub fn commit(&mut self) {
        // Writing again what is there is no change.
        self.changed |= self.undo.iter().any(|(state, before)| self.maps.get(state).is_some_and(|map| map.digest != before.digest));
        self.undo.clear();
    }

    /// The call failed: takes back everything written since the last commit or undo.
    pub fn undo(&mut self) {
        self.maps.extend(self.undo.drain(..));
    }

    /// The barrier: of each map its digest; and all of them as they are now, or none if the last snapshot holds the same. Never within
    /// a call.
    pub fn freeze(&mut self) -> (Vec<(usize, u128)>, Option<Maps>) {
        debug_assert!(self.undo.is_empty(), "a barrier falls between calls");
        let digests = self.maps.iter().map(|(&state, map)| (state, map.digest)).collect();
        let maps = || self.maps.iter().map(|(&state, map)| (state, map.clone())).collect();
        (digests, std::mem::take(&mut self.changed).then(maps))
    }
}

/// The places of those states that are broadcast state.
fn places(states: &[StateDescriptor]) -> impl Iterator<Item = usize> {
    states.iter().enumerate().filter(|(_, state)| state.kind == StateKind::Broadcast).map(|(place, _)| place)
}

#[cfg(test)]
#[path = "broadcast_tests.rs"]
mod tests;
