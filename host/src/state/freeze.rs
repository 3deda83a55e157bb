//! The freeze at a barrier, and the slices that follow it.
//!
//! A barrier takes over the list of slots written since the one before: nothing is copied, so its cost does not depend on how much
//! state there is. The list is then serialised in slices between batches. A slot that is about to be written again before its turn is
//! serialised first (copy on write, where the copy is the snapshot itself), into the snapshot of the barrier it was written before.
//! What has left memory before its turn follows after the list (`changed`).

use std::borrow::Cow;
use std::collections::VecDeque;

use super::below::Below;
use super::change::{Change, ChangeKind, Changes};
use super::facts::Facts;
use super::table::{Mark, Table};
use super::written::Written;
use crate::plan::StateKind;

/// Snapshots whose lists are not yet serialised, oldest first.
#[derive(Debug, Default)]
pub(super) struct Freezer {
    frozen: VecDeque<Frozen>,
}

#[derive(Debug)]
pub(super) struct Frozen {
    pub(super) mark: Mark,
    /// For each table what is left of its list.
    lists: Vec<Written>,
    /// How far the slices are: table, place in the first piece of its list.
    at: (usize, usize),
    pub(super) changes: Changes,
    /// Parts that became large while entries were saved; to be handed over first.
    full: Vec<Changes>,
    /// Whether changes have been moved below that were not met there.
    pub(super) spilled: bool,
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
pub(super) const SLICE_BYTES: usize = 256 << 10;

/// How many slots are looked at before the first of them has its turn, so that memory is waited for once and not for each of them.
const AHEAD: usize = 32;

/// A part to which calls add faster than it is handed over, by writing to large entries, is closed at this many bytes, beyond which it would
/// take long to grow.
const PART_BYTES: usize = 4 << 20;

impl Freezer {
    /// Takes over what was written before the barrier `mark`.
    pub(super) fn freeze(&mut self, mark: Mark, tables: &mut [Table]) {
        let lists = tables.iter_mut().map(|table| std::mem::take(&mut table.written)).collect();
        let (changes, full) = (Changes::default(), Vec::new());
        self.frozen.push_back(Frozen { mark, lists, at: (0, 0), changes, full, spilled: false });
    }

    /// Whether snapshots wait to be serialised.
    pub(super) fn is_empty(&self) -> bool {
        self.frozen.is_empty()
    }

    /// Serialises a slot that is in the list of a waiting snapshot and is about to change.
    #[inline(never)]
    pub(super) fn save(&mut self, state: usize, table: &mut Table, number: u32, below: Option<&mut Below>) {
        // Marks of waiting snapshots are consecutive.
        let first = self.frozen.front().expect("a slot with an old mark is in a waiting snapshot").mark;
        let frozen = &mut self.frozen[(table.slots[number as usize].written - first) as usize];
        serialize(state, table, number, below, &mut frozen.changes);
        if frozen.changes.bytes() >= PART_BYTES {
            frozen.full.push(std::mem::take(&mut frozen.changes));
        }
    }

    /// Bytes of memory that hold what was saved.
    pub(super) fn held(&self) -> usize {
        self.frozen.iter().flat_map(|frozen| frozen.full.iter().chain([&frozen.changes])).map(Changes::memory).sum()
    }

    /// Moves what was saved elsewhere; `take` gets each change with the snapshot's mark, and says false if that one has to stay.
    pub(super) fn spill(&mut self, mut take: impl FnMut(Mark, Change<'_>) -> bool) {
        for frozen in &mut self.frozen {
            let mut stays = Changes::default();
            for part in std::mem::take(&mut frozen.full).into_iter().chain([std::mem::take(&mut frozen.changes)]) {
                part.iter().filter(|change| !take(frozen.mark, *change)).for_each(|change| stays.push(change));
                frozen.spilled = true;
            }
            frozen.changes = stays;
        }
    }

    /// Serialises up to `entries` more entries of the oldest waiting snapshot. Returns a part of it when there is enough, or the rest.
    pub(super) fn advance(&mut self, entries: usize, tables: &mut [Table], mut below: Option<&mut Below>) -> Option<Slice> {
        let frozen = self.frozen.front_mut()?;
        if let Some(changes) = frozen.full.pop() {
            return Some(Slice { changes, last: false });
        }
        let left = frozen.pass_slots(entries, tables, below.as_deref_mut());
        let mut last = frozen.at.0 == frozen.lists.len();
        if let (true, Some(below)) = (last, below) {
            last = below.hand_over(frozen, left, tables);
        }
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

impl Frozen {
    /// Serialises up to `entries` more slots; returns how many fewer they were.
    fn pass_slots(&mut self, mut entries: usize, tables: &mut [Table], mut below: Option<&mut Below>) -> usize {
        while let (state, from) = self.at
            && let Some(list) = self.lists.get_mut(state)
        {
            let Some(piece) = list.first() else {
                self.at = (state + 1, 0);
                continue;
            };
            if from == piece.len() {
                list.give_back();
                self.at = (state, 0);
                continue;
            }
            if entries == 0 || self.changes.bytes() >= SLICE_BYTES {
                break;
            }
            let next = &piece[from..piece.len().min(from + AHEAD.min(entries))];
            let mut waits = [false; AHEAD];
            for (waits, &number) in waits.iter_mut().zip(next) {
                *waits = tables[state].slots[number as usize].written == self.mark;
            }
            for (waits, &number) in waits.into_iter().zip(next) {
                if self.changes.bytes() >= SLICE_BYTES {
                    break;
                }
                if waits {
                    pass(&mut tables[state], number, self.mark, state, below.as_deref_mut(), &mut self.changes);
                }
                (self.at.1, entries) = (self.at.1 + 1, entries - 1);
            }
        }
        entries
    }
}

/// A slot's turn in the list of snapshot `mark`: serialised unless that has happened (it may be in the list twice), then clean; gone if
/// it was a deletion.
pub(super) fn pass(table: &mut Table, number: u32, mark: Mark, state: usize, below: Option<&mut Below>, changes: &mut Changes) {
    if table.slots[number as usize].written != mark {
        return;
    }
    serialize(state, table, number, below, changes);
    let slot = &mut table.slots[number as usize];
    slot.written = 0;
    if !slot.live {
        table.release(number);
    }
}

fn serialize(state: usize, table: &mut Table, number: u32, below: Option<&mut Below>, changes: &mut Changes) {
    let (facts, slot) = (Facts::of(table, number), &table.slots[number as usize]);
    let join = |from, tail: &[u8]| {
        let (below, parts) = below.zip(facts.parts).expect("parts lie below");
        below.join_at(state, slot.group, slot.key(), parts, from, tail)
    };
    let Some((kind, value)) = change_of(table.kind, facts, slot.value(), join) else { return };
    // Descriptors have far fewer states than a u16 counts.
    changes.push(Change { group: slot.group, state: state as u16, kind, key: slot.key(), value: &value });
    // Values come out of columns; lists have a limit of their own.
    let length = table.length(number) as u32;
    let slot = &mut table.slots[number as usize];
    slot.notes.set_stored(slot.live);
    if slot.live {
        slot.saved = length;
    }
}

/// What a snapshot is to say of an entry; none if it came and went between two barriers. `join` gets what of a list lies in parts, from a
/// byte on, and its tail behind it.
#[inline]
pub(super) fn change_of<'v>(
    kind: StateKind,
    facts: Facts,
    value: &'v [u8],
    join: impl FnOnce(u32, &[u8]) -> Vec<u8>,
) -> Option<(ChangeKind, Cow<'v, [u8]>)> {
    if !facts.live {
        return facts.stored.then_some((ChangeKind::Delete, Cow::default()));
    }
    let is_appended = kind == StateKind::List && facts.saved > 0;
    let (kind, from) = if is_appended { (ChangeKind::Append, facts.saved) } else { (ChangeKind::Put, 0) };
    let in_parts = facts.parts.map_or(0, |parts| parts.bytes);
    if from < in_parts {
        return Some((kind, join(from, value).into()));
    }
    Some((kind, value.get((from - in_parts) as usize..).unwrap_or_default().into()))
}
