//! Eviction: slots leave memory for the cold store when the tables have grown beyond their bound. Between calls a hand goes round over
//! all slots; one that was used since it last came by gets another round, unless the bound is far exceeded.

use super::KeyedState;
use super::below::Below;
use super::facts::Facts;
use super::sweep::due_for;
use super::table::{PER_SLOT, Table};
use crate::plan::StateKind;

/// Slots that evictions may look at for each one by which memory has grown.
const LOOKS: usize = 8;

/// Nothing gets another round when memory exceeds its bound by one part in this many.
const FAR: usize = 8;

/// How many entries are written to the cold store at once when all of them are.
const TOGETHER: usize = 1024;

impl KeyedState {
    /// Moves entries out of memory if they take more than they may. To be called between calls, after a failed one too; nothing of it
    /// can be seen.
    pub fn evict(&mut self) {
        debug_assert!(!self.is_dirty(), "evictions fall between calls");
        if let Some(below) = &mut self.below
            && below.fault.is_none()
        {
            self.tables.iter_mut().for_each(|table| table.tidy(self.mark));
            below.spill(&mut self.freezer);
            below.disown(&mut self.tables);
            below.evict(&mut self.tables, self.now);
            below.clear_away();
            if self.freezer.is_empty() {
                self.sweeper.forget();
                self.tables.iter_mut().for_each(|table| table.compact(self.mark));
            }
        }
    }

    /// Has the cold store hold everything that it can, as it is now. What is in memory stays there.
    pub(super) fn write_back(&mut self) {
        debug_assert!(!self.is_dirty(), "lists are cut between calls");
        let Some(below) = &mut self.below else { return };
        below.disown(&mut self.tables);
        for (state, table) in self.tables.iter_mut().enumerate() {
            for number in 0..table.slots.len() {
                // What can't lie there stays in memory anyway.
                below.copy(state, table, number as u32);
                if number % TOGETHER == TOGETHER - 1 {
                    below.commit();
                }
            }
            below.commit();
            if below.fault.is_some() {
                return;
            }
        }
    }
}

impl Below {
    fn evict(&mut self, tables: &mut [Table], now: i64) {
        let memory = |tables: &[Table]| tables.iter().map(Table::memory).sum::<usize>();
        // In one round it may be that everything was used, and more than two are of no use.
        let mut steps = 2 * tables.iter().map(|table| table.slots.len() + 1).sum::<usize>();
        let grown = memory(tables).saturating_sub(self.left);
        self.looks = (self.looks + LOOKS * grown.div_ceil(PER_SLOT)).min(steps);
        loop {
            self.left = memory(tables);
            if self.left <= self.bound || self.looks == 0 || steps == 0 {
                break;
            }
            steps -= 1;
            let (state, number) = self.hand;
            let table = &mut tables[state];
            if number < table.slots.len() {
                self.hand.1 += 1;
                // Slot numbers are u32.
                self.pass(state, table, number as u32, now);
            } else {
                self.hand = ((state + 1) % tables.len(), 0);
            }
        }
        self.commit();
    }

    /// Evicts a slot, if there is one and it can be.
    fn pass(&mut self, state: usize, table: &mut Table, number: u32, now: i64) {
        if table.slots[number as usize].is_free() {
            return;
        }
        self.looks -= 1;
        let slot = &mut table.slots[number as usize];
        let is_far = self.left > self.bound + self.bound / FAR;
        if slot.notes.take_used() && !is_far {
            return;
        }
        if slot.live && table.is_expired(number, now) {
            table.release_spent(number);
            self.disown_of(state, table);
        }
        if table.slots[number as usize].is_free() || !self.copy(state, table, number) {
            return;
        }
        let slot = &mut table.slots[number as usize];
        (slot.live, slot.written) = (false, 0);
        table.give_up(number);
    }

    /// Has the cold store hold what a slot does; false if it can't.
    fn copy(&mut self, state: usize, table: &mut Table, number: u32) -> bool {
        let slot = &table.slots[number as usize];
        // Of what is gone only a snapshot need hear that holds something of it.
        let is_needed = slot.live || (slot.written != 0 && slot.notes.is_stored());
        if slot.notes.is_same_below() || (!is_needed && !slot.notes.is_below()) {
            return true;
        }
        if !self.set_place(state, slot.group, slot.key()) {
            return false;
        }
        let is_listed = slot.written != 0 && slot.notes.is_listed();
        if is_needed {
            if slot.live && table.kind == StateKind::List {
                self.cut(table, number);
            }
            let facts = Facts::of(table, number);
            let slot = &mut table.slots[number as usize];
            facts.lay(slot.value(), &mut self.value);
            self.store.put(&self.place, &self.value);
            self.due += if slot.notes.is_below() { 0 } else { due_for(&self.value) };
            slot.notes.copied(slot.written == 0);
            self.filled = true;
            if slot.written != 0 && !is_listed {
                self.list(slot.written);
                slot.notes.set_listed();
            }
        } else {
            if is_listed {
                self.unlist(slot.written);
            }
            self.store.remove(&self.place);
            table.slots[number as usize].notes.gone_below();
        }
        true
    }

    /// Writes what the store was given.
    pub(super) fn commit(&mut self) {
        let committed = self.store.commit();
        self.settle(committed);
    }
}
