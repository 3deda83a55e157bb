//! [`KeyedMemory`]: keyed state for the stand-in, of every kind in one shape, with time to live and the host's undo.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::column::{Cells, Column};
use crate::state::Ttl;

/// A value, an element of a list, or a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) value: Vec<u8>,
    /// When it was last written, or read if that counts; 0 if it lives for ever.
    at: i64,
}

/// What a state holds for a key: by field, in a list by running number, and a value under the empty field.
pub(crate) type Entry = BTreeMap<Vec<u8>, Cell>;
/// What a state holds.
pub(crate) type Entries = BTreeMap<Vec<u8>, Entry>;

/// A field with its cell.
type Seen<'a> = (&'a [u8], &'a Cell);

/// One cell of one key of one state: state, key, field.
type Place = (usize, Vec<u8>, Vec<u8>);

/// All keyed state.
#[derive(Debug, Default)]
pub(crate) struct KeyedMemory {
    states: Vec<(Option<Ttl>, Entries)>,
    /// Cells as they were before the call, to undo it.
    undo: Vec<(Place, Option<Cell>)>,
    /// The time of the call at hand.
    pub(crate) now: i64,
}

impl KeyedMemory {
    /// Empty states, in the order of the descriptor.
    pub(crate) fn new(ttls: impl Iterator<Item = Option<Ttl>>) -> Self {
        KeyedMemory { states: ttls.map(|ttl| (ttl, Entries::new())).collect(), ..KeyedMemory::default() }
    }

    /// The call has succeeded.
    pub(crate) fn commit(&mut self) {
        self.undo.clear();
    }

    /// The call has failed.
    pub(crate) fn undo(&mut self) {
        while let Some((place, old)) = self.undo.pop() {
            self.put_back(place, old);
        }
    }

    /// What can be seen of a state.
    pub(crate) fn entries(&self, state: usize) -> Entries {
        let (ttl, entries) = &self.states[state];
        let fresh = |entry: &Entry| -> Entry {
            entry.iter().filter(|(_, cell)| self.is_fresh(*ttl, cell)).map(|(field, cell)| (field.clone(), cell.clone())).collect()
        };
        entries.iter().map(|(key, entry)| (key.clone(), fresh(entry))).filter(|(_, entry)| !entry.is_empty()).collect()
    }

    /// Exchanges what a state holds.
    pub(crate) fn restore(&mut self, state: usize, entries: Entries) {
        self.states[state].1 = entries;
    }

    /// The keys that have state of any kind.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = (0..self.states.len()).flat_map(|state| self.entries(state).into_keys()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn is_fresh(&self, ttl: Option<Ttl>, cell: &Cell) -> bool {
        ttl.is_none_or(|ttl| cell.at.saturating_add_unsigned(ttl.ms) > self.now)
    }

    fn put_back(&mut self, (state, key, field): Place, cell: Option<Cell>) -> Option<Cell> {
        let entries = &mut self.states[state].1;
        let entry = entries.entry(key.clone()).or_default();
        let old = match cell {
            Some(cell) => entry.insert(field, cell),
            None => entry.remove(&field),
        };
        if entry.is_empty() {
            entries.remove(&key);
        }
        old
    }

    fn change(&mut self, place: Place, cell: Option<Cell>) {
        let old = self.put_back(place.clone(), cell);
        self.undo.push((place, old));
    }

    pub(crate) fn put(&mut self, state: usize, key: &[u8], field: &[u8], value: &[u8]) {
        let at = if self.states[state].0.is_some() { self.now } else { 0 };
        self.change((state, key.to_vec(), field.to_vec()), Some(Cell { value: value.to_vec(), at }));
    }

    pub(crate) fn remove(&mut self, state: usize, key: &[u8], field: &[u8]) {
        self.change((state, key.to_vec(), field.to_vec()), None);
    }

    pub(crate) fn clear(&mut self, state: usize, key: &[u8]) {
        let fields: Vec<_> = self.states[state].1.get(key).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        fields.iter().for_each(|field| self.remove(state, key, field));
    }

    pub(crate) fn append(&mut self, state: usize, key: &[u8], element: &[u8]) {
        let last = self.states[state].1.get(key).and_then(|entry| entry.last_key_value());
        let number = last.map_or(0, |(last, _)| number_of(last) + 1);
        self.put(state, key, &number.to_be_bytes(), element);
    }

    /// Adds the value of a cell to `cells`.
    pub(crate) fn read(&mut self, state: usize, key: &[u8], field: &[u8], cells: &mut Cells) {
        let found = self.page(state, key, field).next().filter(|(found, _)| *found == field);
        let value = found.map(|(_, cell)| cell.value.clone());
        cells.present.push(u8::from(value.is_some()));
        cells.values.push(value.as_deref().unwrap_or_default());
        if value.is_some() {
            self.touch(state, key, &[field.to_vec()]);
        }
    }

    /// Elements of a list from `start` on that fit into so many bytes, at least one.
    pub(crate) fn list(&mut self, state: usize, key: &[u8], start: u32, max_bytes: u32) -> Column {
        let mut values = Column::new();
        let fits = fitting(max_bytes, |(_, cell)| cell.value.len());
        self.page(state, key, &[]).skip(start as usize).take_while(fits).for_each(|(_, cell)| values.push(&cell.value));
        let all: Vec<_> = self.page(state, key, &[]).map(|(field, _)| field.to_vec()).collect();
        self.touch(state, key, &all);
        values
    }

    /// Fields of a map from `start` on, and their values, that fit into so many bytes, at least one.
    pub(crate) fn scan(&mut self, state: usize, key: &[u8], start: &[u8], max_bytes: u32) -> (Column, Column) {
        let (mut fields, mut values) = (Column::new(), Column::new());
        let fits = fitting(max_bytes, |(field, cell)| field.len() + cell.value.len());
        for (field, cell) in self.page(state, key, start).take_while(fits) {
            fields.push(field);
            values.push(&cell.value);
        }
        let read: Vec<_> = fields.iter().map(<[u8]>::to_vec).collect();
        self.touch(state, key, &read);
        (fields, values)
    }

    /// What can be seen of a key, from a field on.
    fn page(&self, state: usize, key: &[u8], start: &[u8]) -> impl Iterator<Item = Seen<'_>> {
        let (ttl, entries) = &self.states[state];
        let range = (Bound::Included(start), Bound::Unbounded);
        let cells = entries.get(key).map(|entry| entry.range::<[u8], _>(range)).into_iter().flatten();
        cells.map(|(field, cell)| (field.as_slice(), cell)).filter(|(_, cell)| self.is_fresh(*ttl, cell))
    }

    /// Stamps cells that were read, if that counts.
    fn touch(&mut self, state: usize, key: &[u8], fields: &[Vec<u8>]) {
        if !self.states[state].0.is_some_and(|ttl| ttl.from_access) {
            return;
        }
        for field in fields {
            let value = self.states[state].1[key][field].value.clone();
            self.put(state, key, field, &value);
        }
    }
}

/// Whether cells still fit into so many bytes, if they are asked for one after the other; the first always does.
fn fitting(max_bytes: u32, size: fn(&Seen<'_>) -> usize) -> impl FnMut(&Seen<'_>) -> bool {
    let (mut bytes, mut first) = (0, true);
    move |seen| {
        bytes += size(seen);
        std::mem::take(&mut first) || bytes <= max_bytes as usize
    }
}

/// The running number of an element.
fn number_of(field: &[u8]) -> u64 {
    field.try_into().map_or(0, u64::from_be_bytes)
}
