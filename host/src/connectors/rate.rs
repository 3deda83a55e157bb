//! [`RateLimit`]: how many records a source may read now. Pure: the time is handed in.

use std::time::{Duration, Instant};

/// The most that may be read at once, as time at full rate: a source that was held up for longer does not make up for it.
const BURST: f64 = 0.050;

/// What is allowed at least, as time at full rate: fewer records would not be worth waking up for.
const STEP: f64 = 0.005;

/// A limit of records per second, kept smooth: a token bucket that begins empty, fills at the rate, and holds 50 ms' worth, or one
/// record where that is less. It gives in grants: nothing until 5 ms' worth is there, or one record; then all of it, in as many reads
/// as it takes. What comes in meanwhile waits until it is worth a grant, else a fast source would read it record by record.
#[derive(Clone, Debug)]
pub struct RateLimit {
    /// Records per second.
    rate: f64,
    /// Records that came in and were not read; below 0 when more were taken than allowed.
    tokens: f64,
    /// When `tokens` was right.
    at: Instant,
    /// What is left of the last grant.
    granted: usize,
}

impl RateLimit {
    /// A limit of `rate` records per second (for one of several subtasks: its share, which may be below 1), counted from `start` on.
    pub fn new(rate: f64, start: Instant) -> Self {
        RateLimit { rate, tokens: 0.0, at: start, granted: 0 }
    }

    /// How many records may be read now.
    pub fn allowed(&mut self, now: Instant) -> usize {
        let since = now.saturating_duration_since(self.at);
        self.tokens = (self.tokens + since.as_secs_f64() * self.rate).min((self.rate * BURST).max(1.0));
        self.at = self.at.max(now);
        if self.tokens >= self.step() {
            self.granted = self.tokens as usize;
        }
        self.granted
    }

    /// Notes that `n` records were read. More than allowed is made good by waiting.
    pub fn take(&mut self, n: usize) {
        self.tokens -= n as f64;
        self.granted = self.granted.saturating_sub(n);
    }

    /// How long until something is allowed: nothing if it is now.
    pub fn next(&mut self, now: Instant) -> Duration {
        if self.allowed(now) > 0 {
            return Duration::ZERO;
        }
        let missing = self.step() - self.tokens;
        // A nanosecond more than its share of rounding, so that the grant is there when the time is over.
        let wait = Duration::try_from_secs_f64(missing / self.rate * (1.0 + 4.0 * f64::EPSILON)).unwrap_or(Duration::MAX);
        wait.saturating_add(Duration::from_nanos(1))
    }

    /// The least that is granted.
    fn step(&self) -> f64 {
        (self.rate * STEP).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock;

    /// Reads all that is allowed and sleeps as told until `end`; the times of reading and how much.
    fn run(rate: f64, end: Duration) -> Vec<(Duration, usize)> {
        let start = clock::now();
        let mut limit = RateLimit::new(rate, start);
        let (mut time, mut reads) = (Duration::ZERO, Vec::new());
        while time < end {
            let allowed = limit.allowed(start + time);
            if allowed > 0 {
                reads.push((time, allowed));
                limit.take(allowed);
            }
            time = time.saturating_add(limit.next(start + time));
        }
        reads
    }

    #[test]
    fn a_source_that_reads_whenever_it_may_reads_at_the_rate() {
        for rate in [0.25f64, 1.0, 3.0, 999.0, 44_100.0, 10_000_000.0] {
            let seconds = (10.0 / rate).max(2.0);
            let read: usize = run(rate, Duration::from_secs_f64(seconds)).iter().map(|&(_, n)| n).sum();
            let (most, slack) = (rate * seconds, (rate * STEP).max(1.0) + 1.0);
            assert!(read as f64 <= most && read as f64 >= most - slack, "{read} of {most} at {rate}/s");
        }
    }

    #[test]
    fn nothing_is_allowed_at_the_start_and_low_rates_come_one_by_one() {
        let reads = run(4.0, Duration::from_secs(2));
        assert_eq!(reads.len(), 7);
        assert!(reads.iter().all(|&(_, n)| n == 1));
        assert!(reads[0].0 >= Duration::from_millis(250));
    }

    #[test]
    fn a_rate_of_five_gives_a_record_each_200_ms() {
        for (number, (time, n)) in run(5.0, Duration::from_secs(20)).into_iter().enumerate() {
            let due = Duration::from_millis(200 * (number as u64 + 1));
            assert!(n == 1 && time >= due && time - due < Duration::from_millis(1), "{n} at {time:?}");
        }
    }

    #[test]
    fn a_fast_source_is_woken_once_each_step() {
        for rate in [1000.0, 100_000.0, 3_333_333.0] {
            let reads = run(rate, Duration::from_secs(1));
            assert!(reads.iter().all(|&(_, n)| n as f64 >= (rate * STEP).floor()), "{reads:?}");
            assert!(reads.len() <= (1.0 / STEP) as usize, "{} reads", reads.len());
        }
    }

    #[test]
    fn what_comes_in_while_a_grant_is_read_waits_for_the_next() {
        let start = clock::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut limit = RateLimit::new(100_000.0, start);
        assert_eq!(limit.allowed(at(4_999)), 0);
        assert_eq!(limit.allowed(at(10_000)), 1000);
        limit.take(900);
        assert_eq!((limit.allowed(at(11_000)), limit.next(at(11_000))), (100, Duration::ZERO));
        limit.take(10);
        assert_eq!(limit.allowed(at(11_000)), 90);
        limit.take(90);
        // 100 have come in since; 400 more take 4 ms.
        assert_eq!(limit.allowed(at(11_000)), 0);
        let wait = limit.next(at(11_000));
        assert!(wait >= Duration::from_millis(4) && wait < Duration::from_micros(4_001), "{wait:?}");
        assert_eq!(limit.allowed(at(15_001)), 500);
    }

    #[test]
    fn a_source_slower_than_its_rate_is_never_held_up() {
        let start = clock::now();
        let mut limit = RateLimit::new(100_000.0, start);
        for read in 1..100u32 {
            // 1024 records in 11 ms, which are 1100 records' time.
            let now = start + Duration::from_millis(11) * read;
            assert!(limit.allowed(now) >= 1024, "read {read}");
            limit.take(1024);
        }
    }

    #[test]
    fn time_lost_is_not_made_up_beyond_a_burst() {
        let start = clock::now();
        let mut limit = RateLimit::new(1000.0, start);
        assert_eq!(limit.allowed(start + Duration::from_secs(60)), 50);
        limit.take(50);
        assert_eq!(limit.allowed(start + Duration::from_secs(60)), 0);
        // A clock that seems to go back changes nothing.
        assert_eq!(limit.allowed(start), 0);
        assert_eq!(limit.allowed(start + Duration::from_millis(60_010)), 10);
    }

    #[test]
    fn more_taken_than_allowed_is_waited_for() {
        let start = clock::now();
        let mut limit = RateLimit::new(100.0, start);
        limit.take(100);
        assert_eq!(limit.allowed(start + Duration::from_millis(999)), 0);
        let wait = limit.next(start + Duration::from_millis(999));
        assert!(wait > Duration::from_millis(10) && wait < Duration::from_millis(12), "{wait:?}");
    }

    #[test]
    fn a_rate_of_nothing_waits_for_ever() {
        let start = clock::now();
        let mut limit = RateLimit::new(0.0, start);
        assert_eq!((limit.allowed(start + Duration::from_secs(1)), limit.next(start)), (0, Duration::MAX));
    }

    proptest! {
        #[test]
        fn waiting_as_told_is_enough_and_no_window_holds_more_than_its_share(
            rate in prop_oneof![0.01f64..10.0, 10.0f64..1e4, 1e4f64..1e9],
            pauses in prop::collection::vec((0u64..200_000, 0.0f64..2.0), 1..40),
        ) {
            let start = clock::now();
            let mut limit = RateLimit::new(rate, start);
            let (mut time, mut reads) = (Duration::ZERO, Vec::new());
            for (pause, part) in pauses {
                time += limit.next(start + time) + Duration::from_micros(pause);
                let allowed = limit.allowed(start + time);
                prop_assert!(allowed > 0);
                // Often all of it.
                let taken = ((allowed as f64 * part) as usize).clamp(1, allowed);
                limit.take(taken);
                reads.push((time, taken as f64));
            }
            for from in 0..reads.len() {
                let mut sum = 0.0;
                for &(time, n) in &reads[from..] {
                    sum += n;
                    let most = rate * (time - reads[from].0).as_secs_f64() + (rate * BURST).max(1.0);
                    prop_assert!(sum <= most * (1.0 + 1e-9) + 1e-6, "{} in a window for {}", sum, most);
                }
            }
        }
    }
}
