//! [`Controller`]: the one task that triggers checkpoints, commits manifests and has sinks publish. It waits for whatever comes first
//! and acts on it; everything slow runs beside it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::checkpoint::decide::{FileLists, Merged};
use crate::checkpoint::manifest::{History, Streak, Trigger};
use crate::checkpoint::pending::{Ack, Expected, Part, Pending};
use crate::checkpoint::store::Store;
use crate::clock;
use crate::dataflow::{Control, Event, Metrics};
use crate::error::{Error, Kind, Result};
use crate::plan::{NodeKind, Plan, Role};
use crate::record::{AttemptId, KeyGroups};

use super::begin::Begun;
use super::commit::Committing;
use super::cycle::{Cycle, Wishes};
use super::patience::{Patience, Patient, Trouble};
use super::prepare::Prepared;
use super::savepoint::{Opened, Savepoints};
use super::swap::{Checked, Swaps};
use super::trouble::{Damage, Noting};
use super::upload::{Parts, SnapshotId, Upload, Uploaded};
use super::versions::Versions;
use super::{End, Health, Notice, Observer, Order, Outcome, Progress};

/// How often progress is told.
const PROGRESS: Duration = Duration::from_millis(200);

/// What a job's checkpoints came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) checkpoints: u64,
    pub(super) last: Option<u64>,
    pub(super) bytes: u64,
}

/// The controller of one attempt.
pub(super) struct Controller {
    pub(super) prepared: Arc<Prepared>,
    pub(super) store: Store,
    pub(super) attempt: AttemptId,
    /// Where the next manifest goes.
    pub(super) slot: u64,
    /// The epoch that the next barrier ends.
    epoch: u64,
    pub(super) cycle: Cycle,
    pub(super) pending: Pending,
    pub(super) committing: Option<Committing>,
    pub(super) lists: FileLists,
    pub(super) history: History,
    pub(super) noting: Noting,
    pub(super) damage: Option<Damage>,
    pub(super) versions: Versions,
    pub(super) swaps: Swaps,
    /// The manifest of another run from which this run began.
    pub(super) origin: Option<String>,
    /// The savepoint that the run has begun from and owns, until it is removed.
    pub(super) owned: Option<String>,
    pub(super) savepoints: Savepoints,
    parts: Parts,
    /// Subtasks of sources that are still reading, by source.
    reading: BTreeMap<usize, u16>,
    /// Sources that others wait for and that have ended, each with the checkpoint that holds all of their records.
    pub(super) awaited: VecDeque<(usize, u64)>,
    /// Whether the attempt has failed for nothing but a savepoint: the job goes on as if it had not been asked for.
    pub(super) is_forgiven: bool,
    /// How it is to end, once it was told to.
    pub(super) ending: Option<End>,
    pub(super) control: Arc<Control>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) observer: Arc<dyn Observer>,
    started: Instant,
    pub(super) tasks: JoinSet<Result<Done>>,
    pub(super) collecting: bool,
    /// Where those who are patient tell of their trouble.
    trouble: (UnboundedSender<Trouble>, UnboundedReceiver<Trouble>),
    /// Dropped, it ends all patience.
    pub(super) patience: watch::Sender<()>,
    pub(super) totals: Totals,
}

/// What has been done beside the controller.
pub(super) enum Done {
    Uploaded(SnapshotId, Uploaded),
    /// A merge for this operator: what came of it.
    Merged(String, Result<Merged>),
    Collected,
    /// The note of failed checkpoints was written, or could not be.
    Noted,
    /// The place of the savepoint with this trigger id.
    Opened(String, Result<Opened>),
    /// The savepoint that the run owned.
    Removed(Result<()>),
    Checked(Box<Checked>),
}

/// What a controller works with besides what has begun.
pub(super) struct Parties {
    pub(super) prepared: Arc<Prepared>,
    pub(super) store: Store,
    pub(super) control: Arc<Control>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) observer: Arc<dyn Observer>,
    /// Of the run, as far as it is known.
    pub(super) history: History,
    /// What has failed since the last good checkpoint.
    pub(super) streak: Streak,
    /// A swap whose component is on probation already.
    pub(super) swaps: Swaps,
}

impl Controller {
    pub(super) fn new(parties: Parties, begun: &Begun, started: Instant) -> Self {
        let Parties { prepared, store, control, metrics, observer, mut history, streak, swaps } = parties;
        let plan = &prepared.plan;
        let restored = begun.point.as_ref().map(|point| &point.manifest);
        let good = restored.and_then(|manifest| Some((manifest.checkpoint, started.checked_sub(since(&manifest.created))?)));
        restored.iter().filter(|manifest| manifest.attempt.run == begun.attempt.run).for_each(|manifest| history.recall(manifest));
        let sources = plan.nodes.iter().enumerate().filter(|(_, node)| node.kind.role() == Role::Source);
        Controller {
            attempt: begun.attempt,
            slot: begun.slot,
            epoch: begun.epoch,
            cycle: Cycle::new(plan.checkpoint.clone(), started, good, streak),
            pending: Pending::new(begun.attempt, expected(plan), begun.epoch - 1),
            committing: None,
            lists: FileLists::new(begun.attempt, plan.parallelism, plan.max_parallelism, restored),
            history,
            noting: Noting::default(),
            damage: None,
            versions: Versions::new(plan, &prepared.components, restored),
            swaps,
            origin: begun.origin.clone(),
            owned: begun.owned.clone(),
            savepoints: Savepoints::default(),
            parts: Parts::default(),
            reading: sources.map(|(node, _)| (node, plan.parallelism)).collect(),
            awaited: VecDeque::new(),
            is_forgiven: false,
            ending: None,
            started,
            tasks: JoinSet::new(),
            collecting: false,
            trouble: unbounded_channel(),
            patience: watch::Sender::default(),
            totals: Totals::default(),
            prepared,
            store,
            control,
            metrics,
            observer,
        }
    }

    /// Runs the job to its end.
    ///
    /// # Errors
    /// What made it fail. The dataflow is cancelled then, as it is at any end but that of input; [`Controller::abandon`] is next.
    pub(super) async fn run(&mut self, events: UnboundedReceiver<Event>, orders: &mut UnboundedReceiver<Order>) -> Result<Outcome> {
        let mut ended = self.work(events, orders).await;
        match &ended {
            Ok(Outcome::Finished) => {}
            Ok(Outcome::Stopped) => self.control.end(),
            Ok(Outcome::Cancelled) => {
                self.control.cancel();
                self.give_up_savepoints().await;
            }
            Err(error) => {
                self.control.cancel();
                self.give_up_savepoints().await;
                self.savepoints.refuse_all(&error.clone().context("no savepoint was taken, because the attempt has failed"));
                if self.savepoints.stopped() {
                    tracing::warn!("stopped with a savepoint, after which the attempt has failed: {error}");
                    self.abandon(&ended).await;
                    ended = Ok(Outcome::Stopped);
                }
            }
        }
        let ended_first = Error::new(Kind::Conflict, format!("job `{}` has ended before a savepoint was taken", self.prepared.plan.name));
        self.savepoints.refuse_all(&ended_first);
        self.end_swap(&ended);
        self.observer.progress(&self.progress());
        ended
    }

    async fn work(&mut self, mut events: UnboundedReceiver<Event>, orders: &mut UnboundedReceiver<Order>) -> Result<Outcome> {
        let mut progress = tokio::time::interval(PROGRESS);
        loop {
            if self.savepoints.stopped() {
                self.ending = Some(End::Stop { signal: self.signal() });
                return Ok(self.end(Outcome::Stopped, orders).await);
            }
            self.give_up_overdue()?;
            self.tell_late();
            let now = clock::now();
            self.end_probation();
            self.trigger()?;
            self.commit()?;
            // What the time had come for by now is done, or waits for something else.
            let probation = self.swaps.wake().filter(|wake| *wake > now);
            let wake = self.cycle.wake(clock::now(), self.wishes()).into_iter().chain(probation).min();
            tokio::select! {
                Some(event) = events.recv() => self.take(event)?,
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => self.done(joined(done)?)?,
                Some(written) = self.savepoints.writers.join_next(), if !self.savepoints.writers.is_empty() => self.written(written)?,
                Some(trouble) = self.trouble.1.recv() => self.fail(trouble.epoch, trouble.error)?,
                Some(order) = orders.recv() => match order {
                    Order::End(End::Cancel) => return Ok(Outcome::Cancelled),
                    Order::End(end) => {
                        self.savepoints.is_drain = false;
                        self.end_by(end);
                    }
                    Order::Savepoint(order) => self.ask_savepoint(order),
                    Order::Swap(request, reply) => self.order_swap(request, reply),
                },
                done = ended(self.committing.as_mut().map(|committing| &mut committing.task)) => match self.committed(joined(done))? {
                    Trigger::EndOfInput => return Ok(self.end(Outcome::Finished, orders).await),
                    Trigger::Stop => return Ok(self.end(Outcome::Stopped, orders).await),
                    Trigger::Interval | Trigger::Savepoint | Trigger::Swap | Trigger::Cancel => self.clean_up(),
                },
                () = sleep_until(wake) => {}
                _ = progress.tick() => self.observer.progress(&self.progress()),
            }
        }
    }

    /// What asks for a checkpoint, besides the interval.
    fn wishes(&self) -> Wishes {
        // The newest: the checkpoint that helps its source helps those before it.
        let awaited = self.awaited.back().map(|(_, epoch)| *epoch);
        Wishes {
            ended: self.reading.is_empty(),
            stop: matches!(self.ending, Some(End::Stop { .. })),
            savepoint: self.savepoints.wanted(),
            hold: self.savepoints.hold(),
            awaited,
            swap: self.swaps.is_due(clock::now()),
            probation: self.swaps.may_rewind().is_some(),
        }
    }

    /// Triggers the checkpoint that is due, if one is.
    fn trigger(&mut self) -> Result<()> {
        let now = clock::now();
        let Some(trigger) = self.cycle.due(now, self.wishes()) else { return Ok(()) };
        let epoch = self.epoch;
        self.pending.open(epoch, trigger)?;
        self.cycle.triggered(epoch, trigger, now, clock::wall_text());
        self.epoch += 1;
        self.savepoints.triggered(epoch, trigger);
        match trigger {
            Trigger::Savepoint if self.savepoints.hold() => self.control.stop(epoch),
            Trigger::Interval | Trigger::Savepoint | Trigger::Cancel => self.control.trigger(epoch),
            Trigger::Stop => self.control.stop(epoch),
            Trigger::Swap => self.trigger_swap(epoch),
            Trigger::EndOfInput => self.control.finish(epoch),
        }
        Ok(())
    }

    pub(super) fn end_by(&mut self, end: End) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(end);
        self.swaps.interrupt_check();
        self.observer.notice(&Notice::Ending { end });
        if end == End::Drain {
            self.control.drain();
        }
    }

    /// The signal that asked for a stop, if one did.
    pub(super) fn signal(&self) -> Option<i32> {
        match self.ending {
            Some(End::Stop { signal }) => signal,
            _ => None,
        }
    }

    fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Positions { node, subtask, epoch, splits } => self.ack(node, subtask, epoch, Part::Positions(splits))?,
            Event::Staged { node, subtask, epoch, staged } => self.ack(node, subtask, epoch, Part::Staged(staged))?,
            Event::Snapshot { node, subtask, epoch, part } => {
                let id = SnapshotId { node, subtask, epoch };
                if let Some(parts) = self.parts.pass(id, part) {
                    let (upload, patience) = (self.upload(id), self.patience(epoch));
                    self.tasks.spawn(async move { Ok(Done::Uploaded(id, upload.run(parts, patience).await?)) });
                }
            }
            Event::Ended { node, .. } => self.ended(node),
            Event::ChangedOver { subtask, epoch, took } => self.changed_over(subtask, epoch, took),
            Event::Unfit { error } => self.unfit(&error),
            Event::Unsaved { epoch, error, is_spent } => self.unsaved(epoch, error, is_spent)?,
            Event::Failed(error) => return Err(error),
        }
        Ok(())
    }

    /// A subtask of a source has ended.
    fn ended(&mut self, node: usize) {
        let Some(reading) = self.reading.get_mut(&node) else { return };
        *reading -= 1;
        if *reading == 0 {
            self.reading.remove(&node);
            if self.prepared.layout.waits.iter().any(|waits| waits.contains(&node)) {
                // The barrier to come is behind all that it has read.
                self.awaited.push_back((node, self.epoch));
            }
        }
    }

    fn upload(&self, id: SnapshotId) -> Upload {
        let plan = &self.prepared.plan;
        let file = match &plan.nodes[id.node].kind {
            NodeKind::Operator(settings) => settings.state.snapshot_file(plan.parallelism),
            _ => None,
        };
        Upload {
            file: file.unwrap_or(usize::MAX),
            store: self.store.clone(),
            attempt: self.attempt,
            uid: plan.nodes[id.node].uid.clone(),
            states: Arc::clone(&self.versions.at(id.node, id.epoch).arrangement.states),
            groups: KeyGroups::of_subtask(id.subtask, plan.parallelism, plan.max_parallelism),
            compression: plan.checkpoint.compression,
            id,
        }
    }

    /// For what is to be stored for a checkpoint.
    pub(super) fn patience(&self, epoch: u64) -> Patience {
        let (store, tell, ended) = (self.store.clone(), self.trouble.0.clone(), self.patience.subscribe());
        Patience::new(Patient { store, attempt: self.attempt, epoch, tell, ended })
    }

    fn ack(&mut self, node: usize, subtask: u16, epoch: u64, part: Part) -> Result<()> {
        let uid = self.prepared.plan.nodes[node].uid.clone();
        let ack = Ack { attempt: self.attempt, epoch, uid, subtask, part };
        self.pending.ack(ack).map_err(|refused| Error::new(Kind::Internal, refused.to_string()))
    }

    pub(super) fn done(&mut self, done: Done) -> Result<()> {
        match done {
            Done::Uploaded(SnapshotId { node, subtask, epoch }, Uploaded { part, took }) => {
                self.cycle.took(epoch, took);
                self.ack(node, subtask, epoch, part)?;
            }
            Done::Merged(operator, merged) => {
                match merged {
                    Ok(merged) => self.lists.finish(merged)?,
                    Err(error) => self.unmerged(&operator, &error),
                }
                self.merge();
            }
            Done::Collected => self.collecting = false,
            Done::Noted => self.noted(),
            Done::Opened(trigger_id, opened) => self.opened(&trigger_id, opened),
            Done::Removed(Ok(())) => self.owned = None,
            // It is tried again with the next checkpoint.
            Done::Removed(Err(error)) => tracing::warn!("the savepoint that the job began from could not be removed: {error}"),
            Done::Checked(checked) => self.checked(*checked),
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        let sum = |role: Role, count: fn(&Metrics, usize) -> u64| {
            let nodes = self.prepared.plan.nodes.iter().enumerate().filter(|(_, node)| node.kind.role() == role);
            nodes.map(|(node, _)| count(&self.metrics, node)).sum()
        };
        Progress {
            elapsed: clock::now() - self.started,
            records_in: sum(Role::Source, |metrics, node| metrics.node(node).records_in),
            records_out: sum(Role::Sink, |metrics, node| metrics.node(node).records_out),
            checkpoints: self.totals.checkpoints,
            last_checkpoint: self.totals.last,
            failed_checkpoints: self.cycle.tally().failed,
            checkpoint_bytes: self.totals.bytes,
            health: self.health(),
            migration: self.swaps.migrating(),
        }
    }

    pub(super) fn health(&self) -> Health {
        let (now, tally, streak) = (clock::now(), self.cycle.tally(), self.cycle.streak());
        let last_good = tally.good.map(|(checkpoint, committed)| (checkpoint, now - committed));
        let late = self.cycle.late(now);
        let damage = self.damage.as_ref().map(|damage| Arc::clone(&damage.reason));
        let missing = late.map(|(checkpoint, _)| self.missing(checkpoint).into());
        let reason = streak.reason.clone().or(missing).or_else(|| damage.clone());
        Health { failed_in_a_row: streak.failed, reason, late, damage, last_good }
    }
}

/// How long ago a point in time was, as manifests have it; none at all if that is not to be understood.
fn since(created: &str) -> Duration {
    let created = humantime::parse_rfc3339_weak(created).ok();
    created.and_then(|created| clock::wall().duration_since(created).ok()).unwrap_or_default()
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}

/// The end of a task, if there is one.
async fn ended<T>(task: Option<&mut JoinHandle<T>>) -> std::result::Result<T, JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

pub(super) fn joined<T>(done: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    done.map_err(|panic| Error::new(Kind::Internal, format!("a background task panicked: {panic}")))?
}

/// Who has to acknowledge every checkpoint: everyone.
fn expected(plan: &Plan) -> Vec<Expected> {
    plan.nodes.iter().map(|node| Expected { uid: node.uid.clone(), role: node.kind.role(), subtasks: plan.parallelism }).collect()
}
