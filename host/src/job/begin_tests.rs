//! Beginning when something has come in between: an attempt that has not begun, a commit that overtook what was asked for.

use std::sync::Arc;

use super::Options;
use super::begin::begin;
use super::discard::tests::{store, with_state};
use super::prepare::Prepared;
use crate::checkpoint::store::{BeginFrom, RunChoice};
use crate::connectors::sink;
use crate::error::Kind;
use crate::plan::SinkSettings;

fn leave_out() -> Options {
    Options { allow_non_restored_state: true, ..Options::default() }
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
