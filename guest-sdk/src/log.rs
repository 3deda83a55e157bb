//! Lines for the host's log.

use std::fmt;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What only its author understands.
    Trace = 0,
    /// What helps to find a fault.
    Debug = 1,
    /// What is worth knowing.
    Info = 2,
    /// What is probably wrong.
    Warn = 3,
    /// What is wrong.
    Error = 4,
}

/// Writes a line into the host's log; in tests, to standard error.
///
/// ```
/// use cofferdam_sdk::{Level, log};
///
/// log(Level::Warn, format_args!("{} lines without a carrier", 3));
/// ```
pub fn log(level: Level, message: impl fmt::Display) {
    #[cfg(target_family = "wasm")]
    crate::bindings::operator::cofferdam::operator::runtime::log(level as u8, &message.to_string());
    #[cfg(not(target_family = "wasm"))]
    eprintln!("{level:?}: {message}");
}
