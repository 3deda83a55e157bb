//! What a guest can make the host spend: memory, time, and what one call may leave behind. Memory is counted over all memories and tables of
//! an instance, because wasmtime limits each on its own, and a refusal is remembered, because a guest that runs out of memory merely
//! executes `unreachable`.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::{ResourceLimiter, Store, UpdateDeadline};

use super::guest::Guest;
use crate::plan::Limits;

/// How deep calls within a guest may nest, in bytes of native stack. Whoever calls guests needs this much stack and about as much
/// again for itself and the host functions below: the 2 MiB that std gives every thread are enough.
pub(super) const STACK_BYTES: usize = 1 << 20;

/// The unit in which a guest's time is measured.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Ticks in which a call that is interrupted may still end by itself: most do, and their instances can then be closed as at any end.
const GRACE: u64 = 5;
/// The same for an instance's last calls. They begin when the interrupt has come already, and are to have their say on a busy machine too.
const LAST_GRACE: u64 = 50;

/// The longest that a call may take for a part of what has failed together, as long as that is several records, keys or values. A single
/// one always has the operator's own limit.
pub const PROBE_TIME: Duration = Duration::from_millis(500);

/// Bytes of one value in state, or of one element of a list.
pub(super) const STATE_VALUE: usize = 16 << 20;
/// Bytes of one field of a map.
pub(super) const MAP_FIELD: usize = 1 << 20;

/// Handles to streams, pollables and the like.
const HANDLES: usize = 1024;
/// Elements of one table: function pointers, so far more than any guest has functions.
const TABLE_ELEMENTS: usize = 1 << 20;
/// What an element of a table counts as memory.
const ELEMENT_BYTES: usize = 8;
/// Core instances and tables of one component. Those of guests in Python have dozens.
const PARTS: usize = 1000;
/// Memories of one component. Each takes 4 GiB of addresses, however small it is, and few components have more than one.
const MEMORIES: usize = 64;

/// A limit that a job sets for an operator, and that it is an error to exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of memory.
    Memory,
    /// Time for a call.
    Time,
    /// Bytes that a call emits.
    Emitted,
    /// Bytes of state that a call writes, removes, or stamps by reading them.
    Written,
    /// Bytes of state that a read returns.
    Read,
    /// Names of metrics.
    Metrics,
}

impl Limit {
    /// Its key in `limits` of the job file.
    pub fn key(self) -> &'static str {
        match self {
            Limit::Memory => "memory",
            Limit::Time => "time",
            Limit::Emitted => "emitted",
            Limit::Written => "written",
            Limit::Read => "read",
            Limit::Metrics => "metrics",
        }
    }

    /// That it was exceeded, in words that continue "operator x ".
    pub(super) fn exceeded(self, limits: Limits) -> String {
        let (what, limit) = match self {
            Limit::Memory => ("used more than its memory limit of", bytes(limits.memory)),
            Limit::Time => ("ran longer than its time limit of", humantime::format_duration(limits.time).to_string()),
            Limit::Emitted => ("emitted more in one call than its limit of", bytes(limits.emitted)),
            Limit::Written => ("changed more state in one call than its limit of", bytes(limits.written)),
            Limit::Read => ("asked for more state at once than its limit of", bytes(limits.read)),
            Limit::Metrics => ("counts under more names than its limit of", limits.metrics.to_string()),
        };
        format!("{what} {limit} (limits.{})", self.key())
    }
}

/// Gives a new store its limits. That of time each call begins anew; at every tick it is looked whether the call is to end.
pub(super) fn apply(store: &mut Store<Guest>, limits: Limits) {
    store.epoch_deadline_callback(|guest| {
        Ok(if guest.data().wasi.deadline.is_over() { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
    });
    store.limiter(|guest| &mut guest.memory);
    // What a guest hands to a host function lies in its memory, so it is no more than that unless parts of it overlap.
    store.set_hostcall_fuel(usize::try_from(limits.memory).unwrap_or(usize::MAX));
    store.set_max_component_handles(HANDLES);
}

/// Counts an instance's memory, and its tables as part of it.
pub(super) struct MemoryLimit {
    /// Bytes allowed.
    limit: u64,
    used: u64,
    /// Whether memory was refused during the call at hand.
    pub(super) refused: bool,
}

impl MemoryLimit {
    pub(super) fn new(limit: u64) -> Self {
        MemoryLimit { limit, used: 0, refused: false }
    }

    /// Takes so many bytes more, unless that is too much.
    fn take(&mut self, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes as u64);
        if used > self.limit {
            self.refused = true;
            return false;
        }
        self.used = used;
        true
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.take(desired.saturating_sub(current)))
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS && self.take(desired.saturating_sub(current) * ELEMENT_BYTES))
    }

    fn instances(&self) -> usize {
        PARTS
    }

    fn tables(&self) -> usize {
        PARTS
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

/// Counts [`TICK`]s since the engine was made.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticks(Arc<AtomicU64>);

impl Ticks {
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends the calls of the instances that share it, wherever they are.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    due: Arc<AtomicBool>,
    /// That of which it is a part.
    whole: Option<Arc<AtomicBool>>,
}

impl Interrupt {
    /// Ends the calls at hand, and those that follow, unless they end by themselves within a moment.
    pub fn interrupt(&self) {
        self.due.store(true, Ordering::Relaxed);
    }

    /// One for some instances, which this one ends with all others.
    pub fn part(&self) -> Interrupt {
        Interrupt { due: Arc::default(), whole: Some(Arc::clone(&self.due)) }
    }

    /// Whether they are to end.
    pub fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) || self.whole.as_ref().is_some_and(|whole| whole.load(Ordering::Relaxed))
    }
}

/// When the call at hand must be over.
#[derive(Debug)]
pub(super) struct Deadline {
    ticks: Ticks,
    at: u64,
    interrupt: Interrupt,
    /// Ticks that a call has after that.
    grace: u64,
    /// When the call at hand was interrupted.
    interrupted: Cell<Option<u64>>,
}

impl Deadline {
    pub(super) fn new(ticks: Ticks, interrupt: Interrupt) -> Self {
        Deadline { ticks, at: u64::MAX, interrupt, grace: GRACE, interrupted: Cell::default() }
    }

    /// Begins a call that may last `allowed` ticks.
    pub(super) fn begin(&mut self, allowed: u64) {
        self.at = self.ticks.now().saturating_add(allowed);
        self.interrupted.set(None);
    }

    /// The calls from now on are the last ones.
    pub(super) fn begin_to_end(&mut self) {
        self.grace = LAST_GRACE;
    }

    /// Whether the call is not to end by its own fault.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.is_due()
    }

    /// Whether the call is to end: it has lasted too long, or was interrupted and has not ended by itself since.
    pub(super) fn is_over(&self) -> bool {
        let now = self.ticks.now();
        now >= self.at || self.is_interrupted() && now >= self.interrupted_at(now) + self.grace
    }

    /// When the call at hand was interrupted, which is now unless it was before.
    fn interrupted_at(&self, now: u64) -> u64 {
        let at = self.interrupted.get().unwrap_or(now);
        self.interrupted.set(Some(at));
        at
    }
}

/// A limit of time in ticks, rounded up, and one more for the tick that is under way.
pub(super) fn ticks_in(time: Duration) -> u64 {
    let ticks = time.as_millis().div_ceil(TICK.as_millis()) + 1;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// A number of bytes as people write it.
pub(super) fn bytes(count: u64) -> String {
    match count {
        count if count >= 1 << 20 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        count => format!("{count} bytes"),
    }
}
