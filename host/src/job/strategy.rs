//! [`Strategy`]: whether and when another attempt follows one that failed. Facts in, decision out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::Error;
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
    /// What failed last, if that was a record.
    record: Option<String>,
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
        Strategy { settings, failures: VecDeque::new(), count: 0, backoff: Duration::ZERO, record: None }
    }

    /// An attempt that began at `began` has failed `now`. `random` lies between -1 and 1.
    pub(super) fn failed(&mut self, error: &Error, began: Instant, now: Instant, random: f64) -> Next {
        if error.is_for_people() {
            return Next::Fail(None);
        }
        let record = error.is_about_a_record().then(|| error.message().to_owned());
        if record.is_some() && record == self.record {
            return Next::Fail(Some("the same record has failed twice in a row, and would again".into()));
        }
        self.record = record;
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

    fn while_fewer_than(&mut self, attempts: u64, delay: Duration) -> Next {
        if self.count >= attempts {
            return Next::Fail(Some(format!("it was begun again {attempts} times")));
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
            strategy.failed(&lost(), std::mem::replace(&mut began, now), now, random)
        };
        seconds.iter().map(failed).collect()
    }

    fn again(seconds: f64) -> Next {
        Next::Again(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn a_fixed_delay_lasts_for_its_attempts() {
        let settings = Restart::FixedDelay { attempts: 2, delay: SECOND };
        let last = Next::Fail(Some("it was begun again 2 times".into()));
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
        let last = Next::Fail(Some("it was begun again 1 times".into()));
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
            assert_eq!(strategy.failed(&Error::new(kind, "x"), now, now, 0.0), Next::Fail(None));
        }
        assert_eq!(strategy.failed(&lost().for_people(), now, now, 0.0), Next::Fail(None));
        let record = |number: u32| Error::new(Kind::Job, format!("record {number} is bad")).about_a_record();
        assert_eq!(strategy.failed(&record(1), now, now, 0.0), again(1.0));
        assert_eq!(strategy.failed(&record(2), now, now, 0.0), again(1.5));
        assert_eq!(strategy.failed(&lost(), now, now, 0.0), again(2.25));
        assert_eq!(strategy.failed(&record(2), now, now, 0.0), again(3.375));
        assert!(matches!(strategy.failed(&record(2), now, now, 0.0), Next::Fail(Some(_))));
        for _ in 0..3 {
            assert!(matches!(strategy.failed(&lost(), now, now, 0.0), Next::Again(_)), "the same, but no record");
        }
    }
}
