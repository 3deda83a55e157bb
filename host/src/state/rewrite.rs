//! Rewriting all values of a state at a restore or a swap, when another version of the operator has written them: column by column, in
//! place.

use super::lists::{LONGEST_LIST, ListTooLong};
use super::table::Table;
use super::ttl::{self, STAMP};
use super::written::Written;
use super::{KeyedState, SubtaskState, list};
use crate::plan::StateKind;
use crate::record::Column;

/// Whoever rewrites gets values of about this many bytes at once.
const COLUMN: usize = 64 << 10;
/// What a list of operator state stays below, in bytes: it is a column.
const LONGEST_COLUMN: usize = 4 << 30;
/// What a value counts besides its bytes.
const PER_VALUE: usize = 4;

/// Values that can't be rewritten.
#[derive(Debug)]
pub struct Unwritten<V, E> {
    /// The one to blame, if one is: its place in a column, or its key.
    pub value: Option<V>,
    /// Why.
    pub cause: E,
}

/// Values on their way to whoever rewrites them, with the slots to which they belong and the stamps that they keep.
#[derive(Default)]
struct Queue {
    values: Column,
    slots: Vec<u32>,
    stamps: Vec<u8>,
}

impl KeyedState {
    /// How many values of a state there are to be rewritten, those that have expired among them.
    pub fn values(&self, state: usize) -> u64 {
        let table = &self.tables[state];
        let live = table.slots.iter().filter(|slot| slot.live);
        match table.kind {
            StateKind::List => live.map(|slot| list::elements(slot.value()).count() as u64).sum(),
            _ => live.count() as u64,
        }
    }

    /// Rewrites all values of a state: `rewrite` makes of a column of old values one of as many new ones. Of a list these are its
    /// elements, of a map the values of its fields. Stamps are kept; what has expired at the time `now` is removed. Returns how many
    /// values there were. All of it must be in memory (see [`KeyedState::take_in_all`]).
    ///
    /// # Errors
    /// What `rewrite` says, with the key of the value that is to blame. Some values are rewritten then and some are not.
    pub fn rewrite<E: From<ListTooLong>>(
        &mut self,
        state: usize,
        now: i64,
        rewrite: &mut impl FnMut(&Column) -> Result<Column, Unwritten<usize, E>>,
    ) -> Result<u64, Unwritten<Vec<u8>, E>> {
        let mut queue = Queue::default();
        let mut count = 0;
        // Slot numbers are u32.
        for number in 0..self.tables[state].slots.len() as u32 {
            let Some(kept) = take_value(&mut self.tables[state], number, now) else { continue };
            let table = &self.tables[state];
            let (is_list, ttl) = (table.kind == StateKind::List, table.ttl);
            let elements = if is_list { list::elements(&kept).collect() } else { vec![kept.as_slice()] };
            for element in elements.into_iter().filter(|element| ttl.is_none_or(|ttl| ttl::fresh(element, ttl, now).is_some())) {
                let (stamp, value) = element.split_at(if ttl.is_some() { STAMP } else { 0 });
                queue.values.push(value);
                queue.slots.push(number);
                queue.stamps.extend_from_slice(stamp);
                count += 1;
                if is_full(&queue.values) {
                    self.rewrite_queue(state, &mut queue, rewrite)?;
                }
            }
        }
        self.rewrite_queue(state, &mut queue, rewrite)?;
        Ok(count)
    }

    /// Rewrites what is in the queue, and appends it to the slots, which have been emptied.
    fn rewrite_queue<E: From<ListTooLong>>(
        &mut self,
        state: usize,
        queue: &mut Queue,
        rewrite: &mut impl FnMut(&Column) -> Result<Column, Unwritten<usize, E>>,
    ) -> Result<(), Unwritten<Vec<u8>, E>> {
        if queue.values.is_empty() {
            return Ok(());
        }
        // A descriptor has far fewer states than a u16 counts.
        let key = |this: &Self, index: usize| queue.slots.get(index).map(|&slot| this.key((state as u16, slot)).0.into_owned());
        let new = rewrite(&queue.values);
        let new = new.map_err(|Unwritten { value, cause }| Unwritten { value: value.and_then(|index| key(self, index)), cause })?;
        let stamp = queue.stamps.len() / queue.slots.len();
        for (index, value) in new.iter().enumerate().take(queue.slots.len()) {
            let stamp = &queue.stamps[index * stamp..][..stamp];
            let (table, number) = (&mut self.tables[state], queue.slots[index]);
            if table.kind != StateKind::List {
                table.change(number, |slot| [stamp, value].into_iter().for_each(|part| slot.extend_value(part)));
                continue;
            }
            if table.slots[number as usize].value().len() + stamp.len() + value.len() > LONGEST_LIST {
                return Err(Unwritten { value: key(self, index), cause: ListTooLong { most: LONGEST_LIST as u64 }.into() });
            }
            table.change(number, |slot| list::push(&[stamp, value], |bytes| slot.extend_value(bytes)));
        }
        queue.values.clear();
        queue.slots.clear();
        queue.stamps.clear();
        Ok(())
    }

    /// Nothing of it counts as saved any more. All of it is in memory, and what lies below is no longer the same.
    fn save_anew(&mut self) {
        debug_assert!(!self.is_freezing(), "what waits would be forgotten");
        for table in &mut self.tables {
            table.written = Written::default();
            for (number, slot) in (0u32..).zip(&mut table.slots).filter(|(_, slot)| slot.live) {
                (slot.written, slot.saved) = (self.mark, 0);
                slot.notes.set_stored(false);
                slot.notes.changing();
                table.written.push(number);
            }
        }
    }
}

/// Takes the value out of a slot; none if there is none. What has expired is given up.
fn take_value(table: &mut Table, number: u32, now: i64) -> Option<Vec<u8>> {
    let slot = &mut table.slots[number as usize];
    if !slot.live {
        return None;
    }
    if table.ttl.is_some_and(|ttl| ttl::is_expired(table.kind, slot.value(), ttl, now)) {
        slot.live = false;
        table.release(number);
        return None;
    }
    let value = slot.value().to_vec();
    table.change(number, |slot| slot.set_value(&[]));
    Some(value)
}

/// Rewrites values of operator state, as [`KeyedState::rewrite`] does. `keep` gets the new ones, in the order of the old ones. Returns
/// how many there were.
///
/// # Errors
/// What `rewrite` and `keep` say, with the place of the value that is to blame.
pub(super) fn rewrite_each<'v, E>(
    values: impl Iterator<Item = &'v [u8]>,
    rewrite: &mut impl FnMut(&Column) -> Result<Column, Unwritten<usize, E>>,
    mut keep: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<u64, Unwritten<usize, E>> {
    let (mut values, mut part, mut done) = (values.peekable(), Column::default(), 0);
    while let Some(value) = values.next() {
        part.push(value);
        if is_full(&part) || values.peek().is_none() {
            let new = rewrite(&part);
            let new = new.map_err(|Unwritten { value, cause }| Unwritten { value: value.map(|value| done + value), cause })?;
            for value in new.iter() {
                keep(value).map_err(|cause| Unwritten { value: Some(done), cause })?;
                done += 1;
            }
            part.clear();
        }
    }
    Ok(done as u64)
}

/// Rewrites the elements of a list of operator state, as [`rewrite_each`] does.
///
/// # Errors
/// What `rewrite` says, with the place of the element that is to blame; if the list becomes too long, that of the first without room.
pub fn rewrite_elements<E: From<ListTooLong>>(
    elements: &Column,
    rewrite: &mut impl FnMut(&Column) -> Result<Column, Unwritten<usize, E>>,
) -> Result<Column, Unwritten<usize, E>> {
    let mut new = Column::default();
    let keep = |element: &[u8]| {
        if new.bytes.len() + element.len() >= LONGEST_COLUMN {
            return Err(ListTooLong { most: LONGEST_COLUMN as u64 }.into());
        }
        new.push(element);
        Ok(())
    };
    rewrite_each(elements.iter(), rewrite, keep)?;
    Ok(new)
}

fn is_full(values: &Column) -> bool {
    values.bytes.len() + PER_VALUE * values.len() >= COLUMN
}

impl SubtaskState {
    /// Nothing of it counts as saved any more: the next snapshot holds all of it, and needs nothing of those before. Only while no
    /// frozen snapshot waits to be serialised.
    pub fn save_anew(&mut self) {
        self.keyed.save_anew();
        self.operator.save_anew();
    }
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
