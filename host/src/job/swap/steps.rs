//! The steps of a swap, as a controller takes them.

use std::sync::Arc;
use std::time::Duration;

use super::check::{Candidate, check};
use super::{SwapOutcome, SwapReply, SwapRequest, Swapping, Swaps};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::job::Outcome;
use crate::job::controller::{Controller, Done};
use crate::job::prepare::Prepared;
use crate::threads::apart;

/// A component that was checked: whose place it is to take, and who has asked.
pub(in crate::job) struct Checked {
    request: SwapRequest,
    node: usize,
    candidate: Result<Candidate>,
}

impl Controller {
    /// A swap is asked for: the component is checked beside everything else.
    pub(in crate::job) fn order_swap(&mut self, request: SwapRequest, reply: SwapReply) {
        let node = match self.swappable(&request) {
            Ok(node) => node,
            // The receiver may be gone.
            Err(refused) => return reply.send(Err(refused)).unwrap_or(()),
        };
        let interrupt = self.control.interrupt().part();
        self.swaps = Swaps::Checking(reply, interrupt.clone());
        let (prepared, runs, asked) = (Arc::clone(&self.prepared), self.versions.newest(node).clone(), request.clone());
        self.tasks.spawn(async move {
            let candidate = apart(move || check(&prepared, node, &runs, &asked, &interrupt)).await;
            Ok(Done::Checked(Box::new(Checked { request, node, candidate })))
        });
    }

    /// Refuses a swap that would come when the job ends, or holds still so that it can.
    fn require_no_end(&self) -> Result<()> {
        if self.ending.is_none() && !self.savepoints.hold() {
            return Ok(());
        }
        Err(Error::new(Kind::Conflict, "the job is ending").help("begin it again with the new component"))
    }

    /// The node of an operator that can be swapped now.
    fn swappable(&self, request: &SwapRequest) -> Result<usize> {
        let operator = &request.operator;
        let refused = |what: String, help: &str| Err(Error::new(Kind::Conflict, what).help(help));
        self.require_no_end()?;
        match &self.swaps {
            Swaps::None => {}
            Swaps::Checking(..) => return refused("another swap of the job has begun".into(), "wait for its end"),
            Swaps::At(other) => {
                let what = format!("the swap of operator `{}` is not over: its component is on probation", other.request.operator);
                return refused(what, "wait for its end: the events of the job tell of it");
            }
        }
        let Prepared { plan, components, .. } = &*self.prepared;
        let operators = || plan.nodes.iter().enumerate().filter(|(node, _)| components[*node].is_some());
        operators().find(|(_, node)| node.uid == *operator).map(|(place, _)| place).ok_or_else(|| {
            let uids: Vec<&str> = operators().map(|(_, node)| node.uid.as_str()).collect();
            Error::new(Kind::NotFound, format!("the job has no operator `{operator}`")).help(format!("it has `{}`", uids.join("`, `")))
        })
    }

    /// A component was checked: its barrier is due, unless it does not fit or there is nothing to do.
    pub(in crate::job) fn checked(&mut self, checked: Checked) {
        let Checked { request, node, candidate } = checked;
        let Swaps::Checking(reply, _) = std::mem::take(&mut self.swaps) else { unreachable!("nothing else begins meanwhile") };
        let candidate = match self.require_no_end().and(candidate) {
            Ok(candidate) => candidate,
            Err(refused) => return reply.send(Err(refused)).unwrap_or(()),
        };
        let old = self.versions.newest(node).clone();
        let outcome = match old.component.digest() == candidate.to.component.digest() {
            true => SwapOutcome::Unchanged,
            false => SwapOutcome::Fits,
        };
        let idle = request.dry_run || outcome == SwapOutcome::Unchanged;
        let mut swapping = Swapping::new(request, node, old, candidate, Some(reply));
        if idle {
            let report = swapping.report(outcome);
            swapping.answer(Ok(report));
        } else {
            self.swaps = Swaps::At(Box::new(swapping));
        }
    }

    /// A checkpoint of the swap is triggered, the one that ends `epoch`.
    pub(in crate::job) fn trigger_swap(&mut self, epoch: u64) {
        let Some(swapping) = self.swaps.get_mut() else { return self.control.trigger(epoch) };
        if swapping.first.is_some() {
            swapping.second = true;
            return self.control.trigger(epoch);
        }
        swapping.first = Some(epoch);
        self.metrics.lull().begin();
        let (node, to) = (swapping.node, swapping.candidate.to.clone());
        let now = clock::wall_ms();
        self.control.swap(swapping.at(epoch, now));
        self.prepared = Arc::new(self.prepared.with(node, &to.component));
        self.versions.replace(node, epoch + 1, to, now);
    }

    /// A subtask has changed over.
    pub(in crate::job) fn changed_over(&mut self, subtask: u16, epoch: u64, took: Duration) {
        let subtasks = self.prepared.plan.parallelism;
        // One of a swap that is over already may be late.
        let Some(swapping) = self.swaps.get_mut().filter(|swapping| swapping.first == Some(epoch)) else { return };
        swapping.took.insert(subtask, took);
        if swapping.took.len() == usize::from(subtasks) {
            swapping.until = Some(clock::now() + swapping.request.probation);
            swapping.candidate.migration.iter().for_each(|migration| migration.tell());
        }
        self.tell_of_swap();
    }

    /// A checkpoint is committed.
    pub(in crate::job) fn swap_committed(&mut self, epoch: u64) {
        let Some(swapping) = self.swaps.get_mut() else { return };
        match swapping.first {
            Some(first) if epoch == first => {
                swapping.pinned = true;
                if swapping.candidate.migration.is_some() {
                    // What was migrated is as no file holds it.
                    self.lists.begin_afresh(&swapping.request.operator);
                }
            }
            Some(first) if epoch > first => (swapping.second, swapping.named) = (true, true),
            _ => {}
        }
        self.tell_of_swap();
    }

    fn tell_of_swap(&mut self) {
        if let Some(swapping) = self.swaps.get_mut().filter(|swapping| swapping.is_done() && !swapping.told) {
            self.observer.notice(&swapping.done(Some(self.metrics.lull().longest())));
        }
    }

    /// The component on probation has failed, and its subtasks go back to the old one. All that is committed from now on names that.
    pub(in crate::job) fn unfit(&mut self, error: &Error) {
        let Some(swapping) = self.swaps.get_mut() else { return };
        let (node, first, old) = (swapping.node, swapping.first, swapping.old.clone());
        // The subtasks go by the same time.
        let at = swapping.trial.as_ref().and_then(|trial| trial.failed_at()).unwrap_or_else(clock::wall_ms);
        self.observer.notice(&swapping.taken_back(error.message()));
        self.swaps = Swaps::None;
        self.prepared = Arc::new(self.prepared.with(node, &old.component));
        self.versions.replace(node, first.map_or(0, |first| first + 1), old, at);
    }

    /// Ends a probation whose time is over.
    pub(in crate::job) fn end_probation(&mut self) {
        let now = clock::now();
        let Some(swapping) = self.swaps.get_mut().filter(|swapping| swapping.is_over(now)) else { return };
        // Where it has failed at the last moment, the word of that is on its way.
        if swapping.trial.as_ref().is_none_or(|trial| trial.pass()) {
            self.observer.notice(&swapping.kept());
            self.swaps = Swaps::None;
        }
    }

    /// The attempt has come to its end. What it leaves undecided the log decides, when the next one begins.
    pub(in crate::job) fn end_swap(&mut self, ended: &Result<Outcome>) {
        let swapping = match &mut self.swaps {
            Swaps::None => return,
            Swaps::At(swapping) => swapping,
            Swaps::Checking(..) => {
                let Swaps::Checking(reply, _) = std::mem::take(&mut self.swaps) else { return };
                let ended = Error::new(Kind::Conflict, "the job, or its attempt, has ended before the component was checked");
                return reply.send(Err(ended.help("swap again when the job runs"))).unwrap_or(());
            }
        };
        let notice = match ended {
            Ok(_) if swapping.named => swapping.kept(),
            Ok(_) => swapping.taken_back("the job has ended before the new component was in a checkpoint"),
            Err(error) if swapping.first.is_none() => swapping.taken_back(error.message()),
            Err(_) => return,
        };
        self.observer.notice(&notice);
        self.swaps = Swaps::None;
    }
}
