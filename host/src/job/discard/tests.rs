//! A cancelled job whose checkpoints are to be deleted: nothing of them is left, whenever the process dies, and nobody else's are touched.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::*;
use crate::checkpoint::manifest::tests::{manifest, state_file};
use crate::checkpoint::paths;
use crate::error::Kind;
use crate::job::attempt::{attempts, discard_cancelled};
use crate::job::begin::begin;
use crate::job::{End, Notice, Observer, Options, Order, Outcome, Progress, Summary};
use crate::plan::{
    Access, CheckpointSettings, Distribution, Input, Layout, Node, NodeKind, OnCancel, Restart, SinkSettings, SourceKind, SourceSettings,
    WordsSettings,
};
use crate::record::AttemptId;
use crate::wasm::{Engine, Interrupt};

/// A job that would never end: words into files. It has no operator, and so no state.
pub(in crate::job) fn plan(dir: &Path) -> Plan {
    let words = WordsSettings { keys: 10, words_per_line: 3, lines: None, seed: 1, distribution: Distribution::Uniform };
    let source = NodeKind::Source(SourceSettings { rate: Some(5000), kind: SourceKind::Words(words) });
    let sink = NodeKind::Sink(SinkSettings::File { path: dir.join("out") });
    let input = Input { node: 0, port: None, to: None };
    Plan {
        file: "job.toml".into(),
        text: "".into(),
        base: dir.into(),
        name: "words".into(),
        parallelism: 2,
        max_parallelism: 128,
        restart: Restart::None,
        checkpoint: CheckpointSettings {
            interval: Some(std::time::Duration::from_millis(10)),
            on_cancel: OnCancel::Delete,
            ..CheckpointSettings::new(dir.join("checkpoints").into())
        },
        state_dir: "/s".into(),
        nodes: vec![
            Node { uid: "words".into(), kind: source, inputs: vec![], renamed_from: None },
            Node { uid: "out".into(), kind: sink, inputs: vec![input], renamed_from: None },
        ],
    }
}

/// Cancels the job when it has some checkpoints, and remembers whether they were said to be deleted.
struct Canceller {
    orders: UnboundedSender<Order>,
    discarded: AtomicBool,
}

impl Observer for Canceller {
    fn notice(&self, notice: &Notice) {
        self.discarded.fetch_or(*notice == Notice::Discarded, Ordering::SeqCst);
    }

    fn progress(&self, progress: &Progress) {
        if progress.checkpoints >= 3 {
            // Once is enough, and when the job has ended nobody listens.
            self.orders.send(Order::End(End::Cancel)).unwrap_or(());
        }
    }
}

/// Runs a job until it has some checkpoints, and cancels it.
async fn cancelled(plan: &Plan) -> (Summary, bool) {
    let (orders, mut taken) = unbounded_channel();
    let observer = Arc::new(Canceller { orders, discarded: AtomicBool::default() });
    let prepared = Arc::new(Prepared::new(plan, &Engine::new(None).unwrap(), &Interrupt::default()).unwrap());
    let summary = attempts(prepared, &Options::default(), observer.clone(), &mut taken).await.unwrap();
    (summary, observer.discarded.load(Ordering::SeqCst))
}

pub(in crate::job) async fn store(plan: &Plan) -> Store {
    Store::open(&plan.checkpoint.dir, &Access::default(), &plan.name).await.unwrap()
}

/// What a run's directory holds.
async fn left(store: &Store, run: u32) -> Vec<String> {
    store.list(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_leaves_its_published_output_and_no_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path());
    let (summary, discarded) = cancelled(&plan).await;
    assert_eq!((summary.outcome, summary.attempt, discarded), (Outcome::Cancelled, AttemptId { run: 1, attempt: 1 }, true));
    let store = store(&plan).await;
    let log = store.log(1).await.unwrap();
    let (slot, last) = log.manifests().next().unwrap();
    assert_eq!((last.trigger, last.finished, log.entries.len()), (Trigger::Cancel, true, 1));
    assert_eq!(left(&store, 1).await, [paths::entry(slot), paths::PUBLISHED.into()]);
    assert!(std::fs::read_dir(dir.path().join("out/.staging")).unwrap().next().is_none(), "nothing waits for a checkpoint");
    assert!(std::fs::read_dir(dir.path().join("out")).unwrap().count() > 1, "what was committed is published");

    let (summary, _) = cancelled(&plan).await;
    assert_eq!(summary.attempt, AttemptId { run: 2, attempt: 1 }, "the next one begins anew, beside that output");
    let retained = Plan { checkpoint: CheckpointSettings { on_cancel: OnCancel::Retain, ..plan.checkpoint.clone() }, ..plan };
    let (summary, discarded) = cancelled(&retained).await;
    assert_eq!((summary.attempt.run, discarded), (3, false));
    let (summary, _) = cancelled(&retained).await;
    assert_eq!((summary.attempt, summary.restored.is_some()), (AttemptId { run: 3, attempt: 2 }, true), "kept ones are gone on from");
}

/// A job without nodes, whose first run has three checkpoints with state, and files of a fourth.
pub(in crate::job) async fn with_state(dir: &Path) -> (Prepared, Store, AttemptId) {
    let plan = Plan { nodes: vec![], ..plan(dir) };
    let store = store(&plan).await;
    let Claimed { attempt, slot, .. } = store.claim(RunChoice::Newest, "a test", None).await.unwrap();
    for checkpoint in 1..=4 {
        let file = state_file(attempt.attempt, checkpoint, "count", 0);
        store.keep(attempt.run, &file.path, &Bytes::from_static(b"state")).await.unwrap();
        if checkpoint < 4 {
            let manifest = Manifest { attempt, sinks: vec![], ..manifest(attempt.attempt, checkpoint, vec![file]) };
            store.commit(slot + checkpoint, &manifest).await.unwrap();
        }
    }
    let layout = Layout::new(&plan, &[]);
    (Prepared { plan: Arc::new(plan), layout, components: vec![], sources: vec![], sinks: vec![] }, store, attempt)
}

#[tokio::test]
async fn a_savepoint_that_the_job_owns_goes_when_the_job_has_ended_at_the_latest() {
    for is_cancelled in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (prepared, store, attempt) = with_state(dir.path()).await;
        let savepoint = dir.path().join("savepoint-words-1-5f00ff");
        std::fs::create_dir(&savepoint).unwrap();
        std::fs::write(savepoint.join("manifest.json"), "{}").unwrap();
        // It could not be removed after any of its checkpoints.
        let owned = Some(savepoint.join("manifest.json").display().to_string());
        let last = Manifest { attempt, owned, finished: !is_cancelled, sinks: vec![], ..manifest(attempt.attempt, 4, vec![]) };
        store.commit(store.log(1).await.unwrap().last_slot() + 1, &last).await.unwrap();
        match is_cancelled {
            true => discard(&store, &prepared, attempt).await.unwrap(),
            false => drop(begin(&store, &prepared, &Options::default(), None).await.unwrap()),
        }
        assert!(!savepoint.exists(), "cancelled: {is_cancelled}");
    }
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_leaves_nothing_to_go_on_from_and_the_next_deletes_the_rest() {
    // A claim, three checkpoints, four state files, and the claim of the attempt that deletes.
    for deleted in 0..=9 {
        let dir = tempfile::tempdir().unwrap();
        let (prepared, store, last) = with_state(dir.path()).await;
        let Claimed { attempt, slot, log } = store.claim(RunChoice::After(last), "a test", None).await.unwrap();
        store.commit(slot + 1, &nothing(&prepared.plan, attempt, next_epoch(&log), None)).await.unwrap();
        let all: Vec<String> = left(&store, 1).await.into_iter().filter(|path| *path != paths::entry(slot + 1)).collect();
        assert_eq!(all.len(), 9);
        store.delete(1, &all[..deleted]).await.unwrap();
        let options = Options { fresh: deleted % 2 == 1, ..Options::default() };
        let begun = begin(&store, &prepared, &options, None).await.unwrap().unwrap();
        assert_eq!((begun.attempt, begun.point.is_none()), (AttemptId { run: 2, attempt: 1 }, true), "after {deleted}");
        assert_eq!(left(&store, 1).await, [paths::entry(slot + 1)], "after {deleted}");
    }
    // Before that entry is there, everything is as it was.
    let dir = tempfile::tempdir().unwrap();
    let (_, store, last) = with_state(dir.path()).await;
    let Claimed { log, slot, .. } = store.claim(RunChoice::After(last), "a test", None).await.unwrap();
    assert_eq!(restore_point(&log, slot).unwrap().unwrap().manifest.checkpoint, 3);
}

#[tokio::test]
async fn who_was_overtaken_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (prepared, store, last) = with_state(dir.path()).await;
    self::store(&prepared.plan).await.claim(RunChoice::Newest, "another process", None).await.unwrap();
    let before = left(&store, 1).await;
    assert_eq!(discard(&store, &prepared, last).await.unwrap_err().kind(), Kind::Fenced);
    assert_eq!(left(&store, 1).await, before);
}

#[tokio::test]
async fn what_no_attempt_could_see_to_is_seen_to_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let (prepared, store, last) = with_state(dir.path()).await;
    let observer = Canceller { orders: unbounded_channel().0, discarded: AtomicBool::default() };
    let before = left(&store, 1).await;
    for (fresh, from) in [(true, None), (false, Some("/elsewhere".into()))] {
        let options = Options { fresh, from, since: Some(last), ..Options::default() };
        discard_cancelled(&prepared, &options, &observer).await;
        assert_eq!(left(&store, 1).await, before, "the run before a job that has not begun");
    }
    let options = Options { fresh: true, since: Some(AttemptId::NONE), ..Options::default() };
    discard_cancelled(&prepared, &options, &observer).await;
    let after = left(&store, 1).await;
    assert_eq!((after.len(), store.log(1).await.unwrap().manifests().next().unwrap().1.trigger), (1, Trigger::Cancel));
    discard_cancelled(&prepared, &options, &observer).await;
    assert_eq!(left(&store, 1).await, after, "once is enough");
    assert!(observer.discarded.into_inner());
}
