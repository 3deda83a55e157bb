//! [`ListState`]: a list per key. It is never held in the guest: appends are written in one go at the end of the call, reads come in
//! pages.

use std::marker::PhantomData;
use std::mem;

use super::{Declared, Handle, StateDescriptor};
use crate::codec::{EncodeAs, Value};
use crate::column::Column;
use crate::scope::Scope;

/// A list for each key, kept by the host. Its methods work on the current key's list. Appending never reads what is there.
#[derive(Debug)]
pub struct ListState<T> {
    scope: Scope,
    state: u32,
    name: &'static str,
    log: Log,
    /// How long the log was before the record of step `marked_at`.
    mark: Mark,
    marked_at: u64,
    element: PhantomData<fn() -> T>,
}

/// What is still to be told to the host, in order: elements to append, cut by other changes.
#[derive(Debug, Default)]
struct Log {
    keys: Vec<u32>,
    values: Column,
    cuts: Vec<Cut>,
}

/// A change of one key's list that is no append.
#[derive(Clone, Copy, Debug)]
struct Cut {
    key: u32,
    /// How many elements of the log come before it.
    at: usize,
    /// How many elements from there on are the key's new list; none: the list is removed.
    replaced_by: Option<usize>,
}

/// A length of the log.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    elements: usize,
    cuts: usize,
}

impl Log {
    fn len(&self) -> Mark {
        Mark { elements: self.keys.len(), cuts: self.cuts.len() }
    }

    fn truncate(&mut self, to: Mark) {
        self.keys.truncate(to.elements);
        self.values.truncate(to.elements);
        self.cuts.truncate(to.cuts);
    }

    /// Elements from `start` to `end` as a column of their own.
    fn part(&self, start: usize, end: usize) -> Column {
        let mut part = Column::new();
        (start..end).for_each(|index| part.push(self.values.get(index)));
        part
    }

    /// What follows `from`.
    fn split_off(&mut self, from: Mark) -> Log {
        let values = self.part(from.elements, self.keys.len());
        let cut = |cut: Cut| Cut { at: cut.at - from.elements, ..cut };
        let rest =
            Log { keys: self.keys.split_off(from.elements), values, cuts: self.cuts.split_off(from.cuts).into_iter().map(cut).collect() };
        self.values.truncate(from.elements);
        rest
    }

    /// Tells it all to the host, and empties it.
    fn send(&mut self, scope: &Scope, state: u32) {
        let host = scope.backend();
        let mut sent = 0;
        for cut in mem::take(&mut self.cuts) {
            if cut.at > sent {
                host.list_append(state, &self.keys[sent..cut.at], &self.part(sent, cut.at));
            }
            sent = cut.at + cut.replaced_by.unwrap_or(0);
            match cut.replaced_by {
                Some(_) => host.list_replace(state, cut.key, &self.part(cut.at, sent)),
                None => host.clear(state, &[cut.key]),
            }
        }
        if sent == 0 && !self.keys.is_empty() {
            // The usual case: appends only.
            host.list_append(state, &self.keys, &self.values);
        } else if sent < self.keys.len() {
            host.list_append(state, &self.keys[sent..], &self.part(sent, self.keys.len()));
        }
        self.truncate(Mark::default());
    }
}

impl<T: Value> ListState<T> {
    /// Notes how far the log was before the current record.
    #[inline]
    fn touch(&mut self) {
        let step = self.scope.current_step();
        if self.marked_at != step {
            assert!(self.scope.keys() > 0, "state `{}` was used where no key is current", self.name);
            self.marked_at = step;
            self.mark = self.log.len();
        }
    }

    /// Appends an element: a `T`, a reference to one, or what [`EncodeAs`] allows in its place.
    #[inline]
    pub fn push(&mut self, element: impl EncodeAs<T>) {
        self.touch();
        self.log.keys.push(self.scope.key());
        self.log.values.push_with(|bytes| element.encode_as(bytes));
    }

    /// Replaces the list by `elements`.
    pub fn replace<E: EncodeAs<T>>(&mut self, elements: impl IntoIterator<Item = E>) {
        self.touch();
        let (key, at) = (self.scope.key(), self.log.keys.len());
        elements.into_iter().for_each(|element| self.push(element));
        self.log.cuts.push(Cut { key, at, replaced_by: Some(self.log.keys.len() - at) });
    }

    /// Removes the list.
    pub fn clear(&mut self) {
        self.touch();
        self.log.cuts.push(Cut { key: self.scope.key(), at: self.log.keys.len(), replaced_by: None });
    }

    /// The elements in order of arrival, read from the host in pages as the iterator goes on.
    ///
    /// # Panics
    /// The iterator, if the host's bytes are no `T`: the type was changed, and the state's version with it should have been.
    pub fn iter(&mut self) -> ListIter<'_, T> {
        self.touch();
        // The host has to know what earlier records did. What the current one did stays here, where it can still be undone.
        let own = self.log.split_off(self.mark);
        self.log.send(&self.scope, self.state);
        self.log = own;
        self.mark = Mark::default();

        // All of it is of this key: a record has but one.
        let last_cut = self.log.cuts.last();
        let own = self.log.part(last_cut.map_or(0, |cut| cut.at), self.log.keys.len());
        ListIter { list: self, page: Column::new(), next: 0, read: 0, host_done: last_cut.is_some(), own }
    }
}

/// The elements of a list, in order.
#[derive(Debug)]
pub struct ListIter<'a, T> {
    list: &'a ListState<T>,
    /// Elements at hand, and the next of them.
    page: Column,
    next: usize,
    /// How many elements have been read from the host.
    read: u32,
    /// Whether the host has no more of them, or none that count.
    host_done: bool,
    /// What the current record has appended.
    own: Column,
}

impl<T: Value> Iterator for ListIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        while self.next == self.page.len() {
            self.next = 0;
            if self.host_done {
                self.page = mem::take(&mut self.own);
                if self.page.len() == 0 {
                    return None;
                }
                continue;
            }
            let ListState { scope, state, .. } = self.list;
            self.page = scope.backend().list_read(*state, scope.key(), self.read, super::PAGE);
            self.read += self.page.len() as u32;
            self.host_done = self.page.len() == 0;
        }
        let bytes = self.page.get(self.next);
        self.next += 1;
        match T::decode(bytes) {
            Ok(element) => Some(element),
            Err(error) => super::unreadable(self.list.name, &error),
        }
    }
}

impl<T: Value> Handle for ListState<T> {
    type Kept = T;

    fn describe(declared: Declared) -> StateDescriptor {
        declared.describe("list", T::schema())
    }

    fn attach(scope: &Scope, index: u32, declared: Declared) -> Self {
        let (log, mark) = (Log::default(), Mark::default());
        ListState { scope: scope.clone(), state: index, name: declared.name, log, mark, marked_at: 0, element: PhantomData }
    }

    #[inline]
    fn undo(&mut self) {
        if self.marked_at == self.scope.current_step() {
            self.log.truncate(self.mark);
        }
    }

    fn write_back(&mut self) {
        self.log.send(&self.scope, self.state);
    }

    fn forget(&mut self) {
        self.log.truncate(Mark::default());
    }
}
