//! Beginning when something has come in between: an attempt that has not begun, a commit that overtook what was asked for.

use std::sync::Arc;

use bytes::Bytes;

use super::Options;
use super::begin::{Begun, begin, choose_and_read, take_over};
use super::discard::tests::{store, with_state};
use super::prepare::Prepared;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::paths;
use crate::checkpoint::store::{BeginFrom, Claimed, RunChoice, Store};
use crate::connectors::sink;
use crate::error::{Kind, Result};
use crate::plan::{Plan, SinkSettings};
use crate::record::AttemptId;

fn leave_out() -> Options {
    Options { allow_non_restored_state: true, ..Options::default() }
}

/// Has an attempt begin from one of the run's own checkpoints, whatever is published.
fn rewind(checkpoint: u64) -> Options {
    Options { from: Some(checkpoint.to_string()), allow_duplicates: true, ..leave_out() }
}

/// Where the manifest of a checkpoint lies.
async fn path_of(store: &Store, run: u32, checkpoint: u64) -> String {
    let log = store.log(run).await.unwrap();
    let (slot, _) = log.manifests().find(|(_, manifest)| manifest.checkpoint == checkpoint).unwrap();
    log.path(slot).to_string()
}

async fn commit(store: &Store, attempt: AttemptId, slot: u64, checkpoint: u64, origin: Option<&str>) {
    let origin = origin.map(str::to_owned);
    let manifest = Manifest { attempt, origin, sinks: vec![], ..manifest(attempt.attempt, checkpoint, vec![]) };
    store.commit(slot, &manifest).await.unwrap();
}

/// The manifest of checkpoint 41 of another job.
async fn elsewhere(prepared: &Prepared) -> String {
    let other = store(&Plan { name: "elsewhere".into(), ..(*prepared.plan).clone() }).await;
    let Claimed { attempt, slot, .. } = other.claim(RunChoice::Newest, "another job", None).await.unwrap();
    commit(&other, attempt, slot + 1, 41, None).await;
    path_of(&other, 1, 41).await
}

/// Another process claims a run to begin from `manifest`.
async fn told(prepared: &Prepared, run: RunChoice, manifest: &str, passes_over: Option<usize>) -> (Store, Claimed) {
    let store = store(&prepared.plan).await;
    let from = BeginFrom { manifest: manifest.into(), owned: false, passes_over };
    let claimed = store.claim(run, "another process", Some(&from)).await.unwrap();
    (store, claimed)
}

/// Begins an attempt that finds, when it has read its checkpoint, that `meanwhile` has happened.
async fn overtaken(store: &Store, prepared: &Prepared, options: &Options, meanwhile: impl AsyncFnOnce()) -> Result<Begun> {
    let (choice, beginning) = choose_and_read(store, prepared, options, None).await.unwrap().unwrap();
    meanwhile().await;
    take_over(store, prepared, options, choice, beginning).await
}

/// From which checkpoint the job goes on when it is started once more, and in which run.
async fn goes_on(prepared: &Prepared) -> (u32, u64) {
    let begun = begin(&store(&prepared.plan).await, prepared, &leave_out(), None).await.unwrap().unwrap();
    (begun.attempt.run, begun.point.expect("it has state").manifest.checkpoint)
}

#[tokio::test]
async fn an_attempt_that_has_claimed_and_not_begun_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    let (prepared, own, last) = with_state(dir.path()).await;
    // Where the sink's directory is to be made there is a file, so the attempt fails between its claim and its beginning.
    std::fs::write(dir.path().join("out"), b"").unwrap();
    let sink = sink("out", &SinkSettings::File { path: dir.path().join("out") });
    let prepared = Prepared { sinks: vec![Some(Arc::from(sink))], ..prepared };
    let options = leave_out();
    let error = begin(&own, &prepared, &options, Some(last)).await.err().unwrap();
    assert_eq!((error.kind(), own.log(1).await.unwrap().last_attempt()), (Kind::Storage, last.attempt + 1));
    std::fs::remove_file(dir.path().join("out")).unwrap();
    let begun = begin(&own, &prepared, &options, Some(last)).await.unwrap().unwrap();
    assert_eq!((begun.attempt.attempt, begun.point.unwrap().manifest.checkpoint), (last.attempt + 2, 3));
    // To another process they are claims like any other.
    let other = store(&prepared.plan).await;
    assert_eq!(begin(&other, &prepared, &options, Some(last)).await.err().unwrap().kind(), Kind::Fenced);
}

#[tokio::test]
async fn a_claim_holds_only_while_no_more_checkpoints_are_newer_than_was_accepted() {
    for (passes_over, checkpoint) in [(None, 1), (Some(2), 1), (Some(1), 3)] {
        let dir = tempfile::tempdir().unwrap();
        let (prepared, store, _) = with_state(dir.path()).await;
        let log = store.log(1).await.unwrap();
        let (slot, _) = log.manifests().last().unwrap();
        let from = BeginFrom { manifest: log.path(slot).to_string(), owned: false, passes_over };
        store.claim(RunChoice::Newest, "a process that was killed", Some(&from)).await.unwrap();
        let begun = begin(&store, &prepared, &leave_out(), None).await.unwrap().unwrap();
        assert_eq!(begun.point.unwrap().manifest.checkpoint, checkpoint, "{passes_over:?} accepted");
    }
}

#[tokio::test]
async fn what_one_process_was_told_holds_for_another_that_claims_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (prepared, own, _) = with_state(dir.path()).await;
    let savepoint = elsewhere(&prepared).await;
    let claimed = async || _ = told(&prepared, RunChoice::Fresh, &savepoint, Some(0)).await;
    let begun = overtaken(&own, &prepared, &leave_out(), claimed).await.unwrap();
    assert_eq!((begun.attempt, begun.origin), (AttemptId { run: 2, attempt: 2 }, Some(savepoint)));
    assert_eq!(begun.point.unwrap().manifest.checkpoint, 41);
    assert_eq!(goes_on(&prepared).await, (2, 41));

    let dir = tempfile::tempdir().unwrap();
    let (prepared, own, _) = with_state(dir.path()).await;
    let oldest = path_of(&own, 1, 1).await;
    let claimed = async || _ = told(&prepared, RunChoice::Newest, &oldest, None).await;
    let begun = overtaken(&own, &prepared, &leave_out(), claimed).await.unwrap();
    assert_eq!((begun.point.unwrap().manifest.checkpoint, begun.origin), (1, None));
    // Whoever was to delete the checkpoints and died after its claim was told nothing.
    own.claim(RunChoice::Newest, "to delete the checkpoints", None).await.unwrap();
    assert_eq!(goes_on(&prepared).await, (1, 1));
}

#[tokio::test]
async fn what_was_told_holds_no_longer_once_a_run_has_begun_from_it() {
    for is_asked in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (prepared, own, _) = with_state(dir.path()).await;
        let savepoint = elsewhere(&prepared).await;
        let (other, claimed) = told(&prepared, RunChoice::Fresh, &savepoint, Some(0)).await;
        let options = Options { from: is_asked.then(|| savepoint.clone()), ..leave_out() };
        let committed = async || commit(&other, claimed.attempt, claimed.slot + 1, 42, Some(&savepoint)).await;
        match overtaken(&own, &prepared, &options, committed).await {
            Ok(begun) => assert_eq!((is_asked, begun.point.unwrap().manifest.checkpoint), (false, 42)),
            Err(error) => assert_eq!((is_asked, error.kind()), (true, Kind::Checkpoint), "{error}"),
        }
        assert_eq!(goes_on(&prepared).await, (2, 42), "asked: {is_asked}");
    }
}

#[tokio::test]
async fn a_checkpoint_that_was_superseded_before_it_was_claimed_is_in_nobodys_way() {
    for passes_over in [None, Some(2)] {
        let dir = tempfile::tempdir().unwrap();
        let (prepared, own, _) = with_state(dir.path()).await;
        let oldest = path_of(&own, 1, 1).await;
        own.delete(1, &[paths::entry(1), paths::entry(2)]).await.unwrap();
        told(&prepared, RunChoice::Newest, &oldest, passes_over).await;
        assert_eq!(goes_on(&prepared).await, (1, 3), "{passes_over:?} accepted");
    }
}

#[tokio::test]
async fn an_attempt_never_begins_from_what_was_superseded_while_it_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let (prepared, own, _) = with_state(dir.path()).await;
    let collected = async || {
        own.delete(1, &[paths::entry(1), paths::entry(2)]).await.unwrap();
        own.delete(1, &[paths::snapshot(1, 1, "count", 0, 0)]).await.unwrap();
    };
    let error = overtaken(&own, &prepared, &rewind(1), collected).await.err().expect("it is gone");
    assert_eq!(error.kind(), Kind::Checkpoint, "{error}");
    assert_eq!(goes_on(&prepared).await, (1, 3));
}

#[tokio::test]
async fn what_attempts_that_are_over_have_left_goes_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (prepared, own, last) = with_state(dir.path()).await;
    let of = |attempt: u32, epoch: u64| paths::snapshot(attempt, epoch, "count", 0, 0);
    let state = async |run: u32| own.list(run).await.unwrap().into_iter().filter(|path| path.starts_with("state/")).collect::<Vec<_>>();
    assert_eq!(state(1).await, [of(1, 1), of(1, 2), of(1, 3), of(1, 4)]);
    begin(&own, &prepared, &leave_out(), Some(last)).await.unwrap().unwrap();
    assert_eq!(state(1).await, [of(1, 1), of(1, 2), of(1, 3)], "the last one is of no checkpoint");

    // Without any checkpoint nothing is needed but what a newer attempt may be writing.
    let savepoint = elsewhere(&prepared).await;
    told(&prepared, RunChoice::Fresh, &savepoint, Some(0)).await;
    for attempt in [1, 2, 3] {
        own.keep(2, &of(attempt, 42), &Bytes::from_static(b"state")).await.unwrap();
    }
    assert_eq!(goes_on(&prepared).await, (2, 41));
    assert_eq!(state(2).await, [of(2, 42), of(3, 42)]);
    assert_eq!(goes_on(&prepared).await, (2, 41));
    assert_eq!(state(2).await, [of(3, 42)]);
}
