//! The life of a job in a host: prepared, run, and once more if that is what is wanted, until it has ended or the host does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use super::components::Components;
use super::deployment::{Deployment, Ended, Wanted};
use super::job::Job;
use super::savepoints::is_saved;
use super::state::{Fault, JobState};
use super::watcher::Watcher;
use crate::clock;
use crate::config::Defaults;
use crate::error::{Error, Kind, Result};
use crate::job::{self, Notice, Observer, Order, Outcome, Prepared, Summary};
use crate::plan::OnCancel;
use crate::telemetry;
use crate::wasm::{Engine, Interrupt};

/// After this time what could not be found out is looked at again.
const AGAIN: Duration = Duration::from_secs(2);

/// What all jobs of a host have in common.
pub(super) struct Surroundings {
    pub(super) engine: Engine,
    pub(super) components: Components,
    /// For what job files leave out.
    pub(super) defaults: Defaults,
    /// The host ends: what ends from now on, ends for that reason.
    pub(super) closing: AtomicBool,
}

impl Surroundings {
    /// Loads and checks everything that a job needs. Takes its time; calls of guests end with `interrupt`.
    pub(super) fn prepare(&self, deployment: &Deployment, interrupt: &Interrupt) -> Result<Prepared> {
        Prepared::new(&deployment.plan(|digest| self.components.path(digest))?, &self.engine, interrupt)
    }
}

/// Runs a job on a thread of its own, besides its workers: whatever it takes to restore or to store it holds up no other. Without something
/// `prepared`, nobody has looked at the job since the host was started.
pub(super) fn begin(job: &Arc<Job>, around: &Arc<Surroundings>, prepared: Option<Prepared>) {
    let (it, around) = (Arc::clone(job), Arc::clone(around));
    let (held, alive) = channel::<()>();
    let run = move || {
        let _held = held;
        let _span = telemetry::job_span(it.name()).entered();
        let mut prepared = prepared;
        loop {
            let Ok(ended) = catch_unwind(AssertUnwindSafe(|| live(&it, &around, prepared.take()))) else {
                return it.ended(failed(&Error::new(Kind::Internal, "the thread that runs the job panicked")));
            };
            let Some(ended) = ended else { return };
            if let Err(error) = it.settle_swap(&it.deployed()) {
                tracing::warn!("what has come of a swap when the job ended is unknown: {error}");
            }
            if it.ended_unless_cancelled(ended) {
                return;
            }
        }
    };
    match std::thread::Builder::new().name(format!("job {}", job.name())).spawn(run) {
        Ok(thread) => job.runs_in(thread, alive),
        Err(error) => job.ended(failed(&Error::new(Kind::Internal, format!("no thread for the job: {error}")))),
    }
}

/// How the job has ended; none if it goes on when the host is started again.
fn live(job: &Arc<Job>, around: &Arc<Surroundings>, mut prepared: Option<Prepared>) -> Option<Ended> {
    let mut last = None;
    loop {
        let (deployment, orders, interrupt) = job.listen(|| around.closing.load(Ordering::SeqCst))?;
        if deployment.wanted == Wanted::Cancelled {
            discard(job, around, &deployment, prepared.take());
            return Some(ended(JobState::Cancelled, None, last));
        }
        if let Some(saving) = &deployment.saving {
            let saved = is_saved(&deployment, saving).and_then(|saved| match saved {
                true => job.settle_swap(&deployment).map(|()| true),
                false => Ok(false),
            });
            match saved {
                Ok(true) => return Some(ended(JobState::Stopped, None, last)),
                Ok(false) => job.go_on_after(&saving.trigger_id),
                Err(error) => {
                    let error = error.context(format!("job `{}`: whether it has stopped with a savepoint is unknown", job.name()));
                    if error.kind() != Kind::Storage {
                        return Some(failed(&error));
                    }
                    // It must not run on if it has.
                    tracing::warn!("{error}");
                    std::thread::sleep(AGAIN);
                    continue;
                }
            }
        }
        let outcome = run(job, around, &deployment, (orders, interrupt), prepared.take());
        let wanted = job.deployed().wanted;
        let is_closing = around.closing.load(Ordering::SeqCst) && wanted == Wanted::Running;
        match outcome {
            Ok(summary) => match (summary.outcome, wanted) {
                (Outcome::Finished, _) => return Some(done(JobState::Finished, &summary)),
                (Outcome::Cancelled, _) => return Some(done(JobState::Cancelled, &summary)),
                (Outcome::Stopped, Wanted::Stopped) => return Some(done(JobState::Stopped, &summary)),
                (Outcome::Stopped, _) if is_closing => return None,
                // To go on with another parallelism, or to be drained; or with a savepoint, which is then found; or it had come to its stop
                // before it was cancelled.
                (Outcome::Stopped, _) => last = serde_json::to_value(summary).ok(),
            },
            Err(error) if is_closing => {
                tracing::error!("goes on from its newest checkpoint when the host is started again: {error}");
                return None;
            }
            // It failed while it was stopping, and was to go on anyway.
            Err(error) if job.live().begins_again && !error.is_for_people() => {
                tracing::warn!("begins again from its newest checkpoint: {error}");
            }
            Err(error) => return Some(failed(&error.context(format!("job `{}`", job.name())))),
        }
    }
}

/// Runs the job until it ends in one way or another.
fn run(
    job: &Arc<Job>,
    around: &Surroundings,
    deployment: &Deployment,
    (mut orders, interrupt): (UnboundedReceiver<Order>, Interrupt),
    prepared: Option<Prepared>,
) -> Result<Summary> {
    let unattended = prepared.is_none();
    let prepared = prepared.map_or_else(|| around.prepare(deployment, &interrupt), Ok)?;
    job.live().know(prepared.plan());
    let watcher = Arc::new(Watcher(Arc::clone(job)));
    let options = job::Options { interrupt, ..deployment.options(unattended, |digest| around.components.path(digest)) };
    job::block_on(job::attempts(Arc::new(prepared), &options, watcher, &mut orders))
}

/// Deletes the checkpoints of a job that was cancelled while none of its attempts ran, if they are not to stay.
fn discard(job: &Arc<Job>, around: &Surroundings, deployment: &Deployment, prepared: Option<Prepared>) {
    let watcher = Watcher(Arc::clone(job));
    let component = |digest: &str| around.components.path(digest);
    let discarded = deployment.plan(component).and_then(|plan| {
        if plan.checkpoint.on_cancel == OnCancel::Retain {
            return Ok(());
        }
        let prepared = prepared.map_or_else(|| around.prepare(deployment, &Interrupt::default()), Ok)?;
        let options = deployment.options(true, component);
        job::block_on(async {
            job::discard_cancelled(&prepared, &options, &watcher).await;
            Ok(())
        })
    });
    if let Err(error) = discarded {
        watcher.notice(&Notice::NotDiscarded { error: error.message().into() });
    }
}

fn ended(state: JobState, error: Option<Fault>, summary: Option<serde_json::Value>) -> Ended {
    Ended { state, time: clock::wall_text(), error, summary }
}

fn done(state: JobState, summary: &Summary) -> Ended {
    // It is plain data, so that nothing can go wrong.
    ended(state, None, serde_json::to_value(summary).ok())
}

fn failed(error: &Error) -> Ended {
    let details = error.details();
    ended(JobState::Failed, Some(Fault::from(error)), (!details.is_empty()).then(|| details.clone().into()))
}
