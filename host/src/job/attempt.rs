//! Attempts: one after the other, from what is prepared to the job's end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::checkpoint::decide::RestorePoint;
use crate::checkpoint::manifest::{History, Streak};
use crate::checkpoint::store::Store;
use crate::clock;
use crate::dataflow::{self, Blueprint, Control, Events, Metrics, Splits};
use crate::error::{Error, Kind, Result};
use crate::plan::{Location, OnCancel, Plan, Role};
use crate::record::AttemptId;
use crate::threads::blocking;

use super::begin::{Begun, begin};
use super::controller::{Controller, Parties};
use super::fallback::FellBack;
use super::prepare::Prepared;
use super::settle::Settled;
use super::strategy::{Next, Progress, Strategy};
use super::summary::FailedAttempts;
use super::swap::{Swaps, Unsettled};
use super::{End, FailedAttempt, NodeTotals, Notice, Observer, Options, Order, Outcome, Restored, Summary, between, discard};

/// An attempt that is torn down for longer says so.
const SLOW: Duration = Duration::from_secs(1);

/// The newest attempt of the job whose checkpoints go where `plan` says; none before the first: it is older than all others.
///
/// # Errors
/// Kind `Storage`: the place of its checkpoints can't be used.
pub async fn newest_attempt(plan: &Plan) -> Result<AttemptId> {
    newest(&Store::open(&plan.checkpoint.dir, &plan.checkpoint.access, &plan.name).await?).await
}

pub(super) async fn newest(store: &Store) -> Result<AttemptId> {
    let log = store.newest_log().await?;
    Ok(log.map_or(AttemptId::NONE, |log| AttemptId { run: log.run, attempt: log.last_attempt() }))
}

/// Runs a job to its end, one attempt after the other. If the first one does not begin, it is the only one, unless the job is unattended:
/// whoever has started it is there to mend what is wrong.
///
/// # Errors
/// What made it fail.
pub async fn attempts(
    prepared: Arc<Prepared>,
    options: &Options,
    observer: Arc<dyn Observer>,
    orders: &mut UnboundedReceiver<Order>,
) -> Result<Summary> {
    let mut failed = FailedAttempts::default();
    let ended = until_the_last(prepared, options, observer, orders, &mut failed).await;
    failed.told_with(ended)
}

/// Runs attempts to the job's end; all but the last one are added to `failed`.
async fn until_the_last(
    mut prepared: Arc<Prepared>,
    options: &Options,
    observer: Arc<dyn Observer>,
    orders: &mut UnboundedReceiver<Order>,
    failed: &mut FailedAttempts,
) -> Result<Summary> {
    let mut strategy = Strategy::new(prepared.plan.restart.clone());
    let mut legacy = Legacy { claimer: clock::entropy(), ..Legacy::default() };
    if prepared.plan.checkpoint.interval.is_none() {
        observer.notice(&Notice::Unchecked);
    }
    if matches!(prepared.plan.checkpoint.dir, Location::Memory(_)) {
        observer.notice(&Notice::InMemory);
    }
    loop {
        let began = clock::now();
        let error = match attempt(&mut prepared, options, &observer, orders, &mut legacy).await {
            Ok(summary) => {
                if summary.outcome == Outcome::Cancelled {
                    discard(&prepared, summary.attempt, legacy.claimer, &*observer).await;
                }
                return Ok(summary);
            }
            Err(error) => error,
        };
        if legacy.told == Some(End::Cancel) || options.interrupt.is_due() {
            return Ok(cancelled(&prepared, options, &legacy, &*observer).await);
        }
        let Some(attempt) = legacy.attempt.or(options.unattended.then_some(AttemptId::NONE)) else { return Err(error) };
        let (is_forgiven, is_ending) = (std::mem::take(&mut legacy.is_forgiven), std::mem::take(&mut legacy.ending));
        if is_ending && !is_forgiven {
            return Err(for_good(error, Some("it was to end anyway".into())));
        }
        let swap = legacy.unsettled.as_mut().filter(|_| error.kind() != Kind::Fenced);
        let delay = match swap.is_some_and(Unsettled::forgives) || is_forgiven {
            true => Duration::ZERO,
            false => match strategy.failed(&error, &legacy.progress, began, clock::now(), clock::random()) {
                Next::Again(delay) => delay,
                Next::Fail(reason) => return Err(for_good(error, reason)),
            },
        };
        let message = error.message().to_owned();
        if is_forgiven {
            observer.notice(&Notice::BeginningAgain { attempt, error: message });
        } else {
            failed.add(FailedAttempt { attempt, time: clock::wall_text(), error: message.clone() });
            observer.notice(&Notice::Restarting { attempt, error: message, delay });
        }
        let told = match legacy.told.take() {
            None => between::pause(delay, &prepared.plan.name, orders).await,
            told => told,
        };
        match told {
            None => {}
            Some(End::Drain) => legacy.draining = true,
            Some(End::Stop { signal }) => {
                return between::stop(&prepared, legacy.attempt, legacy.claimer, signal).await;
            }
            Some(End::Cancel) => return Ok(cancelled(&prepared, options, &legacy, &*observer).await),
        }
    }
}

/// What a job comes to that is cancelled when its last attempt has failed.
async fn cancelled(prepared: &Prepared, options: &Options, legacy: &Legacy, observer: &dyn Observer) -> Summary {
    match legacy.attempt {
        Some(attempt) => discard(prepared, attempt, legacy.claimer, observer).await,
        None => discard_cancelled(prepared, options, observer).await,
    }
    Summary::nothing_done(&prepared.plan, legacy.attempt.unwrap_or(AttemptId::NONE), Outcome::Cancelled, clock::now())
}

/// The error of the last attempt.
fn for_good(error: Error, reason: Option<String>) -> Error {
    match reason {
        Some(reason) => error.note(format!("not tried again: {reason}")),
        None => error,
    }
}

/// What an attempt leaves to the next.
#[derive(Default)]
struct Legacy {
    /// The last one that has begun.
    attempt: Option<AttemptId>,
    /// Checkpoints of the run.
    history: History,
    /// How far it came.
    progress: Progress,
    /// What has failed since the last good one; none: that is in the run's note, if anywhere.
    streak: Option<Streak>,
    /// Whether it has been told to end.
    ending: bool,
    /// How the job was told to end while it was torn down.
    told: Option<End>,
    /// Whether the next one is to drain: the job was told so between the two.
    draining: bool,
    /// Whether it has failed for nothing but a savepoint.
    is_forgiven: bool,
    /// A swap that it was in the middle of.
    unsettled: Option<Unsettled>,
    /// Whether one was looked for that the process before was in the middle of.
    resumed: bool,
    /// By this attempts know the claims of those before, also of such as have not begun.
    claimer: u64,
}

/// The store of the job's checkpoints.
pub(super) async fn open(plan: &Plan, claimer: u64) -> Result<Store> {
    let settings = &plan.checkpoint;
    let store = Store::open(&settings.dir, &settings.access, &plan.name).await?;
    let store = store.with_memory_threshold(settings.memory_threshold).with_merge_rate(settings.merge_rate).claiming_as(claimer);
    match &settings.local_recovery {
        Some(dir) => store.with_copies(dir),
        None => Ok(store),
    }
}

/// Deletes the checkpoints of a job that was cancelled, if they are not to stay. The job is cancelled all the same if they can't be.
async fn discard(prepared: &Prepared, attempt: AttemptId, claimer: u64, observer: &dyn Observer) {
    if prepared.plan.checkpoint.on_cancel == OnCancel::Retain {
        return;
    }
    let discarded = async { discard::discard(&open(&prepared.plan, claimer).await?, prepared, attempt).await };
    tell_discarded(discarded.await, observer);
}

/// The same for a job none of whose attempts could see to it: they have ended already, or none has begun in this process.
pub async fn discard_cancelled(prepared: &Prepared, options: &Options, observer: &dyn Observer) {
    if prepared.plan.checkpoint.on_cancel == OnCancel::Retain {
        return;
    }
    let discarded = async {
        let store = open(&prepared.plan, clock::entropy()).await?;
        let newest = newest(&store).await?;
        // A run that is not the job's, since it was to begin another and has not, is left alone.
        let has_begun = options.since.is_none_or(|since| newest > since);
        match has_begun || !(options.fresh || options.from.is_some()) {
            true => discard::discard_newest(&store, prepared, newest).await,
            false => Ok(()),
        }
    };
    tell_discarded(discarded.await, observer);
}

fn tell_discarded(discarded: Result<()>, observer: &dyn Observer) {
    observer.notice(&match discarded {
        Ok(()) => Notice::Discarded,
        Err(error) => Notice::NotDiscarded { error: error.message().into() },
    });
}

/// One attempt.
async fn attempt(
    prepared: &mut Arc<Prepared>,
    options: &Options,
    observer: &Arc<dyn Observer>,
    orders: &mut UnboundedReceiver<Order>,
    legacy: &mut Legacy,
) -> Result<Summary> {
    let plan = Arc::clone(&prepared.plan);
    let store = between::unless_cancelled(&options.interrupt, open(&plan, legacy.claimer)).await?;
    if let (Some(since), None) = (options.since, legacy.attempt) {
        legacy.attempt = Some(newest(&store).await?).filter(|newest| *newest > since);
    }
    let started = clock::now();
    if let (Some(resumed), false) = (&options.swap, legacy.resumed) {
        legacy.unsettled = Unsettled::resumed(resumed, &store, prepared, observer.as_ref(), &options.interrupt).await?;
        legacy.resumed = true;
    }
    let swaps = settle(&store, prepared, observer, legacy).await?;
    let begun = match begin(&store, prepared, options, legacy.attempt).await {
        Ok(begun) => begun,
        Err(error) => {
            legacy.unsettled = Unsettled::of(swaps, error.message());
            return Err(error);
        }
    };
    let Some(mut begun) = begun else {
        swaps.kept().iter().for_each(|kept| observer.notice(kept));
        let attempt = legacy.attempt.unwrap_or(AttemptId::NONE);
        return Ok(Summary::nothing_done(&plan, attempt, Outcome::Finished, started));
    };
    legacy.attempt = Some(begun.attempt);
    if let Some(FellBack { damage, doubles }) = begun.fell_back.take() {
        observer.notice(&Notice::FellBack { damage, doubles });
    }
    let restored = begun.point.as_ref().map(|point| restored(point, &begun.beginning.settled));
    observer.notice(&match &restored {
        Some(restored) => Notice::Resuming { attempt: begun.attempt, restored: restored.clone() },
        None => Notice::Starting { attempt: begun.attempt },
    });
    let streak = match legacy.streak.take() {
        Some(streak) => streak,
        None => recall(&store, &begun, &mut legacy.history).await,
    };
    let control = Arc::new(Control::default());
    let metrics = Arc::new(Metrics::new(plan.nodes.len(), plan.parallelism));
    let (events, taken) = unbounded_channel();
    // When nobody listens any more, the job has ended.
    let events: Events = Arc::new(move |event| drop(events.send(event)));
    observer.began(&metrics);
    let sources: Vec<usize> = (0..plan.nodes.len()).filter(|&node| plan.nodes[node].kind.role() == Role::Source).collect();
    legacy.progress.restored = sources.iter().map(|&node| begun.beginning.records(node)).collect();
    let trial = swaps.trial();
    let running = match dataflow::start(Blueprint { trial, ..blueprint(prepared, &mut begun, &control, events, &metrics) }) {
        Ok(running) => running,
        Err(error) => {
            (legacy.unsettled, legacy.streak) = (Unsettled::of(swaps, error.message()), Some(streak));
            return Err(error);
        }
    };
    let parties = Parties {
        prepared: Arc::clone(prepared),
        store: store.clone(),
        control: Arc::clone(&control),
        metrics: Arc::clone(&metrics),
        observer: Arc::clone(observer),
        history: std::mem::take(&mut legacy.history),
        streak,
        swaps,
    };
    let mut controller = Controller::new(parties, &begun, started);
    if legacy.draining {
        controller.end_by(End::Drain);
    }
    let mut ended = controller.run(taken, orders).await;
    let slow = Notice::Lingering { attempt: begun.attempt, error: ended.as_ref().err().map(|error| error.message().into()) };
    let torn_down = async {
        controller.abandon(&ended).await;
        if let Err(error) = &mut ended {
            blame_newer(error, &store, begun.attempt).await;
        }
        blocking("waiting for the workers", move || running.join()).await
    };
    let torn_down = tell_if_slow(torn_down, &slow, observer.as_ref());
    let joined;
    (joined, legacy.told) = between::tear_down(torn_down, &control, &plan.name, orders).await;
    legacy.history = std::mem::take(&mut controller.history);
    (legacy.ending, legacy.is_forgiven) = (controller.ending.is_some(), controller.is_forgiven);
    legacy.streak = Some(controller.cycle.streak().clone());
    prepared.clone_from(&controller.prepared);
    if let Err(error) = &ended {
        legacy.unsettled = Unsettled::of(std::mem::take(&mut controller.swaps), error.message());
    }
    let read = |(restored, &node): (&u64, &usize)| restored + metrics.node(node).records_in;
    legacy.progress.read = legacy.progress.restored.iter().zip(&sources).map(read).collect();
    // A worker's panic has already been told as the reason, if it was one. Where it was none, what counts is durable, and a job that has been
    // told to end has ended.
    let outcome = ended?;
    joined.unwrap_or_else(|panic| tracing::warn!("the attempt has ended, and after that: {panic}"));
    let node = |(index, node): (usize, &crate::plan::Node)| {
        let counts = metrics.node(index);
        NodeTotals {
            uid: node.uid.clone(),
            kind: node.kind.role().name(),
            records_in: counts.records_in,
            records_out: counts.records_out,
            records_failed: counts.records_failed,
            state: counts.state,
            own: metrics.own(index),
        }
    };
    Ok(Summary {
        job: plan.name.clone(),
        attempt: begun.attempt,
        outcome,
        signal: controller.signal().filter(|_| outcome == Outcome::Stopped),
        restored,
        failures: Vec::new(),
        failed_attempts: 0,
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

/// What is noted of checkpoints that have failed: into `history`, and what has failed since the last good one. Nothing depends on it.
async fn recall(store: &Store, begun: &Begun, history: &mut History) -> Streak {
    let run = begun.attempt.run;
    let reason = match store.failed(run).await {
        Ok(None) => return Streak::default(),
        Ok(Some(Ok(failed))) => {
            let streak = failed.streak_after(begun.point.as_ref().map(|point| &point.manifest).filter(|good| good.attempt.run == run));
            failed.checkpoints.into_iter().for_each(|past| history.add(past));
            return streak;
        }
        Ok(Some(Err(reason))) => reason,
        Err(error) => error.message().into(),
    };
    tracing::warn!("which checkpoints have failed before is not known: {reason}");
    Streak::default()
}

/// Which component the job goes on with, if the attempt before was in the middle of a swap. Returns what is left of that.
async fn settle(store: &Store, prepared: &mut Arc<Prepared>, observer: &Arc<dyn Observer>, legacy: &mut Legacy) -> Result<Swaps> {
    let named = match &legacy.unsettled {
        Some(unsettled) => unsettled.is_named(store).await?,
        None => return Ok(Swaps::None),
    };
    let unsettled = legacy.unsettled.take();
    Ok(unsettled.map_or(Swaps::None, |unsettled| unsettled.settle(named, prepared, observer.as_ref())))
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
        trial: None,
        states: Mutex::new(std::mem::take(&mut begun.beginning.states)),
        positions,
        control: Arc::clone(control),
        events,
        metrics: Arc::clone(metrics),
    }
}

/// Waits for what is being torn down. If that takes long, it is told meanwhile.
async fn tell_if_slow<T>(torn_down: impl Future<Output = T>, slow: &Notice, observer: &dyn Observer) -> T {
    let mut torn_down = std::pin::pin!(torn_down);
    if let Ok(done) = tokio::time::timeout(SLOW, &mut torn_down).await {
        return done;
    }
    observer.notice(slow);
    torn_down.await
}

fn restored(point: &RestorePoint, settled: &Settled) -> Restored {
    Restored {
        checkpoint: point.manifest.checkpoint,
        created: point.manifest.created.clone(),
        path: point.path.to_string(),
        savepoint: point.manifest.savepoint.is_some(),
        empty: settled.empty.clone(),
        left_out: settled.left_out.clone(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::job::Progress;

    /// Passes on that it was told something.
    struct Told(Mutex<Option<oneshot::Sender<Notice>>>);

    impl Observer for Told {
        fn notice(&self, notice: &Notice) {
            let told = self.0.lock().unwrap().take().expect("it is told once");
            told.send(notice.clone()).unwrap();
        }

        fn progress(&self, _: &Progress) {}
    }

    #[tokio::test]
    async fn what_takes_long_to_be_torn_down_is_told_meanwhile() {
        let (told, is_told) = oneshot::channel();
        let slow = Notice::Lingering { attempt: AttemptId { run: 1, attempt: 7 }, error: Some("no disk".into()) };
        // It comes to its end only because it was told.
        let noticed = tell_if_slow(is_told, &slow, &Told(Mutex::new(Some(told)))).await.unwrap();
        assert_eq!(noticed.to_string(), "attempt 7 has failed (no disk) and waits for its workers and its last commit to end");
        let (told, _) = oneshot::channel();
        tell_if_slow(std::future::ready(()), &slow, &Told(Mutex::new(Some(told)))).await;
    }
}
