//! [`Strategy`]: whether and when another attempt follows one that failed. Facts in, decision out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::{Error, RecordId, RecordPlace};
use crate::plan::Restart;

/// Decides about the attempts of one job in one process.
pub(super) struct Strategy {
    settings: Restart,
    /// When attempts failed, as far back as a rate of failures counts them.
    failures: VecDeque<Instant>,
    /// Failures in all, or since the delay was the first one.
    count: u64,
    /// What the next delay is, before jitter.
    backoff: Duration,
    /// The records that have failed and may come again.
    records: Vec<FailedRecord>,
}

/// How far an attempt came. Both have an entry for each source, in one order: how many of its records were read, by all attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// In the checkpoint that the attempt began from.
    pub(super) restored: Vec<u64>,
    /// When it ended.
    pub(super) read: Vec<u64>,
}

/// A record that has failed.
struct FailedRecord {
    id: RecordId,
    /// It was among so many records of each source.
    within: Vec<u64>,
}

impl FailedRecord {
    /// Whether it may be what fails in an attempt that began with so many records of each source behind it. One that is known by where it
    /// was read is no other. One that is known by its content comes again until all that was read when it failed is behind a checkpoint;
    /// after that another one of the same content has failed. That there is a newer checkpoint does not tell: a slow source may be at the
    /// record before for many of them.
    fn may_come_again(&self, restored: &[u64]) -> bool {
        matches!(self.id.place, RecordPlace::Split { .. }) || self.within.iter().zip(restored).any(|(within, restored)| within > restored)
    }
}

/// What follows a failure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// Another attempt after this time.
    Again(Duration),
    /// The job fails, for this reason; none: it speaks for itself.
    Fail(Option<String>),
}

impl Strategy {
    pub(super) fn new(settings: Restart) -> Self {
        Strategy { settings, failures: VecDeque::new(), count: 0, backoff: Duration::ZERO, records: Vec::new() }
    }

    /// An attempt that began at `began` and came so far has failed `now`. `random` lies between -1 and 1.
    pub(super) fn failed(&mut self, error: &Error, progress: &Progress, began: Instant, now: Instant, random: f64) -> Next {
        if error.is_for_people() {
            return Next::Fail(None);
        }
        if let Some(record) = error.record()
            && self.has_failed_before(record, progress)
        {
            return Next::Fail(Some("the same record has failed before, and would again".into()));
        }
        match self.settings {
            Restart::None => Next::Fail(None),
            Restart::FixedDelay { attempts, delay } => self.while_fewer_than(attempts, delay),
            Restart::ExponentialDelay { initial, max, multiplier, jitter, reset, attempts } => {
                if self.count == 0 || now - began >= reset {
                    (self.count, self.backoff) = (0, initial);
                }
                let delay = self.backoff.min(max).mul_f64(1.0 + jitter * random.clamp(-1.0, 1.0));
                self.backoff = self.backoff.mul_f64(multiplier).min(max);
                self.while_fewer_than(attempts.unwrap_or(u64::MAX), delay)
            }
            Restart::FailureRate { failures, interval, delay } => {
                self.failures.push_back(now);
                while self.failures.pop_front_if(|failure| now - *failure >= interval).is_some() {}
                if self.failures.len() as u64 > failures {
                    let interval = humantime::format_duration(interval);
                    return Next::Fail(Some(format!("{} attempts have failed within {interval}", self.failures.len())));
                }
                Next::Again(delay)
            }
        }
    }

    /// Notes a record that has failed. Whether it is one that had failed already.
    fn has_failed_before(&mut self, record: &RecordId, progress: &Progress) -> bool {
        self.records.retain(|failed| failed.may_come_again(&progress.restored));
        let before = self.records.iter().any(|failed| failed.id == *record);
        self.records.push(FailedRecord { id: record.clone(), within: progress.read.clone() });
        before
    }

    fn while_fewer_than(&mut self, attempts: u64, delay: Duration) -> Next {
        if self.count >= attempts {
            return Next::Fail(Some(format!("restarted {attempts} time(s) already")));
        }
        self.count += 1;
        Next::Again(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::error::Kind;

    const SECOND: Duration = Duration::from_secs(1);

    fn lost() -> Error {
        Error::new(Kind::Storage, "the disk is gone")
    }

    /// What follows failures at the given seconds, each of an attempt that began when the one before failed.
    fn follows(settings: Restart, seconds: &[u32], random: f64) -> Vec<Next> {
        let (mut strategy, start) = (Strategy::new(settings), clock::now());
        let mut began = start;
        let failed = |second: &u32| {
            let now = start + SECOND * *second;
            strategy.failed(&lost(), &Progress::default(), std::mem::replace(&mut began, now), now, random)
        };
        seconds.iter().map(failed).collect()
    }

    fn again(seconds: f64) -> Next {
        Next::Again(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn a_fixed_delay_lasts_for_its_attempts() {
        let settings = Restart::FixedDelay { attempts: 2, delay: SECOND };
        let last = Next::Fail(Some("restarted 2 time(s) already".into()));
        assert_eq!(follows(settings, &[1, 2, 300, 4000], 1.0), [again(1.0), again(1.0), last.clone(), last]);
        assert_eq!(follows(Restart::None, &[1], 0.0), [Next::Fail(None)]);
    }

    #[test]
    fn an_exponential_delay_grows_to_its_longest_and_begins_anew_after_a_long_run() {
        let settings = |attempts| Restart::ExponentialDelay {
            initial: SECOND,
            max: SECOND * 5,
            multiplier: 2.0,
            jitter: 0.5,
            reset: SECOND * 100,
            attempts,
        };
        let expected = [1.0, 2.0, 4.0, 5.0, 5.0, 1.0, 2.0];
        assert_eq!(follows(settings(None), &[1, 2, 3, 4, 5, 105, 106], 0.0), expected.map(again));
        assert_eq!(follows(settings(None), &[1, 2], -1.0), [0.5, 1.0].map(again));
        let last = Next::Fail(Some("restarted 1 time(s) already".into()));
        assert_eq!(follows(settings(Some(1)), &[1, 2, 102], 1.0), [again(1.5), last, again(1.5)]);
    }

    #[test]
    fn a_failure_rate_allows_rare_failures_for_ever() {
        let settings = Restart::FailureRate { failures: 2, interval: SECOND * 60, delay: SECOND };
        let last = Next::Fail(Some("3 attempts have failed within 1m".into()));
        assert_eq!(follows(settings.clone(), &[1, 2, 61, 62, 121], 0.0), vec![again(1.0); 5]);
        assert_eq!(follows(settings, &[1, 2, 60], 0.0), [again(1.0), again(1.0), last]);
    }

    #[test]
    fn what_surely_fails_again_is_not_tried_again() {
        let mut strategy = Strategy::new(Restart::default());
        let now = clock::now();
        for kind in [Kind::Config, Kind::Component, Kind::Checkpoint, Kind::Fenced] {
            assert_eq!(strategy.failed(&Error::new(kind, "x"), &Progress::default(), now, now, 0.0), Next::Fail(None));
        }
        assert_eq!(strategy.failed(&lost().for_people(), &Progress::default(), now, now, 0.0), Next::Fail(None));
    }

    /// A record of an operator at a place, whose error says something else each time.
    fn bad(place: RecordPlace) -> Error {
        Error::new(Kind::Job, format!("bad at {:?}", clock::now())).about(RecordId { operator: "fragile".into(), place })
    }

    fn read_at(split: &str, number: u64) -> Error {
        bad(RecordPlace::Split { split: split.into(), number })
    }

    /// What fails one after the other, each in an attempt that began and ended with so many records read of two sources: after how many
    /// failures there is no other attempt.
    fn fails_after(failures: &[(Error, [u64; 2], [u64; 2])]) -> Option<usize> {
        let mut strategy = Strategy::new(Restart::default());
        let now = clock::now();
        let ends = |(error, restored, read): &(Error, [u64; 2], [u64; 2])| {
            let progress = Progress { restored: restored.to_vec(), read: read.to_vec() };
            match strategy.failed(error, &progress, now, now, 0.0) {
                Next::Again(_) => false,
                Next::Fail(reason) => {
                    assert!(reason.is_some_and(|reason| reason.contains("the same record has failed before")));
                    true
                }
            }
        };
        failures.iter().map(ends).position(|ends| ends).map(|index| index + 1)
    }

    #[test]
    fn a_record_that_has_failed_before_is_not_tried_again_whatever_else_failed_in_between() {
        let at = |split, number, restored, read| (read_at(split, number), restored, read);
        assert_eq!(fails_after(&[at("a", 7, [0, 0], [9, 0]), at("a", 7, [0, 0], [9, 0])]), Some(2));
        let turns = ["a", "b", "c"].map(|split| at(split, 7, [0, 0], [9, 9]));
        assert_eq!(fails_after(&[&turns[..], &[(lost(), [0, 0], [9, 9])], &turns[2..]].concat()), Some(5));
        // Whatever was committed meanwhile, this one was not.
        assert_eq!(fails_after(&[at("a", 7, [0, 0], [9, 9]), at("a", 7, [99, 99], [100, 100])]), Some(2));
        // The same content at other places, and others in the same place.
        let others = [at("a", 7, [0, 0], [9, 0]), at("a", 8, [0, 0], [9, 0]), at("b", 7, [0, 0], [9, 9])];
        assert_eq!(fails_after(&others), None);
        let mut elsewhere = read_at("a", 7).record().cloned().unwrap();
        elsewhere.operator = "other".into();
        assert_eq!(fails_after(&[others[0].clone(), (lost().about(elsewhere), [0, 0], [9, 0])]), None);
        assert_eq!(fails_after(&[(lost(), [0, 0], [9, 9]), (lost(), [0, 0], [9, 9])]), None, "no record");
    }

    #[test]
    fn a_record_that_is_known_by_its_content_is_another_once_all_that_was_read_when_it_failed_is_behind() {
        let of = |hash, restored, read| (bad(RecordPlace::Content(hash)), restored, read);
        let first = of(1, [0, 0], [100, 20]);
        assert_eq!(
            fails_after(&[first.clone(), of(2, [0, 0], [100, 20]), of(1, [99, 500], [100, 600])]),
            Some(3),
            "not all of the one source"
        );
        assert_eq!(fails_after(&[first.clone(), of(1, [500, 19], [600, 20])]), Some(2), "nor of the other");
        assert_eq!(fails_after(&[first.clone(), of(1, [100, 20], [101, 21])]), None);
        assert_eq!(fails_after(&[first, of(1, [100, 20], [101, 21]), of(1, [100, 20], [101, 21])]), Some(3), "but that one comes again");
    }
}
