//! Swaps in a host's jobs: what is intended is written down before the job is told, and struck out when it is known what has come of it.
//! Until then both components are kept, and the newest checkpoint tells which of them the job goes on with.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::deployment::{Deployment, Wanted};
use super::event::Happened;
use super::job::Job;
use crate::error::{Error, Kind, Result};
use crate::job::{self, ComponentFacts, Order, Resumed, SwapOutcome, SwapReport, SwapRequest, WayBack};

/// Where a job answers.
pub(super) type SwapAnswer = oneshot::Receiver<Result<SwapReport>>;

/// A swap that is not known to be over. The component before it is the one that the job is deployed with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Intended {
    /// The operator's uid.
    pub operator: String,
    /// The component that takes over.
    pub to: ComponentFacts,
    /// When it was asked for, RFC 3339.
    pub asked: String,
    /// How long the old component stays at hand, in milliseconds.
    pub probation_ms: u64,
    /// What follows if the new one fails meanwhile.
    pub way_back: WayBack,
    /// It fails when the share of its records that fail is more than this many times that of the old one.
    pub error_factor: f64,
}

/// Swaps of a job in this host's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SwapCounts {
    /// Components that have taken an operator over.
    pub done: u64,
    /// Components that have failed on probation, or before they had taken over.
    pub taken_back: u64,
}

/// A component that was to take an operator over and has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TakenBack {
    /// The operator's uid.
    pub operator: String,
    /// The component that has failed.
    pub component: ComponentFacts,
    /// Why, naming the record if it was one.
    pub reason: String,
    /// When, RFC 3339.
    pub time: String,
}

impl Intended {
    fn request(&self, component: PathBuf, dry_run: bool) -> SwapRequest {
        let Intended { operator, probation_ms, way_back, error_factor, .. } = self.clone();
        SwapRequest { operator, component, dry_run, probation: Duration::from_millis(probation_ms), way_back, error_factor }
    }

    /// For a job that begins while it is not known what has come of it.
    pub(super) fn resumed(&self, component: PathBuf) -> Resumed {
        Resumed { request: self.request(component, false), to: self.to.clone() }
    }
}

impl Job {
    /// Has an operator run another component, which lies at `component`: writes it down and tells the job, which will answer.
    ///
    /// # Errors
    /// Kind `Conflict` if the job does not run, or another swap of it is not over; `Storage` if it can't be written down.
    pub(super) fn order_swap(&self, swap: Intended, component: PathBuf, dry_run: bool) -> Result<SwapAnswer> {
        let (reply, answer) = oneshot::channel();
        let mut deployment = self.deployment();
        self.require_running(&deployment)?;
        match &deployment.swap {
            _ if dry_run => {}
            None => {
                let changed = Deployment { swap: Some(swap.clone()), ..deployment.clone() };
                self.change(&mut deployment, changed)?;
                let Intended { operator, to: ComponentFacts { name, version, digest }, .. } = &swap;
                self.note(Happened::Asked, format!("that operator `{operator}` runs `{name}` {version} ({digest:.8})"));
            }
            Some(other) => {
                // The same once more: the answer was lost.
                let report = self.repeated(other, &swap)?;
                reply.send(Ok(report)).unwrap_or(());
                return Ok(answer);
            }
        }
        self.live().order(Order::Swap(swap.request(component, dry_run), reply));
        Ok(answer)
    }

    /// Waits until the component has taken over.
    ///
    /// # Errors
    /// Why it does not fit, or has failed at once. The job runs on with the one that it had then.
    pub(super) fn await_swap(&self, swap: &Intended, dry_run: bool, answer: SwapAnswer) -> Result<SwapReport> {
        let Ok(answer) = answer.blocking_recv() else {
            // It stays written down: what has come of it is found out when the job goes on.
            let message = format!("job `{}` has ended in the middle of the swap", self.name());
            return Err(Error::new(Kind::Conflict, message).help("its newest checkpoint decides which component it goes on with"));
        };
        if !dry_run && !answer.as_ref().is_ok_and(|report| report.outcome == SwapOutcome::Swapped) {
            self.strike_out(|intended| intended == swap, false, None);
        }
        answer
    }

    /// What has come of a swap that is asked for while another is not over: of the same one.
    fn repeated(&self, other: &Intended, swap: &Intended) -> Result<SwapReport> {
        let live = self.live();
        let same = (&other.operator, &other.to.digest) == (&swap.operator, &swap.to.digest);
        live.swapped.clone().filter(|_| same).ok_or_else(|| {
            let message = format!("job `{}`: the swap of operator `{}` is not over", self.name(), other.operator);
            Error::new(Kind::Conflict, message).help("wait for the end of its probation, of which the job's log tells")
        })
    }

    fn require_running(&self, deployment: &Deployment) -> Result<()> {
        let is_to_run = deployment.ended.is_none() && deployment.wanted == Wanted::Running && deployment.saving.is_none();
        if is_to_run && self.live().is_listening() {
            return Ok(());
        }
        let is = if deployment.saving.is_some() { "about to stop" } else { self.live().state.name() };
        let message = format!("job `{}` is {is}", self.name());
        Err(Error::new(Kind::Conflict, message)
            .help("an operator can be swapped while the job runs; otherwise deploy it with the new component"))
    }

    /// The job has ended: the newest checkpoint tells what has come of a swap.
    ///
    /// # Errors
    /// Kind `Storage` if that can't be read, or another if it can't be understood.
    pub(super) fn settle_swap(&self, deployment: &Deployment) -> Result<()> {
        let Some(Intended { operator, to, .. }) = &deployment.swap else { return Ok(()) };
        let plan = deployment.plan_without_components()?;
        let newest = job::block_on(job::newest_component(&plan, operator))?;
        self.swap_is_over(to, newest.as_ref() == Some(&to.digest));
        Ok(())
    }

    /// It is known what has come of the swap to a component: it stays or not.
    pub(super) fn swap_is_over(&self, to: &ComponentFacts, stays: bool) {
        self.strike_out(|intended| intended.to.digest == to.digest, stays, None);
    }

    /// A component was taken back.
    pub(super) fn swap_failed(&self, failed: TakenBack) {
        let digest = failed.component.digest.clone();
        self.strike_out(|intended| intended.to.digest == digest, false, Some(failed));
    }

    fn strike_out(&self, is_it: impl Fn(&Intended) -> bool, stays: bool, failed: Option<TakenBack>) {
        let mut deployment = self.deployment();
        let swap = deployment.swap.clone().filter(is_it);
        if swap.is_none() && failed.is_none() {
            return;
        }
        let mut changed = deployment.clone();
        if let Some(swap) = swap {
            changed.swap = None;
            changed.components.extend(stays.then_some((swap.operator, swap.to.digest)));
        }
        changed.taken_back = failed.or(changed.taken_back);
        if let Err(error) = self.change(&mut deployment, changed) {
            // Then it is found out once more when the host is started the next time.
            tracing::error!("what has come of a swap can't be written down: {error}");
        }
        self.live().swapped = None;
    }
}
