//! Savepoints on real directories: whole or not there, in one piece wherever they are, and gone only as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::checkpoint::store::RunChoice;
use crate::checkpoint::store::tests::{Attempt, keys, store};

/// Of the one component.
fn digest() -> String {
    blake3::hash(b"wasm").to_hex().to_string()
}

/// The newest checkpoint, and its slot.
async fn newest(store: &Store) -> (u64, Manifest) {
    let log = store.log(1).await.unwrap();
    let (slot, manifest) = log.manifests().next().unwrap();
    let mut manifest = manifest.clone();
    manifest.operators[0].component.digest = digest();
    (slot, manifest)
}

fn contents(trigger_id: &str, from: &str) -> Contents {
    let components = [(digest(), Bytes::from_static(b"wasm"))];
    Contents {
        trigger_id: trigger_id.into(),
        writer: "id of-a-test".into(),
        given_up: Arc::default(),
        from: from.into(),
        job_file: "format = 1\n".into(),
        directory: "/jobs".into(),
        components: Some(components.into()),
    }
}

/// A store with 20 checkpoints of one key each, and the savepoint of the last one beside it.
async fn taken() -> (TempDir, Store, Attempt, Target, Saved) {
    let (dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(20).await;
    let (slot, manifest) = newest(&store).await;
    let target = store.savepoint_target(&dir.path().join("elsewhere").as_path().into()).await.unwrap();
    let from = canonical(&store.run_dir(1)).join(&crate::checkpoint::paths::entry(slot)).to_string();
    let saved = store.save(&manifest, &target, contents("5f", &from)).await.unwrap();
    (dir, store, attempt, target, saved)
}

fn names(dir: &Path) -> Vec<String> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn path(location: &Location) -> PathBuf {
    location.to_string().into()
}

async fn find(path: &Path) -> Result<SavepointDir> {
    Ok(SavepointDir::find(&path.into(), &Access::default()).await?.expect("it is a directory"))
}

#[tokio::test]
async fn a_savepoint_depends_on_nothing_and_may_be_moved() {
    let (dir, store, _attempt, target, saved) = taken().await;
    assert_eq!((saved.checkpoint, saved.trigger_id.as_str()), (20, "5f"));
    assert_eq!(target.find("words", "id", "5f").await.unwrap(), Some(saved.clone()));
    assert_eq!(target.find("words", "id", "f").await.unwrap(), None);
    assert_eq!(target.find("words", "other", "5f").await.unwrap(), None, "another job of this name has taken it");
    let moved = dir.path().join("moved");
    std::fs::rename(path(&saved.path), &moved).unwrap();
    std::fs::remove_dir_all(path(&store.run_dir(1))).unwrap();
    for wanted in [moved.clone(), moved.join(paths::MANIFEST)] {
        let point = store.load(wanted.to_str().unwrap()).await.unwrap();
        assert_eq!((point.newer, point.manifest.operators[0].files.len()), (0, 1), "one base");
        assert!(point.manifest.sinks.iter().all(|sink| sink.staged.is_empty()));
        assert_eq!(keys(&store, &point).await.unwrap(), (1..=20).collect());
        let claimed = store.claim(RunChoice::Fresh, "a test", None).await.unwrap();
        let adopted = store.adopt(&point, claimed.attempt).await.unwrap();
        assert_eq!(keys(&store, &adopted).await.unwrap(), (1..=20).collect());
    }
    let description = find(&moved).await.unwrap().describe().await.unwrap();
    assert_eq!((description.broken.as_slice(), description.foreign.as_slice()), (&[][..], &[][..]));
    std::fs::remove_dir_all(&moved).unwrap();
    assert_eq!(names(&run_dir(&store)).len(), 1, "what was adopted is the run's own");
}

fn run_dir(store: &Store) -> PathBuf {
    path(&store.run_dir(1)).join("state")
}

#[tokio::test]
async fn what_the_job_has_committed_since_is_known() {
    let (_dir, store, mut attempt, _target, saved) = taken().await;
    let newer = || async { store.load(&saved.path.to_string()).await.unwrap().newer };
    assert_eq!(newer().await, 0);
    attempt.commit(2).await;
    assert_eq!(newer().await, 2);
}

#[tokio::test]
async fn what_is_missing_or_damaged_is_named() {
    let (_dir, _store, _attempt, _target, saved) = taken().await;
    let dir = path(&saved.path);
    let savepoint = find(&dir).await.unwrap();
    let manifest = savepoint.manifest().await.unwrap();
    let state = manifest.operators[0].files[0].path.clone();
    std::fs::write(dir.join(&state), b"garbage").unwrap();
    std::fs::remove_file(dir.join(paths::JOB_FILE)).unwrap();
    std::fs::write(dir.join(paths::component(&digest())), b"another").unwrap();
    std::fs::write(dir.join("notes.txt"), b"mine").unwrap();
    let description = savepoint.describe().await.unwrap();
    let broken: Vec<_> = description.broken.iter().map(|broken| (broken.path.as_str(), broken.reason.contains("missing"))).collect();
    assert_eq!(broken, [(state.as_str(), false), (paths::JOB_FILE, true), (paths::component(&digest()).as_str(), false)]);
    assert_eq!(description.foreign, ["notes.txt"]);
    std::fs::write(dir.join(paths::MANIFEST), b"garbage").unwrap();
    for error in [savepoint.manifest().await.unwrap_err(), savepoint.dispose().await.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Checkpoint);
        assert!(error.message().contains("manifest.json: this is neither a manifest nor a claim"), "{error}");
    }
}

#[tokio::test]
async fn one_without_a_manifest_is_none_and_can_be_cleared_away_for_good() {
    let (_dir, store, _attempt, target, saved) = taken().await;
    let dir = path(&saved.path);
    let (_, manifest) = newest(&store).await;
    std::fs::remove_file(dir.join(paths::MANIFEST)).unwrap();
    std::fs::write(dir.join("job.toml#3"), b"").unwrap();
    let error = store.load(dir.to_str().unwrap()).await.unwrap_err();
    assert!(error.message().contains("is no savepoint: it has no manifest.json"), "{error}");
    assert_eq!(target.find("words", "id", "5f").await.unwrap(), None);
    // Whoever was still writing it can't finish it.
    let savepoint = find(&dir).await.unwrap();
    savepoint.0.keep(paths::MANIFEST, &Bytes::from_static(DISPOSED)).await.unwrap();
    assert_eq!(target.find("words", "id", "5f").await.unwrap(), None);
    let late = store.save(&manifest, &target, contents("5f", "")).await.unwrap_err();
    assert!(late.message().contains("manifest.json exists already"), "{late}");
    let disposed = savepoint.dispose().await.unwrap();
    assert!(!disposed.was_whole && disposed.foreign.is_empty());
    assert!(!dir.exists(), "nor is anything left of interrupted writes");
}

#[tokio::test]
async fn one_that_was_disposed_of_in_its_writing_is_not_kept() {
    let (_dir, _store, _attempt, _target, saved) = taken().await;
    let savepoint = find(&path(&saved.path)).await.unwrap();
    let manifest = savepoint.manifest().await.unwrap();
    savepoint.keep_if_whole(&manifest).await.unwrap();
    for gone in [manifest.operators[0].files[0].path.clone(), paths::component(&digest()), paths::JOB_FILE.into()] {
        let (_dir, _store, _attempt, _target, saved) = taken().await;
        std::fs::remove_file(path(&saved.path).join(&gone)).unwrap();
        let error = find(&path(&saved.path)).await.unwrap().keep_if_whole(&manifest).await.unwrap_err();
        assert!(error.message().contains(&gone), "{error}");
        assert!(!path(&saved.path).exists());
    }
}

#[tokio::test]
async fn a_savepoint_of_the_same_name_stays_whole() {
    let (_dir, store, _attempt, target, saved) = taken().await;
    let (_, manifest) = newest(&store).await;
    let other = Contents { job_file: "format = 1 # of another host\n".into(), ..contents("5f", "") };
    let error = store.save(&manifest, &target, other).await.unwrap_err();
    assert!(error.message().contains("manifest.json exists already"), "{error}");
    assert_eq!(find(&path(&saved.path)).await.unwrap().describe().await.unwrap().broken, []);
}

#[tokio::test]
async fn it_has_one_writer_and_what_that_leaves_is_removed_and_nothing_else() {
    let (_dir, store, _attempt, target, saved) = taken().await;
    let (_, manifest) = newest(&store).await;
    let dir = path(&saved.path);
    assert!(!dir.join(paths::WRITER).exists(), "it is whole");
    find(&dir).await.unwrap().dispose().await.unwrap();
    let of = |writer: &str| Contents { writer: writer.into(), ..contents("5f", "") };

    // Somebody is in the middle of it.
    let first = SavepointDir(target.place(paths_dir(&dir)));
    first.take("first").await.unwrap();
    first.0.keep(paths::JOB_FILE, &Bytes::from_static(b"the first's")).await.unwrap();
    let second = store.save(&manifest, &target, of("second")).await.unwrap_err();
    assert!(second.message().ends_with("is being written by somebody else, or was left by a host that was killed"), "{second}");
    store.clear_savepoint(&target_dir(&dir), "5f", "second").await.unwrap();
    assert_eq!(std::fs::read(dir.join(paths::JOB_FILE)).unwrap(), b"the first's");
    // It is gone, and a file is somebody else's.
    std::fs::write(dir.join("notes.txt"), b"mine").unwrap();
    store.clear_savepoint(&target_dir(&dir), "5f", "first").await.unwrap();
    assert_eq!(names(&dir), ["notes.txt"]);
    // What nobody says is his, is nobody's to remove.
    std::fs::write(dir.join(paths::JOB_FILE), b"whose?").unwrap();
    let error = store.save(&manifest, &target, of("second")).await.unwrap_err();
    assert!(error.message().ends_with("has files of a savepoint that was not written to its end"), "{error}");
    assert_eq!(std::fs::read(dir.join(paths::JOB_FILE)).unwrap(), b"whose?");
    std::fs::remove_file(dir.join(paths::JOB_FILE)).unwrap();

    let given_up = Contents { given_up: Arc::new(true.into()), ..of("second") };
    store.save(&manifest, &target, given_up).await.unwrap_err();
    assert_eq!(names(&dir), ["notes.txt"]);
    let saved = store.save(&manifest, &target, of("second")).await.unwrap();
    store.clear_savepoint(&target_dir(&dir), "5f", "second").await.unwrap();
    assert_eq!(target.find("words", "second", "5f").await.unwrap(), Some(saved), "it is whole, and stays");
}

fn paths_dir(dir: &Path) -> &str {
    dir.file_name().unwrap().to_str().unwrap()
}

fn target_dir(dir: &Path) -> Location {
    dir.parent().unwrap().into()
}

#[tokio::test]
async fn only_a_savepoint_is_disposed_of_and_nothing_else_in_its_directory() {
    let (root, store, _attempt, _target, saved) = taken().await;
    for other in [root.path().to_owned(), path(&store.run_dir(1)), root.path().join("elsewhere")] {
        let error = find(&other).await.unwrap().dispose().await.unwrap_err();
        assert!(error.message().contains("is no savepoint"), "{error}");
    }
    let dir = path(&saved.path);
    std::fs::write(dir.join("notes.txt"), b"mine").unwrap();
    let disposed = find(&dir).await.unwrap().dispose().await.unwrap();
    assert_eq!((disposed.was_whole, disposed.files, disposed.foreign.as_slice()), (true, 4, &["notes.txt".to_owned()][..]));
    assert_eq!(names(&dir), ["notes.txt"]);
    assert_eq!(store.runs().await.unwrap(), [1]);
}
