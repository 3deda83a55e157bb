//! [`MapIter`]: the fields of a map in order, of what the host has and what the call has changed.

use std::cmp::Ordering;
use std::marker::PhantomData;

use super::overlay::Overlay;
use super::slot::Slot;
use crate::codec::Value;
use crate::column::Column;
use crate::key::{Key, MaybeKey};
use crate::scope::Scope;

/// Where the host has the map.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    pub(super) scope: &'a Scope,
    pub(super) state: u32,
    pub(super) name: &'static str,
    /// A page of it: of a state, from a field on, of so many bytes.
    pub(super) scan: fn(&Scope, u32, &[u8], u32) -> (Column, Column),
}

/// The fields of a map, in order, with their values.
#[derive(Debug)]
pub struct MapIter<'a, F, T> {
    origin: Origin<'a>,
    overlay: &'a Overlay<T>,
    /// Entries of the host's that are at hand, and the next of them.
    fields: Column,
    values: Column,
    next: usize,
    /// Where the host's next page begins; none: it has no more, or none that count.
    from: Option<Vec<u8>>,
    page_bytes: u32,
    /// Entries that the call knows better, the last of them first.
    own: Vec<u32>,
    of: PhantomData<fn() -> F>,
}

impl<'a, F: Key, T: Value> MapIter<'a, F, T> {
    /// From a field on, of `own`, which are entries of the map that the call knows, and of what the host has if that counts.
    pub(super) fn new(
        origin: Origin<'a>,
        overlay: &'a Overlay<T>,
        mut own: Vec<u32>,
        from: Vec<u8>,
        host_counts: bool,
        page_bytes: u32,
    ) -> Self {
        own.retain(|entry| overlay.field(*entry) >= from.as_slice());
        own.sort_unstable_by(|a, b| overlay.field(*b).cmp(overlay.field(*a)));
        let from = host_counts.then_some(from);
        let (fields, values) = (Column::new(), Column::new());
        MapIter { origin, overlay, fields, values, next: 0, from, page_bytes, own, of: PhantomData }
    }

    /// Sees to it that the host's next entry is at hand; false if there is none.
    fn fetch(&mut self) -> bool {
        if self.next < self.fields.len() {
            return true;
        }
        let Some(from) = self.from.take() else { return false };
        let Origin { scope, state, scan, .. } = self.origin;
        (self.fields, self.values) = scan(scope, state, &from, self.page_bytes);
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
        let field = self.overlay.field(entry);
        if host_has {
            match field.cmp(self.fields.get(self.next)) {
                Ordering::Greater => return None,
                Ordering::Equal => self.next += 1,
                Ordering::Less => {}
            }
        }
        self.own.pop();
        Some((field, self.overlay.slot(entry)))
    }

    fn read<R>(&self, result: Result<R, crate::codec::Malformed>) -> R {
        match result {
            Ok(read) => read,
            Err(error) => super::unreadable(self.origin.name, &error),
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
