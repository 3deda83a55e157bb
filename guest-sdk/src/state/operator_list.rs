//! [`OperatorListState`] and [`UnionListState`]: lists that belong to a subtask and not to a key. Short ones: they are held in the guest
//! and written as a whole.

use std::mem;

use super::{Declared, Handle, StateDescriptor};
use crate::codec::Value;
use crate::column::Column;
use crate::scope::Scope;

/// A list of the subtask, kept by the host. It is there in every method, `open` and `snapshot` included. When the job goes on with
/// another number of subtasks, the elements of all are spread over them evenly, each element once.
///
/// Each call that changes it writes it as a whole, so it is for few elements: counters, positions, what is still to be done.
#[derive(Debug)]
pub struct OperatorListState<T>(List<T>);

/// A list of the subtask, kept by the host, of which at a restart every subtask sees the elements of all. Then each decides what it makes
/// its own: with [`replace`](Self::replace) it says what is its own from then on. Until it does, it keeps what it had.
///
/// Each call that changes it writes it as a whole, so it is for few elements.
#[derive(Debug)]
pub struct UnionListState<T>(List<T>);

impl<T: Value> OperatorListState<T> {
    /// The elements.
    ///
    /// # Panics
    /// If the host's bytes are no `T`: the type was changed, and the state's version with it should have been.
    pub fn get(&mut self) -> &[T] {
        self.0.load()
    }

    /// Appends an element.
    ///
    /// # Panics
    /// As `get`.
    pub fn push(&mut self, element: T) {
        self.0.push(element);
    }

    /// Replaces the list by `elements`.
    pub fn replace(&mut self, elements: impl IntoIterator<Item = T>) {
        self.0.replace(elements.into_iter().collect());
    }

    /// Changes the list in place, and gives back what `change` does. Copies the list once for each record, to be able to undo.
    ///
    /// # Panics
    /// As `get`.
    pub fn update<R>(&mut self, change: impl FnOnce(&mut Vec<T>) -> R) -> R
    where
        T: Clone,
    {
        let mut elements = self.0.load().to_vec();
        let result = change(&mut elements);
        self.0.replace(elements);
        result
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.0.replace(Vec::new());
    }
}

impl<T: Value> UnionListState<T> {
    /// After a restart the elements of all subtasks, in order of subtask, until this one replaces them; then its own.
    ///
    /// # Panics
    /// If the host's bytes are no `T`: the type was changed, and the state's version with it should have been.
    pub fn get(&mut self) -> &[T] {
        self.0.load()
    }

    /// Replaces what this subtask has by `elements`: what every subtask sees of it at the next restart. Without those of others, or
    /// they are there several times then.
    pub fn replace(&mut self, elements: impl IntoIterator<Item = T>) {
        self.0.replace(elements.into_iter().collect());
    }

    /// Removes what this subtask has.
    pub fn clear(&mut self) {
        self.0.replace(Vec::new());
    }
}

/// What both have in common.
#[derive(Debug)]
struct List<T> {
    scope: Scope,
    state: u32,
    name: &'static str,
    /// The elements, once they were read or replaced. They stay from call to call: nobody else writes them.
    elements: Option<Vec<T>>,
    /// Whether the host does not have them yet.
    changed: bool,
    /// As it was before the record of step `saved_at`.
    saved: Saved<T>,
    saved_changed: bool,
    saved_at: u64,
    column: Column,
}

/// How to undo what a record has done.
#[derive(Debug)]
enum Saved<T> {
    /// The record has only appended, to this many elements.
    Length(usize),
    /// The elements that were there before; none: they had not been read yet.
    Elements(Option<Vec<T>>),
}

impl<T: Value> List<T> {
    fn new(scope: &Scope, state: u32, name: &'static str) -> Self {
        List {
            scope: scope.clone(),
            state,
            name,
            elements: None,
            changed: false,
            saved: Saved::Length(0),
            saved_changed: false,
            saved_at: 0,
            column: Column::new(),
        }
    }

    fn load(&mut self) -> &mut Vec<T> {
        let List { scope, state, name, elements, .. } = self;
        elements.get_or_insert_with(|| {
            let column = scope.backend().operator_list_get(*state);
            let decode = |index| T::decode(column.get(index)).unwrap_or_else(|error| super::unreadable(name, &error));
            (0..column.len()).map(decode).collect()
        })
    }

    fn push(&mut self, element: T) {
        let length = self.load().len();
        if self.is_first_of_record() {
            self.saved = Saved::Length(length);
        }
        self.load().push(element);
        self.changed = true;
    }

    fn replace(&mut self, elements: Vec<T>) {
        let first = self.is_first_of_record();
        let mut old = self.elements.replace(elements);
        if first {
            self.saved = Saved::Elements(old);
        } else if let (Saved::Length(length), Some(old_elements)) = (&self.saved, &mut old) {
            old_elements.truncate(*length);
            self.saved = Saved::Elements(old);
        }
        self.changed = true;
    }

    /// Whether the record at hand has not changed the list yet; notes that it does now.
    fn is_first_of_record(&mut self) -> bool {
        let step = self.scope.current_step();
        let first = self.saved_at != step;
        if first {
            self.saved_at = step;
            self.saved_changed = self.changed;
        }
        first
    }

    fn undo(&mut self) {
        if self.saved_at != self.scope.current_step() {
            return;
        }
        match mem::replace(&mut self.saved, Saved::Length(0)) {
            Saved::Length(length) => self.elements.iter_mut().for_each(|elements| elements.truncate(length)),
            Saved::Elements(elements) => self.elements = elements,
        }
        self.changed = self.saved_changed;
    }

    fn write_back(&mut self) {
        self.saved = Saved::Length(0);
        if let (true, Some(elements)) = (mem::take(&mut self.changed), &self.elements) {
            self.column.clear();
            elements.iter().for_each(|element| self.column.push_with(|bytes| element.encode(bytes)));
            self.scope.backend().operator_list_update(self.state, &self.column);
        }
    }

    fn forget(&mut self) {
        self.elements = None;
        self.changed = false;
        self.saved = Saved::Length(0);
    }
}

/// Both are handles in the same way.
macro_rules! handle {
    ($list:ident, $kind:literal) => {
        impl<T: Value> Handle for $list<T> {
            type Kept = T;

            fn describe(declared: Declared) -> StateDescriptor {
                declared.describe($kind, T::schema())
            }

            fn attach(scope: &Scope, index: u32, declared: Declared) -> Self {
                $list(List::new(scope, index, declared.name))
            }

            fn undo(&mut self) {
                self.0.undo();
            }

            fn write_back(&mut self) {
                self.0.write_back();
            }

            fn forget(&mut self) {
                self.0.forget();
            }
        }
    };
}

handle!(OperatorListState, "operator-list");
handle!(UnionListState, "operator-union-list");
