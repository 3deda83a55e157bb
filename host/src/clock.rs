//! The one reader of time and entropy. Everything else gets them from here, or is handed the values, so that a lint can ban the rest.
#![allow(clippy::disallowed_methods, reason = "this is the module that the lint protects")]

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock, for durations and deadlines.
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock, for what people read.
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// The wall clock in milliseconds since the Unix epoch.
pub fn wall_ms() -> i64 {
    let since = wall().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The wall clock as RFC 3339 text in UTC, to the millisecond.
pub fn wall_text() -> String {
    humantime::format_rfc3339_millis(wall()).to_string()
}

/// 64 bits that differ from process to process and from call to call. Not for secrets.
pub fn entropy() -> u64 {
    RandomState::new().hash_one(wall_ms())
}

/// A number between -1 and 1, another one at each call.
pub fn random() -> f64 {
    // 53 bits are what a double holds.
    (entropy() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// CPU time that this process has used so far, over all its threads.
pub fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // Never negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
