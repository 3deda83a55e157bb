//! [`Job`]: one job of a host, from its deployment on: what is wanted of it, written down before it is done, and where it stands.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::deployment::{Deployment, Ended, Wanted};
use super::event::{Event, Happened};
use super::journal::Journal;
use super::savepoints::Savepoints;
use super::state::JobState;
use super::swap::SwapCounts;
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::job::{End, Metrics, Order, Progress, SwapReport};
use crate::plan::Plan;
use crate::record::AttemptId;
use crate::telemetry;
use crate::wasm::Interrupt;

/// Bytes after which a file of a job's events is full. Two files are kept.
const EVENT_BYTES: u64 = 128 << 10;
/// Bytes after which a file of a job's log is full. Two files are kept.
const LOG_BYTES: u64 = 1 << 20;

/// One job of a host.
pub(super) struct Job {
    name: String,
    dir: PathBuf,
    /// Held while a command is written down and passed on, so that commands happen one after the other.
    deployment: Mutex<Deployment>,
    live: Mutex<Live>,
    /// Savepoints that were asked for. Held for moments only.
    savepoints: Mutex<Savepoints>,
    /// Held while what is left of some is removed.
    pub(super) clearing: Mutex<()>,
    events: Journal,
    log: Journal,
    /// What runs it, which holds the other end until it is done.
    thread: Mutex<Option<(JoinHandle<()>, Receiver<()>)>>,
}

/// Where a job stands. Held for moments only.
pub(super) struct Live {
    pub(super) state: JobState,
    /// Since when, RFC 3339.
    pub(super) since: String,
    pub(super) parallelism: u16,
    pub(super) attempt: Option<AttemptId>,
    pub(super) restored_from: Option<u64>,
    pub(super) restarts: u64,
    pub(super) progress: Progress,
    pub(super) last_error: Option<String>,
    /// Uid and kind of each node.
    pub(super) nodes: Vec<(String, &'static str)>,
    pub(super) metrics: Option<Arc<Metrics>>,
    /// What it is told goes here, while it runs.
    orders: Option<UnboundedSender<Order>>,
    /// Ends the calls of guests before it runs.
    interrupt: Interrupt,
    /// It was told to stop only to begin again.
    pub(super) begins_again: bool,
    pub(super) swaps: SwapCounts,
    /// What has come of a swap whose component is on probation.
    pub(super) swapped: Option<SwapReport>,
}

impl Live {
    fn new(deployment: &Deployment) -> Self {
        let (state, since) = match &deployment.ended {
            Some(ended) => (ended.state, ended.time.clone()),
            None => (JobState::Created, clock::wall_text()),
        };
        let mut live = Live {
            state,
            since,
            parallelism: 0,
            attempt: None,
            restored_from: None,
            restarts: 0,
            progress: Progress::default(),
            last_error: None,
            nodes: Vec::new(),
            metrics: None,
            orders: None,
            interrupt: Interrupt::default(),
            begins_again: false,
            swaps: SwapCounts::default(),
            swapped: None,
        };
        // If it can't be understood any more, the job fails when it begins.
        if let Ok(plan) = deployment.plan_without_components() {
            live.know(&plan);
        }
        live
    }

    /// Takes note of what is to run.
    pub(super) fn know(&mut self, plan: &Plan) {
        self.parallelism = plan.parallelism;
        self.nodes = plan.nodes.iter().map(|node| (node.uid.clone(), node.kind.role().name())).collect();
        self.metrics = None;
    }

    /// It runs, well or not.
    pub(super) fn enter_running(&mut self) {
        self.enter(if self.progress.health.is_degraded() { JobState::Degraded } else { JobState::Running });
    }

    /// A job that is ending stays so, whatever its attempts still go through.
    pub(super) fn enter(&mut self, state: JobState) {
        let is_ending = matches!(self.state, JobState::Stopping | JobState::Cancelling);
        if self.state != state && (!is_ending || state.is_end() || state == JobState::Cancelling) {
            (self.state, self.since) = (state, clock::wall_text());
        }
    }
}

impl Job {
    /// A job with this deployment, which is written down already.
    pub(super) fn new(dir: PathBuf, deployment: Deployment) -> Self {
        let live = Mutex::new(Live::new(&deployment));
        let (events, log) = (Journal::new(dir.join("events"), EVENT_BYTES), Journal::new(dir.join("log"), LOG_BYTES));
        Job {
            name: deployment.name.clone(),
            dir,
            deployment: Mutex::new(deployment),
            live,
            savepoints: Mutex::default(),
            clearing: Mutex::default(),
            events,
            log,
            thread: Mutex::default(),
        }
    }

    /// Its name, which is its id.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn log(&self) -> &Journal {
        &self.log
    }

    pub(super) fn events(&self) -> &Journal {
        &self.events
    }

    /// Notes what has happened, here and in the log.
    pub(super) fn note(&self, event: Happened, text: impl Into<String>) {
        let text = text.into();
        telemetry::job_span(&self.name).in_scope(|| tracing::info!("{}: {text}", event.name()));
        self.events.add(&Event { event, text });
    }

    pub(super) fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn deployment(&self) -> MutexGuard<'_, Deployment> {
        self.deployment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what is wanted from now on, in the place of `deployment`.
    pub(super) fn change(&self, deployment: &mut Deployment, changed: Deployment) -> Result<()> {
        changed.write(&self.dir)?;
        *deployment = changed;
        Ok(())
    }

    pub(super) fn savepoints(&self) -> MutexGuard<'_, Savepoints> {
        self.savepoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its deployment as it is now.
    pub(super) fn deployed(&self) -> Deployment {
        self.deployment().clone()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.deployment().ended.is_some()
    }

    /// Refuses what can only be done to a job that has ended.
    ///
    /// # Errors
    /// Kind `Conflict`.
    pub(super) fn require_end(&self) -> Result<()> {
        let state = self.live().state;
        if self.is_ended() {
            return Ok(());
        }
        let name = &self.name;
        Err(Error::new(Kind::Conflict, format!("job `{name}` is {} already", state.name()))
            .help(format!("`cofferdam stop {name}` first; to go on from its last checkpoint it is deployed again")))
    }

    /// Refuses what can't be done while a savepoint is taken of what the job has left.
    fn require_no_savepoint(&self) -> Result<()> {
        self.savepoints().of_ended().map_or(Ok(()), |trigger_id| {
            let message = format!("savepoint `{trigger_id}` of job `{}` is being taken", self.name);
            Err(Error::new(Kind::Conflict, message).help("try again when it is whole"))
        })
    }

    /// Takes the place of a deployment that has ended.
    ///
    /// # Errors
    /// Kind `Conflict` if it has not, or a savepoint of it is being taken; `Storage` if it can't be written down.
    pub(super) fn deploy_again(&self, mut deployment: Deployment) -> Result<()> {
        self.require_end()?;
        let mut current = self.deployment();
        self.require_no_savepoint()?;
        let Deployment { id, unfinished, taken_back, .. } = current.clone();
        deployment = Deployment { id, unfinished, taken_back, ..deployment };
        deployment.write(&self.dir)?;
        *self.live() = Live::new(&deployment);
        *current = deployment;
        Ok(())
    }

    /// Removes all that the host has of a job that has ended. Checkpoints and output are not the host's.
    ///
    /// # Errors
    /// Kind `Conflict` if it has not ended, or a savepoint of it is being taken; `Storage` if it can't be removed.
    pub(super) fn forget(&self) -> Result<()> {
        self.require_end()?;
        let mut current = self.deployment();
        self.require_no_savepoint()?;
        current.remove(&self.dir)?;
        // Whoever still removes what one has left, writes nothing down any more.
        current.unfinished.clear();
        Ok(())
    }

    /// Has it end as is wanted. What is wanted already is done already; to cancel overrules all else.
    ///
    /// # Errors
    /// Kind `Conflict` if it has ended, or is about to, in another way; `Storage` if it can't be written down.
    pub(super) fn end(&self, wanted: Wanted) -> Result<()> {
        let mut deployment = self.deployment();
        if deployment.wanted == wanted && deployment.ended.as_ref().is_none_or(|ended| ended.state != JobState::Failed) {
            return Ok(());
        }
        let is_free = deployment.wanted == Wanted::Running || wanted == Wanted::Cancelled;
        if deployment.ended.is_some() || !is_free {
            let message = format!("job `{}` is {} already", self.name, self.live().state.name());
            return Err(Error::new(Kind::Conflict, message).help(format!("`cofferdam describe {}` says how and why", self.name)));
        }
        let changed = Deployment { wanted, ..deployment.clone() };
        self.change(&mut deployment, changed)?;
        self.note(Happened::Asked, wanted.text());
        let mut live = self.live();
        live.enter(if wanted == Wanted::Cancelled { JobState::Cancelling } else { JobState::Stopping });
        live.tell(wanted);
        Ok(())
    }

    /// Has it stop with a last checkpoint and go on from there with another parallelism.
    ///
    /// # Errors
    /// Kind `Conflict` if it has ended or is about to; `Config` if the job can't have that parallelism; `Storage` if it can't be written
    /// down.
    pub(super) fn rescale(&self, parallelism: u16) -> Result<()> {
        let mut deployment = self.deployment();
        if deployment.ended.is_some() || deployment.wanted != Wanted::Running || deployment.saving.is_some() {
            let message = format!("job `{}` is {}", self.name, self.live().state.name());
            let help = "deploy it again with `-p`: it goes on from its last checkpoint, or begins anew if it has finished";
            return Err(Error::new(Kind::Conflict, message).help(help));
        }
        let changed = Deployment { parallelism: Some(parallelism), ..deployment.clone() };
        let before = deployment.plan_without_components()?.parallelism;
        if changed.plan_without_components()?.parallelism == before {
            return Ok(());
        }
        self.change(&mut deployment, changed)?;
        self.note(Happened::Asked, format!("to go on with parallelism {parallelism}, after {before}"));
        let mut live = self.live();
        live.enter(JobState::Restarting);
        live.begins_again = true;
        live.tell(Wanted::Stopped);
        Ok(())
    }

    /// Has it take a last checkpoint, because the host ends; nothing else is wanted of it than before.
    pub(super) fn suspend(&self) {
        let deployment = self.deployment();
        if deployment.wanted == Wanted::Running && deployment.ended.is_none() {
            self.note(Happened::Suspended, "the host ends: the job takes a last checkpoint, and goes on when the host is started again");
            let mut live = self.live();
            live.enter(JobState::Stopping);
            live.tell(Wanted::Stopped);
        }
    }

    /// Its deployment, what it will be told from now on, and what a cancellation ends at once; none if `closing` says that it is not to go on.
    pub(super) fn listen(&self, closing: impl Fn() -> bool) -> Option<(Deployment, UnboundedReceiver<Order>, Interrupt)> {
        // Held, so that nothing that is wanted falls in between.
        let deployment = self.deployment();
        if closing() {
            return None;
        }
        let (orders, taken) = unbounded_channel();
        let mut live = self.live();
        (live.orders, live.interrupt) = (Some(orders), Interrupt::default());
        live.begins_again = false;
        live.tell(deployment.wanted);
        Some((deployment.clone(), taken, live.interrupt.clone()))
    }

    /// It has ended, and is to be told so from now on.
    pub(super) fn ended(&self, ended: Ended) {
        self.note_end(&mut self.deployment(), ended);
    }

    /// The same, unless it was cancelled since it has come to its end: that is still to be done then.
    pub(super) fn ended_unless_cancelled(&self, ended: Ended) -> bool {
        let mut deployment = self.deployment();
        let is_cancelled = deployment.wanted == Wanted::Cancelled && matches!(ended.state, JobState::Stopped | JobState::Failed);
        match (is_cancelled, &ended.error) {
            (false, _) => self.note_end(&mut deployment, ended),
            (true, Some(error)) => tracing::error!("failed before it was cancelled: {}", error.message),
            (true, None) => {}
        }
        !is_cancelled
    }

    fn note_end(&self, deployment: &mut Deployment, ended: Ended) {
        let state = ended.state;
        let why = ended.error.as_ref().map(|fault| format!(": {}", fault.message)).unwrap_or_default();
        self.note(Happened::Ended, format!("{}{why}", state.name()));
        deployment.ended = Some(ended);
        (deployment.saving, deployment.swap) = (None, None);
        if state == JobState::Stopped {
            // With a savepoint, which was all that was written down.
            deployment.wanted = Wanted::Stopped;
        }
        if let Err(error) = deployment.write(&self.dir) {
            // It is found out again when the host is started the next time.
            tracing::error!("job `{}` is {}, which can't be written down: {error}", self.name, state.name());
        }
        let mut live = self.live();
        (live.orders, live.swapped) = (None, None);
        live.enter(state);
    }

    /// It is run by a thread, which drops the other end of `alive` when it is done.
    pub(super) fn runs_in(&self, thread: JoinHandle<()>, alive: Receiver<()>) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some((thread, alive));
    }

    /// Waits until nothing of it runs any more, but no longer than `until`. Whether that is so.
    pub(super) fn rest(&self, until: Instant) -> bool {
        let Some((thread, alive)) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else { return true };
        if alive.recv_timeout(until.saturating_duration_since(clock::now())) == Err(RecvTimeoutError::Timeout) {
            return false;
        }
        // Whatever it has come to is written down.
        thread.join().unwrap_or_default();
        true
    }
}

impl Live {
    /// Whether there is someone to be told something.
    pub(super) fn is_listening(&self) -> bool {
        self.orders.is_some()
    }

    /// Tells it something, if it listens.
    pub(super) fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // When nobody listens any more, the order is dropped, and with it the way of the answer.
            orders.send(order).unwrap_or(());
        }
    }

    fn tell(&mut self, wanted: Wanted) {
        if let (Some(end), Some(orders)) = (wanted.order(), &self.orders) {
            // When nobody listens any more, it is about to end by itself, and what is wanted is looked at then.
            orders.send(Order::End(end)).unwrap_or(());
            if end == End::Cancel {
                self.interrupt.interrupt();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_cancelled_when_it_has_just_stopped_or_failed_is_still_to_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        for state in [JobState::Stopped, JobState::Failed] {
            let ended = |state| Ended { state, time: clock::wall_text(), error: None, summary: None };
            let deployment = Deployment::unreadable("words", &Error::new(Kind::Internal, "none"));
            let job = Job::new(dir.path().into(), Deployment { ended: None, ..deployment });
            job.end(Wanted::Stopped).unwrap();
            job.end(Wanted::Cancelled).unwrap();
            assert!(!job.ended_unless_cancelled(ended(state)), "the command was taken");
            assert_eq!((job.live().state, job.deployed().wanted), (JobState::Cancelling, Wanted::Cancelled));
            assert!(job.ended_unless_cancelled(ended(JobState::Cancelled)));
            job.end(Wanted::Stopped).unwrap_err();
            assert_eq!(job.live().state, JobState::Cancelled);
        }
    }
}
