//! [`Credit`]: flow control. A chain's subtask counts the bytes that it has sent and nobody has worked off; at the limit it takes no
//! more input. The graph has no cycles, so the end of it always drains. The count is kept per sender, not per edge: records that a
//! receiver holds back while it aligns then stop only the sender that is ahead, never the one that is waited for.
//!
//! So it is with what an operator with state on disk has handed over of its snapshots and nobody has stored yet.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use timely::scheduling::SyncActivator;

/// Bytes that a chain's subtask may have under way.
const LIMIT: usize = 4 << 20;

/// What one subtask of one chain has under way.
#[derive(Debug)]
pub(super) struct Credit {
    limit: usize,
    under_way: AtomicUsize,
    waiting: AtomicBool,
    waker: OnceLock<SyncActivator>,
}

impl Default for Credit {
    fn default() -> Self {
        Credit::up_to(LIMIT)
    }
}

impl Credit {
    /// For so many bytes.
    pub(super) fn up_to(limit: usize) -> Self {
        Credit { limit, under_way: AtomicUsize::new(0), waiting: AtomicBool::new(false), waker: OnceLock::new() }
    }

    /// Whom to wake when there is credit again.
    pub(super) fn wakes(&self, waker: SyncActivator) {
        drop(self.waker.set(waker));
    }

    /// Notes bytes sent.
    pub(super) fn take(&self, bytes: usize) {
        self.under_way.fetch_add(bytes, SeqCst);
    }

    /// Whether the limit is reached. If so the waker is called once half of it is free.
    pub(super) fn is_used_up(&self) -> bool {
        if self.under_way.load(SeqCst) < self.limit {
            return false;
        }
        self.waiting.store(true, SeqCst);
        // Once more: it may have been given back before `waiting` could be seen.
        self.under_way.load(SeqCst) >= self.limit
    }

    /// Notes bytes worked off by a receiver.
    pub(super) fn give_back(&self, bytes: usize) {
        let left = self.under_way.fetch_sub(bytes, SeqCst) - bytes;
        if left <= self.limit / 2
            && self.waiting.swap(false, SeqCst)
            && let Some(waker) = self.waker.get()
        {
            // A worker that is gone needs no waking.
            waker.activate().unwrap_or(());
        }
    }
}

/// Bytes that are under way until this is dropped.
#[derive(Debug)]
pub struct Held {
    credit: Arc<Credit>,
    bytes: usize,
}

impl Held {
    pub(super) fn new(credit: &Arc<Credit>, bytes: usize) -> Self {
        credit.take(bytes);
        Held { credit: Arc::clone(credit), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.credit.give_back(self.bytes);
    }
}
