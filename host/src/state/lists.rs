//! What [`KeyedState`] does with lists. Of a list with a time to live each element has its own: it begins with a stamp.

use std::borrow::Cow;
use std::ops::Range;

use super::KeyedState;
use super::below::PageEnd;
use super::keyed::{PER_VALUE, key_at};
use super::list;
use super::table::NONE;
use super::ttl;
use crate::plan::{Ttl, TtlFrom};
use crate::record::{Batch, Column, slice};

/// The most bytes that the list of one key may have: what a state file can hold as one entry.
pub const LONGEST_LIST: usize = 512 << 20;

/// A list would be too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListTooLong {
    /// The most bytes that it may have.
    pub most: u64,
}

impl KeyedState {
    /// Appends elements `within`: element i to the list of key `which[i]`.
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
        within: Range<usize>,
    ) -> Result<(), ListTooLong> {
        let stamp = self.stamp(state);
        let stamp = stamp.as_ref().map_or(&[][..], |stamp| stamp);
        for (index, &key) in within.clone().zip(&which[within]) {
            let number = self.slot_for(state, call, key);
            self.before_write(state, number);
            let (table, element) = (&self.tables[state], slice(value_ends, value_bytes, index));
            if table.length(number) + stamp.len() + element.len() > LONGEST_LIST {
                return Err(ListTooLong { most: LONGEST_LIST as u64 });
            }
            self.undo.extending(state, number, &table.slots[number as usize]);
            self.tables[state].change(number, |slot| {
                slot.live = true;
                list::push(&[stamp, element], |bytes| slot.extend_value(bytes));
            });
        }
        Ok(())
    }

    /// Replaces the whole list of one key. Without elements there is no list.
    ///
    /// # Errors
    /// If the list would have more than [`LONGEST_LIST`] bytes.
    pub fn list_replace(
        &mut self,
        state: usize,
        call: &Batch,
        key: u32,
        value_ends: &[u32],
        value_bytes: &[u8],
    ) -> Result<(), ListTooLong> {
        let slot = self.slot_for(state, call, key);
        let stamp = self.stamp(state);
        let stamp = stamp.as_ref().map_or(&[][..], |stamp| stamp);
        let mut framed = Vec::with_capacity(value_bytes.len() + (2 + stamp.len()) * value_ends.len());
        for index in 0..value_ends.len() {
            list::push(&[stamp, slice(value_ends, value_bytes, index)], |bytes| framed.extend_from_slice(bytes));
        }
        if framed.len() > LONGEST_LIST {
            return Err(ListTooLong { most: LONGEST_LIST as u64 });
        }
        self.replace(state, slot, !value_ends.is_empty(), None, &framed);
        Ok(())
    }

    /// Elements of one key's list from `start` on, as many as fit into `max_bytes` but at least one, appended to `out`.
    pub fn list_read(&mut self, state: usize, call: &Batch, key: u32, start: u32, max_bytes: u32, out: &mut Column) {
        let hashed = key_at(call, key);
        let number = self.look(state, hashed, hashed.0);
        if number == NONE || !self.tables[state].slots[number as usize].live {
            return;
        }
        let ttl = self.tables[state].ttl;
        let mut page = Page { start, room: max_bytes as usize, out, passed: 0, ttl, now: self.now, met_expired: false };
        if self.add_parts(state, number, &mut page) {
            page.add(self.tables[state].slots[number as usize].value());
        }
        let met_expired = page.met_expired;
        if ttl.is_some_and(|ttl| ttl.from == TtlFrom::Access) {
            self.touch_list(state, number);
        } else if met_expired {
            self.sweeper.note(state, number);
        }
    }

    /// Adds what lies in parts of a list to a page; false when that is full.
    fn add_parts(&mut self, state: usize, number: u32, page: &mut Page<'_>) -> bool {
        let table = &self.tables[state];
        let Some((parts, below)) = table.parts(number).zip(self.below.as_mut()) else { return true };
        let slot = &table.slots[number as usize];
        // Where the page before this one has ended there is no need to begin anew.
        let last = below.page.filter(|last| last.slot == (state, number) && last.passed <= page.start);
        let mut end = last.unwrap_or(PageEnd { slot: (state, number), from: 0, passed: 0 });
        page.passed = end.passed;
        let mut has_room = true;
        below.each_part_at(state, slot.group, slot.key(), parts, end.from, |part| {
            has_room = page.add(part);
            if has_room {
                (end.from, end.passed) = (end.from + part.len() as u32, page.passed);
            }
            has_room
        });
        below.page = Some(end);
        has_room
    }

    /// Stamps all elements of a list that was read, unless that has happened in this call. All of it is in memory then, until the call ends.
    fn touch_list(&mut self, state: usize, number: u32) {
        let KeyedState { tables, below, .. } = self;
        let table = &tables[state];
        let Some(ttl) = table.ttl else { return };
        let (stamp, slot) = (ttl::stamp(ttl, self.now), &table.slots[number as usize]);
        let value = match table.parts(number).zip(below.as_mut()) {
            Some((parts, below)) => Cow::Owned(below.join_at(state, slot.group, slot.key(), parts, 0, slot.value())),
            None => Cow::Borrowed(slot.value()),
        };
        let fresh = || list::elements(&value).filter_map(|element| Some((element, ttl::fresh(element, ttl, self.now)?)));
        if fresh().all(|(element, _)| element.starts_with(&stamp)) {
            return;
        }
        let mut framed = Vec::with_capacity(value.len());
        fresh().for_each(|(_, element)| list::push(&[&stamp, element], |bytes| framed.extend_from_slice(bytes)));
        self.taken += value.len() + PER_VALUE;
        self.replace(state, number, true, None, &framed);
    }
}

/// A page of a list: elements from one on, as many as fit, but at least one.
struct Page<'o> {
    start: u32,
    /// How many more bytes fit.
    room: usize,
    out: &'o mut Column,
    /// Elements that were passed, of those that have not expired.
    passed: u32,
    ttl: Option<Ttl>,
    now: i64,
    met_expired: bool,
}

impl Page<'_> {
    /// Adds elements of the list as they follow each other; false when there is no room for more.
    fn add(&mut self, framed: &[u8]) -> bool {
        for element in list::elements(framed) {
            let Some(element) = self.ttl.map_or(Some(element), |ttl| ttl::fresh(element, ttl, self.now)) else {
                self.met_expired = true;
                continue;
            };
            if self.passed >= self.start {
                // Even an empty one takes room for its end.
                let size = element.len().max(1);
                if size > self.room && !self.out.is_empty() {
                    return false;
                }
                self.room = self.room.saturating_sub(size);
                self.out.push(element);
            }
            self.passed += 1;
        }
        true
    }
}
