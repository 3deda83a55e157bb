//! [`Flood`]: whether more records of an operator fail within a minute than may.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What `max-errors` counts in.
const MINUTE: u64 = 60;

/// Counts records that failed, over all subtasks of an operator. Nobody comes here while none does.
#[derive(Debug)]
pub(super) struct Flood {
    limit: u64,
    recent: Mutex<Recent>,
}

/// Those of the last minute, by the second.
#[derive(Debug, Default)]
struct Recent {
    /// Seconds count from here.
    start: Option<Instant>,
    /// Seconds in which some failed, the oldest first, and how many.
    seconds: VecDeque<(u64, u64)>,
    /// How many in all of them.
    sum: u64,
}

impl Flood {
    /// Of an operator of which so many records may fail within a minute.
    pub(super) fn new(limit: u64) -> Self {
        Flood { limit, recent: Mutex::default() }
    }

    /// How many may.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Forgets what it has counted.
    pub(super) fn reset(&self) {
        *self.recent() = Recent::default();
    }

    /// Notes one more. Returns whether it is one too many: there is no minute in which more may fail unnoticed. As only whole seconds are
    /// forgotten, those of up to a second before it count too.
    pub(super) fn add(&self, now: Instant) -> bool {
        let mut recent = self.recent();
        let start = *recent.start.get_or_insert(now);
        // Another subtask may have been faster.
        let newest = recent.seconds.back().map_or(0, |(second, _)| *second);
        let second = now.saturating_duration_since(start).as_secs().max(newest);
        while let Some((_, count)) = recent.seconds.pop_front_if(|(at, _)| *at + MINUTE < second) {
            recent.sum -= count;
        }
        match recent.seconds.back_mut() {
            Some((at, count)) if *at == second => *count += 1,
            _ => recent.seconds.push_back((second, 1)),
        }
        recent.sum += 1;
        recent.sum > self.limit
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

    /// Whether one is too many when records fail at these milliseconds, so many at a time, and three may within a minute.
    fn floods(failures: &[(u64, usize)]) -> bool {
        let (flood, start) = (Flood::new(3), clock::now());
        let fails = |&(at, count)| (0..count).fold(false, |flooded, _| flooded | flood.add(start + Duration::from_millis(at)));
        failures.iter().fold(false, |flooded, failure| flooded | fails(failure))
    }

    #[test]
    fn no_more_fail_in_any_minute_than_may() {
        assert!(!floods(&[(0, 3), (61_000, 3), (122_000, 3)]));
        assert!(floods(&[(0, 3), (59_999, 1)]));
        // In the last moments of one minute and the first ones of the next.
        assert!(floods(&[(0, 1), (59_000, 2), (61_000, 1), (62_000, 1)]));
        assert!(!floods(&[(0, 1), (59_000, 1), (61_000, 1), (119_000, 1), (122_000, 1)]), "each minute has three");
        assert!(floods(&[(500, 1), (61_900, 3), (121_800, 1)]), "less than a minute, whatever seconds begin in");
    }

    #[test]
    fn a_subtask_that_is_late_counts_too() {
        assert!(floods(&[(30_000, 2), (29_000, 2)]));
    }

    #[test]
    fn what_is_forgotten_does_not_count() {
        let (flood, now) = (Flood::new(1), clock::now());
        assert!(!flood.add(now) && flood.add(now));
        flood.reset();
        assert!(!flood.add(now) && flood.add(now));
    }
}
