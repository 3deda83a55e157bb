//! [`Limits`]: what an instance of an operator may use, and what one call into it may leave behind.

use std::time::Duration;

/// `limits` of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, over all its linear memories and tables.
    pub memory: u64,
    /// Time for one call into it.
    pub time: Duration,
    /// Bytes that one call may emit; each record counts for 16 more.
    pub emitted: u64,
    /// Bytes of state that one call may write; each value counts for 16 more.
    pub written: u64,
    /// Bytes of state that one read may return, or be asked for.
    pub read: u64,
    /// Names of counters and gauges, in each subtask.
    pub metrics: u64,
    /// Lines in the log within a second, of each subtask. More are left out, which is no error.
    pub log_lines: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: 256 << 20,
            time: Duration::from_secs(5),
            emitted: 256 << 20,
            written: 256 << 20,
            read: 64 << 20,
            metrics: 100,
            log_lines: 100,
        }
    }
}
