//! Swaps: at a barrier a subtask's instance is dropped and one of another component opened over the same state. While that one is on
//! probation the old component stays at hand: when the new one fails, its batch is undone, and the old one goes on with the state as it
//! is, in all subtasks. Nothing is replayed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::event::Event;
use super::failing::{Arrived, Blame, part};
use super::operator::{OperatorPlace, OperatorStage};
use super::trial::{Trial, Verdict};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::OnError;
use crate::record::{Outbox, Shape};
use crate::state::{Arrangement, SubtaskState};
use crate::wasm::{Cause, Component, Failure, Instance, Limit, PROBE_TIME, Unopened};

/// What a failure to open an instance is told of.
const OPENING: &str = "opening it in the place of another";

/// A component of an operator, and where its states stand.
#[derive(Clone, Debug)]
pub struct Version {
    /// The component.
    pub component: Arc<Component>,
    /// Where its states stand.
    pub arrangement: Arrangement,
}

/// Makes the state that the old component wrote what the new one reads. Calls the guest.
pub type Migrate = Arc<dyn Fn(&mut SubtaskState) -> Result<()> + Send + Sync>;

/// Another component takes an operator over.
#[derive(Clone)]
pub struct Swap {
    /// The operator.
    pub node: usize,
    /// At the barrier that ends this epoch.
    pub epoch: u64,
    /// Since when, in milliseconds since the Unix epoch: one time for all subtasks, and for manifests.
    pub at: i64,
    /// What takes over.
    pub to: Version,
    /// What has to be done to its state before.
    pub migrate: Option<Migrate>,
    /// Its probation, if it has one.
    pub trial: Option<Arc<Trial>>,
}

/// The pause between two looks at whether more of a snapshot may be handed over.
const STORING: Duration = Duration::from_millis(1);

impl fmt::Debug for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Swap").field("node", &self.node).field("epoch", &self.epoch).field("to", &self.to).finish_non_exhaustive()
    }
}

impl OperatorStage {
    /// A barrier has fallen behind which another component runs: it takes over.
    pub(super) fn change_over(&mut self, swap: &Swap) -> Result<()> {
        let start = clock::now();
        if swap.migrate.is_some() {
            // The values that snapshots wait for are about to be rewritten.
            while self.is_freezing() {
                if self.place.control.is_cancelled() {
                    return Err(Error::new(Kind::Job, "the attempt has ended while a component waited for snapshots to be stored"));
                }
                if !self.advance(Duration::ZERO)? && self.is_freezing() {
                    // As much as may be is on its way to be stored.
                    std::thread::sleep(STORING);
                }
            }
        }
        let (mut state, outputs) = self.dismiss();
        state.arrange(&swap.to.arrangement, swap.at);
        swap.migrate.as_ref().map_or(Ok(()), |migrate| migrate(&mut state))?;
        if let Some(trial) = &swap.trial {
            let counts = self.counts();
            trial.add_old(counts.records_in(), counts.records_failed());
        }
        self.trial.clone_from(&swap.trial);
        if let Err(unopened) = self.begin_with(Arc::clone(&swap.to.component), state, outputs) {
            let error = self.place.error(OPENING, &unopened.failure, Blame::Operator);
            if unopened.failure.cause.ends_attempt() {
                return Err(error);
            }
            return self.go_back_from(error, unopened.state, unopened.outputs);
        }
        let (subtask, epoch) = (self.place.subtask, swap.epoch);
        (self.place.events)(Event::ChangedOver { subtask, epoch, took: clock::now() - start });
        Ok(())
    }

    /// Does what another subtask or the controller has found out about the component on probation.
    pub(super) fn heed_verdict(&mut self) -> Result<()> {
        let Some(trial) = &self.trial else { return Ok(()) };
        match trial.verdict() {
            None => Ok(()),
            Some(Verdict::Passed) => {
                self.trial = None;
                Ok(())
            }
            Some(Verdict::Failed { at }) => {
                let (state, outputs) = self.dismiss();
                self.go_back(state, outputs, at)
            }
        }
    }

    /// Whether a failed call ends the probation of the component. A record that fails is no more than that where the job goes on
    /// without it; what ends an instance is. Neither a disk nor the end of the attempt is the component's fault.
    pub(super) fn fails_trial(&self, failure: &Failure, broadcast: bool) -> bool {
        self.trial.is_some()
            && !failure.cause.ends_attempt()
            && (broadcast || self.place.settings.on_error == OnError::Fail || failure.cause.is_fatal())
    }

    /// The component on probation has failed on a batch, which is undone: the old one is there to work on it afterwards.
    ///
    /// # Errors
    /// If there is no way back but through the end of the attempt.
    pub(super) fn fail_trial_on(&mut self, whole: &Arrived<'_>, failure: Failure) -> Result<()> {
        if self.trial.as_ref().is_some_and(|trial| trial.back.is_none()) {
            return Err(self.blame(whole, failure));
        }
        let batch = self.place.error(&format!("a batch of {} records", whole.batch.len()), &failure, Blame::Operator);
        match self.guilty(whole, failure) {
            Ok(found) => self.fail_trial(found.unwrap_or(batch)),
            Err(unopened) => self.go_back_from(batch, unopened.state, unopened.outputs),
        }
    }

    /// The component on probation has failed, of which nothing is left: the old one takes over.
    ///
    /// # Errors
    /// If there is no way back but through the end of the attempt.
    pub(super) fn fail_trial(&mut self, error: Error) -> Result<()> {
        let (state, outputs) = self.dismiss();
        self.go_back_from(error, state, outputs)
    }

    /// How the component on probation has fared with a batch. If it fails on too many records, the old one takes over.
    pub(super) fn weigh(&mut self, records: u64, failed: u64) -> Result<()> {
        let too_many = self.trial.as_ref().and_then(|trial| trial.add(records, failed));
        if let Some(flooded) = self.flooded.take() {
            return self.fail_trial(flooded);
        }
        let Some(too_many) = too_many else { return Ok(()) };
        let last = self.last_failed.take().map(|last| format!("; the last was {last}")).unwrap_or_default();
        let OperatorPlace { context, subtask, .. } = &self.place;
        let message = format!("operator `{}`, subtask {subtask}: {too_many}{last}", context.operator);
        self.fail_trial(Error::new(Kind::Job, message))
    }

    /// Finds the record to blame for a failed batch, as the end of its shortest beginning that fails; none where that takes too long.
    /// Nothing that is tried stays.
    fn guilty(&mut self, whole: &Arrived<'_>, failure: Failure) -> Result<Option<Error>, Box<Unopened>> {
        if let Some(record) = failure.guilty() {
            return Ok(Some(self.place.record_error(whole, record, &failure, Blame::Record)));
        }
        // Several records may have had less than the operator's limit of time, so that they ran out of it says nothing.
        let is_over =
            |failure: &Failure, records| failure.cause.ends_attempt() || (records > 1 && failure.cause == Cause::Limit(Limit::Time));
        let (mut good, mut bad, mut last) = (0, whole.batch.len(), failure);
        let mut spent = true;
        while bad - good > 1 {
            if is_over(&last, bad) {
                return Ok(None);
            }
            if spent {
                let (component, (state, outputs)) = (Arc::clone(&self.place.component), self.dismiss());
                self.install(component, state, outputs)?;
            }
            let (middle, limit) = (good + (bad - good) / 2, self.place.settings.limits.time);
            self.instance().set_time(if middle == 1 { limit } else { limit.min(PROBE_TIME) });
            let tried = self.instance().rehearse(u32::from(whole.port), &mut part(whole.batch, 0, middle));
            spent = tried.is_err();
            match tried {
                Ok(()) => good = middle,
                Err(failure) => (bad, last) = (middle, failure),
            }
        }
        Ok((!is_over(&last, bad)).then(|| self.place.record_error(whole, bad - 1, &last, Blame::Record)))
    }

    /// Ends the instance; what was lent to it is handed back.
    fn dismiss(&mut self) -> (SubtaskState, Vec<Outbox>) {
        self.close();
        self.instance.take().expect("there is an instance between calls").into_parts()
    }

    /// Opens the first instance of a component, which counts from the beginning: its predecessor may have meant something else by a name.
    pub(super) fn begin_with(&mut self, component: Arc<Component>, state: SubtaskState, outputs: Vec<Outbox>) -> Result<(), Box<Unopened>> {
        self.place.context.metrics.begin(component.digest());
        self.install(component, state, outputs)
    }

    /// Opens an instance of a component over state that is arranged for it.
    fn install(&mut self, component: Arc<Component>, state: SubtaskState, mut outputs: Vec<Outbox>) -> Result<(), Box<Unopened>> {
        let OperatorPlace { context, settings, .. } = &self.place;
        // Nothing is connected to what comes or goes.
        outputs.resize_with(component.descriptor().outputs.len(), || Outbox::new(Shape::default()));
        self.instance = Some(Instance::open(&component, context, settings.limits, settings.on_error, state, outputs)?);
        self.place.component = component;
        Ok(())
    }

    /// The component on probation has failed, for the reason given.
    pub(super) fn go_back_from(&mut self, error: Error, state: SubtaskState, outputs: Vec<Outbox>) -> Result<()> {
        let Some(trial) = self.trial.as_ref().filter(|trial| trial.back.is_some()) else { return Err(error) };
        let is_first = trial.fail(clock::wall_ms());
        // Where it has passed it stays, as everyone else knows, so this is a failure like any other.
        let Some(at) = trial.failed_at() else { return Err(error) };
        if is_first {
            (self.place.events)(Event::Unfit { error });
            // The other subtasks take the old one back too.
            self.place.control.wake();
        }
        self.go_back(state, outputs, at)
    }

    fn go_back(&mut self, mut state: SubtaskState, outputs: Vec<Outbox>, at: i64) -> Result<()> {
        let trial = self.trial.take().expect("only what is on probation is taken back");
        let back = trial.back.as_ref().expect("there is a way back");
        state.arrange(&back.arrangement, at);
        self.flood.reset();
        // The attempt fails then, and the next one begins with the old component all the same.
        let installed = self.begin_with(Arc::clone(&back.component), state, outputs);
        installed.map_err(|unopened| self.place.error(OPENING, &unopened.failure, Blame::Operator))
    }
}
