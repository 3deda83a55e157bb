//! The store on real directories: races, attempts that were overtaken, crashes, damage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;

use super::fake::{Fake, Ill};
use super::*;
use crate::checkpoint::decide::{FileLists, Live, RestorePoint, next_epoch, restore_point};
use crate::checkpoint::file::tests::{InMemory, states, write};
use crate::checkpoint::file::{BroadcastReader, FileFacts, OperatorStateFacts, OperatorStateReader, write_broadcast, write_operator};
use crate::checkpoint::inspect::Description;
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{Epochs, LogEntry, Manifest, StateFile};
use crate::plan::{Access, Compression, Location, Schema, StateDescriptor, StateKind};
use crate::record::{AttemptId, KeyGroups};
use crate::state::{Change, ChangeKind, Changes};

/// How many checkpoints are kept.
const RETAINED: usize = 3;

const ALL: KeyGroups = KeyGroups { start: 0, end: 128 };

pub(super) async fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().into(), &Access::default(), "words").await.unwrap();
    (dir, store)
}

/// An attempt at work.
pub(super) struct Attempt {
    pub(super) store: Store,
    pub(super) id: AttemptId,
    slot: u64,
    epoch: u64,
    lists: FileLists,
}

impl Attempt {
    /// Claims the newest run and restores from its newest checkpoint.
    pub(super) async fn begin(store: &Store) -> Attempt {
        Attempt::begin_with(store, RunChoice::Newest).await
    }

    pub(super) async fn begin_with(store: &Store, choice: RunChoice) -> Attempt {
        let claimed = store.claim(choice, "a test", None).await.unwrap();
        let point = restore_point(&claimed.log, claimed.slot).unwrap();
        let restored = point.as_ref().map(|point| &point.manifest);
        let lists = FileLists::new(claimed.attempt, 1, 128, restored);
        let epoch = next_epoch(&claimed.log);
        Attempt { store: store.clone(), id: claimed.attempt, slot: claimed.slot + 1, epoch, lists }
    }

    /// Writes the state file of the next epoch: one key of the same name.
    async fn snapshot(&self) -> StateFile {
        let path = paths::snapshot(self.id.attempt, self.epoch, "count", 0, 0);
        let InMemory { written, bytes } = state_of(&[(self.epoch as u8, ChangeKind::Put)], self.epoch);
        self.store.keep(self.id.run, &path, &bytes).await.unwrap();
        written.at(path)
    }

    fn manifest(&self, file: StateFile) -> Manifest {
        let files = [self.lists.files("count"), &[file]].concat();
        let mut manifest = manifest(self.id.attempt, self.epoch, files);
        manifest.attempt = self.id;
        manifest
    }

    async fn try_commit(&mut self) -> Result<()> {
        let file = self.snapshot().await;
        self.slot = self.store.commit(self.slot, &self.manifest(file.clone())).await?;
        self.lists.add("count", &[file]);
        self.epoch += 1;
        Ok(())
    }

    pub(super) async fn commit(&mut self, times: usize) {
        for _ in 0..times {
            self.try_commit().await.unwrap();
        }
    }

    pub(super) async fn collect(&self) -> crate::checkpoint::decide::Superseded {
        self.store.collect(&self.lists.live(self.epoch.checked_sub(1)), RETAINED).await.unwrap()
    }
}

fn state_of(changes: &[(u8, ChangeKind)], epoch: u64) -> InMemory {
    let mut packed = Changes::default();
    for (key, kind) in changes {
        let value: &[u8] = if *kind == ChangeKind::Delete { b"" } else { b"value" };
        packed.push(Change { group: u16::from(*key) % 128, state: 0, kind: *kind, key: &[*key], value });
    }
    let facts =
        FileFacts { operator: "count", states: &states(&["n"]), groups: ALL, epochs: Epochs::only(epoch), compression: Compression::Lz4 };
    write(facts, vec![packed]).unwrap()
}

/// All keys that a checkpoint holds.
pub(super) async fn keys(store: &Store, point: &RestorePoint) -> Result<BTreeSet<u8>> {
    let mut keys = BTreeSet::new();
    for file in &point.manifest.operators[0].files {
        let reader = store.open_state_file(point, file, &mut Fetching::of(1)).await?;
        let mut changes = reader.changes_for(ALL, &states(&["n"]))?;
        while let Some(change) = changes.next_change()? {
            match change.kind {
                ChangeKind::Delete => keys.remove(&change.key[0]),
                _ => keys.insert(change.key[0]),
            };
        }
    }
    Ok(keys)
}

async fn newest(store: &Store) -> RestorePoint {
    let run = *store.runs().await.unwrap().last().unwrap();
    let log = store.log(run).await.unwrap();
    restore_point(&log, log.last_slot() + 1).unwrap().unwrap()
}

/// The directory of a run.
fn run_dir(store: &Store, run: u32) -> PathBuf {
    match store.run_dir(run) {
        Location::Path(path) => path,
        other => panic!("{other} is no path"),
    }
}

/// All files below a directory, hidden ones too.
pub(super) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn opening_creates_the_directory_and_leaves_nothing_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("a/b").into(), &Access::default(), "word count/1").await.unwrap();
    assert_eq!(files_below(dir.path()), Vec::<PathBuf>::new());
    assert!(dir.path().join("a/b/word%20count%2F1").is_dir());
    assert_eq!(store.runs().await.unwrap(), [0; 0]);
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_named_with_the_setting() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let error = Store::open(&dir.path().join("file").into(), &Access::default(), "words").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Storage);
    assert!(error.message().contains(&dir.path().join("file/words").display().to_string()), "{error}");
    assert!(error.help_text().unwrap().contains("[checkpoint] dir"));
    let error = Store::open_existing(&dir.path().into(), &Access::default(), "nothing").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Storage);
    assert!(!dir.path().join("nothing").exists());
}

#[tokio::test]
async fn an_attempt_goes_on_where_the_one_before_committed() {
    let (_dir, store) = store().await;
    let mut first = Attempt::begin(&store).await;
    assert_eq!((first.id, first.slot, first.epoch), (AttemptId { run: 1, attempt: 1 }, 2, 1));
    first.commit(2).await;
    let mut second = Attempt::begin(&store).await;
    assert_eq!((second.id.attempt, second.slot, second.epoch), (2, 5, 3));
    second.commit(1).await;
    let point = newest(&store).await;
    assert_eq!(point.manifest.attempt.attempt, 2);
    assert_eq!(keys(&store, &point).await.unwrap(), BTreeSet::from([1, 2, 3]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_claim_at_once_exactly_one_commits() {
    for _ in 0..5 {
        let (_dir, store) = store().await;
        let claim = |number: usize| {
            let store = store.clone();
            tokio::spawn(async move { store.claim(RunChoice::Newest, &format!("claimant {number}"), None).await })
        };
        let claims: Vec<_> = (0..8).map(claim).collect();
        let mut attempts = BTreeSet::new();
        let mut committed = 0;
        let mut claimed = Vec::new();
        for claim in claims {
            match claim.await.unwrap() {
                Ok(won) => claimed.push(won),
                Err(error) => assert_eq!(error.kind(), Kind::Fenced, "{error}"),
            }
        }
        for won in claimed {
            assert!(attempts.insert(won.attempt), "two claims of {:?}", won.attempt);
            let mut manifest = manifest(won.attempt.attempt, 1, vec![]);
            manifest.attempt = won.attempt;
            match store.commit(won.slot + 1, &manifest).await {
                Ok(_) => committed += 1,
                Err(error) => assert_eq!(error.kind(), Kind::Fenced, "{error}"),
            }
        }
        assert_eq!(committed, 1);
        let log = store.log(1).await.unwrap();
        assert_eq!(log.manifests().count(), 1);
        assert_eq!((log.first_slot(), log.broken()), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fresh_runs_that_begin_at_once_are_different_runs() {
    let (_dir, store) = store().await;
    let claim = |_| {
        let store = store.clone();
        tokio::spawn(async move { store.claim(RunChoice::Fresh, "a test", None).await.unwrap() })
    };
    let claims: Vec<_> = (0..6).map(claim).collect();
    let mut runs = BTreeSet::new();
    for claim in claims {
        let claimed = claim.await.unwrap();
        assert_eq!((claimed.slot, claimed.attempt.attempt), (1, 1));
        runs.insert(claimed.attempt.run);
    }
    assert_eq!(runs.len(), 6);
}

#[tokio::test]
async fn a_paused_attempt_commits_nothing_after_a_newer_claim_and_names_it() {
    let (_dir, store) = store().await;
    let mut paused = Attempt::begin(&store).await;
    paused.commit(1).await;
    let mut newer = Attempt::begin(&store).await;
    let error = paused.try_commit().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Fenced);
    assert!(error.message().starts_with("attempt 2 of job `words`, run 1, has taken over (a test, since 20"), "{error}");
    newer.commit(1).await;
    assert_eq!(paused.try_commit().await.unwrap_err().kind(), Kind::Fenced);
    let attempts: Vec<u32> = store.log(1).await.unwrap().manifests().map(|(_, manifest)| manifest.attempt.attempt).collect();
    assert_eq!(attempts, [2, 1]);
}

#[tokio::test]
async fn a_paused_attempt_is_fenced_even_when_its_slot_was_collected() {
    let (_dir, store) = store().await;
    let mut paused = Attempt::begin(&store).await;
    paused.commit(1).await;
    let mut newer = Attempt::begin(&store).await;
    newer.commit(4).await;
    let gone = newer.collect().await.entries;
    assert!(gone.contains(&paths::entry(paused.slot)), "the test wants a free slot: {gone:?}");
    assert_eq!(paused.try_commit().await.unwrap_err().kind(), Kind::Fenced);
    // Its entry is there now, and nobody restores from it.
    assert!(run_dir(&store, 1).join(paths::entry(paused.slot)).exists());
    assert_eq!(newest(&store).await.manifest.attempt.attempt, 2);
    newer.commit(1).await;
    // At its end, or some time later.
    store.list_again();
    newer.collect().await;
    assert!(!run_dir(&store, 1).join(paths::entry(paused.slot)).exists());
    let third = Attempt::begin(&store).await;
    assert_eq!((third.id.attempt, third.epoch), (3, newer.epoch));
}

#[tokio::test]
async fn an_attempt_that_finds_what_it_can_not_read_stops_and_names_it_and_not_itself() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(1).await;
    let strange = paths::entry(attempt.slot + 1);
    std::fs::write(run_dir(&store, 1).join(&strange), "of another version").unwrap();
    let error = attempt.try_commit().await.unwrap_err();
    let message = error.message();
    assert!(message.contains(&strange) && message.contains("can't be read") && !message.contains("attempt 1"), "{message}");
    assert_eq!(error.kind(), Kind::Fenced, "it may be a newer attempt's");
}

#[tokio::test]
async fn a_new_run_fences_the_older_one_and_stands_beside_it() {
    let (_dir, store) = store().await;
    let mut old = Attempt::begin(&store).await;
    old.commit(1).await;
    let mut fresh = Attempt::begin_with(&store, RunChoice::Fresh).await;
    assert_eq!((fresh.id, fresh.epoch), (AttemptId { run: 2, attempt: 1 }, 1));
    let error = old.try_commit().await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Fenced, "run 2 of job `words` has begun and taken over from run 1"));
    fresh.commit(1).await;
    assert_eq!(store.runs().await.unwrap(), [1, 2]);
    assert_eq!(Attempt::begin(&store).await.id, AttemptId { run: 2, attempt: 2 });
}

#[tokio::test]
async fn however_many_claims_there_are_the_next_reads_each_once_and_who_was_not_overtaken_reads_none() {
    const BEFORE: usize = 20;
    let (fake, mut asked) = Fake::new(Ill::Well);
    let objects = Objects::new(fake, std::time::Duration::from_secs(60));
    let store = Store::at("s3://bucket/words".parse().unwrap(), objects, Access::default(), "words");
    let mut reads = || std::iter::from_fn(|| asked.try_recv().ok()).count();
    for _ in 0..BEFORE {
        store.claim(RunChoice::Newest, "a test", None).await.unwrap();
    }
    reads();
    let claimed = store.claim(RunChoice::Newest, "a test", None).await.unwrap();
    assert_eq!((claimed.log.entries.len(), reads()), (BEFORE + 1, BEFORE + 1), "those before it, and its own");
    assert!(store.overtaken(claimed.attempt).await.unwrap().is_none());
    assert_eq!(reads(), 0);
    let other = Store { known: Known::nothing(), ..store.clone() };
    other.claim(RunChoice::Newest, "another process", None).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.overtaken(claimed.attempt).await.unwrap().map(|error| error.kind()), Some(Kind::Fenced));
        // Its collection finds the newer claim, too.
        let live = Live { attempt: claimed.attempt, paths: BTreeSet::new(), next_serial: 0, committed: None };
        store.collect(&live, RETAINED).await.unwrap();
    }
}

#[tokio::test]
async fn the_same_commit_twice_is_one_commit() {
    let (_dir, store) = store().await;
    let attempt = Attempt::begin(&store).await;
    let manifest = attempt.manifest(attempt.snapshot().await);
    // The answer to the first was lost.
    assert_eq!(store.commit(2, &manifest).await.unwrap(), 3);
    assert_eq!(store.commit(2, &manifest).await.unwrap(), 3);
    let other = Manifest { duration_ms: 99, ..manifest };
    assert_eq!(store.commit(2, &other).await.unwrap_err().kind(), Kind::Internal);
}

#[tokio::test]
async fn the_same_state_file_twice_is_one_file_and_another_is_refused() {
    let (_dir, store) = store().await;
    let path = paths::snapshot(1, 1, "count", 0, 0);
    store.keep(1, &path, &Bytes::from_static(b"one")).await.unwrap();
    store.keep(1, &path, &Bytes::from_static(b"one")).await.unwrap();
    let error = store.keep(1, &path, &Bytes::from_static(b"two")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Internal);
    assert_eq!(store.get(1, &path).await.unwrap().unwrap(), "one");
}

#[tokio::test]
async fn a_state_file_without_a_manifest_is_collected_by_a_later_attempt_only() {
    let (_dir, store) = store().await;
    let mut first = Attempt::begin(&store).await;
    first.commit(1).await;
    // It crashes before its second commit.
    let orphan = first.snapshot().await.path;
    assert_eq!(first.collect().await.files, [""; 0]);
    let mut second = Attempt::begin(&store).await;
    let own = second.snapshot().await.path;
    assert_eq!(second.collect().await.files, [orphan.as_str()]);
    assert_eq!(store.list(1).await.unwrap().iter().filter(|path| **path == own || **path == orphan).count(), 1);
    second.commit(1).await;
    assert_eq!(keys(&store, &newest(&store).await).await.unwrap(), BTreeSet::from([1, 2]));
}

#[tokio::test]
async fn what_an_attempt_has_put_in_vain_is_collected_without_a_listing_and_what_others_have_put_with_the_next_one() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(4).await;
    attempt.collect().await;
    let [own, others] = [1, 2].map(|subtask| paths::snapshot(1, 2, "count", subtask, 0));
    store.keep(1, &own, &Bytes::from_static(b"in vain")).await.unwrap();
    std::fs::create_dir_all(run_dir(&store, 1).join(&others).parent().unwrap()).unwrap();
    std::fs::write(run_dir(&store, 1).join(&others), "late").unwrap();
    assert_eq!(attempt.collect().await.files, [own]);
    store.list_again();
    assert_eq!(attempt.collect().await.files, [others]);
    assert_eq!(keys(&store, &newest(&store).await).await.unwrap(), BTreeSet::from([1, 2, 3, 4]));
}

#[tokio::test]
async fn whoever_has_been_overtaken_collects_nothing() {
    let (_dir, store) = store().await;
    let mut paused = Attempt::begin(&store).await;
    paused.commit(5).await;
    let newer = Attempt::begin(&store).await;
    newer.snapshot().await;
    let before = store.list(1).await.unwrap();
    assert!(paused.collect().await.held.is_some());
    assert_eq!(store.list(1).await.unwrap(), before);
}

#[tokio::test]
async fn what_is_superseded_goes_with_its_directories_and_leftovers_and_foreign_files_stay() {
    let (_dir, store) = store().await;
    let mut first = Attempt::begin(&store).await;
    first.commit(1).await;
    let orphan = run_dir(&store, 1).join(first.snapshot().await.path);
    let leftover = |path: &Path, number: u32| PathBuf::from(format!("{}#{number}", path.display()));
    let log_entry = run_dir(&store, 1).join(paths::entry(1));
    for path in [leftover(&orphan, 1), leftover(&orphan, 12), leftover(&log_entry, 1)] {
        std::fs::write(path, "half a fi").unwrap();
    }
    let foreign = run_dir(&store, 1).join("state/notes#1");
    std::fs::write(&foreign, "mine").unwrap();
    std::fs::write(run_dir(&store, 1).join("log/notes.txt"), "mine").unwrap();
    let mut second = Attempt::begin(&store).await;
    second.commit(4).await;
    let found = second.collect().await;
    assert_eq!(found.foreign, ["log/notes.txt"]);
    let log = store.log(1).await.unwrap();
    assert_eq!((log.manifests().count(), log.first_slot()), (RETAINED, second.slot - 3));
    assert!(!orphan.parent().unwrap().exists());
    assert!(!leftover(&log_entry, 1).exists());
    assert!(foreign.exists() && run_dir(&store, 1).join("log/notes.txt").exists());
    assert_eq!(keys(&store, &newest(&store).await).await.unwrap(), BTreeSet::from([1, 2, 3, 4, 5]));
}

#[tokio::test]
async fn a_missing_or_damaged_state_file_is_named_with_its_manifest_and_the_way_out() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(2).await;
    let point = newest(&store).await;
    let path = run_dir(&store, 1).join(&point.manifest.operators[0].files[1].path);
    let good = std::fs::read(&path).unwrap();
    let break_it = |how: usize| match how {
        0 => std::fs::remove_file(&path).unwrap(),
        1 => std::fs::write(&path, &good[..good.len() - 1]).unwrap(),
        _ => flip(&path, good.len() / 2),
    };
    for (how, expected) in ["is missing", "bytes and should have", "is damaged"].iter().enumerate() {
        std::fs::write(&path, &good).unwrap();
        break_it(how);
        assert_eq!(store.check_listed(&point).await.is_err(), how == 0, "only what is missing is seen without reading");
        let error = keys(&store, &point).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Checkpoint);
        let manifest = run_dir(&store, 1).join(paths::entry(3)).display().to_string();
        for part in ["checkpoint 2 can't be restored", expected, &path.display().to_string(), &manifest] {
            assert!(error.message().contains(part), "{error} lacks {part}");
        }
        let before = run_dir(&store, 1).join(paths::entry(2));
        assert!(error.help_text().unwrap().contains(&format!("run with `-s {}`", before.display())), "{error:?}");
        // And that is a way out.
        let point = store.load(before.to_str().unwrap()).await.unwrap();
        assert_eq!(keys(&store, &point).await.unwrap(), BTreeSet::from([1]));
    }
}

#[tokio::test]
async fn a_flipped_byte_in_the_newest_manifest_never_leads_to_an_older_one_silently() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(2).await;
    let path = run_dir(&store, 1).join(paths::entry(3));
    let length = std::fs::read(&path).unwrap().len();
    for at in (0..length).step_by(37) {
        flip(&path, at);
        let log = store.log(1).await.unwrap();
        let error = restore_point(&log, 4).unwrap_err();
        assert!(error.message().contains(&path.display().to_string()), "{error}");
        assert!(error.help_text().unwrap().contains("checkpoint 1"), "{error:?}");
        let error = store.load(path.to_str().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Checkpoint);
        flip(&path, at);
    }
    assert_eq!(newest(&store).await.manifest.checkpoint, 2);
}

#[tokio::test]
async fn a_checkpoint_is_found_by_number_and_by_path() {
    let (dir, store) = store().await;
    assert_eq!(store.load("1").await.unwrap_err().kind(), Kind::Checkpoint);
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(3).await;
    let point = store.load("2").await.unwrap();
    assert_eq!((point.manifest.checkpoint, point.slot, point.newer), (2, 3, 1));
    // Also through a link: what is the store's own run is told as that.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(run_dir(&store, 1), &link).unwrap();
    for path in [point.path.clone(), link.join(paths::entry(3)).into()] {
        let found = store.load(&path.to_string()).await.unwrap();
        assert_eq!((found.run_dir, found.path), (point.run_dir.clone(), point.path.clone()));
        assert_eq!((&found.manifest, found.slot, found.newer), (&point.manifest, 3, 1));
    }
    assert!(store.load("9").await.unwrap_err().help_text().unwrap().contains("there are 1, 2, 3"));
    let path = |path: &str| run_dir(&store, 1).join(path).display().to_string();
    let claim = store.load(&path(&paths::entry(1))).await.unwrap_err();
    assert!(claim.message().contains("this is a claim"), "{claim}");
    assert_eq!(store.load(&path("log/none.json")).await.unwrap_err().kind(), Kind::Storage);
    assert!(store.load(&path("log")).await.unwrap_err().message().contains("is no savepoint"));
    let copy = dir.path().join("copy.json");
    std::fs::copy(path(&paths::entry(2)), &copy).unwrap();
    assert!(store.load(copy.to_str().unwrap()).await.unwrap_err().message().ends_with("is not in the log of a run"));
}

#[tokio::test]
async fn a_checkpoint_of_another_run_or_directory_is_brought_along() {
    let (dir, store) = store().await;
    let mut old = Attempt::begin(&store).await;
    old.commit(3).await;
    let elsewhere = tempfile::tempdir().unwrap();
    for moved in [false, true] {
        let from = if moved { elsewhere.path().join("saved") } else { run_dir(&store, 1) };
        if moved {
            std::fs::rename(run_dir(&store, 1), &from).unwrap();
        }
        let point = store.load(from.join(paths::entry(3)).to_str().unwrap()).await.unwrap();
        let claimed = store.claim(RunChoice::Fresh, "a test", None).await.unwrap();
        let adopted = store.adopt(&point, claimed.attempt).await.unwrap();
        assert_eq!(adopted.run_dir, store.run_dir(claimed.attempt.run));
        let epoch = next_epoch(&claimed.log).max(adopted.manifest.checkpoint + 1);
        let lists = FileLists::new(claimed.attempt, 1, 128, Some(&adopted.manifest));
        let mut attempt = Attempt { store: store.clone(), id: claimed.attempt, slot: claimed.slot + 1, epoch, lists };
        attempt.commit(1).await;
        assert_eq!(attempt.collect().await.files, [""; 0]);
        if moved {
            std::fs::remove_dir_all(elsewhere.path()).unwrap();
        }
        assert_eq!(keys(&store, &newest(&store).await).await.unwrap(), BTreeSet::from([1, 2, 3]));
        // Within its own run nothing is copied.
        let own = newest(&store).await;
        assert_eq!(store.adopt(&own, claimed.attempt).await.unwrap().manifest, own.manifest);
    }
    assert_eq!(files_below(dir.path()).iter().filter(|path| path.to_string_lossy().contains('#')).count(), 0);
}

#[tokio::test]
async fn a_start_that_died_before_its_claim_is_no_run() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(1).await;
    std::fs::create_dir_all(run_dir(&store, 2).join("log")).unwrap();
    assert_eq!(store.runs().await.unwrap(), [1]);
    assert_eq!(Attempt::begin(&store).await.id, AttemptId { run: 1, attempt: 2 });
}

#[tokio::test]
async fn a_run_whose_log_is_gone_is_an_error_and_not_an_empty_run() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(1).await;
    std::fs::remove_dir_all(run_dir(&store, 1).join("log")).unwrap();
    let error = store.claim(RunChoice::Newest, "a test", None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Checkpoint);
    assert!(error.message().contains("has files but no log"), "{error}");
    assert_eq!(store.claim(RunChoice::Fresh, "a test", None).await.unwrap().attempt.run, 2);
}

#[tokio::test]
async fn merging_keeps_the_state_and_frees_the_files() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(9).await;
    let expected = keys(&store, &newest(&store).await).await.unwrap();
    let due = attempt.lists.next_merge().unwrap();
    let merged = store.merge(1, &due, 0).await.unwrap();
    // Until it is named, only the list knows it.
    assert_eq!(attempt.collect().await.files, [""; 0]);
    attempt.lists.finish(merged).unwrap();
    attempt.commit(4).await;
    let collected = attempt.collect().await.files;
    assert_eq!(collected.len(), 9, "{collected:?}");
    let point = newest(&store).await;
    assert_eq!(point.manifest.operators[0].files.len(), 5);
    let found = keys(&store, &point).await.unwrap();
    assert_eq!(found, expected.iter().copied().chain(10..=13).collect());
}

#[tokio::test]
async fn a_merge_whose_input_is_damaged_fails_and_changes_nothing() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(9).await;
    let due = attempt.lists.next_merge().unwrap();
    let path = run_dir(&store, 1).join(&due.inputs[4].path);
    flip(&path, 60);
    let before = store.list(1).await.unwrap();
    let error = store.merge(1, &due, 0).await.unwrap_err();
    assert!(error.message().contains(&path.display().to_string()), "{error}");
    assert_eq!(store.list(1).await.unwrap(), before);
}

#[tokio::test]
async fn a_merge_that_leaves_nothing_leaves_no_file() {
    let (_dir, store) = store().await;
    let attempt = Attempt::begin(&store).await;
    let mut inputs = Vec::new();
    for (epoch, kind) in [(1, ChangeKind::Put), (2, ChangeKind::Delete)] {
        let (path, InMemory { written, bytes }) = (paths::snapshot(1, epoch, "count", 0, 0), state_of(&[(7, kind)], epoch));
        store.keep(1, &path, &bytes).await.unwrap();
        inputs.push(written.at(path));
    }
    let output = crate::checkpoint::decide::MergeOutput { path: paths::merged(1, Epochs { first: 1, last: 2 }, "count", 1), groups: ALL };
    let due = crate::checkpoint::decide::Merge { operator: "count".into(), inputs, outputs: vec![output], base: true, states: Vec::new() };
    assert_eq!(attempt.store.merge(1, &due, 0).await.unwrap().files, []);
}

#[tokio::test]
async fn odd_names_find_their_files_again() {
    let (_dir, store) = store().await;
    for uid in ["a b", "ä/../ö", "50%", "x#1", "-", ".", "%2F"] {
        let path = paths::snapshot(1, 1, uid, 0, 0);
        store.keep(1, &path, &Bytes::from_static(b"x")).await.unwrap();
        assert!(store.list(1).await.unwrap().contains(&path), "{uid}");
        assert_eq!(store.get(1, &path).await.unwrap().unwrap(), "x");
        store.delete(1, &[path]).await.unwrap();
    }
    assert_eq!(store.list(1).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn any_file_can_be_looked_into() {
    let (dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    attempt.commit(1).await;
    let path = |path: &str| store.run_dir(1).join(path);
    assert!(matches!(inspect(&path(&paths::entry(1))).await.unwrap(), Description::Claim(claim) if claim.attempt.attempt == 1));
    assert!(matches!(inspect(&path(&paths::entry(2))).await.unwrap(), Description::Manifest(found) if found.manifest.checkpoint == 1));
    let state = path(&paths::snapshot(1, 1, "count", 0, 0));
    let Description::StateFile(found) = inspect(&state).await.unwrap() else { panic!("no state file") };
    assert_eq!((found.entries, found.states[0].puts, found.states[0].deletes), (1, 1, 0));
    assert_eq!((found.states[0].key_bytes, found.states[0].value_bytes), (1, 5));
    let json = serde_json::to_value(Description::StateFile(found)).unwrap();
    assert_eq!((&json["file"], &json["states"][0]["name"]), (&"state-file".into(), &"n".into()));
    flip(&run_dir(&store, 1).join(paths::snapshot(1, 1, "count", 0, 0)), 30);
    assert_eq!(inspect(&state).await.unwrap_err().kind(), Kind::Checkpoint);
    let foreign = dir.path().join("foreign");
    std::fs::write(&foreign, "hello").unwrap();
    let error = inspect(&foreign.into()).await.unwrap_err();
    assert!(error.message().ends_with("this is neither a manifest, nor a claim, nor a state file"), "{error}");
    assert!(inspect(&dir.path().into()).await.unwrap_err().message().contains("is no savepoint"));
    assert_eq!(inspect(&dir.path().join("none").into()).await.unwrap_err().kind(), Kind::Storage);
}

#[tokio::test]
async fn what_collection_leaves_can_always_be_restored() {
    // Attempts of random lengths that crash at random points, with merges and collections in between. Whatever is retained restores
    // to the state that was committed.
    for seed in 1..6u64 {
        println!("seed {seed}");
        let mut random = seed;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let (_dir, store) = store().await;
        let mut committed: BTreeMap<u64, BTreeSet<u8>> = BTreeMap::new();
        for _ in 0..6 {
            let mut attempt = Attempt::begin(&store).await;
            let mut state = committed.last_key_value().map(|(_, state)| state.clone()).unwrap_or_default();
            for _ in 0..next(9) {
                state.insert(attempt.epoch as u8);
                committed.insert(attempt.epoch, state.clone());
                attempt.commit(1).await;
                if let Some(due) = attempt.lists.next_merge() {
                    let merged = store.merge(1, &due, 0).await.unwrap();
                    match next(2) {
                        0 => attempt.lists.finish(merged).unwrap(),
                        _ => drop(attempt.lists.give_up("count")),
                    }
                    attempt.lists.try_again();
                }
                if next(2) == 0 {
                    attempt.collect().await;
                }
            }
            attempt.snapshot().await;
            let log = store.log(1).await.unwrap();
            for (slot, manifest) in log.manifests() {
                let point = crate::checkpoint::decide::point_at(&log, slot).unwrap();
                assert_eq!(keys(&store, &point).await.unwrap(), committed[&manifest.checkpoint], "checkpoint {}", manifest.checkpoint);
            }
        }
    }
}

/// Operator state that has not changed stays as long as a kept checkpoint names it, comes along into another run, and then goes.
#[tokio::test]
async fn operator_state_lives_as_long_as_it_is_named() {
    let (_dir, store) = store().await;
    let mut attempt = Attempt::begin(&store).await;
    let states = [StateKind::OperatorList, StateKind::Broadcast].map(|kind| {
        let field_schema = kind.has_fields().then(Schema::text);
        StateDescriptor { field_schema, ..StateDescriptor::new(kind.name(), kind, Schema::text(), 1) }
    });
    let mut put = Vec::new();
    for epoch in 1..=8 {
        // Written in epochs 1 and 2 only.
        if epoch <= 2 {
            let lists = vec![(0, Arc::new(std::iter::once(&b"x"[..]).collect()))];
            let lists = write_operator(OperatorStateFacts { operator: "count", subtask: 0, epoch }, &states, &lists).unwrap();
            let maps = vec![(1, [(&b"a"[..], &b"1"[..]), (b"b", b"2")].into_iter().collect())];
            let maps = write_broadcast("count", epoch, &states, &maps).unwrap();
            for written in [lists, maps] {
                let path = paths::operator_state(attempt.id.attempt, epoch, "count", written.subtask);
                let file = written.at(path.clone());
                store.keep(attempt.id.run, &path, &written.bytes).await.unwrap();
                attempt.lists.replace_operator_state("count", &[file]);
                put.push(path);
            }
        }
        let file = attempt.snapshot().await;
        let mut manifest = attempt.manifest(file.clone());
        manifest.operators[0].operator_state = attempt.lists.operator_state_with("count", []);
        attempt.slot = store.commit(attempt.slot, &manifest).await.unwrap();
        attempt.lists.add("count", &[file]);
        attempt.epoch += 1;
        attempt.collect().await;
        let there = store.list(1).await.unwrap();
        assert!(put[put.len() - 2..].iter().all(|path| there.contains(path)), "after {epoch}");
        assert!(put[..2].iter().all(|path| there.contains(path) == (epoch <= RETAINED as u64)), "after {epoch}");
    }
    let point = newest(&store).await;
    let claimed = store.claim(RunChoice::Fresh, "a test", None).await.unwrap();
    let adopted = store.adopt(&point, claimed.attempt).await.unwrap();
    let [maps, lists] = adopted.manifest.operators[0].operator_state.as_slice() else { panic!("{:?}", adopted.manifest.operators) };
    let path = |subtask| paths::operator_state(claimed.attempt.attempt, 2, "count", subtask);
    assert_eq!((&maps.path, &lists.path), (&path(None), &path(Some(0))));
    let bytes = store.read_operator_state(&adopted, lists).await.unwrap();
    let reader = OperatorStateReader::open(&lists.path, &bytes).unwrap();
    assert_eq!((reader.subtask, reader.epoch, reader.lists(&states)[0].1.len()), (0, 2, 1));
    let bytes = store.read_operator_state(&adopted, maps).await.unwrap();
    let reader = BroadcastReader::open(&maps.path, &bytes).unwrap();
    assert_eq!((reader.epoch, reader.maps(&states)[0].1.len()), (2, 2));
    crate::checkpoint::manifest::render(&LogEntry::Checkpoint(Manifest { attempt: claimed.attempt, ..adopted.manifest.clone() })).unwrap();
    for file in [lists, maps] {
        flip(&run_dir(&store, 2).join(&file.path), 30);
        let error = store.read_operator_state(&adopted, file).await.unwrap_err();
        assert!(error.message().contains("is damaged") && error.message().contains(&file.path), "{error}");
    }
    let found = inspect(&store.run_dir(1).join(&put[3])).await.unwrap();
    let Description::BroadcastStateFile(found) = found else { panic!("{found:?}") };
    let [state] = found.states.as_slice() else { panic!("{found:?}") };
    assert_eq!((found.operator.as_str(), found.epoch, state.state.name.as_str()), ("count", 2, "broadcast"));
    assert_eq!((state.fields, state.field_bytes, state.value_bytes), (2, 2, 2));
}
