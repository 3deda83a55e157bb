//! [`Controller`]: the one task that triggers checkpoints, commits manifests and has sinks publish. It waits for whatever comes first
//! and acts on it; everything slow runs beside it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::checkpoint::decide::{FileLists, Live, Merged, RETAINED};
use crate::checkpoint::manifest::{ComponentFacts, Trigger};
use crate::checkpoint::pending::{Ack, CommitFacts, Expected, OperatorFacts, Part, Pending, Ready, Role, build_manifest};
use crate::checkpoint::store::Store;
use crate::clock;
use crate::dataflow::{Control, Event, Metrics};
use crate::error::{Error, Kind, Result};
use crate::plan::{NodeKind, Plan};
use crate::record::{AttemptId, KeyGroups};

use super::begin::Begun;
use super::prepare::Prepared;
use super::upload::{Parts, SnapshotId, Upload};
use super::{Notice, Observer, Outcome, Progress, sinks};

/// How often progress is told.
const PROGRESS: Duration = Duration::from_millis(200);

/// What a job's checkpoints came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) checkpoints: u64,
    pub(super) last: Option<u64>,
    pub(super) bytes: u64,
}

/// The checkpoint that is under way: since when.
struct UnderWay {
    epoch: u64,
    since: Instant,
}

/// The controller of one attempt.
pub(super) struct Controller {
    prepared: Arc<Prepared>,
    store: Store,
    attempt: AttemptId,
    /// Where the next manifest goes.
    slot: u64,
    /// The epoch that the next barrier ends.
    epoch: u64,
    pending: Pending,
    lists: FileLists,
    facts: Vec<OperatorFacts>,
    /// The manifest of another run from which this run began.
    origin: Option<String>,
    parts: Parts,
    under_way: Option<UnderWay>,
    /// When the next checkpoint is due.
    due: Option<Instant>,
    /// Subtasks of sources that are still reading, by source.
    reading: BTreeMap<usize, u16>,
    /// Sources that others wait for and that have ended, each with the checkpoint that holds all of their records.
    awaited: VecDeque<(usize, u64)>,
    /// The signal that asked for a stop.
    pub(super) signal: Option<i32>,
    control: Arc<Control>,
    metrics: Arc<Metrics>,
    observer: Arc<dyn Observer>,
    started: Instant,
    tasks: JoinSet<Result<Done>>,
    collecting: bool,
    pub(super) totals: Totals,
}

/// What has been done beside the controller.
enum Done {
    Uploaded(SnapshotId, Part),
    /// A merge for this operator: what came of it.
    Merged(String, Result<Merged>),
    Collected,
}

/// What a controller works with besides what has begun.
pub(super) struct Parties {
    pub(super) prepared: Arc<Prepared>,
    pub(super) store: Store,
    pub(super) control: Arc<Control>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) observer: Arc<dyn Observer>,
}

impl Controller {
    pub(super) fn new(parties: Parties, begun: &Begun, started: Instant) -> Self {
        let Parties { prepared, store, control, metrics, observer } = parties;
        let plan = &prepared.plan;
        let restored = begun.point.as_ref().map(|point| &point.manifest);
        let sources = plan.nodes.iter().enumerate().filter(|(_, node)| matches!(node.kind, NodeKind::Source(_)));
        Controller {
            attempt: begun.attempt,
            slot: begun.slot,
            epoch: begun.epoch,
            pending: Pending::new(begun.attempt, expected(plan), begun.epoch - 1),
            lists: FileLists::new(begun.attempt, plan.parallelism, plan.max_parallelism, restored),
            facts: facts(&prepared),
            origin: begun.origin.clone(),
            parts: Parts::default(),
            under_way: None,
            due: plan.checkpoint.interval.map(|interval| started + interval),
            reading: sources.map(|(node, _)| (node, plan.parallelism)).collect(),
            awaited: VecDeque::new(),
            signal: None,
            started,
            tasks: JoinSet::new(),
            collecting: false,
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
    /// What made it fail. The dataflow is still to be cancelled then.
    pub(super) async fn run(&mut self, mut events: UnboundedReceiver<Event>, signals: &mut UnboundedReceiver<i32>) -> Result<Outcome> {
        let mut progress = tokio::time::interval(PROGRESS);
        loop {
            self.trigger()?;
            let due = self.due.filter(|_| self.under_way.is_none());
            tokio::select! {
                Some(event) = events.recv() => self.take(event)?,
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => self.done(joined(done)?)?,
                Some(signal) = signals.recv() => self.stop(signal),
                () = sleep_until(due), if due.is_some() => {}
                _ = progress.tick() => self.observer.progress(&self.progress()),
            }
            while let Some(ready) = self.pending.ready()? {
                let trigger = ready.trigger;
                self.commit(ready).await?;
                match trigger {
                    Trigger::EndOfInput => return self.end(Outcome::Finished).await,
                    Trigger::Stop => return self.end(Outcome::Stopped).await,
                    Trigger::Interval => {}
                }
            }
        }
    }

    /// Triggers the checkpoint that is due, if one is and none is under way.
    fn trigger(&mut self) -> Result<()> {
        if self.under_way.is_some() {
            return Ok(());
        }
        let now = clock::now();
        let trigger = match (self.signal, self.due) {
            _ if self.reading.is_empty() => Trigger::EndOfInput,
            (Some(_), _) => Trigger::Stop,
            (None, Some(due)) if due <= now => Trigger::Interval,
            // Sources wait for it.
            _ if !self.awaited.is_empty() => Trigger::Interval,
            _ => return Ok(()),
        };
        let epoch = self.epoch;
        self.pending.open(epoch, trigger)?;
        self.under_way = Some(UnderWay { epoch, since: now });
        self.epoch += 1;
        // From trigger to trigger, as in Flink; one that is late does not make the next one come sooner.
        self.due = self.prepared.plan.checkpoint.interval.map(|interval| now + interval);
        match trigger {
            Trigger::Interval => self.control.trigger(epoch),
            Trigger::Stop => self.control.stop(epoch),
            Trigger::EndOfInput => self.control.finish(epoch),
        }
        Ok(())
    }

    fn stop(&mut self, signal: i32) {
        if self.signal.is_none() {
            self.signal = Some(signal);
            self.observer.notice(&Notice::Stopping { signal });
        }
    }

    fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Positions { node, subtask, epoch, splits } => self.ack(node, subtask, epoch, Part::Positions(splits)),
            Event::Staged { node, subtask, epoch, staged } => self.ack(node, subtask, epoch, Part::Staged(staged)),
            Event::Snapshot { node, subtask, epoch, slice, operator_state } => {
                let id = SnapshotId { node, subtask, epoch };
                if let Some(changes) = self.parts.take(id, slice) {
                    let upload = self.upload(id);
                    self.tasks.spawn(async move { Ok(Done::Uploaded(id, upload.run(changes, operator_state).await?)) });
                }
                Ok(())
            }
            Event::Ended { node, .. } => {
                self.ended(node);
                Ok(())
            }
            Event::Failed(error) => Err(error),
        }
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
        let component = self.prepared.components[id.node].as_ref().expect("only operators have snapshots");
        Upload {
            store: self.store.clone(),
            attempt: self.attempt,
            uid: plan.nodes[id.node].uid.clone(),
            states: component.descriptor().states.clone().into(),
            groups: KeyGroups::of_subtask(id.subtask, plan.parallelism, plan.max_parallelism),
            id,
        }
    }

    fn ack(&mut self, node: usize, subtask: u16, epoch: u64, part: Part) -> Result<()> {
        let uid = self.prepared.plan.nodes[node].uid.clone();
        let ack = Ack { attempt: self.attempt, epoch, uid, subtask, part };
        self.pending.ack(ack).map_err(|refused| Error::new(Kind::Internal, refused.to_string()))
    }

    fn done(&mut self, done: Done) -> Result<()> {
        match done {
            Done::Uploaded(SnapshotId { node, subtask, epoch }, part) => self.ack(node, subtask, epoch, part),
            Done::Merged(_, Ok(merged)) => self.lists.finish(merged),
            Done::Merged(operator, Err(error)) => {
                // Its inputs are untouched, and it is tried again with the next checkpoint.
                tracing::warn!(operator, "state files could not be merged: {error}");
                self.lists.give_up(&operator);
                Ok(())
            }
            Done::Collected => {
                self.collecting = false;
                Ok(())
            }
        }
    }

    /// Commits a complete checkpoint, publishes what it names, and cleans up behind it.
    async fn commit(&mut self, ready: Ready) -> Result<()> {
        let plan = &self.prepared.plan;
        let since = self.under_way.take().filter(|under_way| under_way.epoch == ready.epoch).map(|under_way| under_way.since);
        let duration = since.map(|since| clock::now() - since).unwrap_or_default();
        let facts = CommitFacts {
            job: &plan.name,
            attempt: self.attempt,
            created: clock::wall_text(),
            finished: ready.trigger == Trigger::EndOfInput,
            parallelism: plan.parallelism,
            max_parallelism: plan.max_parallelism,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            origin: self.origin.clone(),
            operators: &self.facts,
        };
        let manifest = build_manifest(&facts, &ready, &self.lists);
        self.slot = self.store.commit(self.slot, &manifest).await?;
        self.pending.committed(ready.epoch)?;
        ready.files.iter().for_each(|(operator, files)| self.lists.add(operator, files));
        ready.operator_state.iter().for_each(|(operator, files)| self.lists.replace_operator_state(operator, files));
        sinks::publish(&self.store, &self.prepared, self.attempt.run, &manifest).await?;
        self.pending.published(ready.epoch);
        self.control.committed(ready.epoch);
        while let Some((node, _)) = self.awaited.pop_front_if(|(_, epoch)| *epoch <= ready.epoch) {
            self.control.worked_off(node);
        }
        self.totals.checkpoints += 1;
        self.totals.last = Some(ready.epoch);
        self.totals.bytes += manifest.new_bytes;
        tracing::debug!(checkpoint = ready.epoch, trigger = ready.trigger.name(), bytes = manifest.new_bytes, "committed");
        // The last one is followed by a collection when all else is over.
        if ready.trigger == Trigger::Interval {
            self.clean_up();
        }
        Ok(())
    }

    /// Starts merges that are due, and the collection of what is superseded.
    fn clean_up(&mut self) {
        while let Some(merge) = self.lists.next_merge() {
            let (store, run) = (self.store.clone(), self.attempt.run);
            self.tasks.spawn(async move {
                let merged = store.merge(run, &merge).await;
                Ok(Done::Merged(merge.operator, merged))
            });
        }
        if !self.collecting {
            self.collecting = true;
            let (store, live) = (self.store.clone(), self.lists.live());
            self.tasks.spawn(async move {
                collect(&store, &live).await;
                Ok(Done::Collected)
            });
        }
    }

    /// After the last commit: lets what runs beside it come to its end, and collects what it leaves behind. Nothing is in use any more
    /// but what the kept manifests name: a merge that was still under way came too late for the last of them.
    async fn end(&mut self, outcome: Outcome) -> Result<Outcome> {
        while let Some(done) = self.tasks.join_next().await {
            if let Err(error) = joined(done) {
                tracing::warn!("{error}");
            }
        }
        collect(&self.store, &Live { attempt: self.attempt, paths: BTreeSet::new(), next_serial: u64::MAX }).await;
        self.observer.progress(&self.progress());
        Ok(outcome)
    }

    fn progress(&self) -> Progress {
        let sum = |is: fn(&NodeKind) -> bool, count: fn(&Metrics, usize) -> u64| {
            let nodes = self.prepared.plan.nodes.iter().enumerate().filter(|(_, node)| is(&node.kind));
            nodes.map(|(node, _)| count(&self.metrics, node)).sum()
        };
        Progress {
            elapsed: clock::now() - self.started,
            records_in: sum(|kind| matches!(kind, NodeKind::Source(_)), |metrics, node| metrics.node(node).records_in),
            records_out: sum(|kind| matches!(kind, NodeKind::Sink(_)), |metrics, node| metrics.node(node).records_out),
            checkpoints: self.totals.checkpoints,
            last_checkpoint: self.totals.last,
        }
    }
}

async fn collect(store: &Store, live: &Live) {
    match store.collect(live, RETAINED).await {
        Ok(superseded) => superseded.foreign.iter().for_each(|path| tracing::debug!(path, "not a file of this job: left alone")),
        // What is left is collected the next time.
        Err(error) => tracing::warn!("superseded checkpoints could not be deleted: {error}"),
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

fn joined(done: std::result::Result<Result<Done>, tokio::task::JoinError>) -> Result<Done> {
    done.map_err(|panic| Error::new(Kind::Internal, format!("a background task panicked: {panic}")))?
}

/// Who has to acknowledge every checkpoint: everyone.
fn expected(plan: &Plan) -> Vec<Expected> {
    let role = |kind: &NodeKind| match kind {
        NodeKind::Source(_) => Role::Source,
        NodeKind::Operator(_) => Role::Operator,
        NodeKind::Sink(_) => Role::Sink,
    };
    plan.nodes.iter().map(|node| Expected { uid: node.uid.clone(), role: role(&node.kind), subtasks: plan.parallelism }).collect()
}

fn facts(prepared: &Prepared) -> Vec<OperatorFacts> {
    let operators = prepared.plan.nodes.iter().zip(&prepared.components);
    let facts = |(node, component): (&crate::plan::Node, &Option<Arc<crate::wasm::Component>>)| {
        let component = component.as_ref()?;
        let descriptor = component.descriptor();
        let (digest, name, version) = (component.digest().into(), descriptor.name.clone(), descriptor.version.clone());
        Some(OperatorFacts {
            uid: node.uid.clone(),
            component: ComponentFacts { digest, name, version },
            states: descriptor.states.clone(),
            key_schema: descriptor.state_key_schema().cloned(),
        })
    };
    operators.filter_map(facts).collect()
}
