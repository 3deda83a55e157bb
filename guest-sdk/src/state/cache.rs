//! [`Cache`]: one value per key, for as long as a call lasts; what value and reducing states have in common.

use std::mem;

use super::Declared;
use super::slot::Slot;
use crate::codec::Value;
use crate::column::{Cells, Column};
use crate::scope::Scope;

/// The values of the call's keys: read in one go at the first read, unless reading counts or they are too large for that, and written in
/// one go at the end.
#[derive(Debug)]
pub(super) struct Cache<T> {
    scope: Scope,
    state: u32,
    declared: Declared,
    /// One for each of the call's keys; empty until the first use in a call.
    slots: Vec<Slot<T>>,
    /// For how many keys, from the first on, the host was asked.
    fetched: usize,
    /// The slot of the current key as it was before the record of step `saved_at`. A record has one key, so one slot is enough; and no
    /// step comes again, so it never has to be reset.
    saved: Slot<T>,
    saved_at: u64,
    /// Room that is used again in every call.
    keys: Vec<u32>,
    values: Column,
}

impl<T: Value> Cache<T> {
    pub(super) fn new(scope: &Scope, state: u32, declared: Declared) -> Self {
        Cache {
            scope: scope.clone(),
            state,
            declared,
            slots: Vec::new(),
            fetched: 0,
            saved: Slot::Unread,
            saved_at: 0,
            keys: Vec::new(),
            values: Column::new(),
        }
    }

    /// The current key's slot, which may be unread.
    #[inline]
    fn slot(&mut self) -> &mut Slot<T> {
        let key = self.scope.key() as usize;
        if key >= self.slots.len() {
            self.make_slots();
        }
        &mut self.slots[key]
    }

    /// The first use in a call.
    #[cold]
    #[inline(never)]
    fn make_slots(&mut self) {
        let keys = self.scope.keys() as usize;
        assert!(keys > 0, "state `{}` was used where no key is current", self.declared.name);
        self.slots.resize_with(keys, Slot::default);
    }

    /// The current key's value.
    #[inline]
    pub(super) fn get(&mut self) -> Option<&T> {
        let key = self.read_key();
        self.slots[key].value()
    }

    /// The current key, with its slot read.
    #[inline]
    fn read_key(&mut self) -> usize {
        let key = self.scope.key() as usize;
        if matches!(self.slots.get(key), None | Some(Slot::Unread)) {
            self.read(key);
        }
        key
    }

    /// Reads the slot of a key, and with the first one those of all keys, unless reading counts.
    #[cold]
    #[inline(never)]
    fn read(&mut self, key: usize) {
        if self.slots.is_empty() {
            self.make_slots();
        }
        if !self.declared.reads_count() {
            while self.fetched <= key {
                self.fetch();
            }
            if !matches!(self.slots[key], Slot::Unread) {
                return;
            }
        }
        let cells = self.scope.backend().get(self.state, &[key as u32]);
        self.slots[key] = found(&cells, 0, self.declared.name);
    }

    /// Reads the slots that the host was not asked for yet, as many as it gives in one reply. What can't be decoded stays unread, so that it
    /// fails the records of its own key.
    fn fetch(&mut self) {
        self.keys.clear();
        self.keys.extend(self.fetched as u32..self.scope.keys());
        let Cells { present, values } = self.scope.backend().get(self.state, &self.keys);
        assert!(!present.is_empty(), "a reply has at least one value");
        let mut start = 0;
        for ((slot, &present), &end) in self.slots[self.fetched..].iter_mut().zip(&present).zip(&values.ends) {
            let bytes = &values.bytes[start..end as usize];
            start = end as usize;
            if matches!(slot, Slot::Unread) {
                *slot = if present == 0 { Slot::Absent } else { T::decode(bytes).map_or(Slot::Unread, Slot::Present) };
            }
        }
        self.fetched += present.len();
    }

    /// Replaces the current key's value.
    #[inline]
    pub(super) fn set(&mut self, value: T) {
        self.replace(Slot::Changed(value));
    }

    /// Removes the current key's value.
    pub(super) fn clear(&mut self) {
        self.replace(Slot::Removed);
    }

    #[inline]
    fn replace(&mut self, new: Slot<T>) {
        let old = mem::replace(self.slot(), new);
        let step = self.scope.current_step();
        if self.saved_at != step {
            self.saved_at = step;
            self.saved = old;
        }
    }

    /// Makes the current key's value what `change` makes of it, and gives back what `change` tells beside it.
    #[inline]
    pub(super) fn update<R>(&mut self, change: impl FnOnce(Option<T>) -> (T, R)) -> R
    where
        T: Clone,
    {
        let key = self.read_key();
        let step = self.scope.current_step();
        let slot = &mut self.slots[key];
        let old = if self.saved_at == step {
            mem::take(slot).into_value()
        } else {
            let old = slot.value().cloned();
            self.saved_at = step;
            self.saved = mem::take(slot);
            old
        };
        let (new, result) = change(old);
        *slot = Slot::Changed(new);
        result
    }

    pub(super) fn undo(&mut self) {
        if self.saved_at == self.scope.current_step() {
            *self.slot() = mem::take(&mut self.saved);
        }
    }

    pub(super) fn write_back(&mut self) {
        if self.slots.is_empty() {
            return;
        }
        self.keys.clear();
        self.values.clear();
        let mut removed = Vec::new();
        for (key, slot) in (0u32..).zip(&self.slots) {
            match slot {
                Slot::Changed(value) => {
                    self.keys.push(key);
                    self.values.push_with(|bytes| value.encode(bytes));
                }
                Slot::Removed => removed.push(key),
                _ => {}
            }
        }
        if !self.keys.is_empty() {
            self.scope.backend().put(self.state, &self.keys, &self.values);
        }
        if !removed.is_empty() {
            self.scope.backend().clear(self.state, &removed);
        }
        self.forget();
    }

    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.fetched = 0;
        self.saved = Slot::Unread;
    }
}

/// A slot as the host has it.
pub(super) fn found<T: Value>(cells: &Cells, index: usize, name: &str) -> Slot<T> {
    if cells.present[index] == 0 { Slot::Absent } else { decoded(cells.values.get(index), name) }
}

/// A slot of the host's bytes.
#[inline]
pub(super) fn decoded<T: Value>(bytes: &[u8], name: &str) -> Slot<T> {
    match T::decode(bytes) {
        Ok(value) => Slot::Present(value),
        Err(error) => super::unreadable(name, &error),
    }
}
