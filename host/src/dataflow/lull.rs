//! [`Lull`]: for how long no record has reached a sink.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::clock;

/// The longest time in which no record reached any sink of a job, within a span that has a beginning. Times are nanoseconds since the
/// attempt began.
#[derive(Debug)]
pub struct Lull {
    origin: Instant,
    last: AtomicU64,
    longest: AtomicU64,
}

impl Lull {
    pub(super) fn new() -> Self {
        Lull { origin: clock::now(), last: AtomicU64::new(0), longest: AtomicU64::new(0) }
    }

    /// The span begins: what came before does not count.
    pub fn begin(&self) {
        self.last.store(self.now(), Relaxed);
        self.longest.store(0, Relaxed);
    }

    /// Records have reached a sink.
    pub(super) fn end(&self) {
        let now = self.now();
        // Another subtask may have been a little later.
        let lull = now.saturating_sub(self.last.swap(now, Relaxed));
        self.longest.fetch_max(lull, Relaxed);
    }

    /// The longest so far, with the one that goes on.
    pub fn longest(&self) -> Duration {
        let goes_on = self.now().saturating_sub(self.last.load(Relaxed));
        Duration::from_nanos(goes_on.max(self.longest.load(Relaxed)))
    }

    fn now(&self) -> u64 {
        // Enough for centuries.
        clock::now().duration_since(self.origin).as_nanos() as u64
    }
}
