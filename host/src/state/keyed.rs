//! [`KeyedState`]: all keyed state of one subtask of one operator. A batch is a transaction: reads see what it wrote, and an undo log
//! takes it back if the call fails.

use super::change::{Change, ChangeKind};
use super::freeze::{Freezer, Slice};
use super::list;
use super::table::{Mark, NONE, Table};
use crate::plan::{StateDescriptor, StateKind};
use crate::record::{Batch, Column, hash_key, slice};

/// One cell for each slot that was asked for.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    /// For each slot 1 if there is a value and 0 if there is none.
    pub present: Vec<u8>,
    /// For each slot its value, empty where there is none.
    pub values: Column,
}

/// The most bytes that the list of one key may have: what a state file can hold as one entry.
pub const LONGEST_LIST: usize = 512 << 20;

/// A list would grow beyond [`LONGEST_LIST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListTooLong;

/// All keyed state of one subtask of one operator. In the methods that serve a call, `call` holds the keys at hand, and the caller
/// has checked states, kinds, key indices and columns.
#[derive(Debug)]
pub struct KeyedState {
    kinds: Vec<StateKind>,
    tables: Vec<Table>,
    max_parallelism: u16,
    /// Written into slots; counts up at each barrier.
    mark: Mark,
    freezer: Freezer,
    undo: Undo,
    found: Vec<u32>,
}

/// What the call at hand has changed, oldest first.
#[derive(Debug, Default)]
struct Undo {
    steps: Vec<Step>,
    values: Vec<u8>,
}

#[derive(Debug)]
struct Step {
    state: u32,
    slot: u32,
    live: bool,
    /// How many bytes of the old value are still in place,
    kept: u32,
    /// of those how many were in snapshots,
    saved: u32,
    /// and where in `Undo::values` the whole old value begins, if it was replaced.
    replaced: Option<usize>,
}

impl KeyedState {
    /// Empty state. `states` stand in the order of the descriptor: the `state` arguments below are indices into it.
    pub fn new(states: &[StateDescriptor], max_parallelism: u16) -> Self {
        KeyedState {
            kinds: states.iter().map(|state| state.kind).collect(),
            tables: states.iter().map(|_| Table::default()).collect(),
            max_parallelism,
            mark: 1,
            freezer: Freezer::default(),
            undo: Undo::default(),
            found: Vec::new(),
        }
    }

    /// Values for the keys `which` of `call`, appended to `cells`.
    pub fn get(&mut self, state: usize, call: &Batch, which: &[u32], cells: &mut Cells) {
        let table = &self.tables[state];
        table.find_many(which.iter().map(|&key| key_at(call, key)), &mut self.found);
        for &slot in &self.found {
            let slot = if slot == NONE { None } else { Some(&table.slots[slot as usize]).filter(|slot| slot.live) };
            cells.present.push(u8::from(slot.is_some()));
            cells.values.push(slot.map(|slot| slot.value()).unwrap_or_default());
        }
    }

    /// Replaces values: value i becomes the one for key `which[i]`.
    pub fn put(&mut self, state: usize, call: &Batch, which: &[u32], value_ends: &[u32], value_bytes: &[u8]) {
        let mut found = std::mem::take(&mut self.found);
        self.tables[state].find_many(which.iter().map(|&key| key_at(call, key)), &mut found);
        for (index, (&slot, &key)) in found.iter().zip(which).enumerate() {
            let slot = if slot == NONE { self.slot_for(state, call, key) } else { slot };
            self.replace(state, slot, true, slice(value_ends, value_bytes, index));
        }
        self.found = found;
    }

    /// Removes what the state holds for the keys `which`.
    pub fn clear(&mut self, state: usize, call: &Batch, which: &[u32]) {
        for &key in which {
            let (hash, bytes) = key_at(call, key);
            if let Some(slot) = self.tables[state].find(hash, bytes)
                && self.tables[state].slots[slot as usize].live
            {
                self.replace(state, slot, false, &[]);
            }
        }
    }

    /// Appends element i to the list of key `which[i]`.
    ///
    /// # Errors
    /// If a list would grow beyond [`LONGEST_LIST`]. What was appended until then is undone with the call.
    pub fn list_append(
        &mut self,
        state: usize,
        call: &Batch,
        which: &[u32],
        value_ends: &[u32],
        value_bytes: &[u8],
    ) -> Result<(), ListTooLong> {
        for (index, &key) in which.iter().enumerate() {
            let number = self.slot_for(state, call, key);
            self.before_write(state, number);
            let slot = &mut self.tables[state].slots[number as usize];
            let element = slice(value_ends, value_bytes, index);
            if slot.value().len() + element.len() > LONGEST_LIST {
                return Err(ListTooLong);
            }
            // Below LONGEST_LIST.
            let kept = slot.value().len() as u32;
            self.undo.steps.push(Step { state: state as u32, slot: number, live: slot.live, kept, saved: slot.saved, replaced: None });
            slot.live = true;
            list::push(element, |bytes| slot.extend_value(bytes));
        }
        Ok(())
    }

    /// Replaces the whole list of one key. Without elements there is no list.
    pub fn list_replace(&mut self, state: usize, call: &Batch, key: u32, value_ends: &[u32], value_bytes: &[u8]) {
        let slot = self.slot_for(state, call, key);
        let mut framed = Vec::with_capacity(value_bytes.len() + 2 * value_ends.len());
        for index in 0..value_ends.len() {
            list::push(slice(value_ends, value_bytes, index), |bytes| framed.extend_from_slice(bytes));
        }
        self.replace(state, slot, !value_ends.is_empty(), &framed);
    }

    /// Elements of one key's list from `start` on, as many as fit into `max_bytes` but at least one, appended to `out`.
    pub fn list_read(&self, state: usize, call: &Batch, key: u32, start: u32, max_bytes: u32, out: &mut Column) {
        let (hash, bytes) = key_at(call, key);
        let table = &self.tables[state];
        let Some(slot) = table.find(hash, bytes).map(|slot| &table.slots[slot as usize]).filter(|slot| slot.live) else { return };
        let mut room = max_bytes as usize;
        for element in list::elements(slot.value()).skip(start as usize) {
            if element.len() > room && !out.is_empty() {
                break;
            }
            room = room.saturating_sub(element.len());
            out.push(element);
        }
    }

    /// The call succeeded: what it wrote stays.
    pub fn commit(&mut self) {
        self.undo.steps.clear();
        self.undo.values.clear();
    }

    /// The call failed: takes back everything written since the last commit or undo.
    pub fn undo(&mut self) {
        let Undo { mut steps, values } = std::mem::take(&mut self.undo);
        let mut end = values.len();
        for step in steps.drain(..).rev() {
            let slot = &mut self.tables[step.state as usize].slots[step.slot as usize];
            match step.replaced {
                Some(start) => {
                    slot.set_value(&values[start..end]);
                    end = start;
                }
                None => slot.truncate_value(step.kept as usize),
            }
            slot.live = step.live;
            slot.saved = step.saved;
        }
    }

    /// Whether the call at hand has written anything.
    pub fn is_dirty(&self) -> bool {
        !self.undo.steps.is_empty()
    }

    /// The barrier: everything written before it belongs to the next snapshot, everything after it to a later one. Takes a time that
    /// does not depend on how much there is. Never within a call.
    pub fn freeze(&mut self) {
        debug_assert!(!self.is_dirty(), "a barrier falls between calls");
        self.freezer.freeze(self.mark, &mut self.tables);
        self.mark += 1;
    }

    /// Whether a frozen snapshot waits to be serialised.
    pub fn is_freezing(&self) -> bool {
        !self.freezer.is_empty()
    }

    /// Serialises up to `entries` more entries of the oldest frozen snapshot; a part of it when there is enough, or its rest.
    pub fn advance(&mut self, entries: usize) -> Option<Slice> {
        self.freezer.advance(entries, &self.kinds, self.max_parallelism, &mut self.tables)
    }

    /// Applies a change from a snapshot, at a restore; changes must come in the order in which they were made. What is restored counts
    /// as saved.
    pub fn restore(&mut self, change: Change<'_>) {
        let hash = hash_key(change.key);
        let table = &mut self.tables[change.state as usize];
        let number = table.find(hash, change.key);
        if change.kind == ChangeKind::Delete {
            if let Some(number) = number {
                table.slots[number as usize].live = false;
                table.release(number);
            }
            return;
        }
        let number = number.unwrap_or_else(|| table.insert(hash, change.key));
        let slot = &mut table.slots[number as usize];
        match change.kind {
            ChangeKind::Append => slot.extend_value(change.value),
            _ => slot.set_value(change.value),
        }
        slot.live = true;
        // Values come out of columns.
        slot.saved = slot.value().len() as u32;
    }

    /// The keys that have state of any kind, each once, as places for [`KeyedState::key`].
    pub fn keys(&self) -> Vec<(u16, u32)> {
        let mut keys = Vec::new();
        for (state, table) in self.tables.iter().enumerate() {
            let seen = |slot: u32| {
                let slot = &table.slots[slot as usize];
                let has = |table: &Table| table.find(slot.hash, slot.key()).is_some_and(|slot| table.slots[slot as usize].live);
                self.tables[..state].iter().any(has)
            };
            // Descriptors have far fewer states than a u16 counts.
            keys.extend(table.live().filter(|&slot| !seen(slot)).map(|slot| (state as u16, slot)));
        }
        keys
    }

    /// A key and its hash, for a place that [`KeyedState::keys`] gave, as long as no slice was taken since.
    pub fn key(&self, (state, slot): (u16, u32)) -> (&[u8], u64) {
        let slot = &self.tables[state as usize].slots[slot as usize];
        (slot.key(), slot.hash)
    }

    /// The value or framed list of a key in a state; for tests and inspection.
    pub fn value(&self, state: usize, key: &[u8]) -> Option<&[u8]> {
        let table = &self.tables[state];
        table.find(hash_key(key), key).map(|slot| &table.slots[slot as usize]).filter(|slot| slot.live).map(|slot| slot.value())
    }

    fn slot_for(&mut self, state: usize, call: &Batch, key: u32) -> u32 {
        let (hash, bytes) = key_at(call, key);
        let table = &mut self.tables[state];
        table.find(hash, bytes).unwrap_or_else(|| table.insert(hash, bytes))
    }

    /// To be called before each change of a slot: notes that it is written, and saves what a waiting snapshot still needs of it.
    #[inline]
    fn before_write(&mut self, state: usize, number: u32) {
        let table = &mut self.tables[state];
        let slot = &mut table.slots[number as usize];
        if slot.written == self.mark {
            return;
        }
        if slot.written != 0 {
            self.freezer.save(state, self.kinds[state], self.max_parallelism, slot);
        }
        slot.written = self.mark;
        table.written.push(number);
    }

    #[inline]
    fn replace(&mut self, state: usize, number: u32, live: bool, value: &[u8]) {
        self.before_write(state, number);
        let slot = &mut self.tables[state].slots[number as usize];
        let replaced = Some(self.undo.values.len());
        self.undo.values.extend_from_slice(slot.value());
        self.undo.steps.push(Step { state: state as u32, slot: number, live: slot.live, kept: 0, saved: slot.saved, replaced });
        slot.set_value(value);
        slot.live = live;
        slot.saved = 0;
    }
}

#[inline]
fn key_at(call: &Batch, key: u32) -> (u64, &[u8]) {
    (call.hashes[key as usize], call.keys.get(key as usize))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
