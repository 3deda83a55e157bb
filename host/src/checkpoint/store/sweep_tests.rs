//! What interrupted writes leave goes, and nothing else does.

use std::path::PathBuf;

use super::tests::{Attempt, files_below, store};
use super::*;
use crate::checkpoint::file::{PIECE, Take};

/// Writes what interrupted writes leave: part of a file.
fn leave(path: PathBuf) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "half a fi").unwrap();
    path
}

#[tokio::test]
async fn what_is_left_of_copies_goes_once_the_attempts_are_over_that_have_left_it() {
    let (_dir, store) = store().await;
    let local = tempfile::tempdir().unwrap();
    let store = store.with_copies(local.path()).unwrap();
    let copy = |run, path: &str| local.path().join(paths::job_dir("words")).join("copies").join(paths::run_dir(run)).join(path);
    let left_by = |run, attempt| leave(copy(run, &format!("{}#1", paths::snapshot(attempt, 9, "count", 0, 0))));
    Attempt::begin(&store).await.commit(1).await;
    Attempt::begin_with(&store, RunChoice::Fresh).await.commit(1).await;
    let mut newest = Attempt::begin(&store).await;
    newest.commit(1).await;
    assert_eq!((newest.id.run, newest.id.attempt), (2, 2));
    let over = [(1, 1), (1, 7), (2, 1)].map(|(run, attempt)| left_by(run, attempt));
    // Of an attempt that is at it, of a run that is none of this one's, and of somebody else.
    let mut stay = vec![left_by(2, 2), left_by(3, 1), leave(copy(1, "state/notes#1"))];
    newest.collect().await;
    assert!(over.iter().all(|path| !path.exists()), "{:?}", files_below(local.path()));
    stay.extend([1, 2].map(|attempt| copy(2, &paths::snapshot(attempt, u64::from(attempt), "count", 0, 0))));
    let mut found = files_below(local.path());
    found.sort();
    stay.sort();
    assert_eq!(found, stay, "and the copies that the newest checkpoint needs");
}

/// A try that is given up, because the store did not answer in time, has nobody who could remove what is left of it.
#[tokio::test]
async fn with_a_write_that_fails_goes_what_the_tries_before_it_have_left() {
    let (dir, store) = store().await;
    let path = "state/1-1/big.state";
    let beside = |suffix: &str| leave(dir.path().join("words/run-0001").join(format!("{path}{suffix}")));
    let tried = ["#1", "#12"].map(beside);
    let others = ["", "#", "#1x", ".more#1"].map(beside);
    let breaks = |take: &mut Take<'_>| {
        (0..3).try_for_each(|_| take(vec![7; PIECE].into()))?;
        Err::<Option<()>, _>(Error::new(Kind::Checkpoint, "an input is damaged"))
    };
    store.place(1).write(path, breaks).await.unwrap_err();
    assert!(tried.iter().all(|path| !path.exists()));
    let (mut found, mut stay) = (files_below(dir.path()), others.to_vec());
    found.sort();
    stay.sort();
    assert_eq!(found, stay);
}
