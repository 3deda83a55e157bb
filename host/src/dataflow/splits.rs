//! [`SharedSplits`]: what the subtasks of a source share: the splits that none of them has begun, and the rate. A subtask that has
//! nothing left to read takes the next split, so that one with longer splits, or more to do behind its source, reads fewer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::connectors::RateLimit;
use crate::record::{Position, SplitPosition};

/// What the subtasks of a source share.
#[derive(Debug)]
pub(super) struct SharedSplits {
    unread: Mutex<Unread>,
    /// Of the source as a whole, whoever of its subtasks reads.
    rate: Option<Mutex<RateLimit>>,
}

#[derive(Debug, Default)]
struct Unread {
    /// Nobody has begun these.
    splits: VecDeque<Arc<str>>,
    /// These were begun in an epoch after the last one that was reported.
    begun: Vec<(Arc<str>, u64)>,
    /// The last epoch for which it was reported what is unread.
    reported: u64,
}

/// What becomes of a subtask that asks for a split.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It begins this one.
    Split(Arc<str>),
    /// It has to pass its barrier first: what is unread at that barrier is told already.
    AfterBarrier,
    /// There is none.
    Nothing,
}

impl SharedSplits {
    /// For splits that nobody has begun, and a source with this rate in records per second.
    pub(super) fn new(splits: impl IntoIterator<Item = Arc<str>>, rate: Option<u64>) -> Self {
        let rate = rate.map(|rate| Mutex::new(RateLimit::new(rate as f64, clock::now())));
        SharedSplits { unread: Mutex::new(Unread { splits: splits.into_iter().collect(), ..Unread::default() }), rate }
    }

    /// For a subtask in `epoch`: the next split. A split that is begun in an epoch belongs to its reader from the end of that epoch on.
    pub(super) fn take(&self, epoch: u64) -> Taken {
        let mut unread = self.unread();
        if unread.splits.is_empty() {
            return Taken::Nothing;
        }
        if unread.reported >= epoch {
            return Taken::AfterBarrier;
        }
        let split = unread.splits.pop_front().expect("it is not empty");
        unread.begun.push((Arc::clone(&split), epoch));
        Taken::Split(split)
    }

    /// Whether all splits are begun.
    pub(super) fn is_empty(&self) -> bool {
        self.unread().splits.is_empty()
    }

    /// For the one subtask that reports it: what nobody has begun at the barrier that ends `epoch`. Others may have passed that barrier
    /// and begun splits since.
    pub(super) fn report(&self, epoch: u64) -> Vec<SplitPosition> {
        let mut unread = self.unread();
        unread.reported = epoch;
        unread.begun.retain(|(_, begun)| *begun > epoch);
        let begun = unread.begun.iter().map(|(split, _)| split);
        let position = |split: &Arc<str>| SplitPosition { split: split.to_string(), position: Position::default() };
        begun.chain(&unread.splits).map(position).collect()
    }

    /// The source's rate, if it has one.
    pub(super) fn rate(&self) -> Option<MutexGuard<'_, RateLimit>> {
        self.rate.as_ref().map(|rate| rate.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn unread(&self) -> MutexGuard<'_, Unread> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(splits: &[&str]) -> SharedSplits {
        SharedSplits::new(splits.iter().map(|&split| split.into()), None)
    }

    fn reported(shared: &SharedSplits, epoch: u64) -> Vec<String> {
        shared.report(epoch).into_iter().map(|split| split.split).collect()
    }

    #[test]
    fn each_split_is_begun_once_and_in_order() {
        let shared = shared(&["a", "b"]);
        assert_eq!([shared.take(1), shared.take(1), shared.take(1)], [Taken::Split("a".into()), Taken::Split("b".into()), Taken::Nothing]);
        assert!(shared.is_empty());
    }

    #[test]
    fn at_each_barrier_a_split_is_either_unread_or_its_readers() {
        let shared = shared(&["a", "b", "c"]);
        assert_eq!(shared.take(1), Taken::Split("a".into()));
        // One that is ahead begins the next after the barrier that ends epoch 1.
        assert_eq!(shared.take(2), Taken::Split("b".into()));
        assert_eq!(reported(&shared, 1), ["b", "c"]);
        // Whoever has not passed that barrier would report as its own what is told to be unread.
        assert_eq!(shared.take(1), Taken::AfterBarrier);
        assert_eq!(reported(&shared, 2), ["c"]);
        assert_eq!(shared.take(3), Taken::Split("c".into()));
        assert_eq!(reported(&shared, 3), [""; 0]);
    }
}
