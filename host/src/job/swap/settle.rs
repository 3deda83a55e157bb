//! An attempt has ended in the middle of a swap: the log tells which component the next one begins with.

use std::sync::Arc;

use super::check::check;
use super::{Resumed, Swapping, Swaps, WayBack};
use crate::checkpoint::decide::newest_point;
use crate::checkpoint::store::Store;
use crate::clock;
use crate::dataflow::{Trial, Version};
use crate::error::Result;
use crate::job::choice::unfulfilled;
use crate::job::prepare::Prepared;
use crate::job::restore::find;
use crate::job::{Notice, Observer};
use crate::plan::Role;
use crate::state::Arrangement;
use crate::threads::apart;
use crate::wasm::{Component, Interrupt};

/// A swap that an attempt has left undecided.
pub(in crate::job) struct Unsettled {
    swapping: Box<Swapping>,
    /// Why the attempt has ended.
    reason: String,
    forgiven: bool,
}

impl Unsettled {
    /// What is left of a swap by an attempt that has ended for the reason given.
    pub(in crate::job) fn of(swaps: Swaps, reason: &str) -> Option<Self> {
        match swaps {
            Swaps::At(swapping) => Some(Unsettled { swapping, reason: reason.into(), forgiven: false }),
            Swaps::None | Swaps::Checking(..) => None,
        }
    }

    /// Whether the next attempt follows at once, since the swap may be why this one has failed: no checkpoint is known that names the new
    /// component. True once.
    pub(in crate::job) fn forgives(&mut self) -> bool {
        !self.swapping.named && !std::mem::replace(&mut self.forgiven, true)
    }

    /// A swap that the process before was in the middle of, if the newest manifest names the new component; without, it has not happened.
    /// Calls of guests end with `interrupt`.
    ///
    /// # Errors
    /// If the log can't be read, or the component can't take over any more.
    pub(in crate::job) async fn resumed(
        resumed: &Resumed,
        store: &Store,
        prepared: &Arc<Prepared>,
        observer: &dyn Observer,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>> {
        let reason = "the host has ended before the new component was in a checkpoint";
        let Resumed { request, to } = resumed;
        if newest_digest(store, &request.operator).await?.as_ref() != Some(&to.digest) {
            let (operator, component, reason) = (request.operator.clone(), to.clone(), reason.into());
            observer.notice(&Notice::TakenBack { operator, component, reason });
            return Ok(None);
        }
        let node = find(&prepared.plan, &request.operator, Role::Operator)?;
        let component = prepared.components[node].clone().expect("every operator node has its component");
        let old = Version { arrangement: Arrangement::new(&component.descriptor().states), component };
        let (job, runs, asked, interrupt) = (Arc::clone(prepared), old.clone(), request.clone(), interrupt.clone());
        let candidate = apart(move || check(&job, node, &runs, &asked, &interrupt)).await?;
        Ok(Self::of(Swaps::At(Box::new(Swapping::new(request.clone(), node, old, candidate, None))), reason))
    }

    /// Whether the newest manifest names the new component. A commit whose answer was lost counts as what it is.
    ///
    /// # Errors
    /// If the log can't be read.
    pub(in crate::job) async fn is_named(&self, store: &Store) -> Result<bool> {
        let newest = newest_digest(store, &self.swapping.request.operator).await?;
        Ok(newest.as_deref() == Some(self.swapping.candidate.to.component.digest()))
    }

    /// Gives the job the component with which it goes on, depending on whether the newest manifest names the new one. Returns what is left
    /// of the swap: a probation.
    pub(in crate::job) fn settle(self, named: bool, prepared: &mut Arc<Prepared>, observer: &dyn Observer) -> Swaps {
        let Unsettled { mut swapping, reason, .. } = self;
        let new = Arc::clone(&swapping.candidate.to.component);
        // With a way back forward the old component can go on from any checkpoint.
        if !named || swapping.trial.as_ref().is_some_and(|trial| trial.failed_at().is_some()) {
            *prepared = Arc::new(prepared.with(swapping.node, &swapping.old.component));
            observer.notice(&swapping.taken_back(&reason));
            return Swaps::None;
        }
        *prepared = Arc::new(prepared.with(swapping.node, &new));
        if !swapping.told {
            observer.notice(&swapping.done(None));
        }
        if swapping.request.way_back == WayBack::Rewind || swapping.trial.is_none() {
            observer.notice(&swapping.kept());
            return Swaps::None;
        }
        swapping.begin_again(new);
        Swaps::At(swapping)
    }
}

impl Swaps {
    /// What is to be told if no attempt follows, since the last checkpoint has left nothing to do: that names the component.
    pub(in crate::job) fn kept(&self) -> Option<Notice> {
        self.get().map(Swapping::kept)
    }

    /// For the workers of an attempt that begins with a component on probation.
    pub(in crate::job) fn trial(&self) -> Option<(usize, Arc<Trial>)> {
        let swapping = self.get()?;
        Some((swapping.node, Arc::clone(swapping.trial.as_ref()?)))
    }
}

impl Swapping {
    /// The probation begins again in an attempt in which all states stand as the new component declares them.
    fn begin_again(&mut self, new: Arc<Component>) {
        let arrangement = Arrangement::new(&new.descriptor().states);
        self.old.arrangement = arrangement.taken_over_by(&self.old.component.descriptor().states);
        self.candidate.to = Version { component: new, arrangement };
        self.trial = self.trial.as_ref().map(|trial| Arc::new(trial.again(self.old.clone())));
        (self.pinned, self.second, self.named) = (true, true, true);
        self.until = Some(clock::now() + self.request.probation);
    }
}

/// The digest of an operator's component in the newest checkpoint. None if the job goes on from another one, and has committed nothing since.
pub(in crate::job) async fn newest_digest(store: &Store, operator: &str) -> Result<Option<String>> {
    let Some(log) = store.newest_log().await?.filter(|log| unfulfilled(log).next().is_none()) else { return Ok(None) };
    let operators = newest_point(&log)?.map(|point| point.manifest.operators).unwrap_or_default();
    Ok(operators.into_iter().find(|part| part.uid == operator).map(|part| part.component.digest))
}
