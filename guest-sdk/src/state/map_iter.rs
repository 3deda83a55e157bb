//! [`MapIter`]: the fields of a map in order, of what the host has and what the call has changed.

use std::cmp::Ordering;

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
    /// Entries that the call knows better, the last of them first.
    own: Vec<u32>,
}

impl<'a, F: Key, T: Value> MapIter<'a, F, T> {
    /// From a field on. `map` knows of the current key.
    pub(super) fn new(map: &'a MapState<F, T>, from: Vec<u8>, page_bytes: u32) -> Self {
        let (overlay, key) = (&map.overlay, map.scope.key());
        let known = |entry: &u32| !matches!(overlay.slot(*entry), Slot::Unread) && overlay.field(*entry) >= from.as_slice();
        let mut own: Vec<u32> = overlay.of_key(key).filter(known).collect();
        own.sort_unstable_by(|a, b| overlay.field(*b).cmp(overlay.field(*a)));
        let from = Some(from).filter(|_| !overlay.is_cleared(key));
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
        let entry = *self.own.last()?;
        let field = self.map.overlay.field(entry);
        if host_has {
            match field.cmp(self.fields.get(self.next)) {
                Ordering::Greater => return None,
                Ordering::Equal => self.next += 1,
                Ordering::Less => {}
            }
        }
        self.own.pop();
        Some((field, self.map.overlay.slot(entry)))
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
