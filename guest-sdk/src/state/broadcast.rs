//! [`BroadcastState`]: fields with a value each, equal on all subtasks. What was read stays in the instance: only broadcast records change
//! it, and they come to this instance too. What a call changes is written in one go when it ends.

use std::marker::PhantomData;
use std::mem;

use super::cache::found;
use super::journal::Journal;
use super::map_iter::{MapIter, Origin};
use super::overlay::Overlay;
use super::slot::Slot;
use super::{Declared, Handle, StateDescriptor};
use crate::codec::Value;
use crate::column::Column;
use crate::key::{AsKey, Key};
use crate::scope::Scope;

/// What the instance keeps from one call to the next: so many fields, in so many bytes. Beyond, it forgets all and reads again.
const KEPT_FIELDS: usize = 4096;
const KEPT_BYTES: usize = 4 << 20;

/// Every broadcast state has one map, as if it were of one key.
const ALL: u32 = 0;

/// A map that every subtask has, equal on all of them, from fields of type `F`, ordered as such, to values of type `T`. Every method can
/// read it, with or without a key at hand. It is changed by methods marked `#[input(broadcast)]` only, whose records every subtask gets, all
/// in the same order: so the copies stay equal if what such a method does depends on nothing but its records and this state. They differ,
/// too, if values hold a `HashMap` or a `HashSet`, whose order is another one on each subtask: use a `BTreeMap` or a `BTreeSet`. A checkpoint
/// fails, and the job with it, if the copies are not equal.
///
/// ```
/// use cofferdam_sdk::prelude::*;
/// use cofferdam_sdk::testing::{Harness, keyed, value};
///
/// /// Numbers, times the factor of their key.
/// #[operator(key = String)]
/// struct Scale {
///     factors: BroadcastState<String, i64>,
/// }
///
/// #[operator]
/// impl Scale {
///     #[input(broadcast)]
///     fn factors(&mut self, (key, factor): (String, i64)) -> Result<()> {
///         self.factors.insert(key, factor);
///         Ok(())
///     }
///
///     #[input]
///     fn numbers(&mut self, number: i64, meta: &Meta<String>, out: &mut Output<i64>) -> Result<()> {
///         out.emit(number * self.factors.get(meta.key()).unwrap_or(1));
///         Ok(())
///     }
/// }
///
/// # fn main() {
/// let mut scale = Harness::<Scale>::new();
/// scale.broadcast::<(String, i64)>("factors", [value(("b".to_owned(), 10))]).unwrap();
/// assert_eq!(scale.process([keyed("a", 1), keyed("b", 2)]).unwrap().values(), [1, 20]);
/// # }
/// ```
#[derive(Debug)]
pub struct BroadcastState<F, T> {
    scope: Scope,
    state: u32,
    name: &'static str,
    /// What the instance knows.
    known: Overlay<T>,
    /// Bytes of the fields and values that were read or written since it knew nothing: at least what it holds, encoded.
    bytes: usize,
    /// The entries whose slots the call has changed, each once. A record whose work was undone leaves none.
    changed: Vec<u32>,
    /// Slots as they were.
    journal: Journal<(u32, Slot<T>)>,
    /// The field at hand.
    field: Vec<u8>,
    /// The same as a column, for the host.
    column: Column,
    of: PhantomData<fn() -> F>,
}

impl<F: Key, T: Value> BroadcastState<F, T> {
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
        let entry = self.entry(field);
        if matches!(self.known.slot(entry), Slot::Unread) {
            self.column.clear();
            self.column.push(&self.field);
            let cells = self.scope.backend().broadcast_get(self.state, &self.column);
            self.bytes += self.field.len() + cells.values.bytes.len();
            *self.known.slot_mut(entry) = found(&cells, 0, self.name);
        }
        self.known.slot(entry).value()
    }

    /// Whether the field has a value.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn contains(&mut self, field: impl AsKey<F>) -> bool {
        self.get_ref(field).is_some()
    }

    /// Makes `value` the field's value, whatever it was.
    ///
    /// # Panics
    /// Anywhere but in a method that is marked `#[input(broadcast)]`.
    pub fn insert(&mut self, field: impl AsKey<F>, value: T) {
        let entry = self.entry(field);
        self.replace(entry, Slot::Changed(value));
    }

    /// Removes the field with its value, if it is there.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    pub fn remove(&mut self, field: impl AsKey<F>) {
        let entry = self.entry(field);
        self.replace(entry, Slot::Removed);
    }

    /// The fields in order, with their values, read from the host in pages as the iterator goes on.
    ///
    /// # Panics
    /// The iterator, if the host's bytes are no `F` or no `T`: see [`get`](Self::get).
    pub fn iter(&mut self) -> MapIter<'_, F, T>
    where
        T: Clone,
    {
        self.entries_from(Vec::new())
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
        self.entries_from(from)
    }

    fn entries_from(&self, from: Vec<u8>) -> MapIter<'_, F, T> {
        let origin = Origin {
            scope: &self.scope,
            state: self.state,
            name: self.name,
            scan: |scope, state, from, max_bytes| scope.backend().broadcast_scan(state, from, max_bytes),
        };
        // Of all else that is known, the host knows the same.
        MapIter::new(origin, &self.known, self.changed.clone(), from, true, super::PAGE)
    }

    /// What is known of a field.
    #[inline]
    fn entry(&mut self, field: impl AsKey<F>) -> u32 {
        self.field.clear();
        field.write_key(&mut self.field);
        if !self.known.has_key(ALL) {
            self.known.begin(1);
        }
        self.known.entry(ALL, &self.field)
    }

    /// Changes what is known of a field.
    fn replace(&mut self, entry: u32, new: Slot<T>) {
        assert!(
            self.scope.is_broadcast(),
            "broadcast state `{}` is changed by broadcast inputs only: else the subtasks' copies would come to differ",
            self.name
        );
        let old = mem::replace(self.known.slot_mut(entry), new);
        if !old.is_changed() {
            self.changed.push(entry);
        }
        self.journal.note(self.scope.current_step(), (entry, old));
    }

    /// Tells the host what the call has changed. From then on it is what the host has.
    fn send(&mut self) {
        let (mut put, mut values, mut removed) = (Column::new(), Column::new(), Column::new());
        for entry in self.changed.drain(..) {
            let sent = match mem::take(self.known.slot_mut(entry)) {
                Slot::Changed(value) => {
                    put.push(self.known.field(entry));
                    values.push_with(|bytes| value.encode(bytes));
                    Slot::Present(value)
                }
                _ => {
                    removed.push(self.known.field(entry));
                    Slot::Absent
                }
            };
            *self.known.slot_mut(entry) = sent;
        }
        let host = self.scope.backend();
        if put.len() > 0 {
            host.broadcast_put(self.state, &put, &values);
        }
        if removed.len() > 0 {
            host.broadcast_remove(self.state, &removed);
        }
        self.bytes += put.bytes.len() + values.bytes.len();
    }
}

impl<F: Key, T: Value> Handle for BroadcastState<F, T> {
    type Kept = T;

    fn describe(declared: Declared) -> StateDescriptor {
        declared.describe_fields("broadcast", F::key_schema(), T::schema())
    }

    fn attach(scope: &Scope, index: u32, declared: Declared) -> Self {
        BroadcastState {
            scope: scope.clone(),
            state: index,
            name: declared.name,
            known: Overlay::new(),
            bytes: 0,
            changed: Vec::new(),
            journal: Journal::new(),
            field: Vec::new(),
            column: Column::new(),
            of: PhantomData,
        }
    }

    fn undo(&mut self) {
        while let Some((entry, old)) = self.journal.pop(self.scope.current_step()) {
            if !old.is_changed() {
                // Changes are undone in turn, and this was the last entry that a change has put there.
                self.changed.pop();
            }
            *self.known.slot_mut(entry) = old;
        }
    }

    fn write_back(&mut self) {
        if !self.changed.is_empty() {
            self.send();
        }
        if self.known.len() > KEPT_FIELDS || self.bytes > KEPT_BYTES {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.known.forget();
        self.bytes = 0;
        self.changed.clear();
        self.journal.clear();
    }
}
