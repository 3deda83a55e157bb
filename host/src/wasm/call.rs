//! [`Runner`]: an instance's store, and what every call into it has in common: the batch at hand, the limits, the verdict.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;

use super::engine::Engine;
use super::failure::{Cause, Failure, Rejected, one_line};
use super::guest::{Facts, Guest, Phase};
use super::limits::{self, Interrupt};
use super::log::GuestLog;
use crate::plan::{Descriptor, Limits, OnError};
use crate::record::Batch;
use crate::state::SubtaskState;

/// What an operator's functions return.
pub(super) type Returned = (Result<(), String>,);

/// Calls into one instance. wasmtime forbids a store to be entered after a trap, so each instance has one of its own.
pub(super) struct Runner {
    store: Store<Guest>,
    limits: Limits,
    /// Whether a rejected record fails the call. One of a broadcast input always does, because all subtasks must have the same.
    on_error: OnError,
    /// The limit of time in ticks.
    ticks: u64,
    /// Whether a call has trapped.
    spent: bool,
    /// Keeps the guests' clock going.
    _engine: Engine,
}

impl Runner {
    pub(super) fn new(engine: &Engine, guest: Guest, limits: Limits, on_error: OnError) -> Self {
        let mut store = Store::new(engine.wasmtime(), guest);
        limits::apply(&mut store, limits);
        Runner { store, limits, on_error, ticks: limits::ticks_in(limits.time), spent: false, _engine: engine.clone() }
    }

    /// For calls of a component in which nothing but they themselves may happen: nowhere in a job, and without state.
    pub(super) fn apart(engine: &Engine, operator: &str, descriptor: &Arc<Descriptor>, limits: Limits, interrupt: &Interrupt) -> Self {
        let log = GuestLog::new(operator, 0, limits.log_lines);
        let facts = Facts { context: Arc::default(), config: "".into(), environment: Arc::new([]), log, metrics: Arc::default() };
        let (deadline, state) = (engine.deadline(interrupt.clone()), SubtaskState::new(&[], 1));
        let guest = Guest::new(Arc::clone(descriptor), facts, limits, deadline, state, Vec::new());
        Runner::new(engine, guest, limits, OnError::Fail)
    }

    pub(super) fn set_time(&mut self, time: Duration) {
        self.limits.time = time;
        self.ticks = limits::ticks_in(time);
    }

    pub(super) fn guest(&mut self) -> &mut Guest {
        self.store.data_mut()
    }

    pub(super) fn into_guest(self) -> Guest {
        self.store.into_data()
    }

    /// Whether the instance takes calls.
    pub(super) fn is_usable(&self) -> bool {
        !self.spent
    }

    /// Calls into the guest with `batch` at hand, within the limits. What the call did to state and outputs is left pending.
    pub(super) fn call<R>(
        &mut self,
        phase: Phase,
        batch: &mut Batch,
        run: impl FnOnce(&mut Store<Guest>, &Batch) -> wasmtime::Result<R>,
    ) -> Result<R, Failure> {
        if self.spent {
            return Err(Failure::new(Cause::Trap, None, "was called again after it had trapped"));
        }
        let guest = self.store.data_mut();
        guest.begin(phase);
        guest.wasi.deadline.begin(self.ticks);
        guest.swap_call(batch);
        let at_hand = Arc::clone(&guest.call);
        self.store.set_epoch_deadline(1);
        let result = run(&mut self.store, &at_hand);
        drop(at_hand);
        let guest = self.store.data_mut();
        guest.swap_call(batch);
        result.map_err(|error| {
            self.spent = true;
            tracing::debug!("a guest's call ended with: {error:?}");
            Failure::of_trap(&error, guest, self.limits)
        })
    }

    /// A call that is a transaction: if it fails in any way, the state is as before and nothing is emitted.
    pub(super) fn transact(
        &mut self,
        phase: Phase,
        batch: &mut Batch,
        run: impl FnOnce(&mut Store<Guest>, &Batch) -> wasmtime::Result<Returned>,
    ) -> Result<(), Failure> {
        let outcome = self.attempt(phase, batch, run);
        self.guest().end(outcome.is_ok());
        outcome
    }

    /// A call of which nothing stays: afterwards the state is as before and nothing is emitted, whatever came of it.
    pub(super) fn rehearse(
        &mut self,
        phase: Phase,
        batch: &mut Batch,
        run: impl FnOnce(&mut Store<Guest>, &Batch) -> wasmtime::Result<Returned>,
    ) -> Result<(), Failure> {
        let outcome = self.attempt(phase, batch, run);
        self.guest().end(false);
        outcome
    }

    /// A call, and what comes of it.
    fn attempt(
        &mut self,
        phase: Phase,
        batch: &mut Batch,
        run: impl FnOnce(&mut Store<Guest>, &Batch) -> wasmtime::Result<Returned>,
    ) -> Result<(), Failure> {
        let outcome = self.call(phase, batch, run).and_then(|(returned,)| self.judge(returned));
        // Whatever the guest made of what it read then.
        self.guest().state.get_mut().fault().map_or(outcome, |fault| Err(fault.into()))
    }

    /// The verdict on a call that returned.
    fn judge(&mut self, returned: Result<(), String>) -> Result<(), Failure> {
        if let Err(message) = returned {
            return Err(Failure::new(Cause::Error, None, format!("failed: {}", one_line(&message))));
        }
        let on_error = self.on_error;
        let guest = self.guest();
        match guest.rejected.first() {
            Some(Rejected { record, message }) if on_error == OnError::Fail || guest.is_on_broadcast_input() => {
                Err(Failure::new(Cause::Rejected, Some(*record), format!("rejected a record: {message}")))
            }
            _ => Ok(()),
        }
    }
}
