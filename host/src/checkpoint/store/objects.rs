//! [`Objects`]: all that the store asks of a place, be it a directory or a prefix in a bucket: list, get, put, put where nothing is, upload,
//! delete. What stays without an answer is done again.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::cause::may_pass;
use super::upload::Upload;
use crate::{clock, durable};

/// Objects with a common prefix, or the files below a directory. Cheap to clone.
#[derive(Clone)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    /// How long it is tried to get an answer.
    patience: Duration,
    /// Where they are, if they are files to be durable.
    dir: Option<Arc<Path>>,
    /// Whether a write has failed. It may have made directories whose names are not durable, and which others find there.
    has_failed: Arc<AtomicBool>,
    /// Of those who make files.
    makers: Arc<Semaphore>,
}

/// How many files are being made at once. Whoever makes one waits on a thread of the runtime until its pieces are taken, and on a local disk
/// another thread has to take them: so some of the runtime's 512 must be left.
pub(super) const MAKERS: usize = 128;

impl Objects {
    pub(super) fn new(store: impl ObjectStore, patience: Duration) -> Self {
        let makers = Arc::new(Semaphore::new(MAKERS));
        Objects { store: Arc::new(store), patience, dir: None, has_failed: Arc::default(), makers }
    }

    /// Files below `dir`, which are written durably.
    pub(super) fn durable(files: impl ObjectStore, dir: &Path, patience: Duration) -> Self {
        Objects { dir: Some(dir.into()), ..Objects::new(files, patience) }
    }

    /// The keys of all objects below `prefix`.
    pub(super) async fn list(&self, prefix: &Key) -> Result<Vec<Key>> {
        self.again(|| self.store.list(Some(prefix)).map_ok(|object| object.location).try_collect()).await
    }

    /// The keys of all objects below `prefix` that come after `after`, in the order of bytes. Where the store can, only they are looked at; where
    /// it can't, others may be among them.
    pub(super) async fn list_after(&self, prefix: &Key, after: &Key) -> Result<Vec<Key>> {
        self.again(|| self.store.list_with_offset(Some(prefix), after).map_ok(|object| object.location).try_collect()).await
    }

    /// The names of what would be directories.
    pub(super) async fn dirs(&self) -> Result<Vec<String>> {
        let found = self.again(|| self.store.list_with_delimiter(None)).await?;
        let name = |prefix: &Key| prefix.parts().next_back().map(|name| name.as_ref().to_owned());
        Ok(found.common_prefixes.iter().filter_map(name).collect())
    }

    /// An object's content; none if it is not there.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Bytes>> {
        let read = || async { self.store.get(key).await?.bytes().await };
        found(self.again(read).await)
    }

    /// Puts an object, whatever is there.
    pub(super) async fn put(&self, key: &Key, bytes: Bytes) -> Result<()> {
        let put = || async { self.written(key, self.store.put(key, bytes.clone().into()).await).await };
        self.again(put).await.map(drop)
    }

    /// Puts an object where nothing is. False if there is one with another content; one with the same content is ours, from a put whose
    /// answer was lost.
    pub(super) async fn put_new(&self, key: &Key, bytes: &Bytes) -> Result<bool> {
        let put = || async {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let unknown = match self.written(key, self.store.put_opts(key, bytes.clone().into(), options).await).await {
                Err(error) if is_open(&error) => error,
                done => return done.map(|_| true),
            };
            match self.get(key).await? {
                Some(found) if found == bytes => self.sync(key).await.map(|()| true),
                Some(_) => Ok(false),
                None => Err(unknown),
            }
        };
        self.again(put).await
    }

    /// What became of a write, which counts as done only once the names of all directories that it needs are durable, too.
    pub(super) async fn written<T>(&self, key: &Key, done: Result<T>) -> Result<T> {
        match done {
            Ok(done) if self.has_failed.load(Ordering::Relaxed) => self.sync(key).await.map(|()| done),
            // Then nothing was made.
            Ok(_) | Err(Error::AlreadyExists { .. }) => done,
            Err(error) => {
                self.has_failed.store(true, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Makes the name of a file durable that is at its place, and those of its directories: the write that has made them may have failed in that.
    async fn sync(&self, key: &Key) -> Result<()> {
        let Some(dir) = self.dir.clone() else { return Ok(()) };
        let file = dir.join(key.as_ref());
        let sync = move || dirs_of(&file, &dir).try_for_each(durable::sync_dir);
        let synced = tokio::task::spawn_blocking(sync).await?;
        synced.map_err(|source| Error::Generic { store: "directory", source: source.into() })
    }

    /// Begins to put a large object of a key that nobody else writes. It appears when all of it has come.
    pub(super) async fn upload(&self, key: &Key) -> Result<Upload> {
        let parts = self.written(key, self.store.put_multipart(key).await).await?;
        Ok(Upload::new(self.clone(), key.clone(), parts))
    }

    /// Waits until one more file may be made, and lets it be made until this is dropped.
    pub(super) async fn maker(&self) -> Result<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.makers).acquire_owned().await.map_err(|source| Error::Generic { store: "makers", source: source.into() })
    }

    /// How many bytes an object has; none if it is not there.
    pub(super) async fn size(&self, key: &Key) -> Result<Option<u64>> {
        found(self.again(|| self.store.head(key)).await.map(|found| found.size))
    }

    /// Some of an object's content.
    pub(super) async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        self.again(|| self.store.get_range(key, range.clone())).await
    }

    /// Deletes an object. One that is gone already is no error.
    pub(super) async fn delete(&self, key: &Key) -> Result<()> {
        self.delete_all(std::slice::from_ref(key)).await
    }

    /// Deletes objects, in no order and many at once. Those that are gone already are no error.
    pub(super) async fn delete_all(&self, keys: &[Key]) -> Result<()> {
        let delete = || {
            let keys = futures::stream::iter(keys.to_vec()).map(Ok).boxed();
            self.store.delete_stream(keys).map(found).try_for_each(|_| async { Ok(()) })
        };
        self.again(delete).await
    }

    /// Does something until it is known what became of it. object_store has already tried again, for as long as a signature is good,
    /// what is harmless to do twice; this is for the rest, such as an answer that breaks off.
    pub(super) async fn again<T, F: Future<Output = Result<T>>>(&self, what: impl Fn() -> F) -> Result<T> {
        self.again_from(&Progress::default(), what).await
    }

    /// The same of something that goes on in steps, of which it tells `progress`: what counts is for how long no further one has been done.
    pub(super) async fn again_from<T, F: Future<Output = Result<T>>>(&self, progress: &Progress, what: impl Fn() -> F) -> Result<T> {
        let mut pause = Duration::from_millis(50);
        loop {
            let error = match what().await {
                Err(error) if is_open(&error) && progress.lasts(clock::now()) < self.patience => error,
                done => return done,
            };
            tracing::info!("tried again: {}", super::cause(&error));
            // Drawn at random, so that two don't meet again.
            tokio::time::sleep(pause.mul_f64(1.5 + 0.5 * clock::random())).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
}

/// How far something has come that is tried again: however long it takes in all, it is given up only where it gets no further.
#[derive(Debug)]
pub(super) struct Progress(Mutex<Furthest>);

#[derive(Debug)]
struct Furthest {
    /// Steps done, in the try that has come furthest.
    steps: u64,
    since: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Progress(Mutex::new(Furthest { steps: 0, since: clock::now() }))
    }
}

impl Progress {
    /// A try has done so many steps at the time `now`.
    pub(super) fn done(&self, steps: u64, now: Instant) {
        let mut furthest = self.furthest();
        if steps > furthest.steps {
            *furthest = Furthest { steps, since: now };
        }
    }

    /// For how long no try has come further.
    fn lasts(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.furthest().since)
    }

    fn furthest(&self) -> MutexGuard<'_, Furthest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directories of a file, from its own up to `top`.
fn dirs_of<'f>(file: &'f Path, top: &Path) -> impl Iterator<Item = &'f Path> {
    file.ancestors().skip(1).take_while(move |dir| dir.starts_with(top))
}

/// Whether it is still open how a request ends. So it is with "already exists", which is also what S3 answers when two put at once, of
/// which neither may have succeeded.
fn is_open(error: &Error) -> bool {
    matches!(error, Error::AlreadyExists { .. }) || may_pass(error)
}

/// None for what is not there.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Error::NotFound { .. }) => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Fake, Ill};
    use super::*;

    /// A directory that is missing can't be written out, by which it is seen whether that is tried.
    #[tokio::test]
    async fn after_a_write_has_failed_those_that_follow_make_all_their_directories_durable() {
        let dir = tempfile::tempdir().unwrap();
        let (fake, _asked) = Fake::new(Ill::Completes("the directory above could not be written out"));
        let objects = Objects::durable(fake, dir.path(), Duration::ZERO);
        let (first, second) = (Key::from("run/state/1"), Key::from("run/state/2"));
        objects.put(&first, Bytes::new()).await.unwrap();
        objects.upload(&second).await.unwrap().finish().await.unwrap_err();
        objects.put(&first, Bytes::new()).await.unwrap_err();
        objects.put_new(&Key::from("run/state/3"), &Bytes::new()).await.unwrap_err();
        std::fs::create_dir_all(dir.path().join("run/state")).unwrap();
        objects.put(&first, Bytes::new()).await.unwrap();
        assert!(objects.put_new(&Key::from("run/state/3"), &Bytes::new()).await.unwrap());
    }

    #[test]
    fn the_directories_of_a_file_are_those_up_to_that_of_the_store() {
        let dirs: Vec<&Path> = dirs_of(Path::new("/data/words/run-0001/state/1-1/a.state"), Path::new("/data/words")).collect();
        let expected = ["/data/words/run-0001/state/1-1", "/data/words/run-0001/state", "/data/words/run-0001", "/data/words"];
        assert_eq!(dirs, expected.map(Path::new));
    }

    #[test]
    fn what_goes_on_is_not_given_up_however_long_it_takes() {
        let progress = Progress::default();
        let at = |seconds| progress.furthest().since + Duration::from_secs(seconds);
        let (first, second) = (at(100), at(150));
        progress.done(1, first);
        progress.done(2, second);
        assert_eq!(progress.lasts(second), Duration::ZERO);
        // Another try begins with the first step, and comes no further.
        let (third, fourth) = (second + Duration::from_secs(20), second + Duration::from_secs(30));
        (1..=2).for_each(|step| progress.done(step, third));
        assert_eq!(progress.lasts(fourth), Duration::from_secs(30));
        progress.done(3, fourth);
        assert_eq!(progress.lasts(fourth), Duration::ZERO);
    }
}
