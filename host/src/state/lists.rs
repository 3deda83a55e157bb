//! What [`KeyedState`] does with lists. Of a list with a time to live each element has its own: it begins with a stamp.

use std::borrow::Cow;
use std::ops::Range;

use super::KeyedState;
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
        let stamp = self.stamp(state);
        let stamp = stamp.as_ref().map_or(&[][..], |stamp| stamp);
        let mut framed = Vec::with_capacity(value_bytes.len() + (2 + stamp.len()) * value_ends.len());
        for index in 0..value_ends.len() {
            list::push(&[stamp, slice(value_ends, value_bytes, index)], |bytes| framed.extend_from_slice(bytes));
        }
        if framed.len() > LONGEST_LIST {
            return Err(ListTooLong { most: LONGEST_LIST as u64 });
        }
        let slot = self.slot_for(state, call, key);
        self.forget_page(state, slot);
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
        let (ttl, begin) = (self.tables[state].ttl, PageEnd { slot: (state, number), from: 0, passed: 0 });
        let before = self.page.filter(|end| end.slot == begin.slot);
        // Where the page before this one has ended there is no need to begin anew.
        let mut end = before.filter(|end| end.passed <= start).unwrap_or(begin);
        let mut page = Page { start, room: max_bytes as usize, out, passed: end.passed, ttl, now: self.now, met_expired: false };
        self.add_to_page(&mut page, &mut end);
        let met_expired = page.met_expired;
        if ttl.is_none_or(|ttl| ttl.from != TtlFrom::Access) {
            if met_expired {
                self.sweeper.note(state, number);
            }
        } else if before.is_none() {
            // All of it lies elsewhere afterwards, and later pages of it need no stamps.
            self.touch_list(state, number);
            end = begin;
        }
        self.page = Some(end);
    }

    /// Adds what follows the end of a page to the next one, until that is full, and moves the end.
    fn add_to_page(&mut self, page: &mut Page<'_>, end: &mut PageEnd) {
        let (state, number) = end.slot;
        let (table, mut has_room) = (&self.tables[state], true);
        let (slot, parts) = (&table.slots[number as usize], table.parts(number));
        let in_parts = parts.map_or(0, |parts| parts.bytes);
        if let Some((parts, below)) = parts.filter(|parts| end.from < parts.bytes).zip(self.below.as_mut()) {
            below.each_part_at(state, slot.group, slot.key(), parts, end.from, |part| {
                has_room = page.add(part) == part.len();
                if has_room {
                    end.pass(part.len(), page);
                }
                has_room
            });
        }
        if has_room {
            let rest = slot.value().get((end.from.saturating_sub(in_parts)) as usize..).unwrap_or_default();
            end.pass(page.add(rest), page);
        }
    }

    /// Stamps all elements of a list that was read. All of it is in memory then, until the call ends.
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

/// Where the last page of a list has ended that the call at hand has read, as long as the call does not replace the list. Elements that it
/// appends stand behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageEnd {
    /// The state and the slot of the list.
    pub(super) slot: (usize, u32),
    /// The byte of the list at which the next page begins; in parts of it, where the first part does that the page does not hold as a whole.
    from: u32,
    /// How many elements that have not expired lie before that byte.
    pub(super) passed: u32,
}

impl PageEnd {
    fn pass(&mut self, bytes: usize, page: &Page<'_>) {
        // Lists have a limit far below.
        (self.from, self.passed) = (self.from + bytes as u32, page.passed);
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
    /// Adds elements of the list as they follow each other, until there is no room for more. Returns how many bytes it has passed.
    fn add(&mut self, framed: &[u8]) -> usize {
        let mut rest = framed;
        while let Some((element, behind)) = list::split_first(rest) {
            match self.ttl.map_or(Some(element), |ttl| ttl::fresh(element, ttl, self.now)) {
                None => self.met_expired = true,
                Some(_) if self.passed < self.start => self.passed += 1,
                Some(element) => {
                    // Even an empty one takes room for its end.
                    let size = element.len().max(1);
                    if size > self.room && !self.out.is_empty() {
                        break;
                    }
                    self.room = self.room.saturating_sub(size);
                    self.out.push(element);
                    self.passed += 1;
                }
            }
            rest = behind;
        }
        framed.len() - rest.len()
    }
}
