//! Large files: they come in pieces, nothing is seen of them before their end, and they are merged without being in memory as a whole.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use object_store::memory::InMemory as Memory;
use object_store::path::Path as Key;
use tempfile::TempDir;

use super::fake::{Asked, Fake, Ill};
use super::files::{Named, Place, checksum, content_checked, opened, read_checked};
use super::local::PATIENCE;
use super::merge::{carry_out, copy};
use super::objects::{MAKERS, Objects};
use super::pace::Pace;
use super::tests::files_below;
use super::*;
use crate::checkpoint::decide::{Merge, MergeOutput};
use crate::checkpoint::file::tests::{InMemory, merge, states, write};
use crate::checkpoint::file::{Content, FileFacts, PIECE, StateReader, Take, Unwanted};
use crate::checkpoint::manifest::{Epochs, Inline, StateFile};
use crate::plan::Compression;
use crate::record::KeyGroups;
use crate::state::{Change, ChangeKind, Changes};

const ALL: KeyGroups = KeyGroups { start: 0, end: 128 };

/// A piece of a file.
fn piece(number: usize) -> Bytes {
    vec![number as u8; if number < 3 { PIECE } else { 5 }].into()
}

/// A place on the local disk, with copies.
async fn place() -> (TempDir, Place) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("dir").into(), &Access::default(), "words").await.unwrap();
    let store = store.with_copies(&dir.path().join("local")).unwrap();
    (dir, store.place(1))
}

/// A place in a bucket.
fn bucket() -> Place {
    Place::new(Objects::new(Memory::new(), PATIENCE), "run".into(), "s3://bucket/run".parse().unwrap())
}

#[tokio::test]
async fn a_large_file_and_its_copy_appear_when_they_are_whole() {
    let (dir, place) = place().await;
    let tried = Arc::new(AtomicUsize::new(0));
    let (tries, root) = (Arc::clone(&tried), dir.path().to_owned());
    let written = place.write("state/1-1/big.state", move |take| {
        tries.fetch_add(1, Ordering::Relaxed);
        (0..4).try_for_each(|number| {
            let visible = files_below(&root).into_iter().filter(|path| !path.to_string_lossy().contains('#'));
            assert_eq!(visible.count(), 0, "nothing is seen of it");
            take(piece(number))
        })?;
        Ok(Some("made"))
    });
    assert!(matches!(written.await.unwrap(), Some(("made", None))));
    assert_eq!(tried.load(Ordering::Relaxed), 1);
    let found = files_below(dir.path());
    assert_eq!(found.len(), 2, "{found:?}");
    let expected: Vec<u8> = (0..4).flat_map(piece).collect();
    assert!(found.iter().all(|path| std::fs::read(path).unwrap() == expected));
    // Written again it is the same.
    place.keep("state/1-1/big.state", &expected.clone().into()).await.unwrap();
    assert!(place.get("state/1-1/big.state").await.unwrap().unwrap() == expected);
    // Another one does not take its place, wherever it differs.
    let (mut other, longer) = (expected.clone(), [expected.as_slice(), b"more"].concat());
    other[PIECE * 2] ^= 1;
    for other in [other, longer, expected[..PIECE * 2].to_vec()] {
        let error = place.keep("state/1-1/big.state", &other.into()).await.unwrap_err();
        assert!(error.kind() == Kind::Internal && error.message().contains("exists already"), "{error}");
    }
    assert!(files_below(&dir.path().join("dir")).iter().all(|path| std::fs::read(path).unwrap() == expected));
}

#[tokio::test]
async fn nothing_is_left_of_a_large_file_that_was_not_made_to_its_end() {
    let (dir, place) = place().await;
    let breaks = |take: &mut Take<'_>| {
        (0..3).try_for_each(|number| take(piece(number)))?;
        Err::<Option<()>, _>(Error::new(Kind::Checkpoint, "an input is damaged"))
    };
    let error = place.write("state/1-1/big.state", breaks).await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Checkpoint, "an input is damaged"));
    let nothing = |take: &mut Take<'_>| (0..3).try_for_each(|number| take(piece(number))).map(|()| None::<()>).map_err(Error::from);
    assert!(place.write("state/1-1/big.state", nothing).await.unwrap().is_none());
    assert!(place.write("state/1-1/small.state", |_| Ok(None::<()>)).await.unwrap().is_none());
    assert_eq!(files_below(&dir.path().join("dir")), [""; 0].map(PathBuf::from));
    // The copy is given up beside everything else.
    while !files_below(&dir.path().join("local")).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn whoever_makes_a_file_that_nobody_waits_for_any_more_is_told() {
    let (dir, place) = place().await;
    let (begun, mut is_begun) = tokio::sync::mpsc::unbounded_channel();
    let (told, is_told) = tokio::sync::oneshot::channel();
    let told = std::sync::Mutex::new(Some(told));
    let endless = move |take: &mut Take<'_>| -> Result<Option<()>> {
        let error = loop {
            begun.send(()).unwrap_or(());
            if let Err(error) = take(piece(0)) {
                break error;
            }
        };
        told.lock().unwrap().take().unwrap().send(error).unwrap();
        Err(error.into())
    };
    let writing = tokio::spawn(async move { place.write("state/1-1/big.state", endless).await.map(drop) });
    for _ in 0..8 {
        is_begun.recv().await.unwrap();
    }
    writing.abort();
    assert_eq!(is_told.await.unwrap(), Unwanted);
    assert!(writing.await.unwrap_err().is_cancelled());
    while !files_below(dir.path()).is_empty() {
        tokio::task::yield_now().await;
    }
}

/// State files of some megabytes that do not compress, in a place.
async fn inputs(place: &Place, count: u64) -> Vec<(StateFile, Bytes)> {
    let mut files = Vec::new();
    for epoch in 1..=count {
        let mut packed = Changes::default();
        for key in 0..300_u64 {
            let noise = |at: u64| (at ^ (key * 31 + epoch) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            let value: Vec<u8> = (0..4000).flat_map(noise).collect();
            let key = (key * epoch).to_be_bytes();
            packed.push(Change { group: u16::from(key[7]) % 128, state: 0, kind: ChangeKind::Put, key: &key, value: &value });
        }
        let (epochs, compression) = (Epochs::only(epoch), Compression::Lz4);
        let facts = FileFacts { operator: "count", states: &states(&["n"]), groups: ALL, epochs, compression };
        let InMemory { written, bytes } = write(facts, vec![packed]).unwrap();
        let path = paths::snapshot(1, epoch, "count", 0, 0);
        place.keep(&path, &bytes).await.unwrap();
        files.push((written.at(path), bytes));
    }
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_in_a_bucket_or_on_disk_is_that_in_memory() {
    let (_dir, local) = place().await;
    for place in [bucket(), local] {
        let files = inputs(&place, 3).await;
        assert!(files.iter().all(|(file, _)| file.bytes > PIECE as u64), "each comes in pieces, and is fetched in ranges");
        let readers = files.iter().map(|(file, bytes)| StateReader::open(&file.path, bytes.clone()).unwrap());
        let readers: Vec<StateReader> = readers.collect();
        let halves = [KeyGroups { start: 0, end: 60 }, KeyGroups { start: 60, end: 128 }];
        let output =
            |groups: KeyGroups| MergeOutput { path: paths::merged(1, Epochs { first: 1, last: 3 }, "count", groups.end.into()), groups };
        let inputs: Vec<StateFile> = files.iter().map(|(file, _)| file.clone()).collect();
        let due = Merge {
            operator: "count".into(),
            inputs: inputs.clone(),
            outputs: halves.map(output).to_vec(),
            base: true,
            states: Vec::new(),
        };
        let merged = carry_out(&place, &place, &due, 0, &Pace::unbounded()).await.unwrap();
        assert_eq!(merged.len(), 2);
        for (file, groups) in merged.iter().zip(halves) {
            let InMemory { written, bytes } = merge(&readers, groups, true, &[], 0).unwrap();
            assert_eq!(*file, written.at(file.path.clone()));
            assert!(place.get(&file.path).await.unwrap().unwrap() == bytes);
        }
        // And a copy elsewhere.
        let to = bucket();
        let copied = copy(&place, &merged[0], &to, "state/copied.state").await.unwrap();
        assert_eq!(copied, StateFile { path: "state/copied.state".into(), ..merged[0].clone() });
        assert!(to.get(&copied.path).await.unwrap() == place.get(&merged[0].path).await.unwrap());
        refuses_what_is_wrong(&place, due).await;
    }
}

/// All that is read of a copy to check it is read in turn, so that a merge keeps to its pace and leaves off when it is told to.
#[tokio::test]
async fn a_copy_is_read_in_turn() {
    let (_dir, place) = place().await;
    let files = inputs(&place, 1).await;
    let (file, key) = (&files[0].0, Key::from(format!("run-0001/{}", files[0].0.path)));
    let (read, sum) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&sum);
    let count = move |bytes| {
        counted.fetch_add(bytes as usize, Ordering::Relaxed);
        Ok(())
    };
    assert!(place.copy_of(&key, file.into(), count).await.unwrap().is_some());
    assert_eq!(sum.load(Ordering::Relaxed) as u64, file.bytes);
    let counted = Arc::clone(&read);
    let stop = move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err(Unwanted)
    };
    let error = place.copy_of(&key, file.into(), stop).await.unwrap_err();
    assert_eq!((error.message(), read.load(Ordering::Relaxed)), (Error::from(Unwanted).message(), 1));
}

/// Whoever merges slowly leaves off even where the bucket does not answer, and the upload is ended.
#[tokio::test]
async fn a_merge_that_waits_for_the_bucket_leaves_off_when_it_is_told_to() {
    let (fake, mut asked) = Fake::new(Ill::Silent);
    let objects = Objects::new(fake, PATIENCE);
    let store = Store::at("s3://bucket/words".parse().unwrap(), objects, Access::default(), "words");
    let store = store.with_merge_rate(u64::MAX);
    // What it reads is in the manifest, so that nothing but its own file is uploaded.
    let inline = |(file, bytes)| StateFile { inline: Some(Inline(bytes)), ..file };
    let inputs: Vec<StateFile> = inputs(&bucket(), 2).await.into_iter().map(inline).collect();
    let output = MergeOutput { path: paths::merged(1, Epochs { first: 1, last: 2 }, "count", 1), groups: ALL };
    let due = Merge { operator: "count".into(), inputs, outputs: vec![output], base: true, states: Vec::new() };
    let merging = store.clone();
    let merge = tokio::spawn(async move { merging.merge_slowly(1, &due, 0).await });
    assert_eq!(asked.recv().await, Some(Asked::Part));
    store.stop_merging();
    assert_eq!(merge.await.unwrap().unwrap_err().message(), Error::from(Unwanted).message());
    while asked.recv().await != Some(Asked::Abort) {}
    assert_eq!(store.list(1).await.unwrap(), [""; 0]);
}

/// All changes of a file as its content says, read by two at once, of which one is far ahead.
fn read_by_two(path: &Location, content: Arc<dyn Content>, file: &StateFile) -> Result<[u64; 2]> {
    let reader = opened(path, content, file)?;
    let (ahead, behind) = (reader.beside(), reader.beside());
    let (mut ahead, mut behind) = (ahead.changes(ALL), behind.changes(ALL));
    let mut found = [0, 0];
    while ahead.next_change()?.is_some() {
        found[0] += 1;
        if found[0] > file.entries / 2 {
            found[1] += u64::from(behind.next_change()?.is_some());
        }
    }
    while behind.next_change()?.is_some() {
        found[1] += 1;
    }
    Ok(found)
}

/// A large file in a bucket is read in ranges, each of them once by each reader; or, where there are to be copies, one is made in pieces.
/// For one that can't be made nothing is read.
#[tokio::test]
async fn a_large_file_in_a_bucket_is_opened_without_being_in_memory() {
    let (fake, mut asked) = Fake::new(Ill::Well);
    let place = Place::new(Objects::new(fake, PATIENCE), "run-0001".into(), "s3://bucket/words/run-0001".parse().unwrap());
    let (file, bytes) = inputs(&place, 1).await.remove(0);
    let dir = tempfile::tempdir().unwrap();
    let copied = Place { copies: Some(Copies::open(dir.path(), "words").unwrap()), ..place.clone() };
    // A file is where the directory of copies would be.
    let without = tempfile::tempdir().unwrap();
    let uncopied = Place { copies: Some(Copies::open(without.path(), "words").unwrap()), ..place.clone() };
    std::fs::write(without.path().join("words/copies/run-0001"), "").unwrap();
    let path = place.dir.join(&file.path);
    for (place, readers) in [(place.clone(), 3), (copied.clone(), 1), (uncopied, 3)] {
        while asked.try_recv().is_ok() {}
        let mut fetching = Fetching::of(1);
        let content = content_checked(&place, Named::from(&file), &mut fetching).await.unwrap();
        let (at, named) = (path.clone(), file.clone());
        let found = tokio::task::spawn_blocking(move || read_by_two(&at, content, &named)).await.unwrap().unwrap();
        assert_eq!(found, [file.entries; 2]);
        let mut fetched = 0;
        while let Ok(Asked::Get(range)) = asked.try_recv() {
            let range = range.expect("never all at once");
            assert!(range.end - range.start <= 5 << 20, "{range:?}");
            fetched += range.end - range.start;
        }
        // The head, and the last block of a window again with the next.
        assert!(fetched <= readers * file.bytes + (1 << 20), "{fetched} of {} were fetched", file.bytes);
    }
    assert!(files_below(dir.path()).iter().any(|copy| std::fs::read(copy).unwrap() == bytes));
    // What is damaged is found out before it is taken for a copy, or when it is read.
    let key = Key::from(format!("run-0001/{}", file.path));
    let mut damaged = bytes.to_vec();
    damaged[bytes.len() / 2] ^= 1;
    place.objects.put(&key, damaged.into()).await.unwrap();
    files_below(dir.path()).iter().for_each(|copy| std::fs::remove_file(copy).unwrap());
    let error = content_checked(&copied, Named::from(&file), &mut Fetching::of(1)).await.unwrap_err();
    assert!(error.kind() == Kind::Checkpoint && error.message().contains("is damaged"), "{error}");
    assert_eq!(place.check(Named::from(&file)).await.unwrap_err().message(), error.message());
    let mut fetching = Fetching::of(1);
    let content = content_checked(&place, Named::from(&file), &mut fetching).await.unwrap();
    let error = tokio::task::spawn_blocking(move || read_by_two(&path, content, &file)).await.unwrap().unwrap_err();
    assert!(error.kind() == Kind::Checkpoint && error.message().contains("is damaged"), "{error}");
    while !files_below(dir.path()).is_empty() {
        tokio::task::yield_now().await;
    }
}

/// A copy that is damaged, or can't be read at all, is done without; and where that is possible another one takes its place.
#[tokio::test]
async fn a_copy_that_is_no_good_is_done_without() {
    let (dir, place) = place().await;
    let bytes = Bytes::from_static(b"what was written");
    let (path, checksum) = ("state/1-1/count-0.operator.state", checksum(&bytes));
    let named = Named { path, bytes: bytes.len() as u64, checksum: &checksum, inline: None };
    place.keep(path, &bytes).await.unwrap();
    let copy = dir.path().join("local/words/copies/run-0001").join(path);
    std::fs::write(&copy, "something else").unwrap();
    for _ in 0..2 {
        assert_eq!(read_checked(&place, named).await.unwrap(), bytes);
        assert_eq!(std::fs::read(&copy).unwrap(), bytes);
    }
    std::fs::remove_file(&copy).unwrap();
    std::fs::create_dir(&copy).unwrap();
    assert_eq!(read_checked(&place, named).await.unwrap(), bytes);
    assert!(place.copy_of(&Key::from(format!("run-0001/{path}")), named, |_| Ok(())).await.unwrap().is_none());
}

/// More files than the runtime has threads for are made one after the other: those who make them leave some to those who write.
#[test]
fn more_large_files_than_there_are_threads_come_to_their_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(MAKERS + 4).build().unwrap();
    runtime.block_on(async {
        let (dir, place) = place().await;
        let count = MAKERS + 20;
        let write = |number: usize| {
            let place = place.clone();
            let make = |take: &mut Take<'_>| (0..4).try_for_each(|_| take(Bytes::from_static(b"a piece"))).map(Some).map_err(Error::from);
            tokio::spawn(async move { place.write(&paths::snapshot(1, 1, "count", number as u16, 0), make).await })
        };
        for written in (0..count).map(write).collect::<Vec<_>>() {
            assert!(written.await.unwrap().unwrap().is_some());
        }
        assert_eq!(files_below(&dir.path().join("dir")).len(), count);
    });
}

/// A file that is at its place all the same is written if the answer was lost on the way from a server, and not if a disk says that it isn't.
#[tokio::test]
async fn only_an_answer_that_a_server_has_given_may_be_wrong() {
    let gone = "Server returned non-2xx status code: 404 Not Found: <Error><Code>NoSuchUpload</Code></Error>";
    for (words, is_written) in [(gone, true), ("the directory could not be written out", false)] {
        let (fake, _asked) = Fake::new(Ill::Completes(words));
        let place = Place::new(Objects::new(fake, PATIENCE), "run".into(), "s3://bucket/run".parse().unwrap());
        let written =
            place.write("state/1-1/big.state", |take| (0..3).try_for_each(|number| take(piece(number))).map(Some).map_err(Error::from));
        match written.await {
            Ok(written) => assert!(is_written && written.is_some()),
            Err(error) => assert!(!is_written && error.kind() == Kind::Storage && error.message().contains(words), "{error}"),
        }
        assert!(place.get("state/1-1/big.state").await.unwrap().is_some());
    }
}

/// An input that is damaged, too short, another one or gone is named, whatever it is read from, and nothing comes of the merge.
async fn refuses_what_is_wrong(place: &Place, due: Merge) {
    let path = due.inputs[1].path.clone();
    let good = place.get(&path).await.unwrap().unwrap();
    let (mut damaged, other) = (good.to_vec(), place.get(&due.inputs[2].path).await.unwrap().unwrap());
    damaged[good.len() / 2] ^= 1;
    let cut = good.slice(..good.len() - 1);
    let output = paths::merged(1, Epochs { first: 1, last: 3 }, "count", 999);
    let due = Merge { outputs: vec![MergeOutput { path: output.clone(), groups: ALL }], ..due };
    for (wrong, says) in [(Some(damaged.into()), "is damaged"), (Some(cut), "and should have"), (Some(other), ""), (None, "is missing")] {
        let key = Key::from(format!("{}/{path}", place.prefix));
        match wrong {
            Some(wrong) => place.objects.put(&key, wrong).await.unwrap(),
            None => place.objects.delete(&key).await.unwrap(),
        }
        let whole = Place { copies: None, ..place.clone() };
        let error = carry_out(&whole, &whole, &due, 0, &Pace::unbounded()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Checkpoint, "{error}");
        assert!(error.message().contains(&path) && error.message().contains(says), "{says}: {error}");
        assert!(place.get(&output).await.unwrap().is_none());
    }
}
