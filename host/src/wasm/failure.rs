//! [`Failure`]: why a call into a guest did not succeed, told apart so that the host can act on it and people can read it.

use std::fmt;

use wasmtime::{Trap, WasmBacktrace};

use super::guest::Guest;
use super::limits::{self, Limit, STACK_BYTES};
use crate::plan::Limits;
use crate::state::{ColdFault, ListTooLong};

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The operator rejected a record; the instance goes on.
    Rejected,
    /// The operator returned an error; the instance goes on.
    Error,
    /// The operator panicked.
    Panic,
    /// The guest trapped without saying why.
    Trap,
    /// A limit of the job for the operator was exceeded.
    Limit(Limit),
    /// The guest called a function of the host in a way that the contract forbids.
    HostCall,
    /// The host could not read or write the operator's state on the local disk.
    Disk,
    /// The host has interrupted the call, because the attempt has ended.
    Interrupted,
}

impl Cause {
    /// Whether an instance is spent after it: its memory may be in any state, so it takes no more calls.
    pub fn is_fatal(self) -> bool {
        !matches!(self, Cause::Rejected | Cause::Error)
    }

    /// Whether neither a record nor the component is to blame, so that trying on would be of no use.
    pub fn ends_attempt(self) -> bool {
        matches!(self, Cause::Disk | Cause::Interrupted)
    }
}

/// Why a call into a guest did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it was.
    pub cause: Cause,
    /// The guilty record, if the guest said so, as an index into the batch.
    pub record: Option<usize>,
    /// What happened, in one line that continues "operator x ".
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A record that the operator said is bad. It has undone, or not begun, what it did for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its index in the batch.
    pub record: usize,
    /// Why, in one line.
    pub message: String,
}

/// A guest broke the contract in a call to the host. Returned by a host function, it ends the guest's call.
#[derive(Debug)]
pub(super) struct Misuse(pub(super) String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// A guest exceeded a limit in a call to the host. Returned by a host function, it ends the guest's call.
#[derive(Debug)]
pub(super) struct Exceeded(pub(super) Limit);

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exceeded limits.{}", self.0.key())
    }
}

impl std::error::Error for Exceeded {}

/// A guest panicked; what it said is noted. Returned by a host function, it ends the guest's call.
#[derive(Debug)]
pub(super) struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("panicked")
    }
}

impl std::error::Error for Panicked {}

/// A guest asked for its process to end.
#[derive(Debug)]
pub(super) struct Exit(pub(super) u8);

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "called exit({})", self.0)
    }
}

impl std::error::Error for Exit {}

impl From<&ColdFault> for Failure {
    fn from(fault: &ColdFault) -> Self {
        Failure::new(Cause::Disk, None, fault.to_string())
    }
}

impl From<ListTooLong> for Failure {
    fn from(ListTooLong { most }: ListTooLong) -> Self {
        Failure::new(Cause::HostCall, None, format!("made a list of more than {}", limits::bytes(most)))
    }
}

impl Failure {
    pub(super) fn new(cause: Cause, record: Option<usize>, message: impl Into<String>) -> Self {
        Failure { cause, record, message: message.into() }
    }

    /// Calls that were each within their limit have together emitted more than so many times as much.
    pub(crate) fn emitted_in_parts(limits: Limits, times: u64) -> Self {
        let (limit, most) = (Limit::Emitted, limits::bytes(limits.emitted));
        let message = format!("emitted, worked on in parts, more than {times} times its limit of {most} (limits.{})", limit.key());
        Failure::new(Cause::Limit(limit), None, message)
    }

    /// The record that the guest has said is to blame. At which one a limit is reached says nothing: those before it have done their part.
    pub fn guilty(&self) -> Option<usize> {
        self.record.filter(|_| !matches!(self.cause, Cause::Limit(_)))
    }

    /// The call is not to be, or go on.
    pub(super) fn interrupted() -> Self {
        Failure::new(Cause::Interrupted, None, "was interrupted, because the attempt has ended")
    }

    /// What ended a call, given wasmtime's error and what the guest and the limits have noted during the call.
    pub(super) fn of_trap(error: &wasmtime::Error, guest: &mut Guest, limits: Limits) -> Self {
        let panicked = guest.panicked.take();
        let trap = error.downcast_ref::<Trap>();
        if let Some(Misuse(message)) = error.downcast_ref() {
            return Failure::new(Cause::HostCall, None, format!("misused the host: {message}"));
        }
        let exceeded = |limit: Limit, record| Failure::new(Cause::Limit(limit), record, limit.exceeded(limits));
        if let Some(&Exceeded(limit)) = error.downcast_ref() {
            return exceeded(limit, None);
        }
        if trap == Some(&Trap::Interrupt) {
            if guest.wasi.deadline.is_interrupted() {
                return Failure::interrupted();
            }
            return exceeded(Limit::Time, None);
        }
        if std::mem::take(&mut guest.memory.refused) {
            return exceeded(Limit::Memory, panicked.and_then(|(record, _)| record));
        }
        if let Some((record, message)) = panicked {
            return Failure::new(Cause::Panic, record, format!("panicked: {message}"));
        }
        Failure::new(Cause::Trap, None, describe_trap(error, trap))
    }
}

fn describe_trap(error: &wasmtime::Error, trap: Option<&Trap>) -> String {
    if let Some(exit) = error.downcast_ref::<Exit>() {
        return exit.to_string();
    }
    let what = match trap {
        Some(Trap::StackOverflow) => format!("calls nested deeper than its stack of {} allows", limits::bytes(STACK_BYTES as u64)),
        Some(Trap::UnreachableCodeReached) => "aborted without saying why (what it wrote to standard error is in the log)".into(),
        Some(Trap::MemoryOutOfBounds) => "out of bounds memory access (in Rust mostly recursion that is too deep for its stack)".into(),
        Some(trap) => trap.to_string().trim_start_matches("wasm trap: ").into(),
        None => one_line(&error.root_cause().to_string()),
    };
    let place = error.downcast_ref::<WasmBacktrace>().and_then(|trace| trace.frames().iter().find_map(|frame| frame.func_name()));
    match place {
        Some(function) => format!("trapped: {what}, in `{}`", one_line(function)),
        None => format!("trapped: {what}"),
    }
}

/// Bytes of a guest's message that are kept.
const MESSAGE_BYTES: usize = 2048;

/// A guest's message as one line of bounded length.
pub(super) fn one_line(message: &str) -> String {
    let mut end = message.len().min(MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let mut line = String::with_capacity(end);
    for word in message[..end].split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    if end < message.len() {
        line.push('…');
    }
    if line.is_empty() { "(no message)".into() } else { line }
}
