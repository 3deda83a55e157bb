//! [`MapState`]: fields with a value each, per key. What a call reads and writes of them is kept until it ends: each field is read from
//! the host at most once, and all changes are written in one go.

use std::marker::PhantomData;
use std::mem;

use super::cache::decoded;
use super::journal::Journal;
use super::map_iter::{MapIter, Origin};
use super::overlay::Overlay;
use super::slot::Slot;
use super::{Declared, Handle, StateDescriptor};
use crate::codec::Value;
use crate::column::Column;
use crate::key::{AsKey, Key};
use crate::scope::Scope;

/// A map for each key, kept by the host, from fields of type `F`, ordered as such, to values of type `T`. Its methods work on the
/// current key's map. The host keeps each field on its own: a map may have millions of them, and changing one costs the same.
///
/// ```
/// use cofferdam_sdk::prelude::*;
/// use cofferdam_sdk::testing::{Harness, keyed};
///
/// /// Counts the visits of each user to each page.
/// #[operator(key = String)]
/// struct Visits {
///     pages: MapState<String, u64>,
/// }
///
/// #[operator]
/// impl Visits {
///     #[input]
///     fn visit(&mut self, page: &str) -> Result<()> {
///         self.pages.update(page, |visits| *visits += 1);
///         Ok(())
///     }
///
///     #[finish]
///     fn report(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
///         for (page, visits) in self.pages.iter_from("/docs") {
///             out.emit(format_args!("{} saw {page} {visits} times", meta.key()));
///         }
///         Ok(())
///     }
/// }
///
/// # fn main() {
/// let mut visits = Harness::<Visits>::new();
/// visits.process(["/docs/b", "/about", "/docs/a", "/docs/b"].map(|page| keyed("ann", page))).unwrap();
/// assert_eq!(visits.finish().unwrap().values(), ["ann saw /docs/a 1 times", "ann saw /docs/b 2 times"]);
/// # }
/// ```
#[derive(Debug)]
pub struct MapState<F, T> {
    scope: Scope,
    state: u32,
    name: &'static str,
    /// What the call knows.
    overlay: Overlay<T>,
    journal: Journal<Step<T>>,
    /// The field at hand.
    field: Vec<u8>,
    of: PhantomData<fn() -> F>,
}

/// Something that a record has changed.
#[derive(Debug)]
enum Step<T> {
    /// An entry's slot was this.
    Slot(u32, Slot<T>),
    /// The current key's map was not cleared.
    Cleared,
}

impl<F: Key, T: Value> MapState<F, T> {
    /// The value of a field, if there is one. The field is an `F`, a reference to one, or what [`AsKey`] allows in its place.
    ///
    /// # Panics
    /// If the host's bytes are no `T`: the type was changed, and the state's version with it should have been.
    #[inline]
    pub fn get(&mut self, field: impl AsKey<F>) -> Option<T>
    where
        T: Clone,
    {
        self.get_ref(field).cloned()
    }

    /// The value of a field in place, if there is one; saves the copy that [`get`](Self::get) makes.
    ///
    /// # Panics
    /// As `get`.
    pub fn get_ref(&mut self, field: impl AsKey<F>) -> Option<&T> {
        self.take_field(field);
        self.read()
    }

    /// Whether the field has a value.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn contains(&mut self, field: impl AsKey<F>) -> bool {
        self.get_ref(field).is_some()
    }

    /// Makes `value` the field's value, whatever it was.
    pub fn insert(&mut self, field: impl AsKey<F>, value: T) {
        self.take_field(field);
        self.replace(Slot::Changed(value));
    }

    /// Changes the field's value in place, from the default on where there is none, and gives back what `change` does.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn update<R>(&mut self, field: impl AsKey<F>, change: impl FnOnce(&mut T) -> R) -> R
    where
        T: Default + Clone,
    {
        self.take_field(field);
        // What was there is kept for undoing, and its copy is what changes.
        let mut value = self.read().cloned().unwrap_or_default();
        let result = change(&mut value);
        self.replace(Slot::Changed(value));
        result
    }

    /// Removes the field with its value, if it is there.
    pub fn remove(&mut self, field: impl AsKey<F>) {
        self.take_field(field);
        self.replace(Slot::Removed);
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        let key = self.key();
        let record = self.scope.current_step();
        let entries: Vec<u32> = self.overlay.of_key(key).collect();
        for entry in entries {
            let old = mem::take(self.overlay.slot_mut(entry));
            self.journal.note(record, Step::Slot(entry, old));
        }
        if !self.overlay.is_cleared(key) {
            self.overlay.set_cleared(key, true);
            self.journal.note(record, Step::Cleared);
        }
    }

    /// Whether there are no fields.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn is_empty(&mut self) -> bool
    where
        T: Clone,
    {
        // A page has one entry, if there is one.
        self.entries_from(Vec::new(), 1).next().is_none()
    }

    /// The fields in order, with their values, read from the host in pages as the iterator goes on.
    ///
    /// # Panics
    /// The iterator, if the host's bytes are no `F` or no `T`: see [`get`](Self::get).
    pub fn iter(&mut self) -> MapIter<'_, F, T>
    where
        T: Clone,
    {
        self.entries_from(Vec::new(), super::PAGE)
    }

    /// As [`iter`](Self::iter), but begins with the first field that is not below `start`.
    ///
    /// # Panics
    /// As `iter`.
    pub fn iter_from(&mut self, start: impl AsKey<F>) -> MapIter<'_, F, T>
    where
        T: Clone,
    {
        let mut from = Vec::new();
        start.write_key(&mut from);
        self.entries_from(from, super::PAGE)
    }

    fn entries_from(&mut self, from: Vec<u8>, page_bytes: u32) -> MapIter<'_, F, T> {
        let key = self.key();
        let known = |entry: &u32| !matches!(self.overlay.slot(*entry), Slot::Unread);
        let own = self.overlay.of_key(key).filter(known).collect();
        let origin = Origin {
            scope: &self.scope,
            state: self.state,
            name: self.name,
            scan: |scope, state, from, max_bytes| scope.backend().map_scan(state, scope.key(), from, max_bytes),
        };
        MapIter::new(origin, &self.overlay, own, from, !self.overlay.is_cleared(key), page_bytes)
    }

    #[inline]
    fn take_field(&mut self, field: impl AsKey<F>) {
        self.field.clear();
        field.write_key(&mut self.field);
    }

    /// The current key.
    #[inline]
    fn key(&mut self) -> u32 {
        let key = self.scope.key();
        if !self.overlay.has_key(key) {
            self.begin();
        }
        key
    }

    /// The first use in a call.
    #[cold]
    #[inline(never)]
    fn begin(&mut self) {
        let keys = self.scope.keys() as usize;
        assert!(keys > 0, "state `{}` was used where no key is current", self.name);
        self.overlay.begin(keys);
    }

    /// The value of the field at hand, asked for if it is not known.
    fn read(&mut self) -> Option<&T> {
        let key = self.key();
        let entry = self.overlay.entry(key, &self.field);
        if matches!(self.overlay.slot(entry), Slot::Unread) && !self.overlay.is_cleared(key) {
            let value = self.scope.backend().map_get_one(self.state, key, &self.field);
            *self.overlay.slot_mut(entry) = value.map_or(Slot::Absent, |bytes| decoded(&bytes, self.name));
        }
        self.overlay.slot(entry).value()
    }

    /// Changes the slot of the field at hand.
    fn replace(&mut self, new: Slot<T>) {
        let key = self.key();
        let entry = self.overlay.entry(key, &self.field);
        let old = mem::replace(self.overlay.slot_mut(entry), new);
        self.journal.note(self.scope.current_step(), Step::Slot(entry, old));
    }
}

impl<F: Key, T: Value> Handle for MapState<F, T> {
    type Kept = T;

    fn describe(declared: Declared) -> StateDescriptor {
        declared.describe_fields("map", F::key_schema(), T::schema())
    }

    fn attach(scope: &Scope, index: u32, declared: Declared) -> Self {
        MapState {
            scope: scope.clone(),
            state: index,
            name: declared.name,
            overlay: Overlay::new(),
            journal: Journal::new(),
            field: Vec::new(),
            of: PhantomData,
        }
    }

    #[inline]
    fn undo(&mut self) {
        while let Some(step) = self.journal.pop(self.scope.current_step()) {
            match step {
                Step::Slot(entry, old) => *self.overlay.slot_mut(entry) = old,
                Step::Cleared => self.overlay.set_cleared(self.scope.key(), false),
            }
        }
    }

    fn write_back(&mut self) {
        let mut changes = Changes::default();
        changes.cleared.extend(self.overlay.cleared());
        self.overlay.iter().for_each(|(key, field, slot)| changes.take(key, field, slot, self.overlay.is_cleared(key)));
        changes.send(&self.scope, self.state);
        self.forget();
    }

    fn forget(&mut self) {
        self.overlay.forget();
        self.journal.clear();
    }
}

/// What the host is to be told at the end of a call.
#[derive(Default)]
struct Changes {
    cleared: Vec<u32>,
    put: Vec<u32>,
    put_fields: Column,
    values: Column,
    removed: Vec<u32>,
    removed_fields: Column,
}

impl Changes {
    fn take<T: Value>(&mut self, key: u32, field: &[u8], slot: &Slot<T>, cleared: bool) {
        match slot {
            Slot::Changed(value) => {
                self.put.push(key);
                self.put_fields.push(field);
                self.values.push_with(|bytes| value.encode(bytes));
            }
            Slot::Removed if !cleared => {
                self.removed.push(key);
                self.removed_fields.push(field);
            }
            _ => {}
        }
    }

    fn send(&self, scope: &Scope, state: u32) {
        let host = scope.backend();
        if !self.cleared.is_empty() {
            host.clear(state, &self.cleared);
        }
        if !self.put.is_empty() {
            host.map_put(state, &self.put, &self.put_fields, &self.values);
        }
        if !self.removed.is_empty() {
            host.map_remove(state, &self.removed, &self.removed_fields);
        }
    }
}
