//! [`GuestLog`]: what a guest writes, through `runtime.log` or to its standard output and error, as lines of the host's log under the
//! target "guest". Capped, so that a guest can't fill a disk.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::failure::one_line;
use crate::clock;

/// What the limit counts in.
const WINDOW: Duration = Duration::from_secs(1);

/// The log of one subtask, shared by its instances: a guest that traps again and again logs no more than others.
#[derive(Clone, Debug)]
pub struct GuestLog(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    operator: String,
    subtask: u16,
    /// Lines in a [`WINDOW`]; the rest is counted and left out.
    limit: u64,
    window: Option<Instant>,
    lines: u64,
    left_out: u64,
}

/// As `runtime.log` numbers them.
pub(super) const INFO: u8 = 2;
/// As `runtime.log` numbers them.
pub(super) const WARN: u8 = 3;

/// Writes an event of a level that is not a constant.
macro_rules! event {
    ($level:expr, $log:expr, $($text:tt)*) => {
        match $level {
            0 => tracing::trace!(target: "guest", operator = $log.operator, subtask = $log.subtask, $($text)*),
            1 => tracing::debug!(target: "guest", operator = $log.operator, subtask = $log.subtask, $($text)*),
            2 => tracing::info!(target: "guest", operator = $log.operator, subtask = $log.subtask, $($text)*),
            3 => tracing::warn!(target: "guest", operator = $log.operator, subtask = $log.subtask, $($text)*),
            _ => tracing::error!(target: "guest", operator = $log.operator, subtask = $log.subtask, $($text)*),
        }
    };
}

impl GuestLog {
    /// The log of a subtask of an operator, which may write as many lines within a second.
    pub fn new(operator: &str, subtask: u16, lines_per_second: u64) -> Self {
        let (operator, limit) = (operator.to_owned(), lines_per_second);
        GuestLog(Arc::new(Mutex::new(Lines { operator, subtask, limit, window: None, lines: 0, left_out: 0 })))
    }

    /// Writes a line, at a level as `runtime.log` numbers them; higher numbers count as errors.
    pub(super) fn line(&self, level: u8, text: &str) {
        if is_enabled(level) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).line(level, text);
        }
    }
}

impl Lines {
    fn line(&mut self, level: u8, text: &str) {
        let now = clock::now();
        if self.window.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            self.say_left_out();
            self.window = Some(now);
            self.lines = 0;
        }
        self.lines += 1;
        if self.lines > self.limit {
            self.left_out += 1;
            return;
        }
        event!(level, self, "{}", one_line(text));
    }

    fn say_left_out(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            event!(WARN, self, "{left_out} more lines were left out: at most {} a second are logged (limits.log-lines)", self.limit);
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.say_left_out();
    }
}

fn is_enabled(level: u8) -> bool {
    match level {
        0 => tracing::enabled!(target: "guest", tracing::Level::TRACE),
        1 => tracing::enabled!(target: "guest", tracing::Level::DEBUG),
        2 => tracing::enabled!(target: "guest", tracing::Level::INFO),
        3 => tracing::enabled!(target: "guest", tracing::Level::WARN),
        _ => tracing::enabled!(target: "guest", tracing::Level::ERROR),
    }
}
