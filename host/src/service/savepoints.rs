//! Savepoints of a host's jobs: what was asked for and what has come of it. With one after which a job is to stop, that is written down
//! before anything is done: after a crash the job has stopped if the savepoint is whole, and runs on if it is not.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::deployment::{Deployment, Wanted};
use super::event::Happened;
use super::host::Host;
use super::job::Job;
use super::life::Surroundings;
use super::state::{Fault, JobState};
use super::unfinished::Unfinished;
use super::view::{Operation, SavepointView, Status, StatusId};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::job::{self, Order, Saved, SavepointOrder, Then};
use crate::plan::Location;
use crate::telemetry;
use crate::wasm::Interrupt;

/// Of how many savepoints of a job it is remembered what came of them.
const REMEMBERED: usize = 100;

/// A savepoint to take.
#[derive(Clone, Debug)]
pub struct SavepointWanted {
    /// The directory in which it gets one of its own; none: the one that the job file names.
    pub target: Option<String>,
    /// By which name it is asked for. Asked for again, it is the same one. None: a new one.
    pub trigger_id: Option<String>,
    /// Whether the operators' components go into it.
    pub with_components: bool,
    /// What comes after it.
    pub then: Then,
}

/// Where a savepoint is to be looked for: whether it is whole decides whether its job has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Saving {
    pub(super) trigger_id: String,
    pub(super) target: String,
}

/// The savepoints of a job that were asked for, the newest last.
#[derive(Default)]
pub(super) struct Savepoints(VecDeque<Asked>);

struct Asked {
    trigger_id: String,
    target: Location,
    with_components: bool,
    then: Then,
    writer: String,
    /// Its job had ended, so nothing may happen to that meanwhile.
    of_ended: bool,
    result: Option<std::result::Result<Saved, Fault>>,
}

impl Savepoints {
    fn find(&self, trigger_id: &str) -> Option<&Asked> {
        self.0.iter().find(|asked| asked.trigger_id == trigger_id)
    }

    /// The one that is under way, if the same is asked for again, or another by its name.
    fn under_way(&self, trigger_id: &str, target: &Location, wanted: &SavepointWanted) -> Option<&Asked> {
        let same = |asked: &&Asked| asked.trigger_id == trigger_id || asked.is(target, wanted);
        self.0.iter().filter(|asked| asked.result.is_none()).find(same)
    }

    fn add(&mut self, asked: Asked) {
        self.0.retain(|other| other.trigger_id != asked.trigger_id);
        self.0.push_back(asked);
        if self.0.len() > REMEMBERED
            && let Some(done) = self.0.iter().position(|asked| asked.result.is_some())
        {
            self.0.remove(done);
        }
    }

    fn done(&mut self, trigger_id: &str, result: std::result::Result<Saved, Fault>) {
        if let Some(asked) = self.0.iter_mut().find(|asked| asked.trigger_id == trigger_id) {
            asked.result = Some(result);
        }
    }

    /// Whether somebody in this process writes one, or is about to.
    pub(super) fn is_under_way(&self, writer: &str) -> bool {
        self.0.iter().any(|asked| asked.writer == writer && asked.result.is_none())
    }

    /// The one that is being taken of the job's last checkpoint, after its end.
    pub(super) fn of_ended(&self) -> Option<&str> {
        self.0.iter().find(|asked| asked.of_ended && asked.result.is_none()).map(|asked| asked.trigger_id.as_str())
    }
}

impl Asked {
    /// Whether it is what is asked for.
    fn is(&self, target: &Location, wanted: &SavepointWanted) -> bool {
        (&self.target, self.with_components, self.then) == (target, wanted.with_components, wanted.then)
    }

    fn view(&self) -> SavepointView {
        let operation = self.result.clone().map(|result| match result {
            Ok(Saved { path, checkpoint, bytes, .. }) => Operation::Saved { location: path.to_string(), checkpoint, bytes },
            Err(failure_cause) => Operation::Failed { failure_cause },
        });
        let id = if operation.is_some() { StatusId::Completed } else { StatusId::InProgress };
        SavepointView { request_id: self.trigger_id.clone(), status: Status { id }, operation }
    }
}

impl Host {
    /// Has a job take a savepoint, and returns by which name to ask what has come of it. If the same is under way, it is that one's.
    ///
    /// # Errors
    /// Kind `NotFound`, `Conflict` or `Request`; `Storage` if it can't be written down.
    pub fn savepoint(&self, name: &str, wanted: SavepointWanted) -> Result<String> {
        self.find(name)?.ask_savepoint(wanted, self.around())
    }

    /// What has come of a savepoint so far.
    ///
    /// # Errors
    /// Kind `NotFound`.
    pub fn savepoint_status(&self, name: &str, trigger_id: &str) -> Result<SavepointView> {
        let job = self.find(name)?;
        let view = job.savepoints().find(trigger_id).map(Asked::view);
        view.ok_or_else(|| {
            Error::new(Kind::NotFound, format!("job `{name}` knows of no savepoint `{trigger_id}`"))
                .help("ask for it again by this name: if it was taken, that is found out")
        })
    }
}

impl Job {
    fn ask_savepoint(self: &Arc<Self>, wanted: SavepointWanted, around: &Arc<Surroundings>) -> Result<String> {
        let trigger_id = wanted.trigger_id.clone().unwrap_or_else(|| format!("{:016x}", clock::entropy()));
        if !job::is_trigger_id(&trigger_id) {
            let message = format!("`{trigger_id}` can't name a savepoint");
            return Err(Error::new(Kind::Request, message).help("take 1 to 64 letters and digits"));
        }
        let target = target(&self.deployed(), wanted.target.as_deref())?;
        self.refuse_name_of_another(&wanted, &target)?;
        // Held until it is passed on, so that commands happen one after the other.
        let mut deployment = self.deployment();
        if let Some(asked) = self.savepoints().under_way(&trigger_id, &target, &wanted) {
            let taken = || Error::new(Kind::Conflict, format!("savepoint `{trigger_id}` is under way, and another than this"));
            return if asked.is(&target, &wanted) { Ok(asked.trigger_id.clone()) } else { Err(taken().help("ask by another name")) };
        }
        let (reply, told) = oneshot::channel();
        let (writer, SavepointWanted { with_components, then, .. }) = (format!("{} {:016x}\n", deployment.id, clock::entropy()), wanted);
        let order = SavepointOrder { trigger_id: trigger_id.clone(), writer: writer.clone(), target, with_components, then, reply };
        let of_ended = deployment.ended.as_ref().is_some_and(|ended| matches!(ended.state, JobState::Finished | JobState::Stopped));
        let asked =
            Asked { trigger_id: trigger_id.clone(), target: order.target.clone(), with_components, then, writer, of_ended, result: None };
        if of_ended {
            let mut changed = deployment.clone();
            changed.unfinished.push(Unfinished::of(&order));
            self.change(&mut deployment, changed)?;
            // Its last checkpoint is all that it ever will be.
            let (around, ended) = (Arc::clone(around), deployment.clone());
            self.beside(move |job| save_ended(job, &ended, order, &around))?;
        } else {
            self.order_savepoint(&mut deployment, order)?;
        }
        self.savepoints().add(asked);
        let awaited = trigger_id.clone();
        let awaiting = self.beside(move |job| job.await_savepoint(&awaited, told));
        awaiting.inspect_err(|error| self.savepoints().done(&trigger_id, Err(Fault::from(error))))?;
        Ok(trigger_id)
    }

    /// Does something on a thread of its own.
    pub(super) fn beside(self: &Arc<Self>, work: impl FnOnce(&Job) + Send + 'static) -> Result<()> {
        let job = Arc::clone(self);
        let work = move || telemetry::job_span(job.name()).in_scope(|| work(&job));
        let spawned = std::thread::Builder::new().name(format!("savepoint of {}", self.name())).spawn(work);
        spawned.map(drop).map_err(|error| Error::new(Kind::Internal, format!("no thread for a savepoint: {error}")))
    }

    /// A running job can't stop with a savepoint that was taken before: it has gone on since.
    fn refuse_name_of_another(&self, wanted: &SavepointWanted, target: &Location) -> Result<()> {
        let Some(trigger_id) = wanted.trigger_id.as_deref().filter(|_| wanted.then != Then::GoOn && !self.is_ended()) else {
            return Ok(());
        };
        let is_under_way = self.savepoints().find(trigger_id).is_some_and(|asked| asked.result.is_none());
        let saving = Saving { trigger_id: trigger_id.into(), target: target.to_string() };
        if !is_under_way && is_saved(&self.deployed(), &saving)? {
            let message = format!("savepoint `{trigger_id}` was taken before, and job `{}` has gone on since", self.name());
            return Err(Error::new(Kind::Conflict, message).help("ask for another one, by another name"));
        }
        Ok(())
    }

    /// Passes an order on to the running job.
    fn order_savepoint(&self, deployment: &mut Deployment, order: SavepointOrder) -> Result<()> {
        let may = deployment.wanted == Wanted::Running || (deployment.wanted == Wanted::Drained && order.then == Then::Drain);
        if deployment.ended.is_some() || !may || !self.live().is_listening() {
            let message = format!("job `{}` is {}: there is nothing to take a savepoint of", self.name(), self.live().state.name());
            return Err(Error::new(Kind::Conflict, message).help("ask again when it runs, or has stopped or finished"));
        };
        if let Some(saving) = deployment.saving.as_ref().filter(|_| order.then != Then::GoOn) {
            let message = format!("job `{}` is about to stop with savepoint `{}`", self.name(), saving.trigger_id);
            return Err(Error::new(Kind::Conflict, message).help("when it has stopped, ask again: it can have another one then"));
        }
        let mut changed = deployment.clone();
        changed.unfinished.push(Unfinished::of(&order));
        // One that drains ends as what it is to be, finished; if it does not come so far, nothing has happened.
        if order.then == Then::Stop {
            changed.saving = Some(Saving { trigger_id: order.trigger_id.clone(), target: order.target.to_string() });
        }
        self.change(deployment, changed)?;
        let then = match order.then {
            Then::GoOn => "",
            Then::Stop => ", and then to stop",
            Then::Drain => ", after it has drained",
        };
        self.note(Happened::Asked, format!("to take savepoint `{}` in {}{then}", order.trigger_id, order.target));
        self.live().order(Order::Savepoint(order));
        Ok(())
    }

    /// Waits for what comes of a savepoint.
    fn await_savepoint(&self, trigger_id: &str, told: oneshot::Receiver<Result<Saved>>) {
        let ended = |_| Error::new(Kind::Conflict, format!("job `{}` has ended before it could take a savepoint", self.name()));
        let result = told.blocking_recv().map_err(ended).flatten();
        match &result {
            Ok(saved) => self.note(Happened::Savepoint, format!("taken, of checkpoint {}: {}", saved.checkpoint, saved.path)),
            Err(error) => {
                self.note(Happened::Savepoint, format!("`{trigger_id}` was not taken: {error}"));
                self.go_on_after(trigger_id);
            }
        }
        self.savepoints().done(trigger_id, result.map_err(|error| Fault::from(&error)));
        // If it is whole, there is nothing to do.
        self.clear_interrupted();
    }

    /// The savepoint after which the job was to stop is not there: the job goes on.
    pub(super) fn go_on_after(&self, trigger_id: &str) {
        let mut deployment = self.deployment();
        if deployment.saving.as_ref().is_some_and(|saving| saving.trigger_id == trigger_id) {
            let changed = Deployment { saving: None, ..deployment.clone() };
            if let Err(error) = self.change(&mut deployment, changed) {
                // It is found out again when the host is started the next time.
                tracing::error!("job `{}` goes on without a savepoint, which can't be written down: {error}", self.name());
            }
        }
    }
}

/// Takes a savepoint of a job that has ended.
fn save_ended(job: &Job, deployment: &Deployment, order: SavepointOrder, around: &Surroundings) {
    // The same one may have been interrupted.
    job.clear_interrupted();
    let saved = around.prepare(deployment, &Interrupt::default()).and_then(|prepared| {
        let prepared = Arc::new(prepared);
        job::block_on(job::savepoint_of_ended(&prepared, &order, |digest| around.components.path(digest)))
    });
    // The receiver may be gone.
    order.reply.send(saved).unwrap_or(());
}

/// Whether the savepoint is whole after which a job was to stop.
pub(super) fn is_saved(deployment: &Deployment, saving: &Saving) -> Result<bool> {
    let plan = deployment.plan_without_components()?;
    let target = saving.target.parse().map_err(|reason| Error::new(Kind::Internal, format!("`{}`: {reason}", saving.target)))?;
    Ok(job::block_on(job::find_savepoint(&plan, &deployment.id, &target, &saving.trigger_id))?.is_some())
}

/// The directory that is meant.
fn target(deployment: &Deployment, wanted: Option<&str>) -> Result<Location> {
    let Some(text) = wanted else {
        let plan = deployment.plan_without_components()?;
        return plan.checkpoint.savepoint_dir.ok_or_else(|| {
            Error::new(Kind::Request, format!("job `{}` has no directory for savepoints", deployment.name))
                .help("name one with the command, or set `[checkpoint] savepoint-dir`")
        });
    };
    let refused = |reason: &str| Error::new(Kind::Request, format!("`{text}` can't hold savepoints: {reason}"));
    match Location::lasting(text).map_err(|reason| refused(&reason))? {
        Location::Path(path) if !path.is_absolute() => Err(refused("it is relative, and to what is not known here")),
        target => Ok(target),
    }
}
