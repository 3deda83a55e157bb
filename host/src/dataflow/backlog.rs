//! [`Backlog`]: what has come to a worker's chains and is not worked on yet. Its sources let that go first: then a worker that has more
//! to do behind its sources reads less, little is under way, and what is under way is still in the caches when its turn comes.

use std::cell::{Cell, RefCell};

use timely::scheduling::Activator;

/// From so many bytes on, sources wait.
const HIGH: usize = 512 << 10;

/// What has come to a worker's chains.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: Cell<usize>,
    /// Sources that wait.
    waiting: RefCell<Vec<Activator>>,
}

impl Backlog {
    /// Notes bytes that have come.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Notes bytes that are worked on; wakes the sources that have waited for it.
    pub(super) fn take(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() - bytes);
        if self.bytes.get() < HIGH {
            self.waiting.borrow_mut().drain(..).for_each(|source| source.activate());
        }
    }

    /// Whether a source has to wait; `source` wakes it then.
    pub(super) fn is_high(&self, source: &Activator) -> bool {
        let high = self.bytes.get() >= HIGH;
        if high {
            self.waiting.borrow_mut().push(source.clone());
        }
        high
    }
}
