//! [`MapState`]: fields with a value each, per key. What a call reads and writes of them is kept until it ends: each field is read from
//! the host at most once, and all changes are written in one go.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::mem;

use super::cache::found;
use super::map_iter::MapIter;
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
    pub(super) scope: Scope,
    pub(super) state: u32,
    pub(super) name: &'static str,
    /// One for each of the call's keys; empty until the first use in a call.
    pub(super) maps: Vec<Known<T>>,
    /// How to undo what the record of step `noted_at` has done.
    journal: Journal<T>,
    noted_at: u64,
    /// The field at hand.
    field: Vec<u8>,
    /// The same as a column, for the host.
    column: Column,
    of: PhantomData<fn() -> F>,
}

/// What is known of one key's map.
#[derive(Debug)]
pub(super) struct Known<T> {
    /// What the host has is to be removed, and counts no more.
    pub(super) cleared: bool,
    /// By field.
    pub(super) fields: Fields<T>,
}

/// By field, what is known of its value; nothing of what is not there.
pub(super) type Fields<T> = BTreeMap<Box<[u8]>, Slot<T>>;

impl<T> Default for Known<T> {
    fn default() -> Self {
        Known { cleared: false, fields: BTreeMap::new() }
    }
}

/// What the current record has changed, oldest first. All of it is of one key, the record's.
#[derive(Debug)]
struct Journal<T> {
    steps: Vec<Step<T>>,
    /// The fields of the steps, back to back.
    fields: Vec<u8>,
}

#[derive(Debug)]
enum Step<T> {
    /// A field's slot was this; the field is so long.
    Field(usize, Slot<T>),
    /// All was this.
    Map(Known<T>),
}

impl<T> Journal<T> {
    fn clear(&mut self) {
        self.steps.clear();
        self.fields.clear();
    }

    /// Undoes everything, newest first.
    fn play_back(&mut self, known: &mut Known<T>) {
        while let Some(step) = self.steps.pop() {
            match step {
                Step::Map(old) => *known = old,
                Step::Field(length, old) => {
                    let field = &self.fields[self.fields.len() - length..];
                    match (old, known.fields.get_mut(field)) {
                        (Slot::Unread, _) => drop(known.fields.remove(field)),
                        (old, Some(slot)) => *slot = old,
                        (old, None) => drop(known.fields.insert(field.into(), old)),
                    }
                    self.fields.truncate(self.fields.len() - length);
                }
            }
        }
    }
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
        let old = mem::replace(self.known(), Known { cleared: true, fields: BTreeMap::new() });
        self.begin_note();
        self.journal.steps.push(Step::Map(old));
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
        self.known();
        MapIter::new(self, from, page_bytes)
    }

    #[inline]
    fn take_field(&mut self, field: impl AsKey<F>) {
        self.field.clear();
        field.write_key(&mut self.field);
    }

    /// What is known of the current key's map.
    #[inline]
    fn known(&mut self) -> &mut Known<T> {
        let key = self.scope.key() as usize;
        if key >= self.maps.len() {
            self.make_maps();
        }
        &mut self.maps[key]
    }

    /// The first use in a call.
    #[cold]
    #[inline(never)]
    fn make_maps(&mut self) {
        let keys = self.scope.keys() as usize;
        assert!(keys > 0, "state `{}` was used where no key is current", self.name);
        self.maps.resize_with(keys, Known::default);
    }

    /// The value of the field at hand, asked for if it is not known.
    fn read(&mut self) -> Option<&T> {
        self.known();
        let key = self.scope.key();
        let Known { cleared, fields } = &mut self.maps[key as usize];
        if !*cleared && !fields.contains_key(self.field.as_slice()) {
            self.column.clear();
            self.column.push(&self.field);
            let cells = self.scope.backend().map_get(self.state, &[key], &self.column);
            fields.insert(self.field.as_slice().into(), found(&cells, 0, self.name));
        }
        fields.get(self.field.as_slice()).and_then(Slot::value)
    }

    /// Changes the slot of the field at hand.
    fn replace(&mut self, new: Slot<T>) {
        let key = self.scope.key() as usize;
        self.known();
        let fields = &mut self.maps[key].fields;
        let old = match fields.get_mut(self.field.as_slice()) {
            Some(slot) => mem::replace(slot, new),
            None => fields.insert(self.field.as_slice().into(), new).unwrap_or_default(),
        };
        self.begin_note();
        self.journal.fields.extend_from_slice(&self.field);
        self.journal.steps.push(Step::Field(self.field.len(), old));
    }

    /// To be called before something is noted in the journal: what it holds may be another record's.
    fn begin_note(&mut self) {
        let step = self.scope.current_step();
        if self.noted_at != step {
            self.noted_at = step;
            self.journal.clear();
        }
    }
}

impl<F: Key, T: Value> Handle for MapState<F, T> {
    fn describe(declared: Declared) -> StateDescriptor {
        declared.describe_map(F::key_schema(), T::schema())
    }

    fn attach(scope: &Scope, index: u32, declared: Declared) -> Self {
        MapState {
            scope: scope.clone(),
            state: index,
            name: declared.name,
            maps: Vec::new(),
            journal: Journal { steps: Vec::new(), fields: Vec::new() },
            noted_at: 0,
            field: Vec::new(),
            column: Column::new(),
            of: PhantomData,
        }
    }

    #[inline]
    fn undo(&mut self) {
        if self.noted_at == self.scope.current_step() {
            self.journal.play_back(&mut self.maps[self.scope.key() as usize]);
        }
    }

    fn write_back(&mut self) {
        let mut changes = Changes::default();
        for (key, known) in (0u32..).zip(self.maps.drain(..)) {
            changes.take(key, known);
        }
        changes.send(&self.scope, self.state);
        self.journal.clear();
    }

    fn forget(&mut self) {
        self.maps.clear();
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
    fn take<T: Value>(&mut self, key: u32, known: Known<T>) {
        if known.cleared {
            self.cleared.push(key);
        }
        for (field, slot) in known.fields {
            match slot {
                Slot::Changed(value) => {
                    self.put.push(key);
                    self.put_fields.push(&field);
                    self.values.push_with(|bytes| value.encode(bytes));
                }
                Slot::Removed if !known.cleared => {
                    self.removed.push(key);
                    self.removed_fields.push(&field);
                }
                _ => {}
            }
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
