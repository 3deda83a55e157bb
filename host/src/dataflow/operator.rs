//! [`OperatorStage`]: one subtask of an operator: its instance, its state, and what a barrier means for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::control::{CheckpointEnd, Control};
use super::credit::{Credit, Held};
use super::event::{BarrierCost, Event, Events, SnapshotSlice};
use super::failing::{Arrived, Blame, Letters};
use super::finish::Finish;
use super::flood::Flood;
use super::metrics::Metrics;
use super::source::Origin;
use super::trial::Trial;
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::{OperatorSettings, Partitioning};
use crate::record::{Batch, Outbox};
use crate::state::{OperatorSnapshot, SubtaskState};
use crate::wasm::{Component, Context, Failure, Instance};

/// The shortest time for which frozen state is serialised between two batches.
const SLICE_TIME: Duration = Duration::from_micros(500);
/// The longest such time: enough for what a batch can write, wherever it lies.
const LONGEST_SLICE: Duration = Duration::from_millis(50);
/// Entries that are serialised between two looks at the clock. How long one takes depends on where it lies.
const STEP_ENTRIES: usize = 256;

/// Which subtask of which operator, and whom it tells.
pub(super) struct OperatorPlace {
    pub(super) node: usize,
    pub(super) subtask: u16,
    /// The port for dead letters, whatever outputs its component has.
    pub(super) dead_letters: usize,
    pub(super) control: Arc<Control>,
    pub(super) events: Events,
    pub(super) metrics: Arc<Metrics>,
    pub(super) component: Arc<Component>,
    pub(super) context: Context,
    pub(super) settings: OperatorSettings,
    /// How much of its snapshots may be on its way; none where all state is in memory anyway.
    pub(super) handing_over: Option<Arc<Credit>>,
}

/// One subtask of an operator.
pub(super) struct OperatorStage {
    pub(super) place: OperatorPlace,
    /// None only while a fresh one takes over.
    pub(super) instance: Option<Instance>,
    /// Epochs whose snapshots are not yet handed over, oldest first, each with its operator state.
    freezing: VecDeque<(u64, OperatorSnapshot, BarrierCost)>,
    /// Tells what becomes of checkpoints.
    coming: Receiver<CheckpointEnd>,
    /// What has become of checkpoints, and the guest is still to be told; the oldest first.
    ends: VecDeque<CheckpointEnd>,
    /// The last checkpoint that the guest was told to be committed.
    told: u64,
    /// The last barrier that it has passed.
    passed: u64,
    /// How far it is when its input has ended.
    pub(super) finish: Finish,
    /// Records that failed, in all subtasks.
    pub(super) flood: Arc<Flood>,
    pub(super) letters: Letters,
    /// While its component is on probation.
    pub(super) trial: Option<Arc<Trial>>,
    /// While its component is on probation: the last record that failed in it, and why.
    pub(super) last_failed: Option<String>,
    /// While its component is on probation: the error to roll back with once more records failed than `max-errors` allows.
    pub(super) flooded: Option<Error>,
}

/// Records on their way out: port, target subtask if spread by key, batch.
pub(super) type Emitted = Vec<(usize, Option<u16>, Batch)>;

impl OperatorStage {
    /// Opens the first instance, over `state`; `trial` if its component is on probation. All subtasks have one `flood`.
    pub(super) fn open(
        place: OperatorPlace,
        state: SubtaskState,
        outboxes: Vec<Outbox>,
        flood: Arc<Flood>,
        trial: Option<Arc<Trial>>,
    ) -> Result<Self> {
        let (component, coming) = (Arc::clone(&place.component), place.control.listen());
        let mut stage = OperatorStage {
            place,
            instance: None,
            freezing: VecDeque::new(),
            coming,
            ends: VecDeque::new(),
            told: 0,
            passed: 0,
            finish: Finish::NotYet,
            flood,
            letters: Letters::default(),
            trial,
            last_failed: None,
            flooded: None,
        };
        if let Err(unopened) = stage.begin_with(component, state, outboxes) {
            let error = stage.place.error("opening it", &unopened.failure, Blame::Operator);
            if stage.trial.is_none() || unopened.failure.cause.ends_attempt() {
                return Err(error.for_people());
            }
            stage.go_back_from(error, unopened.state, unopened.outputs)?;
        }
        Ok(stage)
    }

    pub(super) fn instance(&mut self) -> &mut Instance {
        self.instance.as_mut().expect("there is an instance between calls")
    }

    /// Hands a batch to an input port; what is emitted is appended to `emitted`. A record that fails is dealt with as the job says; a
    /// record of a broadcast input fails the job, because all subtasks must have the same of it.
    pub(super) fn process(&mut self, port: u16, mut batch: Batch, origin: Option<&Origin>, emitted: &mut Emitted) -> Result<()> {
        self.heed_verdict()?;
        let (records, failed) = (batch.len() as u64, self.counts().records_failed());
        self.counts().add_in(records);
        let broadcast = self.is_broadcast(port);
        let mut processed = self.instance().process(u32::from(port), &mut batch);
        if let Err(failure) = &processed
            && self.fails_trial(failure, broadcast)
        {
            let failure = failure.clone();
            self.fail_trial_on(&Arrived { port, batch: &batch, origin }, failure)?;
            processed = self.instance().process(u32::from(port), &mut batch);
        }
        let arrived = Arrived { port, batch: &batch, origin };
        match processed {
            Ok(()) => self.keep(&arrived, 0, emitted)?,
            Err(failure) if failure.cause.ends_attempt() => return Err(self.place.attempt_ended(&failure)),
            Err(failure) => self.isolate(&arrived, failure, emitted)?,
        }
        self.drain_letters(emitted);
        self.tell_usage();
        let failed = self.counts().records_failed() - failed;
        self.weigh(records, failed)
    }

    /// The barrier that ends `epoch`, before which records were held back for `aligned`: the guest puts into state what it keeps in
    /// memory, then all of it is frozen. If it refuses to, that is told first, and what is frozen belongs to the next checkpoint.
    pub(super) fn barrier(&mut self, epoch: u64, aligned: Duration) -> Result<()> {
        self.heed_verdict()?;
        let start = clock::now();
        if let Err(failure) = self.instance().snapshot(epoch) {
            let error = self.place.error(&format!("its snapshot hook, for checkpoint {epoch}"), &failure, Blame::Operator);
            let is_spent = failure.cause.is_fatal();
            (self.place.events)(Event::Unsaved { epoch, error: error.clone(), is_spent });
            if is_spent {
                return Err(error);
            }
        }
        self.instance().state().freeze();
        let operator_state = self.instance().operator_state().freeze();
        let froze = clock::now() - start;
        self.freezing.push_back((epoch, operator_state, BarrierCost { aligned, froze }));
        self.passed = epoch;
        self.place.metrics.froze(froze);
        self.tell_usage();
        let swap = self.place.control.swap_at(epoch, self.place.node);
        swap.map_or(Ok(()), |swap| self.change_over(&swap))
    }

    /// Tells the guest what has become of checkpoints whose barrier has come, if it wants to know.
    pub(super) fn notify(&mut self) -> Result<()> {
        match self.tell() {
            Err(error) if self.trial.is_some() && error.kind() != Kind::Storage && !self.place.control.is_cancelled() => {
                self.fail_trial(error)
            }
            told => told,
        }
    }

    fn tell(&mut self) -> Result<()> {
        self.ends.extend(self.coming.try_iter());
        while let Some(end) = self.ends.pop_front_if(|end| end.epoch() <= self.passed) {
            let (told, what) = match end {
                CheckpointEnd::Committed(epoch) => {
                    self.told = epoch;
                    (self.instance().checkpoint_complete(epoch), "complete")
                }
                CheckpointEnd::Aborted(epoch) => (self.instance().checkpoint_aborted(epoch), "given up"),
            };
            told.map_err(|failure| {
                self.place.error(&format!("told that checkpoint {} is {what}", end.epoch()), &failure, Blame::Operator)
            })?;
        }
        Ok(())
    }

    /// Whether it is still to be told of the last barrier's commit.
    pub(super) fn awaits_commit(&self) -> bool {
        self.place.component.descriptor().checkpoint_hooks && self.told < self.passed
    }

    /// Whether snapshots wait to be handed over.
    pub(super) fn is_freezing(&self) -> bool {
        !self.freezing.is_empty()
    }

    /// Hands over a little more of the snapshots that wait, for as long as the batch before took, which is `worked`, or half a millisecond.
    /// Less would not do: while a snapshot waits, batches write what the next one has to hold, and snapshots of an operator that always has
    /// input would grow from one to the next. Returns whether it can do more at once.
    pub(super) fn advance(&mut self, worked: Duration) -> Result<bool> {
        if !self.can_advance() {
            return Ok(false);
        }
        let (start, time) = (clock::now(), worked.clamp(SLICE_TIME, LONGEST_SLICE));
        while self.can_advance() && clock::now() - start < time {
            self.step()?;
        }
        self.place.metrics.sliced(clock::now() - start);
        Ok(self.can_advance())
    }

    fn can_advance(&self) -> bool {
        self.is_freezing() && !self.is_held_up()
    }

    /// Serialises some entries of the oldest snapshot that waits, and hands over what is enough for that.
    fn step(&mut self) -> Result<()> {
        let state = self.instance().state();
        let slice = state.advance(STEP_ENTRIES);
        if let Some(fault) = state.fault().cloned() {
            return Err(self.place.attempt_ended(&Failure::from(&fault)));
        }
        let (Some(slice), Some(&(epoch, _, cost))) = (slice, self.freezing.front()) else { return Ok(()) };
        let operator_state = if slice.last { self.freezing.pop_front() } else { None }.map(|(_, state, _)| state).unwrap_or_default();
        let OperatorPlace { node, subtask, .. } = self.place;
        let held = self.place.handing_over.as_ref().map(|credit| Held::new(credit, slice.changes.memory()));
        (self.place.events)(Event::Snapshot { node, subtask, epoch, part: SnapshotSlice { slice, operator_state, cost, held } });
        Ok(())
    }

    /// Whether what it has handed over has to be stored before there is more. Then it is woken.
    fn is_held_up(&self) -> bool {
        self.place.handing_over.as_ref().is_some_and(|credit| credit.is_used_up())
    }

    /// The end of the instance, for whatever reason. It is too late to fail for what the guest does now, so that is only told.
    pub(super) fn close(&mut self) {
        if !self.instance.as_ref().is_some_and(Instance::is_usable) {
            return;
        }
        let closed = self.tell().and_then(|()| {
            let closed = self.instance().close();
            closed.map_err(|failure| self.place.error("its close hook", &failure, Blame::Operator))
        });
        if let Err(error) = closed {
            tracing::warn!("{error}");
        }
    }

    pub(super) fn is_broadcast(&self, port: u16) -> bool {
        self.place.component.descriptor().inputs[usize::from(port)].partitioning == Partitioning::Broadcast
    }

    pub(super) fn counts(&self) -> &super::metrics::Counts {
        self.place.metrics.counts(self.place.node, self.place.subtask)
    }

    /// Tells what its state takes, if that may be more than memory.
    fn tell_usage(&mut self) {
        if let Some(usage) = self.instance().state().usage() {
            self.counts().set_state(usage);
        }
    }

    pub(super) fn drain(&mut self, emitted: &mut Emitted) {
        let mut records = 0;
        for (port, outbox) in self.instance().outputs().iter_mut().enumerate() {
            records += outbox.drain(|target, batch| emitted.push((port, target, batch)));
        }
        self.counts().add_out(records);
    }
}

impl Drop for OperatorStage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.instance.iter_mut().for_each(Instance::begin_to_end);
            self.close();
        }
    }
}
