//! Committing: the manifest of a complete checkpoint is put, what it names is published, and what it supersedes is cleared away.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use crate::checkpoint::decide::Live;
use crate::checkpoint::manifest::{Manifest, Past, Trigger};
use crate::checkpoint::pending::{CommitFacts, Ready, build_manifest};
use crate::checkpoint::store::Store;
use crate::clock;
use crate::error::Result;
use crate::wasm::Component;

use super::between::cancelled;
use super::controller::{Controller, Done, joined};
use super::{Notice, Order, Outcome, sinks};

/// A commit under way. Until it has come to its end nothing else is committed: its manifest may be durable, or about to be.
pub(super) struct Committing {
    pub(super) ready: Ready,
    /// The components that its manifest names.
    components: Vec<Arc<Component>>,
    /// Puts the manifest and has sinks publish.
    pub(super) task: JoinHandle<Result<Committed>>,
}

/// What a commit has come to.
pub(super) struct Committed {
    manifest: Arc<Manifest>,
    /// The slot of the next one.
    next: u64,
}

impl Controller {
    /// Begins to commit the checkpoint that is complete, if one is and no other is being committed.
    ///
    /// # Errors
    /// If it can't be one: see [`Pending::ready`](crate::checkpoint::pending::Pending::ready).
    pub(super) fn commit(&mut self) -> Result<()> {
        if self.committing.is_some() {
            return Ok(());
        }
        let Some(ready) = self.pending.ready()? else { return Ok(()) };
        let mut manifest = self.manifest(&ready);
        let mut whole = if self.prepared.plan.checkpoint.incremental { Vec::new() } else { self.lists.whole(&manifest) };
        whole.iter_mut().for_each(|merge| merge.states = self.versions.longest_lived(&self.prepared.plan, &merge.operator));
        let (began, now) = (clock::now(), clock::wall_ms());
        let (store, prepared, slot, mut patience) = (self.store.clone(), Arc::clone(&self.prepared), self.slot, self.patience(ready.epoch));
        let task = tokio::spawn(async move {
            let run = manifest.attempt.run;
            if !whole.is_empty() {
                for merge in &whole {
                    // The manifest is not put yet, so it may be left off.
                    patience.store_unless_ended(|| store.merge(run, merge, now)).await?.stand_in(&mut manifest);
                }
                manifest.duration_ms += millis(clock::now() - began);
                manifest.created = clock::wall_text();
            }
            // Each time the very same text: the put that has failed may have happened.
            let next = patience.store(|| store.commit(slot, &manifest)).await?;
            sinks::publish(&store, &prepared, manifest.attempt, &manifest, patience).await?;
            Ok(Committed { manifest: Arc::new(manifest), next })
        });
        let components = self.versions.components(ready.epoch);
        self.committing = Some(Committing { ready, components, task });
        Ok(())
    }

    fn manifest(&self, ready: &Ready) -> Manifest {
        let plan = &self.prepared.plan;
        let under_way = self.cycle.get(ready.epoch);
        let duration = under_way.map(|under_way| clock::now() - under_way.since).unwrap_or_default();
        let mut snapshots = under_way.map(|under_way| under_way.snapshots.clone()).unwrap_or_default();
        snapshots.sort_by(|a, b| (&a.operator, a.subtask).cmp(&(&b.operator, b.subtask)));
        let facts = CommitFacts {
            job: &plan.name,
            attempt: self.attempt,
            triggered: under_way.map(|under_way| under_way.triggered.clone()).unwrap_or_default(),
            created: clock::wall_text(),
            finished: ready.trigger == Trigger::EndOfInput,
            parallelism: plan.parallelism,
            max_parallelism: plan.max_parallelism,
            duration_ms: millis(duration),
            origin: self.origin.clone(),
            owned: self.owned.clone(),
            operators: &self.versions.facts(plan, ready.epoch),
            snapshots,
            history: self.history.to_vec(),
        };
        build_manifest(&facts, ready, &self.lists)
    }

    /// A commit has come to its end. Returns why its checkpoint was taken.
    pub(super) fn committed(&mut self, committed: Result<Committed>) -> Result<Trigger> {
        let Some(Committing { ready, components, .. }) = self.committing.take() else { unreachable!("there is one while its task is") };
        let Committed { manifest, next } = committed?;
        let slot = std::mem::replace(&mut self.slot, next);
        self.pending.committed(ready.epoch)?;
        self.pending.published(ready.epoch);
        if self.prepared.plan.checkpoint.incremental {
            ready.files.iter().for_each(|(operator, files)| self.lists.add(operator, files));
        } else {
            manifest.operators.iter().for_each(|operator| self.lists.replace(&operator.uid, &operator.files));
        }
        ready.operator_state.iter().for_each(|(operator, files)| self.lists.replace_operator_state(operator, files));
        self.versions.committed(ready.epoch);
        self.control.committed(ready.epoch);
        self.swap_committed(ready.epoch);
        while let Some((node, _)) = self.awaited.pop_front_if(|(_, epoch)| *epoch <= ready.epoch) {
            self.control.worked_off(node);
        }
        self.history.add(Past::of(&manifest));
        if let Some(failed) = self.cycle.committed(ready.epoch, clock::now())
            && self.damage.is_none()
        {
            self.observer.notice(&Notice::Healthy { checkpoint: ready.epoch, failed });
        }
        self.totals.checkpoints += 1;
        self.totals.last = Some(ready.epoch);
        self.totals.bytes += manifest.new_bytes;
        self.write_savepoints(&manifest, slot, &components);
        tracing::debug!(checkpoint = ready.epoch, trigger = ready.trigger.name(), bytes = manifest.new_bytes, "committed");
        Ok(ready.trigger)
    }

    /// Starts a merge that is due, unless one is under way.
    pub(super) fn merge(&mut self) {
        let Some(mut merge) = self.lists.next_merge() else { return };
        merge.states = self.versions.longest_lived(&self.prepared.plan, &merge.operator);
        let (store, run, now) = (self.store.clone(), self.attempt.run, clock::wall_ms());
        self.tasks.spawn(async move {
            let merged = store.merge_slowly(run, &merge, now).await;
            Ok(Done::Merged(merge.operator, merged))
        });
    }

    /// Starts a merge that is due, and the collection of what is superseded.
    pub(super) fn clean_up(&mut self) {
        let is_undone = self.damage.take_if(|damage| !self.lists.has(&damage.input)).is_some();
        if let (true, false, Some(checkpoint)) = (is_undone, self.health().is_degraded(), self.totals.last) {
            self.observer.notice(&Notice::Healthy { checkpoint, failed: 0 });
        }
        self.lists.try_again();
        self.merge();
        self.remove_owned();
        if !self.collecting {
            self.collecting = true;
            let (store, retained) = (self.store.clone(), self.prepared.plan.checkpoint.num_retained);
            let mut live = self.lists.live(self.totals.last);
            live.paths.extend(self.savepoints.pinned().map(str::to_owned));
            self.tasks.spawn(async move {
                collect(&store, &live, retained).await;
                Ok(Done::Collected)
            });
        }
    }

    /// After a commit the job needs no savepoint any more.
    fn remove_owned(&mut self) {
        if let Some(owned) = self.owned.clone() {
            let store = self.store.clone();
            self.tasks.spawn(async move { Ok(Done::Removed(store.remove_savepoint(&owned).await)) });
        }
    }

    /// After the last commit: lets what runs beside it come to its end, unless the job is cancelled meanwhile. What is committed stays so.
    pub(super) async fn end(&mut self, outcome: Outcome, orders: &mut UnboundedReceiver<Order>) -> Outcome {
        let prepared = Arc::clone(&self.prepared);
        tokio::select! {
            () = self.wind_up() => {}
            () = cancelled(&prepared.plan.name, orders) => {
                self.control.cancel();
                self.give_up_savepoints().await;
                self.tasks.abort_all();
            }
        }
        outcome
    }

    /// Waits for what runs beside the job, and collects what it leaves behind. Nothing is in use any more but what the kept manifests
    /// name: a merge that is still under way comes too late for the last of them, and leaves off.
    async fn wind_up(&mut self) {
        self.remove_owned();
        self.store.stop_merging();
        self.swaps.interrupt_check();
        while let Some(done) = self.tasks.join_next().await {
            let dealt_with = match joined(done) {
                // It came too late, and so would the next.
                Ok(Done::Merged(..)) => Ok(()),
                done => done.and_then(|done| self.done(done)),
            };
            dealt_with.unwrap_or_else(|error| tracing::warn!("{error}"));
        }
        while let Some(written) = self.savepoints.writers.join_next().await {
            self.written(written).unwrap_or_else(|error| tracing::warn!("{error}"));
        }
        let live = Live { attempt: self.attempt, paths: BTreeSet::new(), next_serial: u64::MAX, committed: Some(u64::MAX) };
        self.store.list_again();
        collect(&self.store, &live, self.prepared.plan.checkpoint.num_retained).await;
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

async fn collect(store: &Store, live: &Live, retained: usize) {
    match store.collect(live, retained).await {
        Ok(superseded) => superseded.foreign.iter().for_each(|path| tracing::debug!(path, "not a file of this job: left alone")),
        // What is left is collected the next time.
        Err(error) => tracing::warn!("superseded checkpoints could not be deleted: {error}"),
    }
}
