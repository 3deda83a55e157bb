//! Savepoints that a host is asked to remove: what was asked for and what has come of it. One that a job of it has still to begin from is
//! not removed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::deployment::{Deployment, Ended};
use super::host::Host;
use super::state::{Fault, JobState};
use super::view::{DisposalOperation, DisposalView, Status, StatusId};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::job::{self, Disposed};
use crate::plan::Location;

/// Of how many removals it is remembered what came of them.
const REMEMBERED: usize = 100;

/// The savepoints that were to be removed, the newest last.
#[derive(Default)]
pub(super) struct Disposals(Mutex<VecDeque<Asked>>);

struct Asked {
    trigger_id: String,
    path: Location,
    result: Option<std::result::Result<Disposed, Fault>>,
}

impl Disposals {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, trigger_id: &str, result: Result<Disposed>) {
        if let Some(asked) = self.lock().iter_mut().find(|asked| asked.trigger_id == trigger_id) {
            asked.result = Some(result.map_err(|error| Fault::from(&error)));
        }
    }
}

impl Asked {
    fn view(&self) -> DisposalView {
        let operation = self.result.clone().map(|result| match result {
            Ok(Disposed { path, was_whole, files, foreign }) => {
                DisposalOperation::Disposed { path: path.to_string(), was_whole, files, foreign }
            }
            Err(failure_cause) => DisposalOperation::Failed { failure_cause },
        });
        let id = if operation.is_some() { StatusId::Completed } else { StatusId::InProgress };
        DisposalView { request_id: self.trigger_id.clone(), status: Status { id }, operation }
    }
}

impl Host {
    /// Removes a savepoint, or what an interrupted one has left, and returns by which name to ask what has come of that. If the same is
    /// under way, it is that one's.
    ///
    /// # Errors
    /// Kind `Request`; `Checkpoint` if it is no savepoint; `Conflict` if a job has still to begin from it; `Storage` if that can't be found
    /// out.
    pub fn dispose(&self, path: &str) -> Result<String> {
        let refused = |reason: &str| Error::new(Kind::Request, format!("`{path}` names no savepoint: {reason}"));
        let path = match Location::lasting(path).map_err(|reason| refused(&reason))? {
            Location::Path(path) if !path.is_absolute() => return Err(refused("it is relative, and to what is not known here")),
            path => job::savepoint_at(&path)?,
        };
        for job in self.all_jobs() {
            let deployment = job.deployed();
            if needs(&deployment, &path).map_err(|error| error.context(format!("whether job `{}` needs it", job.name())))? {
                let message = format!("savepoint {path} is what job `{}` begins from, and it has no checkpoint of its own yet", job.name());
                let end = if deployment.ended.is_some() { "forget" } else { "cancel" };
                return Err(Error::new(Kind::Conflict, message).help(format!("try again when it has one, or {end} the job first")));
            }
        }
        let trigger_id = format!("{:016x}", clock::entropy());
        {
            let mut asked = self.disposals().lock();
            if let Some(same) = asked.iter().find(|asked| asked.result.is_none() && asked.path == path) {
                return Ok(same.trigger_id.clone());
            }
            asked.push_back(Asked { trigger_id: trigger_id.clone(), path: path.clone(), result: None });
            if asked.len() > REMEMBERED {
                asked.pop_front();
            }
        }
        let (disposals, named) = (Arc::clone(self.disposals()), trigger_id.clone());
        let work = move || disposals.done(&named, job::dispose(&path));
        let spawned = std::thread::Builder::new().name("savepoint disposal".into()).spawn(work);
        if let Err(error) = spawned {
            let error = Error::new(Kind::Internal, format!("no thread for the removal of a savepoint: {error}"));
            self.disposals().done(&trigger_id, Err(error.clone()));
            return Err(error);
        }
        Ok(trigger_id)
    }

    /// What has come of the removal of a savepoint so far.
    ///
    /// # Errors
    /// Kind `NotFound`.
    pub fn disposal_status(&self, trigger_id: &str) -> Result<DisposalView> {
        let view = self.disposals().lock().iter().find(|asked| asked.trigger_id == trigger_id).map(Asked::view);
        view.ok_or_else(|| {
            Error::new(Kind::NotFound, format!("the host knows of no removal `{trigger_id}`")).help("ask for it again: that is safe")
        })
    }
}

/// Whether a job has still to begin from the savepoint in this directory. One that has stopped or failed does so when it is deployed again,
/// if it was begun before.
fn needs(deployment: &Deployment, savepoint: &Location) -> Result<bool> {
    match &deployment.ended {
        Some(Ended { state: JobState::Stopped | JobState::Failed, .. }) => return begins_again_from(deployment, savepoint),
        Some(_) => return Ok(false),
        None => {}
    }
    let from = deployment.begin.from.as_deref().filter(|from| from.parse::<u64>().is_err());
    // What can't be found any more is none that could be removed.
    let asked = from.and_then(|from| from.parse().ok()).and_then(|from| job::savepoint_at(&from).ok());
    let since = (asked.as_ref() == Some(savepoint)).then_some(deployment.begin.since);
    let plan = deployment.plan_without_components()?;
    job::block_on(job::begins_from(&plan, since, savepoint))
}

/// The same of a job that has ended.
fn begins_again_from(deployment: &Deployment, savepoint: &Location) -> Result<bool> {
    // What can't be understood, or has no checkpoints any more, goes on from nothing.
    let Ok(plan) = deployment.plan_without_components() else { return Ok(false) };
    if matches!(&plan.checkpoint.dir, Location::Path(dir) if !dir.exists()) {
        return Ok(false);
    }
    let begins = job::block_on(job::begins_from(&plan, None, savepoint));
    begins.map_err(|error| error.help("bring its checkpoints back within reach, or forget the job if it is not to go on"))
}
