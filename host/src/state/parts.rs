//! [`Parts`]: the beginning of a list that is too long to lie below as one entry. It lies there in parts, a few kilobytes each, that never
//! change; the entry of the list knows of them and holds the rest, its tail. So whoever appends reads and writes the tail only, however
//! long the list is, and whoever reads it needs no more of it in memory than a part.
//!
//! ```text
//! place of the list                                            facts, of its parts too, and its tail
//! place of the list, number of the list (u64), where (u64)     elements as they are framed
//! ```
//!
//! A list that is replaced or removed leaves its parts to be removed little by little. None that comes after it under the same key takes
//! them for its own, since it has another number.

use super::KeyedState;
use super::below::Below;
use super::cold::ColdFault;
use super::facts::Facts;
use super::list;
use super::sweep::due_for;
use super::table::Table;
use super::ttl;
use crate::plan::{StateKind, Ttl};

/// How many bytes make a part: a tail is shorter.
pub(super) const PART: usize = 4 << 10;

/// How many parts are removed at once.
const TOGETHER: usize = 32;

/// The beginning of a list, which lies below in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The number of the list.
    pub(super) list: u64,
    /// Where the first part stands. Places count bytes, from the first that there ever was.
    pub(super) start: u64,
    /// Bytes of all parts: a list has fewer than a u32 counts.
    pub(super) bytes: u32,
    /// With a time to live: when the youngest element of the first part was stamped.
    pub(super) first: i64,
    /// With a time to live: when the youngest element of all parts was stamped.
    pub(super) last: i64,
}

impl Parts {
    /// How many bytes they take where they are laid down.
    const LAID: usize = 36;

    /// Of a list that has none as yet.
    pub(super) fn none(list: u64) -> Self {
        Parts { list, start: 0, bytes: 0, first: i64::MIN, last: i64::MIN }
    }

    /// Lays them down.
    pub(super) fn lay(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.list.to_le_bytes());
        out.extend_from_slice(&self.start.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.last.to_le_bytes());
    }

    /// What was laid down, and what follows it.
    pub(super) fn split(laid: &[u8]) -> Option<(Self, &[u8])> {
        let (parts, rest) = laid.split_first_chunk::<{ Self::LAID }>()?;
        let (list, parts) = parts.split_first_chunk()?;
        let (start, parts) = parts.split_first_chunk()?;
        let (bytes, parts) = parts.split_first_chunk()?;
        let (first, parts) = parts.split_first_chunk()?;
        let (last, _) = parts.split_first_chunk()?;
        let (first, last) = (i64::from_le_bytes(*first), i64::from_le_bytes(*last));
        let (list, start, bytes) = (u64::from_le_bytes(*list), u64::from_le_bytes(*start), u32::from_le_bytes(*bytes));
        Some((Parts { list, start, bytes, first, last }, rest))
    }

    /// Makes parts of at least `most` bytes of what a tail begins with, for as long as that much is left; `put` gets them. What is in earlier
    /// snapshots, `saved` bytes of the tail, and what is not never stand in one. Returns how many bytes of the tail they have taken.
    pub(super) fn cut<'v, E>(
        &mut self,
        tail: &'v [u8],
        saved: usize,
        most: usize,
        mortal: bool,
        mut put: impl FnMut(u64, &'v [u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let (mut begun, mut rest) = (0, tail);
        while tail.len() - begun >= most
            && let Some((_, behind)) = list::split_first(rest)
        {
            rest = behind;
            let end = tail.len() - rest.len();
            if end != saved && end - begun < most {
                continue;
            }
            let part = &tail[begun..end];
            put(self.start + u64::from(self.bytes), part)?;
            let youngest = if mortal { youngest(part) } else { i64::MIN };
            self.first = if self.bytes == 0 { youngest } else { self.first };
            self.last = self.last.max(youngest);
            // Lists have a limit far below.
            self.bytes += part.len() as u32;
            begun = end;
        }
        Ok(begun)
    }
}

/// When the youngest of some elements was stamped.
fn youngest(framed: &[u8]) -> i64 {
    list::elements(framed).map(|element| ttl::split(element).0).max().unwrap_or(i64::MIN)
}

/// What the places of all parts of a list begin with.
pub(super) fn prefix(place: &[u8], list: u64) -> Vec<u8> {
    [place, &list.to_be_bytes()].concat()
}

/// Where a part lies.
pub(super) fn part_place(prefix: &[u8], at: u64) -> Vec<u8> {
    [prefix, &at.to_be_bytes()].concat()
}

impl Below {
    /// A number for a list with parts.
    pub(super) fn number_list(&mut self) -> u64 {
        self.lists += 1;
        self.lists
    }

    /// Moves what the list in a slot begins with to parts, if it is long. It lies at [`Below::place`], where the slot is about to be written.
    pub(super) fn cut(&mut self, table: &mut Table, number: u32) {
        let slot = &table.slots[number as usize];
        if slot.value().len() < self.part {
            return;
        }
        let mut parts = table.parts(number).unwrap_or_else(|| Parts::none(self.number_list()));
        let (prefix, saved) = (prefix(&self.place, parts.list), slot.saved.saturating_sub(parts.bytes) as usize);
        let (store, due) = (&mut self.store, &mut self.due);
        let cut = parts.cut(slot.value(), saved, self.part, table.ttl.is_some(), |at, part| {
            store.put(&part_place(&prefix, at), part);
            *due += due_for(part);
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(cut) = cut;
        table.change(number, |slot| slot.drop_front(cut));
        table.set_parts(number, (parts.bytes > 0).then_some(parts));
    }

    /// Shows the parts of the list at a place, from byte `from` of the list on, where one begins, until `visit` has seen enough and says
    /// false.
    pub(super) fn each_part(&mut self, place: &[u8], parts: Parts, from: u32, mut visit: impl FnMut(&[u8]) -> bool) {
        if self.fault.is_some() {
            return;
        }
        let (prefix, end) = (prefix(place, parts.list), parts.start + u64::from(parts.bytes));
        let mut next = parts.start + u64::from(from);
        let (mut seen_enough, mut whole) = (next == end, true);
        if !seen_enough {
            let read = self.store.range(&part_place(&prefix, next), &mut |place, part| {
                whole = place == part_place(&prefix, next);
                seen_enough = !whole || !visit(part);
                next += part.len() as u64;
                seen_enough |= next == end;
                !seen_enough
            });
            self.settle(read);
            if !whole || !seen_enough {
                self.settle(Err(ColdFault("part of a list is missing in the state on the local disk".into())));
            }
        }
    }

    /// The same of the list under a key.
    pub(super) fn each_part_at(&mut self, state: usize, group: u16, key: &[u8], parts: Parts, from: u32, visit: impl FnMut(&[u8]) -> bool) {
        self.set_place(state, group, key);
        let place = std::mem::take(&mut self.place);
        self.each_part(&place, parts, from, visit);
        self.place = place;
    }

    /// A list from byte `from` on, where a part begins; with its tail.
    pub(super) fn join(&mut self, place: &[u8], parts: Parts, from: u32, tail: &[u8]) -> Vec<u8> {
        let mut joined = Vec::with_capacity((parts.bytes - from) as usize + tail.len());
        self.each_part(place, parts, from, |part| {
            joined.extend_from_slice(part);
            true
        });
        joined.extend_from_slice(tail);
        joined
    }

    /// The same of the list under a key.
    pub(super) fn join_at(&mut self, state: usize, group: u16, key: &[u8], parts: Parts, from: u32, tail: &[u8]) -> Vec<u8> {
        self.set_place(state, group, key);
        let place = std::mem::take(&mut self.place);
        let joined = self.join(&place, parts, from, tail);
        self.place = place;
        joined
    }

    /// Removes some parts at the beginning of the list under a key of which nothing has not expired; what is left.
    pub(super) fn shed(&mut self, state: usize, group: u16, key: &[u8], parts: Parts, ttl: Ttl, now: i64) -> Option<Parts> {
        let (mut left, mut gone) = (parts, Vec::new());
        self.each_part_at(state, group, key, parts, 0, |part| {
            left.first = youngest(part);
            if gone.len() == TOGETHER || !ttl::is_past(left.first, ttl, now) {
                return false;
            }
            gone.push(left.start);
            left.start += part.len() as u64;
            left.bytes -= part.len() as u32;
            true
        });
        let prefix = prefix(&self.place, parts.list);
        gone.iter().for_each(|&at| self.store.remove(&part_place(&prefix, at)));
        self.commit();
        (left.bytes > 0).then_some(left)
    }

    /// Takes note of the lists that slots have lost: nobody needs their parts any more.
    pub(super) fn disown(&mut self, tables: &mut [Table]) {
        tables.iter_mut().enumerate().for_each(|(state, table)| self.disown_of(state, table));
    }

    /// The same of one state.
    pub(super) fn disown_of(&mut self, state: usize, table: &mut Table) {
        for (number, list) in std::mem::take(&mut table.lost) {
            let slot = &table.slots[number as usize];
            // What has parts has a place.
            self.set_place(state, slot.group, slot.key());
            self.disowned.push_back(Disowned::new(prefix(&self.place, list)));
        }
    }

    /// Removes some parts of lists that are no more, of the oldest first: the more lists wait, the more parts, so that they don't get ever
    /// more, however many each call loses.
    pub(super) fn clear_away(&mut self) {
        if self.disowned.is_empty() {
            return;
        }
        let (mut most, mut gone) = (TOGETHER.max(self.disowned.len()), Vec::new());
        while most > 0
            && self.fault.is_none()
            && let Some(Disowned { prefix, next }) = self.disowned.pop_front()
        {
            let before = gone.len();
            let read = self.store.range(&next, &mut |place, _| {
                let is_part = place.starts_with(&prefix);
                gone.extend(is_part.then(|| place.to_vec()));
                is_part && gone.len() - before < most
            });
            self.settle(read);
            let found = gone.len() - before;
            // To find out that there is nothing left costs as much.
            most -= found.max(1);
            if let (0, Some(next)) = (most, gone[before..].last()) {
                self.disowned.push_front(Disowned { prefix, next: next.clone() });
            }
        }
        gone.iter().for_each(|place| self.store.remove(place));
        self.commit();
    }
}

/// A list that is no more, of which parts are left.
#[derive(Debug)]
pub(super) struct Disowned {
    /// What the places of its parts begin with.
    prefix: Vec<u8>,
    /// None of them lies before this one: what was removed is not looked through again.
    next: Vec<u8>,
}

impl Disowned {
    pub(super) fn new(prefix: Vec<u8>) -> Self {
        Disowned { next: prefix.clone(), prefix }
    }
}

impl Facts {
    /// Whether nothing of an entry that lies below is left.
    pub(super) fn is_expired(&self, kind: StateKind, value: &[u8], ttl: Option<Ttl>, now: i64) -> bool {
        ttl.is_some_and(|ttl| self.parts.is_none_or(|parts| ttl::is_past(parts.last, ttl, now)) && ttl::is_expired(kind, value, ttl, now))
    }
}

impl KeyedState {
    /// Has all lists in memory whole.
    pub(super) fn join_lists(&mut self) {
        let KeyedState { tables, below: Some(below), .. } = self else { return };
        for (state, table) in tables.iter_mut().enumerate() {
            for (number, parts) in table.with_parts() {
                let slot = &table.slots[number as usize];
                let whole = below.join_at(state, slot.group, slot.key(), parts, 0, slot.value());
                table.slots[number as usize].notes.changing();
                table.change(number, |slot| slot.set_value(&whole));
                table.lose_parts(number);
            }
        }
    }
}
