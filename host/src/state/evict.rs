//! Eviction: slots leave memory for the cold store when the tables have grown beyond their bound. Between calls a hand goes round over
//! all slots; one that was used since it last came by gets another round.

use super::KeyedState;
use super::below::Below;
use super::table::{Slot, Table};

/// Slots that evictions may look at for each one that has become able to leave.
pub(super) const LOOKS: usize = 8;

/// So many entries are written to the cold store at once when all of them are.
const TOGETHER: usize = 1024;

impl KeyedState {
    /// Moves entries out of memory if they take more than they may. To be called between calls, after a failed one too; nothing of it
    /// can be seen.
    pub fn evict(&mut self) {
        debug_assert!(!self.is_dirty(), "evictions fall between calls");
        if let Some(below) = &mut self.below
            && below.fault.is_none()
        {
            below.evict(&mut self.tables);
        }
    }

    /// Has the cold store hold everything that it can, as it is now. What is in memory stays there.
    pub(super) fn write_back(&mut self) {
        let Some(below) = &mut self.below else { return };
        for (state, table) in self.tables.iter_mut().enumerate() {
            for chunk in table.slots.chunks_mut(TOGETHER) {
                if below.fault.is_some() {
                    return;
                }
                for slot in chunk {
                    // What can't lie there stays in memory anyway.
                    below.copy(state, slot);
                }
                below.commit();
            }
        }
    }
}

impl Below {
    fn evict(&mut self, tables: &mut [Table]) {
        // In one round it may be that everything was used, and more than two are of no use.
        self.looks = self.looks.min(2 * tables.iter().map(|table| table.slots.len() + 1).sum::<usize>());
        while self.looks > 0 && tables.iter().map(Table::memory).sum::<usize>() > self.bound {
            self.looks -= 1;
            let (state, number) = self.hand;
            let table = &mut tables[state];
            if number < table.slots.len() {
                self.hand.1 += 1;
                self.pass(state, table, number);
            } else {
                self.hand = ((state + 1) % tables.len(), 0);
            }
        }
        self.commit();
    }

    /// Evicts a slot, if it can be.
    fn pass(&mut self, state: usize, table: &mut Table, number: usize) {
        let slot = &mut table.slots[number];
        let is_gone = !slot.live && !slot.notes.is_below();
        if slot.written != 0 || is_gone || (slot.live && slot.notes.take_used()) || !self.copy(state, slot) {
            return;
        }
        slot.live = false;
        // Slot numbers are u32.
        table.give_up(number as u32);
    }

    /// Has the cold store hold what a slot does; false if it can't.
    fn copy(&mut self, state: usize, slot: &mut Slot) -> bool {
        if slot.notes.is_same_below() || (!slot.live && !slot.notes.is_below()) {
            return true;
        }
        if !self.set_place(state, slot.group, slot.key()) {
            return false;
        }
        if slot.live {
            self.store.put(&self.place, slot.value());
            slot.notes.copied(slot.written == 0);
            self.filled = true;
        } else {
            self.store.remove(&self.place);
            slot.notes.gone_below();
        }
        true
    }

    /// Writes what the store was given.
    pub(super) fn commit(&mut self) {
        let committed = self.store.commit();
        self.settle(committed);
    }
}
