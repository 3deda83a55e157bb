//! What [`KeyedState`] does with lists. Of a list with a time to live each element has its own: it begins with a stamp.

use super::KeyedState;
use super::keyed::{PER_VALUE, key_at};
use super::list;
use super::table::NONE;
use super::ttl;
use crate::plan::TtlFrom;
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
    /// Appends element i to the list of key `which[i]`.
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
    ) -> Result<(), ListTooLong> {
        let stamp = self.stamp(state);
        let stamp = stamp.as_ref().map_or(&[][..], |stamp| stamp);
        for (index, &key) in which.iter().enumerate() {
            let number = self.slot_for(state, call, key);
            self.before_write(state, number);
            let slot = &mut self.tables[state].slots[number as usize];
            let element = slice(value_ends, value_bytes, index);
            if slot.value().len() + stamp.len() + element.len() > LONGEST_LIST {
                return Err(ListTooLong { most: LONGEST_LIST as u64 });
            }
            self.undo.extending(state, number, slot);
            self.tables[state].change(number, |slot| {
                slot.live = true;
                list::push(&[stamp, element], |bytes| slot.extend_value(bytes));
            });
        }
        Ok(())
    }

    /// Replaces the whole list of one key. Without elements there is no list.
    pub fn list_replace(&mut self, state: usize, call: &Batch, key: u32, value_ends: &[u32], value_bytes: &[u8]) {
        let slot = self.slot_for(state, call, key);
        let stamp = self.stamp(state);
        let stamp = stamp.as_ref().map_or(&[][..], |stamp| stamp);
        let mut framed = Vec::with_capacity(value_bytes.len() + (2 + stamp.len()) * value_ends.len());
        for index in 0..value_ends.len() {
            list::push(&[stamp, slice(value_ends, value_bytes, index)], |bytes| framed.extend_from_slice(bytes));
        }
        self.replace(state, slot, !value_ends.is_empty(), None, &framed);
    }

    /// Elements of one key's list from `start` on, as many as fit into `max_bytes` but at least one, appended to `out`.
    pub fn list_read(&mut self, state: usize, call: &Batch, key: u32, start: u32, max_bytes: u32, out: &mut Column) {
        let hashed = key_at(call, key);
        let number = self.look(state, hashed, hashed.0);
        if number == NONE {
            return;
        }
        let table = &self.tables[state];
        let slot = &table.slots[number as usize];
        if !slot.live {
            return;
        }
        let Some(ttl) = table.ttl else { return page(list::elements(slot.value()), start, max_bytes, out) };
        let mut met_expired = false;
        let mut fresh = |element| {
            let fresh = ttl::fresh(element, ttl, self.now);
            met_expired |= fresh.is_none();
            fresh
        };
        page(list::elements(slot.value()).filter_map(&mut fresh), start, max_bytes, out);
        if ttl.from == TtlFrom::Access {
            self.touch_list(state, number);
        } else if met_expired {
            self.sweeper.note(state, number);
        }
    }

    /// Stamps all elements of a list that was read, unless that has happened in this call.
    fn touch_list(&mut self, state: usize, number: u32) {
        let table = &self.tables[state];
        let Some(ttl) = table.ttl else { return };
        let stamp = ttl::stamp(ttl, self.now);
        let value = table.slots[number as usize].value();
        let fresh = || list::elements(value).filter_map(|element| Some((element, ttl::fresh(element, ttl, self.now)?)));
        if fresh().all(|(element, _)| element.starts_with(&stamp)) {
            return;
        }
        let mut framed = Vec::with_capacity(value.len());
        fresh().for_each(|(_, element)| list::push(&[&stamp, element], |bytes| framed.extend_from_slice(bytes)));
        self.taken += value.len() + PER_VALUE;
        self.replace(state, number, true, None, &framed);
    }
}

/// Elements from `start` on, as many as fit into `max_bytes`, but at least one.
fn page<'a>(elements: impl Iterator<Item = &'a [u8]>, start: u32, max_bytes: u32, out: &mut Column) {
    let mut room = max_bytes as usize;
    for element in elements.skip(start as usize) {
        // Even an empty one takes room for its end.
        let size = element.len().max(1);
        if size > room && !out.is_empty() {
            break;
        }
        room = room.saturating_sub(size);
        out.push(element);
    }
}
