//! [`Trial`]: a component on probation, as all subtasks of its operator see it: how it fares beside the one before it, and the verdict.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::swap::Version;

/// Fewer records than this that fail are no rate.
const LEAST: u64 = 10;

/// A component on probation.
#[derive(Debug)]
pub struct Trial {
    /// What goes on where it is when the component fails; none: the attempt fails.
    pub(super) back: Option<Version>,
    /// The component has failed when the share of its records that fail is more than this many times that of the one before it.
    factor: f64,
    old: Tally,
    new: Tally,
    verdict: OnceLock<Verdict>,
}

/// What came of it. It is said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// At this time, in milliseconds since the Unix epoch: one for all subtasks that go back, and for manifests.
    Failed {
        at: i64,
    },
}

/// Records that came, and those of them that failed.
#[derive(Debug, Default)]
struct Tally {
    records: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    fn add(&self, records: u64, failed: u64) {
        // The failures last, so that a reader sees their records.
        self.records.fetch_add(records, Relaxed);
        self.failed.fetch_add(failed, Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        let failed = self.failed.load(Relaxed);
        (self.records.load(Relaxed), failed)
    }
}

impl Trial {
    /// Of a component that fails when it fails on `factor` times as large a part of its records as the one before it. Then `back` goes
    /// on in its place, or without one the attempt fails.
    pub fn new(back: Option<Version>, factor: f64) -> Self {
        Trial { back, factor, old: Tally::default(), new: Tally::default(), verdict: OnceLock::new() }
    }

    /// Of the same in another attempt, where `back` goes on in its place: what is known of the one before it still counts.
    pub fn again(&self, back: Version) -> Self {
        let (trial, (records, failed)) = (Trial::new(Some(back), self.factor), self.old.get());
        trial.add_old(records, failed);
        trial
    }

    /// Its time is over. False if it has failed before.
    pub fn pass(&self) -> bool {
        *self.verdict.get_or_init(|| Verdict::Passed) == Verdict::Passed
    }

    /// When it has failed, in milliseconds since the Unix epoch; none if it has not.
    pub fn failed_at(&self) -> Option<i64> {
        match self.verdict() {
            Some(Verdict::Failed { at }) => Some(at),
            Some(Verdict::Passed) | None => None,
        }
    }

    /// It has failed at the time `at`. Whether that is news.
    pub(super) fn fail(&self, at: i64) -> bool {
        self.verdict.set(Verdict::Failed { at }).is_ok()
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.verdict.get().copied()
    }

    /// How the component before it has fared in a subtask.
    pub(super) fn add_old(&self, records: u64, failed: u64) {
        self.old.add(records, failed);
    }

    /// How it has fared since the last word. Says so if more records fail than may.
    pub(super) fn add(&self, records: u64, failed: u64) -> Option<String> {
        self.new.add(records, failed);
        let ((records, failed), (before, failed_before)) = (self.new.get(), self.old.get());
        let part = |failed: u64, records: u64| failed as f64 / records.max(1) as f64;
        // Where nothing is known of the one before it, any rate may have been its own.
        let is_worse = before > 0 && part(failed, records) > self.factor * part(failed_before, before);
        let too_many = failed == records || is_worse;
        let told = || format!("{failed} of {records} records have failed, and {failed_before} of {before} with the old component");
        (failed >= LEAST && too_many).then(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a component fails, given how the one before it fared and how it does.
    fn fails(factor: f64, old: (u64, u64), new: &[(u64, u64)]) -> bool {
        let trial = Trial::new(None, factor);
        trial.add_old(old.0, old.1);
        new.iter().any(|&(records, failed)| trial.add(records, failed).is_some())
    }

    #[test]
    fn more_failures_than_the_old_component_had_are_too_many() {
        assert!(!fails(2.0, (1000, 0), &[(9, 9)]), "too few to tell");
        assert!(fails(2.0, (1000, 0), &[(9, 9), (1, 1)]), "all of them");
        assert!(fails(2.0, (1000, 0), &[(100_000, 10)]), "the old one had none");
        assert!(!fails(2.0, (1000, 100), &[(1000, 200)]));
        assert!(fails(2.0, (1000, 100), &[(1000, 200), (0, 1)]));
        assert!(!fails(2.0, (1000, 900), &[(1000, 999)]));
        assert!(fails(2.0, (1000, 900), &[(1000, 1000)]), "all of them, though the old one failed on most");
        assert!(!fails(2.0, (0, 0), &[(1000, 999)]) && fails(2.0, (0, 0), &[(1000, 1000)]), "nothing is known of the old one");
    }

    #[test]
    fn the_first_verdict_stands() {
        let (good, bad) = (Trial::new(None, 2.0), Trial::new(None, 2.0));
        assert!(good.pass() && good.pass() && !good.fail(7));
        assert!(bad.fail(7) && !bad.fail(8) && !bad.pass());
        assert_eq!((good.verdict(), good.failed_at()), (Some(Verdict::Passed), None));
        assert_eq!(bad.failed_at(), Some(7), "all go by the time of the first one");
    }
}
