//! [`Scope`]: what the parts of an instance share about the call at hand.

use std::cell::Cell;
use std::rc::Rc;

use crate::backend::Backend;

/// In place of a record's index. No call has so many.
const NO_RECORD: u32 = u32::MAX;

thread_local! {
    /// The record that is being worked on, for the message of a panic. Not in [`Scope`], because a panic hook has no way to it.
    static RECORD: Cell<u32> = const { Cell::new(NO_RECORD) };
}

/// Notes which record of the call is being worked on.
#[inline]
pub(crate) fn set_record(index: u32) {
    RECORD.set(index);
}

/// Notes that none is.
pub(crate) fn set_no_record() {
    RECORD.set(NO_RECORD);
}

/// The record that is being worked on, if one is.
pub(crate) fn record() -> Option<u32> {
    Some(RECORD.get()).filter(|&index| index != NO_RECORD)
}

/// Which key is current, for the states, and the way to the host.
#[derive(Clone, Debug)]
pub struct Scope(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    keys: Cell<u32>,
    key: Cell<u32>,
    broadcast: Cell<bool>,
    step: Cell<u64>,
    backend: Backend,
}

impl Scope {
    pub(crate) fn new(backend: Backend) -> Self {
        let (keys, key, broadcast, step) = (Cell::new(0), Cell::new(0), Cell::new(false), Cell::new(0));
        Scope(Rc::new(Inner { keys, key, broadcast, step, backend }))
    }

    /// A call with so many keys begins.
    pub(crate) fn begin(&self, keys: usize) {
        // Keys come in a column, whose length fits.
        self.0.keys.set(keys as u32);
        self.0.broadcast.set(false);
    }

    /// A call begins with records that every subtask gets; they have no keys.
    pub(crate) fn begin_broadcast(&self) {
        self.0.keys.set(0);
        self.0.broadcast.set(true);
    }

    /// Whether every subtask gets the record at hand.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.0.broadcast.get()
    }

    /// The next record, or key of `finish`, begins: its key by index.
    #[inline]
    pub(crate) fn step(&self, key: u32) {
        self.0.key.set(key);
        self.0.step.set(self.0.step.get() + 1);
    }

    /// The current key, as an index into the call's keys.
    #[inline]
    pub(crate) fn key(&self) -> u32 {
        self.0.key.get()
    }

    /// How many keys the call has.
    pub(crate) fn keys(&self) -> u32 {
        self.0.keys.get()
    }

    /// A number that no two records share, greater than 0.
    #[inline]
    pub(crate) fn current_step(&self) -> u64 {
        self.0.step.get()
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0.backend
    }
}
