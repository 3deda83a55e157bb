//! [`Guest`]: what the host keeps beside one instance: the state and outputs lent to it, the call at hand, its limits and its log.
//! The checks that several host functions share are here too.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use wasmtime::Trap;

use super::failure::{Exceeded, Misuse, Rejected};
use super::limits::{Deadline, Limit, MemoryLimit};
use super::log::GuestLog;
use super::metrics::{GuestMetrics, Reading, Uncounted};
use super::wasi::Wasi;
use super::wire::{CellsReply, ColumnReply};
use crate::clock;
use crate::plan::{Descriptor, Limits, OutputPort, Partitioning, StateKind, Variable};
use crate::record::{Batch, Column, MalformedColumn, Outbox, hash_key};
use crate::state::{Cells, KeyedState, OperatorState, SubtaskState};

/// Which call is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// `describe`, in an instance of its own.
    Describe,
    /// `migrate`, in an instance of its own.
    Migrate,
    /// Instantiating and `open`.
    Open,
    /// `process`.
    Process,
    /// `finish`.
    Finish,
    /// `snapshot`.
    Snapshot,
    /// `checkpoint-complete`.
    CheckpointComplete,
    /// `checkpoint-aborted`.
    CheckpointAborted,
    /// `close`.
    Close,
}

/// What a guest may ask about its surroundings.
pub(super) struct Facts {
    /// Names and values, for `runtime.context`.
    pub(super) context: Arc<Vec<(String, String)>>,
    /// For `runtime.config`.
    pub(super) config: Arc<str>,
    /// For WASI.
    pub(super) environment: Arc<[Variable]>,
    pub(super) log: GuestLog,
    pub(super) metrics: Arc<GuestMetrics>,
}

/// The data of an instance's store. What host functions change while they read the guest's memory is in cells, because both belong
/// to the store.
pub(super) struct Guest {
    pub(super) phase: Phase,
    /// While `process` runs, on which input.
    pub(super) port: u32,
    pub(super) descriptor: Arc<Descriptor>,
    pub(super) context: Arc<Vec<(String, String)>>,
    pub(super) config: Arc<str>,
    /// The batch, or the keys, of the call at hand.
    pub(super) call: Arc<Batch>,
    pub(super) state: RefCell<KeyedState>,
    pub(super) operator_state: RefCell<OperatorState>,
    /// For each state of the descriptor its place in both.
    pub(super) places: Arc<[usize]>,
    pub(super) outputs: RefCell<Vec<Outbox>>,
    /// Records that the call rejected, in the order in which it did.
    pub(super) rejected: Vec<Rejected>,
    /// The indices of the records that the call rejected.
    pub(super) rejected_records: HashSet<usize>,
    /// What the guest said before it trapped.
    pub(super) panicked: Option<(Option<usize>, String)>,
    pub(super) memory: MemoryLimit,
    pub(super) wasi: Wasi,
    pub(super) log: GuestLog,
    metrics: Arc<GuestMetrics>,
    /// Whether the call at hand has changed any of them.
    counted: Cell<bool>,
    limits: Limits,
    /// The reply to the last `get` of whatever kind, whose buffers the next one uses.
    pub(super) cells: RefCell<Arc<CellsReply>>,
    /// The reply to the last `map-get-one`.
    pub(super) value: RefCell<Arc<Vec<u8>>>,
    /// The reply to the last `list-read`, or the values of the last scan.
    pub(super) page: RefCell<Arc<ColumnReply>>,
    /// The fields of the last scan.
    pub(super) fields: RefCell<Arc<ColumnReply>>,
    emitted: Cell<u64>,
    written: Cell<u64>,
}

impl Guest {
    pub(super) fn new(
        descriptor: Arc<Descriptor>,
        facts: Facts,
        limits: Limits,
        deadline: Deadline,
        mut state: SubtaskState,
        outputs: Vec<Outbox>,
    ) -> Self {
        state.keyed.limit_taken(usize::try_from(limits.written).unwrap_or(usize::MAX));
        // Deterministic for each attempt: a run can be repeated, and two attempts don't draw the same numbers.
        let seed = facts.context.iter().fold(0, |seed, (name, value)| hash_key(format!("{seed} {name}={value}").as_bytes()));
        Guest {
            phase: Phase::Open,
            port: 0,
            descriptor,
            context: facts.context,
            config: facts.config,
            call: Arc::default(),
            state: RefCell::new(state.keyed),
            operator_state: RefCell::new(state.operator),
            places: state.places,
            outputs: RefCell::new(outputs),
            rejected: Vec::new(),
            rejected_records: HashSet::new(),
            panicked: None,
            memory: MemoryLimit::new(limits.memory),
            wasi: Wasi::new(facts.log.clone(), &facts.environment, deadline, seed),
            log: facts.log,
            metrics: facts.metrics,
            counted: Cell::new(false),
            limits,
            cells: RefCell::default(),
            value: RefCell::default(),
            page: RefCell::default(),
            fields: RefCell::default(),
            emitted: Cell::new(0),
            written: Cell::new(0),
        }
    }

    /// Begins a call: forgets what calls before it have left. State expires by the time at which the call begins.
    pub(super) fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.state.get_mut().begin(clock::wall_ms());
        self.rejected.clear();
        self.rejected_records.clear();
        self.panicked = None;
        self.memory.refused = false;
        self.emitted.set(0);
        self.written.set(0);
    }

    /// Ends a call: keeps what it did, or takes it back.
    pub(super) fn end(&mut self, succeeded: bool) {
        if self.counted.take() {
            self.metrics.settle(succeeded);
        }
        if succeeded {
            let state = self.state.get_mut();
            state.commit();
            // While it finishes, its keys are being counted off.
            if self.phase == Phase::Process {
                state.sweep();
            }
            self.operator_state.get_mut().commit();
        } else {
            self.state.get_mut().undo();
            self.operator_state.get_mut().undo();
            self.outputs.get_mut().iter_mut().for_each(Outbox::discard);
        }
        self.state.get_mut().evict();
    }

    /// Exchanges the batch at hand and `batch`, never during a call.
    pub(super) fn swap_call(&mut self, batch: &mut Batch) {
        let call = Arc::get_mut(&mut self.call).expect("the batch is shared only while the guest runs");
        std::mem::swap(call, batch);
    }

    /// For functions that are useless or harmful outside of certain calls.
    pub(super) fn allow_in(&self, phases: &[Phase], function: &str) -> Result<(), Misuse> {
        if phases.contains(&self.phase) {
            return Ok(());
        }
        Err(Misuse(match self.phase {
            Phase::Describe => format!("{function}: `describe` must not call imports of cofferdam:operator"),
            Phase::Migrate => format!("{function}: `migrate` must not call imports of cofferdam:operator"),
            Phase::Open => format!("{function}: not to be called before `open` has returned"),
            Phase::Process => format!("{function}: not to be called from `process`"),
            Phase::Finish => format!("{function}: not to be called from `finish`"),
            Phase::Snapshot => format!("{function}: not to be called from `snapshot`"),
            Phase::CheckpointComplete => format!("{function}: not to be called from `checkpoint-complete`"),
            Phase::CheckpointAborted => format!("{function}: not to be called from `checkpoint-aborted`"),
            Phase::Close => format!("{function}: not to be called from `close`"),
        }))
    }

    /// Whether the records at hand came to a broadcast input.
    pub(super) fn is_on_broadcast_input(&self) -> bool {
        self.descriptor.inputs.get(self.port as usize).is_some_and(|input| input.partitioning == Partitioning::Broadcast)
    }

    /// For writes that must be the same on all subtasks, so only records that all of them get may bring them about.
    pub(super) fn allow_on_broadcast_input(&self, function: &str) -> Result<(), Misuse> {
        self.allow_in(&[Phase::Process], function)?;
        if self.is_on_broadcast_input() {
            return Ok(());
        }
        let name = self.descriptor.inputs.get(self.port as usize).map_or("", |input| &input.name);
        Err(Misuse(format!("{function}: only on broadcast inputs, and `{name}` is none: the subtasks' copies of the state would differ")))
    }

    /// Where a state is kept, by its index in the descriptor, if it is of one of `kinds`.
    pub(super) fn state_index(&self, state: u32, kinds: &[StateKind], function: &str) -> Result<usize, Misuse> {
        self.allow_in(&[Phase::Open, Phase::Process, Phase::Finish], function)?;
        self.declared(state, kinds, function)
    }

    /// As [`Guest::state_index`], whatever call is at hand.
    pub(super) fn declared(&self, state: u32, kinds: &[StateKind], function: &str) -> Result<usize, Misuse> {
        let states = &self.descriptor.states;
        let Some(declared) = states.get(state as usize) else {
            return Err(Misuse(format!("{function}: there is no state {state}; the descriptor has {}", states.len())));
        };
        if !kinds.contains(&declared.kind) {
            return Err(Misuse(format!("{function}: state `{}` is of another kind ({:?})", declared.name, declared.kind)));
        }
        Ok(self.places[state as usize])
    }

    /// An output port by its index.
    pub(super) fn output_port(&self, port: u32) -> Result<&OutputPort, Misuse> {
        let outputs = &self.descriptor.outputs;
        let missing = || Misuse(format!("output.emit: there is no output {port}; the descriptor has {}", outputs.len()));
        outputs.get(port as usize).ok_or_else(missing)
    }

    /// Checks indices of keys.
    pub(super) fn check_keys(&self, keys: &[u32], function: &str) -> Result<(), Misuse> {
        let count = self.call.keys.len();
        match keys.iter().find(|&&key| key as usize >= count) {
            None => Ok(()),
            Some(key) => Err(Misuse(format!("{function}: key {key} is beyond the {count} keys of this call"))),
        }
    }

    /// Cuts what a host function does for `count` keys or fields into steps of so many, and ends the call between two of them if it is to
    /// end: nothing interrupts the guest while the host works for it.
    #[inline]
    pub(super) fn steps(&self, count: usize, step: usize) -> impl Iterator<Item = Result<Range<usize>, Trap>> {
        (0..count).step_by(step).map(move |start| match start > 0 && self.wasi.deadline.is_over() {
            true => Err(Trap::Interrupt),
            false => Ok(start..count.min(start + step)),
        })
    }

    /// Counts bytes that a call emits.
    pub(super) fn count_emitted(&self, bytes: usize) -> Result<(), Exceeded> {
        count(&self.emitted, bytes, self.limits.emitted).ok_or(Exceeded(Limit::Emitted))
    }

    /// Counts bytes of state that a call writes.
    pub(super) fn count_written(&self, bytes: usize) -> Result<(), Exceeded> {
        count(&self.written, bytes, self.limits.written).ok_or(Exceeded(Limit::Written))
    }

    /// Counts bytes of state that a call has removed, or stamped anew by reading them, since the last time.
    pub(super) fn count_taken(&self, state: &mut KeyedState) -> Result<(), Exceeded> {
        match state.take_taken() {
            0 => Ok(()),
            taken => self.count_written(taken),
        }
    }

    /// Checks how many bytes of state are read at once.
    pub(super) fn check_read(&self, bytes: usize) -> Result<(), Exceeded> {
        if bytes as u64 <= self.limits.read { Ok(()) } else { Err(Exceeded(Limit::Read)) }
    }

    /// Leaves as many of the first cells as a read may return. It may be none only if there was none.
    pub(super) fn cut_read(&self, cells: &mut Cells) -> Result<(), Exceeded> {
        let fit = cells.values.ends.partition_point(|&end| u64::from(end) <= self.limits.read);
        if fit == 0 && !cells.present.is_empty() {
            return Err(Exceeded(Limit::Read));
        }
        cells.present.truncate(fit);
        cells.values.truncate(fit);
        Ok(())
    }

    /// Adds to a counter, or sets a gauge, if the call succeeds.
    pub(super) fn count_metric(&self, name: &str, by: Reading, function: &str) -> wasmtime::Result<()> {
        self.counted.set(true);
        self.metrics.change(name, by, self.limits.metrics).map_err(|uncounted| match uncounted {
            Uncounted::Misuse(cause) => Misuse(format!("{function}: {cause}")).into(),
            Uncounted::TooManyNames => Exceeded(Limit::Metrics).into(),
        })
    }
}

fn count(counter: &Cell<u64>, bytes: usize, limit: u64) -> Option<()> {
    let total = counter.get().saturating_add(bytes as u64);
    counter.set(total);
    (total <= limit).then_some(())
}

/// Checks that two parts that belong together have the same length.
pub(super) fn check_len(what: &str, len: usize, records: usize, function: &str) -> Result<(), Misuse> {
    if len == records { Ok(()) } else { Err(Misuse(format!("{function}: {what} has {len} entries, but there are {records} values"))) }
}

/// Checks a column from a guest.
pub(super) fn check_column(what: &str, ends: &[u32], bytes: &[u8], function: &str) -> Result<(), Misuse> {
    Column::check(ends, bytes).map_err(|malformed: MalformedColumn| Misuse(format!("{function}: {what} is no column: {malformed}")))
}
