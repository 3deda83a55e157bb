//! [`Pace`]: how fast the merges of a job may read and write, and when they are to leave off. They run on threads that may wait.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use crate::checkpoint::file::{Content, Unwanted};
use crate::clock;

/// The pace of all merges of an attempt together. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Pace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Bytes in a second.
    rate: f64,
    /// When all that was taken is used up.
    free: Mutex<Instant>,
    changed: Condvar,
    is_stopped: watch::Sender<bool>,
}

/// No pause is longer: a point in time so far away would be none.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

impl Pace {
    /// `rate` bytes in each second.
    pub(super) fn new(rate: u64) -> Self {
        let (free, changed, is_stopped) = (Mutex::new(clock::now()), Condvar::new(), watch::Sender::default());
        // A rate of this many bytes is a round number anyway.
        Pace(Arc::new(Shared { rate: rate.max(1) as f64, free, changed, is_stopped }))
    }

    /// As fast as it goes.
    pub(super) fn unbounded() -> Self {
        Pace::new(u64::MAX)
    }

    /// A merge begins, and is over when this is dropped. It goes so many times as fast.
    pub(super) fn begin(&self, haste: f64) -> Merging {
        Merging(Share { pace: self.clone(), haste, is_over: Arc::default() })
    }

    /// All merges leave off at once, also those to come.
    pub(super) fn stop(&self) {
        self.change(|| {
            self.0.is_stopped.send_replace(true);
        });
    }

    /// Waits until all are to leave off, which may be for ever.
    pub(super) async fn stopped(&self) {
        // The sender is here, so it does not end otherwise.
        let _ = self.0.is_stopped.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }

    /// Changes something that whoever waits for its turn is to see: under the lock, so that it does not fall between a look and a wait.
    fn change(&self, change: impl FnOnce()) {
        let free = self.free();
        change();
        drop(free);
        self.0.changed.notify_all();
    }

    fn free(&self) -> MutexGuard<'_, Instant> {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A merge under way.
pub(super) struct Merging(Share);

impl Merging {
    /// For the thread that merges.
    pub(super) fn share(&self) -> Share {
        self.0.clone()
    }

    /// Looks whether it may go on, without waiting.
    ///
    /// # Errors
    /// When it is to leave off.
    pub(super) fn check(&self) -> Result<(), Unwanted> {
        if *self.0.pace.0.is_stopped.borrow() { Err(Unwanted) } else { Ok(()) }
    }
}

impl Drop for Merging {
    fn drop(&mut self) {
        self.0.pace.change(|| self.0.is_over.store(true, Ordering::Relaxed));
    }
}

/// What a merge may take.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pace: Pace,
    haste: f64,
    is_over: Arc<AtomicBool>,
}

impl Share {
    /// Takes so many bytes, once what was taken before is used up.
    ///
    /// # Errors
    /// When the merge is to leave off.
    pub(super) fn take(&self, bytes: u64) -> Result<(), Unwanted> {
        let Shared { rate, changed, is_stopped, .. } = &*self.pace.0;
        let mut free = self.pace.free();
        loop {
            if *is_stopped.borrow() || self.is_over.load(Ordering::Relaxed) {
                return Err(Unwanted);
            }
            let now = clock::now();
            let pause = free.saturating_duration_since(now);
            if pause.is_zero() {
                let lasts = Duration::try_from_secs_f64(bytes as f64 / (rate * self.haste)).unwrap_or(LONGEST).min(LONGEST);
                *free = now + lasts;
                return Ok(());
            }
            free = changed.wait_timeout(free, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Content that is read at a merge's pace.
#[derive(Debug)]
pub(super) struct Paced<C> {
    pub(super) content: C,
    pub(super) share: Share,
}

impl<C: Content> Content for Paced<C> {
    fn bytes(&self) -> u64 {
        self.content.bytes()
    }

    fn read(&self, at: u64, len: u64) -> io::Result<Bytes> {
        let read = self.content.read(at, len)?;
        self.share.take(read.len() as u64).map_err(io::Error::other)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_its_turn_leaves_off_at_once() {
        for stop in [true, false] {
            // What is taken first lasts for a year.
            let pace = Pace::new(1);
            let merging = pace.begin(1.0);
            let share = merging.share();
            share.take(u64::MAX).unwrap();
            let waiting = std::thread::spawn(move || share.take(1));
            if stop {
                pace.stop();
                assert_eq!(pace.begin(1.0).check(), Err(Unwanted), "nor does another begin");
            } else {
                drop(merging);
            }
            assert_eq!(waiting.join().unwrap(), Err(Unwanted));
        }
    }

    #[test]
    fn what_was_taken_is_waited_for() {
        let pace = Pace::new(1 << 20);
        let (began, share) = (clock::now(), pace.begin(1.0).share());
        assert_eq!(share.take(1), Err(Unwanted), "its merge is over");
        let merging = pace.begin(1.0);
        (0..5).for_each(|_| merging.share().take(1 << 18).unwrap());
        assert!(clock::now() - began >= Duration::from_secs(1));
        let unbounded = Pace::unbounded().begin(1.0);
        (0..1000).for_each(|_| unbounded.share().take(1 << 40).unwrap());
    }
}
