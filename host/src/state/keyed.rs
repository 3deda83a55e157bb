//! [`KeyedState`]: all keyed state of one subtask of one operator. A batch is a transaction: reads see what it wrote, and an undo log
//! takes it back if the call fails. What the kinds of state do beyond single values is in `lists` and `maps`.

use std::ops::Range;

use super::below::Below;
use super::change::{Change, ChangeKind};
use super::freeze::{Freezer, Slice};
use super::lists::PageEnd;
use super::maps::Entries;
use super::sweep::Sweeper;
use super::table::{Hashed, Mark, NONE, Slot, Table};
use super::ttl::{self, STAMP, Stamp};
use super::undo::{self, Undo};
use crate::plan::{StateDescriptor, StateKind, Ttl, TtlFrom};
use crate::record::{Batch, Column, hash_key, key_group, slice};

/// What a value counts besides its bytes, where what a call changes is counted.
pub const PER_VALUE: usize = 16;

/// One cell for each slot that was asked for.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    /// For each slot 1 if there is a value and 0 if there is none.
    pub present: Vec<u8>,
    /// For each slot its value, empty where there is none.
    pub values: Column,
}

/// All keyed state of one subtask of one operator. In the methods that serve a call, `call` holds the keys at hand, and the caller
/// has checked states, kinds, key indices and columns.
#[derive(Debug)]
pub struct KeyedState {
    pub(super) tables: Vec<Table>,
    pub(super) max_parallelism: u16,
    /// What lies below the tables; none where all state is in memory.
    pub(super) below: Option<Box<Below>>,
    /// The time of the call at hand.
    pub(super) now: i64,
    /// Written into slots; counts up at each barrier.
    pub(super) mark: Mark,
    pub(super) freezer: Freezer,
    pub(super) undo: Undo,
    /// Bytes that the call at hand has removed, or stamped anew by reading them, since [`KeyedState::take_taken`] was last called.
    pub(super) taken: usize,
    /// How many bytes may be `taken`: a call that takes more leaves off in the midst of it.
    pub(super) most_taken: usize,
    pub(super) sweeper: Sweeper,
    /// Where the last page of a list ended that the call at hand has read.
    pub(super) page: Option<PageEnd>,
    /// Room that is used again in every call.
    pub(super) found: Vec<u32>,
    pub(super) entries: Entries,
}

impl KeyedState {
    /// Empty state. `states` stand in the order of the descriptor: the `state` arguments below are indices into it.
    pub fn new(states: &[StateDescriptor], max_parallelism: u16) -> Self {
        KeyedState {
            tables: states.iter().map(Table::new).collect(),
            max_parallelism,
            below: None,
            now: 0,
            mark: 1,
            freezer: Freezer::default(),
            undo: Undo::default(),
            taken: 0,
            most_taken: usize::MAX,
            sweeper: Sweeper::new(states),
            page: None,
            found: Vec::new(),
            entries: Entries::default(),
        }
    }

    /// Has room for `states`, of which those that are there stand first and as they are but for how long their values live from `now` on.
    pub(super) fn arrange(&mut self, states: &[StateDescriptor], now: i64) {
        debug_assert!(!self.is_dirty(), "components change between calls");
        let new = states.get(self.tables.len()..).unwrap_or_default();
        self.tables.extend(new.iter().map(Table::new));
        self.below.iter_mut().for_each(|below| below.add_states(new));
        // No call has seen anything expire that has not by then.
        let now = now.max(self.now);
        for (table, state) in self.tables.iter_mut().zip(states) {
            table.ttl = state.ttl.map(|ttl| table.ttl.map_or(ttl, |before| ttl.after(before, now)));
        }
        self.sweeper = Sweeper::new(states);
    }

    /// Tells the wall-clock time in milliseconds since the Unix epoch, for all that follows: a call sees one time. By it values expire;
    /// if it goes backwards, they live longer by as much, and what had expired and was not yet removed is seen again.
    pub fn begin(&mut self, now: i64) {
        self.now = now;
        self.taken = 0;
        // Elements that it counts may have expired by then.
        self.page = None;
    }

    /// From now on a call that clears more bytes at once than that leaves off in the midst of it: it is to be undone.
    pub fn limit_taken(&mut self, most: usize) {
        self.most_taken = most;
    }

    /// How many bytes have been removed, or stamped anew by reading them, since the call began or this was last asked for: what is kept of
    /// them to undo it. Each value counts for [`PER_VALUE`] more.
    pub fn take_taken(&mut self) -> usize {
        std::mem::take(&mut self.taken)
    }

    /// Values for the keys `which` of `call`, appended to `cells`.
    pub fn get(&mut self, state: usize, call: &Batch, which: &[u32], cells: &mut Cells) {
        let mut found = std::mem::take(&mut self.found);
        self.find_keys(state, call, which, &mut found);
        self.read(state, &found, cells);
        self.found = found;
    }

    /// What slots hold, appended to `cells`.
    #[inline]
    pub(super) fn read(&mut self, state: usize, found: &[u32], cells: &mut Cells) {
        let table = &self.tables[state];
        if let Some(ttl) = table.ttl {
            return found.iter().for_each(|&number| self.read_mortal(state, number, ttl, cells));
        }
        // Room for all is made at once.
        let value = |&slot: &u32| table.slots.get(slot as usize).filter(|slot| slot.live).map(Slot::value);
        cells.present.extend(found.iter().map(|slot| u8::from(value(slot).is_some())));
        cells.values.extend(found.iter().map(|slot| value(slot).unwrap_or_default()));
    }

    /// What a slot holds that has a time to live.
    fn read_mortal(&mut self, state: usize, number: u32, ttl: Ttl, cells: &mut Cells) {
        let value = self.mortal(state, number, ttl);
        cells.present.push(u8::from(value.is_some()));
        cells.values.push(value.unwrap_or_default());
    }

    /// The value of a slot, if it has one.
    #[inline]
    pub(super) fn value_of(&mut self, state: usize, number: u32) -> Option<&[u8]> {
        match self.tables[state].ttl {
            Some(ttl) => self.mortal(state, number, ttl),
            None => self.tables[state].slots.get(number as usize).filter(|slot| slot.live).map(Slot::value),
        }
    }

    /// The value of a slot that has a time to live, if it has one.
    fn mortal(&mut self, state: usize, number: u32, ttl: Ttl) -> Option<&[u8]> {
        let slot = self.tables[state].slots.get(number as usize).filter(|slot| slot.live)?;
        if ttl::fresh(slot.value(), ttl, self.now).is_none() {
            self.sweeper.note(state, number);
            return None;
        }
        if ttl.from == TtlFrom::Access {
            self.touch(state, number, ttl);
        }
        ttl::fresh(self.tables[state].slots[number as usize].value(), ttl, self.now)
    }

    /// Stamps a value that was read; not for lists.
    pub(super) fn touch(&mut self, state: usize, number: u32, ttl: Ttl) {
        let stamp = ttl::stamp(ttl, self.now);
        if self.tables[state].slots[number as usize].value().starts_with(&stamp) {
            return;
        }
        self.before_write(state, number);
        let slot = &mut self.tables[state].slots[number as usize];
        self.taken += slot.value().len() + PER_VALUE;
        self.undo.replacing(state, number, slot);
        slot.value_mut()[..STAMP].copy_from_slice(&stamp);
    }

    /// Replaces values `within`: value i becomes the one for key `which[i]`.
    pub fn put(&mut self, state: usize, call: &Batch, which: &[u32], value_ends: &[u32], value_bytes: &[u8], within: Range<usize>) {
        let mut found = std::mem::take(&mut self.found);
        let stamp = self.stamp(state);
        let which = &which[within.clone()];
        self.find_keys(state, call, which, &mut found);
        for (index, (&slot, &key)) in within.zip(found.iter().zip(which)) {
            let slot = if slot == NONE { self.new_slot(state, call, key) } else { slot };
            self.replace(state, slot, true, stamp.as_ref(), slice(value_ends, value_bytes, index));
        }
        self.found = found;
    }

    /// Removes what the state holds for the keys `which`.
    pub fn clear(&mut self, state: usize, call: &Batch, which: &[u32]) {
        let is_map = self.tables[state].kind == StateKind::Map;
        for &key in which {
            let hashed = key_at(call, key);
            if is_map {
                self.map_clear(state, call, key);
            } else {
                match self.look(state, hashed, hashed.0) {
                    NONE => {}
                    slot => self.remove(state, slot),
                }
            }
            if self.taken > self.most_taken {
                return;
            }
        }
    }

    /// The call succeeded: what it wrote stays.
    pub fn commit(&mut self) {
        self.undo.forget(&mut self.tables);
        self.end();
    }

    /// The call failed: takes back everything written since the last commit or undo.
    pub fn undo(&mut self) {
        self.undo.play_back(&mut self.tables);
        self.end();
    }

    fn end(&mut self) {
        self.undo.vacate(&mut self.tables, self.mark);
        undo::empty(&mut self.found);
        self.tables.iter_mut().for_each(Table::end);
        self.page = None;
    }

    /// Whether the call at hand has written anything.
    pub fn is_dirty(&self) -> bool {
        !self.undo.is_empty()
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
        self.freezer.advance(entries, &mut self.tables, self.below.as_deref_mut())
    }

    /// Applies a change from a snapshot, at a restore; changes must come in the order in which they were made. What is restored counts
    /// as saved.
    pub fn restore(&mut self, change: Change<'_>) {
        let hashed = (hash_key(change.key), change.key);
        let table = &mut self.tables[change.state as usize];
        let number = table.find(hashed);
        if change.kind == ChangeKind::Delete {
            if let Some(number) = number {
                table.slots[number as usize].live = false;
                table.release(number);
            }
            return;
        }
        let number = number.unwrap_or_else(|| table.insert(hashed, change.group));
        table.change(number, |slot| {
            match change.kind {
                ChangeKind::Append => slot.extend_value(change.value),
                _ => slot.set_value(change.value),
            }
            slot.live = true;
            slot.notes.set_stored(true);
            // Values come out of columns.
            slot.saved = slot.value().len() as u32;
        });
    }

    /// The value or framed list of a key in a state, if it is in memory, as it is kept and whether or not it has expired; for tests.
    pub fn value(&self, state: usize, key: &[u8]) -> Option<&[u8]> {
        let table = &self.tables[state];
        table.find((hash_key(key), key)).map(|slot| &table.slots[slot as usize]).filter(|slot| slot.live).map(|slot| slot.value())
    }

    /// How many entries there are in memory, those that have expired or are deleted in no snapshot yet among them.
    pub fn entries(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// The slots of keys of a call, wherever they lie; [`NONE`] where there is none.
    fn find_keys(&mut self, state: usize, call: &Batch, which: &[u32], found: &mut Vec<u32>) {
        let KeyedState { tables, below, max_parallelism, .. } = self;
        tables[state].find_keys(call, which, found, |table, found| {
            if let Some(below) = below {
                let keys = which.iter().map(|&key| key_at(call, key));
                below.bring(state, table, *max_parallelism, keys.map(|key| (key, key.0)), found);
            }
        });
    }

    /// The slot of a key, a new one if there is none.
    pub(super) fn slot_for(&mut self, state: usize, call: &Batch, key: u32) -> u32 {
        let hashed = key_at(call, key);
        match self.look(state, hashed, hashed.0) {
            NONE => self.new_slot(state, call, key),
            slot => {
                self.tables[state].found(key, slot);
                slot
            }
        }
    }

    /// A slot for a key for which none was found, unless it came twice.
    fn new_slot(&mut self, state: usize, call: &Batch, key: u32) -> u32 {
        let hashed = key_at(call, key);
        let slot = self.new_slot_for_entry(state, hashed, hashed.0);
        self.tables[state].found(key, slot);
        slot
    }

    /// A slot for an entry of a map, whose key has a hash of its own, if none was found, unless it came twice.
    pub(super) fn new_slot_for_entry(&mut self, state: usize, hashed: Hashed<'_>, hash_of_key: u64) -> u32 {
        let table = &mut self.tables[state];
        table.find(hashed).unwrap_or_else(|| table.insert(hashed, key_group(hash_of_key, self.max_parallelism)))
    }

    /// What values that are written now begin with.
    #[inline]
    pub(super) fn stamp(&self, state: usize) -> Option<Stamp> {
        self.tables[state].ttl.map(|ttl| ttl::stamp(ttl, self.now))
    }

    /// To be called before each change of a slot: notes that it is written, and saves what a waiting snapshot still needs of it.
    #[inline]
    pub(super) fn before_write(&mut self, state: usize, number: u32) {
        let table = &mut self.tables[state];
        let slot = &mut table.slots[number as usize];
        if slot.written == self.mark {
            return;
        }
        if slot.written != 0 {
            self.freezer.save(state, table, number, self.below.as_deref_mut());
        }
        let slot = &mut table.slots[number as usize];
        slot.written = self.mark;
        slot.notes.changing();
        table.written.push(number);
    }

    #[inline]
    pub(super) fn replace(&mut self, state: usize, number: u32, live: bool, stamp: Option<&Stamp>, value: &[u8]) {
        self.before_write(state, number);
        let table = &mut self.tables[state];
        if let Some(parts) = table.take_parts(number) {
            self.undo.replacing_parts(parts);
        }
        let slot = &mut table.slots[number as usize];
        self.undo.replacing(state, number, slot);
        if !live {
            self.undo.vacating(state, number);
        }
        (slot.live, slot.saved) = (live, 0);
        if stamp.is_none() && slot.overwrite_value(value) {
            return;
        }
        table.change(number, |slot| match stamp {
            None => slot.set_value(value),
            Some(stamp) => {
                slot.set_value(stamp);
                slot.extend_value(value);
            }
        });
    }

    pub(super) fn remove(&mut self, state: usize, number: u32) {
        let table = &self.tables[state];
        if table.slots[number as usize].live {
            self.taken += table.length(number) + PER_VALUE;
            self.forget_page(state, number);
            self.replace(state, number, false, None, &[]);
        }
    }

    /// A list is about to be replaced, so that the next page of it is none.
    pub(super) fn forget_page(&mut self, state: usize, number: u32) {
        self.page = self.page.filter(|page| page.slot != (state, number));
    }
}

#[inline]
pub(super) fn key_at(call: &Batch, key: u32) -> Hashed<'_> {
    (call.hashes[key as usize], call.keys.get(key as usize))
}
