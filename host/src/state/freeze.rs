//! The freeze at a barrier, and the slices that follow it.
//!
//! A barrier takes over the list of slots written since the one before: nothing is copied, so its cost does not depend on how much
//! state there is. The list is then serialised in slices between batches. A slot that is about to be written again before its turn is
//! serialised first (copy on write, where the copy is the snapshot itself), into the snapshot of the barrier it was written before.

use std::collections::VecDeque;

use super::change::{Change, ChangeKind, Changes};
use super::table::{Mark, Slot, Table};
use crate::plan::StateKind;

/// Snapshots whose lists are not yet serialised, oldest first.
#[derive(Debug, Default)]
pub(super) struct Freezer {
    frozen: VecDeque<Frozen>,
}

#[derive(Debug)]
struct Frozen {
    mark: Mark,
    /// For each table its list.
    lists: Vec<Vec<u32>>,
    /// How far the slices are: table, place in its list.
    at: (usize, usize),
    changes: Changes,
    /// Parts that became large while entries were saved; to be handed over first.
    full: Vec<Changes>,
}

/// Part of a snapshot.
#[derive(Debug)]
pub struct Slice {
    /// The changes in it.
    pub changes: Changes,
    /// Whether the snapshot is complete with it.
    pub last: bool,
}

/// A slice is handed over when it has this many bytes.
const SLICE_BYTES: usize = 256 << 10;

/// So many slots are looked at before the first of them has its turn, so that memory is waited for once and not for each of them.
const AHEAD: usize = 32;

/// A part to which a single call adds without end, by writing to many large entries, is closed at this many bytes.
const PART_BYTES: usize = 64 << 20;

impl Freezer {
    /// Takes over what was written before the barrier `mark`.
    pub(super) fn freeze(&mut self, mark: Mark, tables: &mut [Table]) {
        let lists = tables.iter_mut().map(|table| std::mem::take(&mut table.written)).collect();
        self.frozen.push_back(Frozen { mark, lists, at: (0, 0), changes: Changes::default(), full: Vec::new() });
    }

    /// Whether snapshots wait to be serialised.
    pub(super) fn is_empty(&self) -> bool {
        self.frozen.is_empty()
    }

    /// Serialises a slot that is in the list of a waiting snapshot and is about to change.
    #[inline(never)]
    pub(super) fn save(&mut self, state: usize, kind: StateKind, slot: &mut Slot) {
        // Marks of waiting snapshots are consecutive.
        let first = self.frozen.front().expect("a slot with an old mark is in a waiting snapshot").mark;
        let frozen = &mut self.frozen[(slot.written - first) as usize];
        serialize(state, kind, slot, &mut frozen.changes);
        if frozen.changes.bytes() >= PART_BYTES {
            frozen.full.push(std::mem::take(&mut frozen.changes));
        }
    }

    /// Serialises up to `entries` more slots of the oldest waiting snapshot. Returns a part of it when there is enough, or the rest.
    pub(super) fn advance(&mut self, mut entries: usize, tables: &mut [Table]) -> Option<Slice> {
        let frozen = self.frozen.front_mut()?;
        if let Some(changes) = frozen.full.pop() {
            return Some(Slice { changes, last: false });
        }
        while frozen.at.0 < frozen.lists.len() {
            let (state, from) = frozen.at;
            let list = &frozen.lists[state];
            let mut to = from;
            while to < list.len() && entries > 0 && frozen.changes.bytes() < SLICE_BYTES {
                let next = &list[to..list.len().min(to + AHEAD.min(entries))];
                let mut waits = [false; AHEAD];
                for (waits, &number) in waits.iter_mut().zip(next) {
                    *waits = tables[state].slots[number as usize].written == frozen.mark;
                }
                for (waits, &number) in waits.into_iter().zip(next) {
                    if frozen.changes.bytes() >= SLICE_BYTES {
                        break;
                    }
                    if waits {
                        pass(&mut tables[state], number, frozen.mark, state, &mut frozen.changes);
                    }
                    (to, entries) = (to + 1, entries - 1);
                }
            }
            frozen.at = if to == list.len() { (state + 1, 0) } else { (state, to) };
            if to < list.len() {
                break;
            }
        }
        let last = frozen.at.0 == frozen.lists.len();
        if !last && frozen.changes.bytes() < SLICE_BYTES {
            return None;
        }
        let changes = std::mem::take(&mut frozen.changes);
        if last {
            self.frozen.pop_front();
        }
        Some(Slice { changes, last })
    }
}

/// A slot's turn in the list of snapshot `mark`: serialised unless that has happened (it may be in the list twice), then clean; gone if
/// it was a deletion.
fn pass(table: &mut Table, number: u32, mark: Mark, state: usize, changes: &mut Changes) {
    let slot = &mut table.slots[number as usize];
    if slot.written != mark {
        return;
    }
    serialize(state, table.kind, slot, changes);
    slot.written = 0;
    if !slot.live {
        table.release(number);
    }
}

fn serialize(state: usize, kind: StateKind, slot: &mut Slot, changes: &mut Changes) {
    if !slot.live && !slot.notes.is_stored() {
        // It came and went between two barriers.
        return;
    }
    let (kind, value) = match (slot.live, kind) {
        (false, _) => (ChangeKind::Delete, &[][..]),
        (true, StateKind::List) if slot.saved > 0 => (ChangeKind::Append, &slot.value()[slot.saved as usize..]),
        (true, _) => (ChangeKind::Put, slot.value()),
    };
    // Descriptors have far fewer states than a u16 counts.
    changes.push(Change { group: slot.group, state: state as u16, kind, key: slot.key(), value });
    slot.notes.set_stored(slot.live);
    if slot.live {
        // Values come out of columns; lists have a limit of their own.
        slot.saved = slot.value().len() as u32;
    }
}
