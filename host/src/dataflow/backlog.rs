//! [`Backlog`]: what has come to a worker's chains and is not worked on yet. Its sources let that go first: then a worker that has more
//! to do behind its sources reads less, little is under way, and what is under way is still in the caches when its turn comes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use timely::scheduling::Activator;

/// From this many bytes on, sources wait.
const HIGH: usize = 512 << 10;

/// What has come to a worker's chains.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: Cell<usize>,
    /// Sources that wait, by chain: one may be scheduled many times while it does.
    waiting: RefCell<BTreeMap<u16, Activator>>,
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
            while let Some((_, source)) = self.waiting.borrow_mut().pop_first() {
                source.activate();
            }
        }
    }

    /// Whether the source at the head of `chain` has to wait; `source` wakes it then.
    pub(super) fn is_high(&self, chain: u16, source: &Activator) -> bool {
        let high = self.bytes.get() >= HIGH;
        if high {
            self.waiting.borrow_mut().entry(chain).or_insert_with(|| source.clone());
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_waits_once_however_often_it_is_scheduled_meanwhile() {
        timely::execute_directly(|worker| {
            let (backlog, sources) = (Backlog::default(), [0, 1].map(|chain| worker.activator_for([chain].into())));
            assert!(!backlog.is_high(0, &sources[0]));
            backlog.add(HIGH);
            for _ in 0..100 {
                assert!(backlog.is_high(0, &sources[0]) && backlog.is_high(1, &sources[1]));
            }
            assert_eq!(backlog.waiting.borrow().len(), 2);
            backlog.take(1);
            assert!(backlog.waiting.borrow().is_empty() && !backlog.is_high(0, &sources[0]));
        });
    }
}
