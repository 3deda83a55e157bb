//! [`MapIter`]: the fields of a map in order, of what the host has and what the call has changed.

use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;

use super::MapState;
use super::slot::Slot;
use crate::codec::Value;
use crate::column::Column;
use crate::key::{Key, MaybeKey};

/// The fields of a map, in order, with their values.
#[derive(Debug)]
pub struct MapIter<'a, F, T> {
    map: &'a MapState<F, T>,
    /// Entries of the host's that are at hand, and the next of them.
    fields: Column,
    values: Column,
    next: usize,
    /// Where the host's next page begins; none: it has no more, or none that count.
    from: Option<Vec<u8>>,
    page_bytes: u32,
    /// What the call knows better.
    own: Peekable<Range<'a, Box<[u8]>, Slot<T>>>,
}

impl<'a, F: Key, T: Value> MapIter<'a, F, T> {
    /// From a field on. `map` knows of the current key.
    pub(super) fn new(map: &'a MapState<F, T>, from: Vec<u8>, page_bytes: u32) -> Self {
        let known = &map.maps[map.scope.key() as usize];
        let own = known.fields.range::<[u8], _>((Bound::Included(from.as_slice()), Bound::Unbounded)).peekable();
        let from = Some(from).filter(|_| !known.cleared);
        MapIter { map, fields: Column::new(), values: Column::new(), next: 0, from, page_bytes, own }
    }

    /// Sees to it that the host's next entry is at hand; false if there is none.
    fn fetch(&mut self) -> bool {
        if self.next < self.fields.len() {
            return true;
        }
        let Some(from) = self.from.take() else { return false };
        let MapState { scope, state, .. } = self.map;
        (self.fields, self.values) = scope.backend().map_scan(*state, scope.key(), &from, self.page_bytes);
        self.next = 0;
        let Some(last) = self.fields.len().checked_sub(1) else { return false };
        // What comes right after the last field.
        let mut from = from;
        from.clear();
        from.extend_from_slice(self.fields.get(last));
        from.push(0);
        self.from = Some(from);
        true
    }

    /// Takes the next entry that the call knows itself, if it is not behind the host's next one; which goes, if it is of the same field.
    fn take_own(&mut self, host_has: bool) -> Option<(&'a [u8], &'a Slot<T>)> {
        let (field, _) = self.own.peek()?;
        if host_has {
            match field.as_ref().cmp(self.fields.get(self.next)) {
                std::cmp::Ordering::Greater => return None,
                std::cmp::Ordering::Equal => self.next += 1,
                std::cmp::Ordering::Less => {}
            }
        }
        self.own.next().map(|(field, slot)| (field.as_ref(), slot))
    }

    fn read<R>(&self, result: Result<R, crate::codec::Malformed>) -> R {
        match result {
            Ok(read) => read,
            Err(error) => super::unreadable(self.map.name, &error),
        }
    }
}

impl<F: Key, T: Value + Clone> Iterator for MapIter<'_, F, T> {
    type Item = (F, T);

    fn next(&mut self) -> Option<(F, T)> {
        loop {
            let host_has = self.fetch();
            if let Some((field, slot)) = self.take_own(host_has) {
                match slot.value() {
                    Some(value) => return Some((self.read(F::read(field)), value.clone())),
                    None => continue,
                }
            }
            if !host_has {
                return None;
            }
            let index = self.next;
            self.next += 1;
            let (field, value) = (F::read(self.fields.get(index)), T::decode(self.values.get(index)));
            return Some((self.read(field), self.read(value)));
        }
    }
}
