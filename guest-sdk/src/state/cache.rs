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
    /// What the host had, undecoded: from this key on, to the last one unless that was too much for one reply.
    fetched: Option<Cells>,
    fetched_from: usize,
    /// The keys whose slots have changed. A record whose work was undone leaves none.
    changed: Vec<u32>,
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
            fetched: None,
            fetched_from: 0,
            changed: Vec::new(),
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
        let key = self.scope.key() as usize;
        if !matches!(self.slots.get(key), Some(Slot::Absent | Slot::Present(_) | Slot::Removed | Slot::Changed(_))) {
            self.read(key);
        }
        self.slots[key].value()
    }

    /// Reads the slot of a key, and for that the host's values of all keys, once.
    fn read(&mut self, key: usize) {
        if self.slots.is_empty() {
            self.make_slots();
        }
        let name = self.declared.name;
        if self.declared.reads_count() {
            let cells = self.scope.backend().get(self.state, &[key as u32]);
            self.slots[key] = found(&cells, 0, name);
            return;
        }
        loop {
            // A slot before it would have been read.
            let from = self.fetched_from;
            match &self.fetched {
                Some(cells) if key < from + cells.present.len() => {
                    self.slots[key] = found(cells, key - from, name);
                    return;
                }
                _ => self.fetch(),
            }
        }
    }

    /// Asks for what was not in the last reply. What was in it is read, so that none is asked for twice.
    #[cold]
    fn fetch(&mut self) {
        if let Some(cells) = self.fetched.take() {
            for index in 0..cells.present.len() {
                let slot = &mut self.slots[self.fetched_from + index];
                if matches!(slot, Slot::Unread) {
                    *slot = found(&cells, index, self.declared.name);
                }
            }
            self.fetched_from += cells.present.len();
        }
        self.keys.clear();
        self.keys.extend(self.fetched_from as u32..self.scope.keys());
        self.fetched = Some(self.scope.backend().get(self.state, &self.keys));
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
        if !old.is_changed() {
            self.changed.push(self.scope.key());
        }
        let step = self.scope.current_step();
        if self.saved_at != step {
            self.saved_at = step;
            self.saved = old;
        }
    }

    /// Changes the current key's value in place, beginning with what `begin` makes where there is none.
    #[inline]
    pub(super) fn update<R>(&mut self, begin: impl FnOnce() -> T, change: impl FnOnce(&mut T) -> R) -> R
    where
        T: Clone,
    {
        if self.saved_at != self.scope.current_step() {
            // The old value is kept by `replace`, and its copy is what changes.
            let mut value = self.get().cloned().unwrap_or_else(begin);
            let result = change(&mut value);
            self.set(value);
            return result;
        }
        if self.get().is_none() {
            self.set(begin());
        }
        match self.slot() {
            Slot::Changed(value) => change(value),
            // This record wrote the slot, or it would not be saved.
            _ => unreachable!("a slot that was written in this record has changed"),
        }
    }

    pub(super) fn undo(&mut self) {
        if self.saved_at != self.scope.current_step() {
            return;
        }
        let saved = mem::take(&mut self.saved);
        if !saved.is_changed() {
            // The record's first write put its key there, and nothing came after it.
            self.changed.pop();
        }
        *self.slot() = saved;
    }

    pub(super) fn write_back(&mut self) {
        if self.slots.is_empty() {
            return;
        }
        self.keys.clear();
        self.values.clear();
        let mut removed = 0;
        for index in 0..self.changed.len() {
            let key = self.changed[index];
            if let Slot::Changed(value) = &self.slots[key as usize] {
                self.keys.push(key);
                self.values.push_with(|bytes| value.encode(bytes));
            } else {
                self.changed[removed] = key;
                removed += 1;
            }
        }
        self.changed.truncate(removed);
        if !self.keys.is_empty() {
            self.scope.backend().put(self.state, &self.keys, &self.values);
        }
        if !self.changed.is_empty() {
            self.scope.backend().clear(self.state, &self.changed);
        }
        self.forget();
    }

    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.fetched = None;
        self.fetched_from = 0;
        self.changed.clear();
        self.saved = Slot::Unread;
    }
}

/// A slot as the host has it.
pub(super) fn found<T: Value>(cells: &Cells, index: usize, name: &str) -> Slot<T> {
    if cells.present[index] == 0 {
        return Slot::Absent;
    }
    match T::decode(cells.values.get(index)) {
        Ok(value) => Slot::Present(value),
        Err(error) => super::unreadable(name, &error),
    }
}
