//! Running a job in the foreground: from a plan to its summary.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::checkpoint::decide::RestorePoint;
use crate::checkpoint::manifest::History;
use crate::checkpoint::store::Store;
use crate::clock;
use crate::dataflow::{self, Blueprint, Control, Events, Metrics, Running, Splits};
use crate::error::{Error, Kind, Result};
use crate::plan::{NodeKind, Plan};
use crate::record::AttemptId;

use super::begin::{Begun, begin};
use super::controller::{Controller, Parties};
use super::prepare::{Prepared, Report};
use super::signal::Signals;
use super::strategy::{Next, Strategy};
use super::{FailedAttempt, NodeTotals, Notice, Observer, Outcome, OwnMetrics, Restored, Summary};

/// How a run is to begin.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A new run without state, beside what is there.
    pub fresh: bool,
    /// The checkpoint to begin from: its number, or the path or URL of its manifest. None: the newest of a run that has not finished.
    pub from: Option<String>,
    /// Begin from `from` even if output of newer checkpoints is published already.
    pub allow_duplicates: bool,
}

/// Loads and checks everything that a job needs, without touching anything of it.
///
/// # Errors
/// What is not in order.
pub fn validate(plan: &Plan) -> Result<Report> {
    Ok(Prepared::new(plan)?.report())
}

/// Runs a job until its input has ended, it is stopped by SIGINT or SIGTERM, or it fails for good: an attempt that fails is followed by
/// another, from the newest checkpoint, as the job's restart strategy says. A second signal ends the process.
///
/// # Errors
/// What made it fail, with the job's name.
pub fn run(plan: &Plan, options: &Options, observer: Arc<dyn Observer>) -> Result<Summary> {
    let named = |error: Error| error.context(format!("job `{}`", plan.name));
    // Guests never run on the runtime's threads, and loading a component runs its `describe`.
    let prepared = Arc::new(Prepared::new(plan).map_err(named)?);
    runtime()?.block_on(attempts(prepared, options, observer)).map_err(named)
}

/// One attempt after the other. If the first one does not begin, it is the only one: whoever has started the job is there to mend what is
/// wrong.
async fn attempts(prepared: Arc<Prepared>, options: &Options, observer: Arc<dyn Observer>) -> Result<Summary> {
    let mut signals = listen()?;
    let mut strategy = Strategy::new(prepared.plan.restart.clone());
    let (mut failures, mut legacy) = (Vec::new(), Legacy::default());
    if prepared.plan.checkpoint.interval.is_none() {
        observer.notice(&Notice::Unchecked);
    }
    loop {
        let began = clock::now();
        let error = match attempt(&prepared, options, &observer, &mut signals, &mut legacy).await {
            Ok(summary) => return Ok(Summary { failures, ..summary }),
            Err(error) => error,
        };
        let Some(attempt) = legacy.attempt else { return Err(error) };
        if legacy.stopping {
            return Err(for_good(error, Some("it was to stop anyway".into())));
        }
        let delay = match strategy.failed(&error, began, clock::now(), clock::random()) {
            Next::Again(delay) => delay,
            Next::Fail(reason) => return Err(for_good(error, reason)),
        };
        failures.push(FailedAttempt { attempt, time: clock::wall_text(), error: error.message().into() });
        observer.notice(&Notice::Restarting { attempt, error: error.message().into(), delay });
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            Some(_) = signals.recv() => return Err(for_good(error, Some("it was stopped before the next attempt".into()))),
        }
    }
}

/// The error of the last attempt.
fn for_good(error: Error, reason: Option<String>) -> Error {
    match reason {
        Some(reason) => error.note(format!("not tried again: {reason}")),
        None => error,
    }
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Error::new(Kind::Internal, format!("no asynchronous runtime: {error}")))
}

/// What an attempt leaves to the next.
#[derive(Default)]
struct Legacy {
    /// The last one that has claimed its run.
    attempt: Option<AttemptId>,
    /// Checkpoints of the run.
    history: History,
    /// Whether a signal has asked for a stop.
    stopping: bool,
}

/// One attempt.
async fn attempt(
    prepared: &Arc<Prepared>,
    options: &Options,
    observer: &Arc<dyn Observer>,
    signals: &mut UnboundedReceiver<i32>,
    legacy: &mut Legacy,
) -> Result<Summary> {
    let plan = Arc::clone(&prepared.plan);
    let store = Store::open(&plan.checkpoint.dir, &plan.checkpoint.access, &plan.name).await?;
    let started = clock::now();
    let Some(mut begun) = begin(&store, prepared, options, legacy.attempt).await? else {
        return Ok(over(&plan, legacy.attempt, started));
    };
    legacy.attempt = Some(begun.attempt);
    let restored = begun.point.as_ref().map(restored);
    observer.notice(&match &restored {
        Some(restored) => Notice::Resuming { attempt: begun.attempt, restored: restored.clone() },
        None => Notice::Starting { attempt: begun.attempt },
    });
    let control = Arc::new(Control::default());
    let metrics = Arc::new(Metrics::new(plan.nodes.len(), plan.parallelism));
    let (events, taken) = unbounded_channel();
    // When nobody listens any more, the job has ended.
    let events: Events = Arc::new(move |event| drop(events.send(event)));
    let running = dataflow::start(blueprint(prepared, &mut begun, &control, events, &metrics))?;
    let parties = Parties {
        prepared: Arc::clone(prepared),
        store: store.clone(),
        control: Arc::clone(&control),
        metrics: Arc::clone(&metrics),
        observer: Arc::clone(observer),
        history: std::mem::take(&mut legacy.history),
    };
    let mut controller = Controller::new(parties, &begun, started);
    let mut ended = controller.run(taken, signals).await;
    (legacy.history, legacy.stopping) = (std::mem::take(&mut controller.history), controller.signal.is_some());
    if !matches!(ended, Ok(Outcome::Finished)) {
        control.cancel();
    }
    if let Err(error) = &mut ended {
        blame_newer(error, &store, begun.attempt).await;
    }
    let joined = join(running).await;
    // A worker's panic has already been told as the reason, if it was one.
    let outcome = ended?;
    joined?;
    let node = |(index, node): (usize, &crate::plan::Node)| {
        let counts = metrics.node(index);
        NodeTotals {
            uid: node.uid.clone(),
            kind: kind(&node.kind),
            records_in: counts.records_in,
            records_out: counts.records_out,
            records_failed: counts.records_failed,
            own: metrics.own(index),
        }
    };
    Ok(Summary {
        job: plan.name.clone(),
        attempt: begun.attempt,
        outcome,
        signal: controller.signal.filter(|_| outcome == Outcome::Stopped),
        restored,
        failures: Vec::new(),
        parallelism: plan.parallelism,
        seconds: (clock::now() - started).as_secs_f64(),
        cpu_seconds: clock::cpu().as_secs_f64(),
        nodes: plan.nodes.iter().enumerate().map(node).collect(),
        checkpoints: controller.totals.checkpoints,
        failed_checkpoints: controller.cycle.tally().failed,
        last_checkpoint: controller.totals.last,
        checkpoint_bytes: controller.totals.bytes,
        freezes: metrics.freezes(),
        slices: metrics.slices(),
    })
}

/// An attempt that had nothing left to do, because the one before it has failed after the last commit.
fn over(plan: &Plan, attempt: Option<AttemptId>, started: Instant) -> Summary {
    let node = |node: &crate::plan::Node| NodeTotals {
        uid: node.uid.clone(),
        kind: kind(&node.kind),
        records_in: 0,
        records_out: 0,
        records_failed: 0,
        own: OwnMetrics::default(),
    };
    let metrics = Metrics::new(plan.nodes.len(), plan.parallelism);
    Summary {
        job: plan.name.clone(),
        attempt: attempt.unwrap_or(AttemptId { run: 0, attempt: 0 }),
        outcome: Outcome::Finished,
        signal: None,
        restored: None,
        failures: Vec::new(),
        parallelism: plan.parallelism,
        seconds: (clock::now() - started).as_secs_f64(),
        cpu_seconds: clock::cpu().as_secs_f64(),
        nodes: plan.nodes.iter().map(node).collect(),
        checkpoints: 0,
        failed_checkpoints: 0,
        last_checkpoint: None,
        checkpoint_bytes: 0,
        freezes: metrics.freezes(),
        slices: metrics.slices(),
    }
}

/// Most of what can go wrong once a newer attempt has taken over is a consequence of that, such as files that it has cleared away.
async fn blame_newer(error: &mut Error, store: &Store, attempt: AttemptId) {
    if matches!(error.kind(), Kind::Job | Kind::Fenced) {
        return;
    }
    // If that can't be found out, the error stands as it is.
    if let Ok(Some(overtaken)) = store.overtaken(attempt).await {
        tracing::info!("overtaken, and so: {error}");
        *error = overtaken;
    }
}

fn blueprint(prepared: &Prepared, begun: &mut Begun, control: &Arc<Control>, events: Events, metrics: &Arc<Metrics>) -> Blueprint {
    let positions = std::mem::take(&mut begun.beginning.positions);
    let mut sources = prepared.sources.clone();
    // A split that was read to its end need not exist any more; its position is kept, lest it be read again when it comes back.
    let mut ended: Vec<_> =
        positions.iter().filter(|(_, position)| position.ended).map(|((node, split), _)| (*node, split.clone())).collect();
    ended.sort();
    for (node, split) in ended {
        if let Some(Splits { names, .. }) = &mut sources[node]
            && !names.contains(&split)
        {
            names.push(split);
        }
    }
    Blueprint {
        plan: Arc::clone(&prepared.plan),
        layout: prepared.layout.clone(),
        components: prepared.components.clone(),
        sources,
        sinks: prepared.sinks.clone(),
        attempt: begun.attempt,
        restored_from: begun.point.as_ref().map(|point| point.manifest.checkpoint),
        epoch: begun.epoch,
        states: Mutex::new(std::mem::take(&mut begun.beginning.states)),
        positions,
        control: Arc::clone(control),
        events,
        metrics: Arc::clone(metrics),
    }
}

/// Passes on the first signal; the second ends the process.
fn listen() -> Result<UnboundedReceiver<i32>> {
    let mut signals = Signals::new()?;
    let (first, taken) = unbounded_channel();
    tokio::spawn(async move {
        // Nobody listens once the job has failed and only waits for its workers; the second signal counts all the same.
        first.send(signals.next().await).unwrap_or(());
        std::process::exit(128 + signals.next().await);
    });
    Ok(taken)
}

async fn join(running: Running) -> Result<()> {
    let joined = tokio::task::spawn_blocking(move || running.join()).await;
    joined.map_err(|panic| Error::new(Kind::Internal, format!("waiting for the workers panicked: {panic}")))?
}

fn restored(point: &RestorePoint) -> Restored {
    let path = point.path.to_string();
    Restored { checkpoint: point.manifest.checkpoint, created: point.manifest.created.clone(), path }
}

fn kind(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Source(_) => "source",
        NodeKind::Operator(_) => "operator",
        NodeKind::Sink(_) => "sink",
    }
}
