//! Swaps: another component takes an operator over while the job runs.
//!
//! Two checkpoints belong to a swap. At the barrier of the first one the components change; it is the old one's last and names that.
//! The second one names the new component: with a way back forward it follows at once, with rewind it ends the probation, and until then
//! nothing is committed. So the newest manifest tells which component the job goes on with, whatever has failed and whatever answer was
//! lost.

mod check;
mod request;
mod settle;
mod steps;
mod told;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dataflow::{Migrate, Swap, Trial, Version};
use crate::error::{Error, Kind, Result};
use crate::wasm::Interrupt;

use super::Notice;
use super::migrate::MigrationProgress;
use super::versions::component_facts;

use check::Candidate;
pub(super) use settle::{Unsettled, newest_digest};
pub(super) use steps::Checked;

pub use request::{CheckReport, Resumed, StateFate, StateReport, SwapOutcome, SwapReply, SwapReport, SwapRequest, WayBack};

/// What a controller has to do with swaps: one at a time, its probation included.
#[derive(Default)]
pub(super) enum Swaps {
    #[default]
    None,
    /// A component is being checked, for whoever waits for the answer; what ends its calls.
    Checking(SwapReply, Interrupt),
    /// A component that fits is taking over, or is on probation.
    At(Box<Swapping>),
}

/// A swap whose component fits, until it is known whether that stays.
pub(super) struct Swapping {
    request: SwapRequest,
    node: usize,
    old: Version,
    candidate: Candidate,
    /// None without a probation.
    trial: Option<Arc<Trial>>,
    /// None once it is answered, or if nobody waits for an answer.
    reply: Option<SwapReply>,
    /// The checkpoint at whose barrier the components change, once it is triggered.
    first: Option<u64>,
    /// Whether the checkpoint is committed at whose barrier the components change.
    pinned: bool,
    /// Whether the second checkpoint is triggered.
    second: bool,
    /// Whether the second checkpoint is committed.
    named: bool,
    /// How long the change has taken, by subtask.
    took: BTreeMap<u16, Duration>,
    /// When its probation is over, once all subtasks have changed.
    until: Option<Instant>,
    /// Whether it was told that it is done.
    told: bool,
}

impl Swaps {
    /// The job is ending: a component that is being checked is too late, and nobody waits for its calls.
    pub(super) fn interrupt_check(&self) {
        if let Swaps::Checking(_, interrupt) = self {
            interrupt.interrupt();
        }
    }

    /// Whether a checkpoint of the swap at hand is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.get().is_some_and(|swapping| swapping.is_due(now))
    }

    /// The operator of the swap at hand, if that can be undone only as long as nothing is committed.
    pub(super) fn may_rewind(&self) -> Option<&str> {
        self.get().filter(|swapping| swapping.request.way_back == WayBack::Rewind).map(|swapping| &*swapping.request.operator)
    }

    /// How far the migration of the swap at hand has come, while it is under way.
    pub(super) fn migrating(&self) -> Option<MigrationProgress> {
        let swapping = self.get().filter(|swapping| swapping.until.is_none())?;
        swapping.candidate.migration.as_ref().map(|migration| migration.progress()).filter(|progress| progress.of > 0)
    }

    /// When there is something to do by itself.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.get().filter(|swapping| swapping.named || swapping.pinned && !swapping.second)?.until
    }

    fn get(&self) -> Option<&Swapping> {
        match self {
            Swaps::At(swapping) => Some(swapping),
            Swaps::None | Swaps::Checking(..) => None,
        }
    }

    fn get_mut(&mut self) -> Option<&mut Swapping> {
        match self {
            Swaps::At(swapping) => Some(swapping),
            Swaps::None | Swaps::Checking(..) => None,
        }
    }
}

impl Swapping {
    fn new(request: SwapRequest, node: usize, old: Version, candidate: Candidate, reply: Option<SwapReply>) -> Self {
        let mut swapping = Swapping {
            request,
            node,
            old,
            candidate,
            trial: None,
            reply,
            first: None,
            pinned: false,
            second: false,
            named: false,
            took: BTreeMap::new(),
            until: None,
            told: false,
        };
        swapping.trial = swapping.new_trial();
        swapping
    }

    fn new_trial(&self) -> Option<Arc<Trial>> {
        let back = (self.request.way_back == WayBack::Forward).then(|| self.old.clone());
        (!self.request.probation.is_zero()).then(|| Arc::new(Trial::new(back, self.request.error_factor)))
    }

    /// Whether one of its checkpoints is. The second one makes the change durable, and with rewind irrevocable.
    fn is_due(&self, now: Instant) -> bool {
        match (self.first, self.until) {
            _ if self.named => false,
            (None, _) => true,
            (Some(_), Some(until)) => self.pinned && !self.second && (self.request.way_back == WayBack::Forward || until <= now),
            (Some(_), None) => false,
        }
    }

    /// Whether nothing can undo it any more.
    fn is_over(&self, now: Instant) -> bool {
        self.named && (self.request.way_back == WayBack::Rewind || self.until.is_some_and(|until| until <= now))
    }

    /// Whether the new component works, and stays through a crash as far as the way back allows.
    fn is_done(&self) -> bool {
        self.until.is_some() && if self.request.way_back == WayBack::Rewind { self.pinned } else { self.named }
    }

    /// For the workers: at the barrier that ends `epoch`, as of the time `at`.
    fn at(&self, epoch: u64, at: i64) -> Swap {
        let migrate = self.candidate.migration.clone().map(|migration| {
            let migrate: Migrate = Arc::new(move |state| migration.rewrite_all(state));
            migrate
        });
        Swap { node: self.node, epoch, at, to: self.candidate.to.clone(), migrate, trial: self.trial.clone() }
    }

    fn report(&self, outcome: SwapOutcome) -> SwapReport {
        let [from, to] = [&self.old, &self.candidate.to].map(|version| &version.component);
        let new_outputs = to.descriptor().outputs.iter().skip(from.descriptor().outputs.len());
        SwapReport {
            operator: self.request.operator.clone(),
            outcome,
            from: component_facts(from),
            to: component_facts(to),
            checks: self.candidate.checks.clone(),
            states: self.candidate.states.clone(),
            new_outputs: new_outputs.map(|output| output.name.clone()).collect(),
            probation_ms: self.request.probation.as_millis() as u64,
            way_back: self.request.way_back,
            checkpoint: self.first,
            migrated: self.candidate.migration.as_ref().map_or(0, |migration| migration.progress().values),
            subtasks_us: self.took.values().map(|took| took.as_micros() as u64).collect(),
            lull_us: None,
        }
    }

    /// Answers whoever has asked for it, if that has not been done.
    fn answer(&mut self, answer: Result<SwapReport>) {
        if let Some(reply) = self.reply.take() {
            // The receiver may be gone.
            reply.send(answer).unwrap_or(());
        }
    }

    /// It is done, and at the longest no record has reached a sink for `lull`, if that is known: answers, and returns what is to be told.
    fn done(&mut self, lull: Option<Duration>) -> Notice {
        self.told = true;
        let report = SwapReport { lull_us: lull.map(|lull| lull.as_micros() as u64), ..self.report(SwapOutcome::Swapped) };
        self.answer(Ok(report.clone()));
        Notice::Swapped { report: Box::new(report) }
    }

    /// The component has failed, or the attempt before it took over: answers, and returns what is to be told.
    fn taken_back(&mut self, reason: &str) -> Notice {
        let operator = self.request.operator.clone();
        let message = format!("the swap of operator `{operator}` was taken back: {reason}");
        self.answer(Err(
            Error::new(Kind::Job, message).help("the job goes on with the component that it had: mend the new one, and swap again")
        ));
        Notice::TakenBack { operator, component: component_facts(&self.candidate.to.component), reason: reason.into() }
    }

    /// Nothing can undo it any more: returns what is to be told.
    fn kept(&self) -> Notice {
        Notice::Kept { operator: self.request.operator.clone(), component: component_facts(&self.candidate.to.component) }
    }
}
