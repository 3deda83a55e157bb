//! [`Copies`]: second copies of state files on the local disk, so that a restart in the same place need not fetch them. They are a cache:
//! what is missing or damaged is fetched all the same, and nothing fails because a copy could not be made.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;

use super::cause::cause;
use super::local::remove_leftovers;
use super::objects::Objects;
use super::upload::Upload;
use crate::checkpoint::decide::{Live, Outline, abandoned, superseded};
use crate::checkpoint::paths::{self, RunPath};
use crate::error::{Error, Kind, Result};
use crate::plan::Location;
use crate::record::AttemptId;

/// Where copies lie below a job's directory, so that they are never taken for checkpoints, whatever the two directories are.
const DIR: &str = "copies";

/// Copies of one job's state files, by the same keys as in its store. Cheap to clone.
#[derive(Clone)]
pub(super) struct Copies {
    objects: Objects,
    dir: Location,
}

impl Copies {
    /// Opens the copies of `job` below `dir`, and creates the directory if it is missing.
    pub(super) fn open(dir: &Path, job: &str) -> Result<Self> {
        let dir = dir.join(paths::job_dir(job)).join(DIR);
        let refused = |error: String| {
            let message = format!("the directory {} for copies of state files can't be used: {error}", dir.display());
            Error::new(Kind::Storage, message).help("make it writable, or choose another one with `[checkpoint] local-recovery-dir`")
        };
        std::fs::create_dir_all(&dir).map_err(|error| refused(error.to_string()))?;
        // Not made durable: what a crash leaves of a copy is noticed by its checksum.
        let files = LocalFileSystem::new_with_prefix(&dir).map_err(|error| refused(cause(&error)))?.with_automatic_cleanup(true);
        Ok(Copies { objects: Objects::new(files, super::local::PATIENCE), dir: dir.into() })
    }

    /// Where the copy of a file is, for messages.
    pub(super) fn path(&self, key: &Key) -> Location {
        self.dir.join(key.as_ref())
    }

    /// What a copy holds; none if there is none.
    pub(super) async fn get(&self, key: &Key) -> object_store::Result<Option<Bytes>> {
        self.objects.get(key).await
    }

    /// Makes a copy, if that is possible.
    pub(super) async fn put(&self, key: &Key, bytes: &Bytes) {
        if let Err(error) = self.objects.put(key, bytes.clone()).await {
            self.warn(key, &error);
        }
    }

    fn warn(&self, key: &Key, error: &object_store::Error) {
        tracing::warn!("no local copy of a state file: {} can't be written: {}", self.path(key), cause(error));
    }

    /// Begins a copy of a large file, if that is possible.
    pub(super) async fn begin(&self, key: &Key) -> Copying {
        let mut copying = Copying { copies: self.clone(), key: key.clone(), upload: None };
        match self.objects.upload(key).await {
            Ok(upload) => copying.upload = Some(upload),
            Err(error) => copying.failed(&error),
        }
        copying
    }

    /// Removes what interrupted writes of attempts before `attempt` of a run, and of runs before, have left.
    pub(super) async fn remove_leftovers(&self, run: u32, attempt: u32) {
        let dirs = self.objects.dirs().await.unwrap_or_default();
        for of in dirs.iter().filter_map(|name| paths::parse_run_dir(name)).filter(|of| *of <= run) {
            let before = if of == run { attempt } else { u32::MAX };
            remove_leftovers(&self.dir.join(&paths::run_dir(of)), before, 0).await;
        }
    }

    /// Deletes all copies but those that the newest checkpoint of a run with this log, or what is under way, needs.
    pub(super) async fn collect(&self, run: u32, log: &Outline, live: &Live) {
        for (of, listed) in self.by_run().await {
            let files = match of.cmp(&run) {
                Ordering::Less => listed,
                Ordering::Equal => superseded(log, listed.iter().map(String::as_str), live, 1).files,
                Ordering::Greater => continue,
            };
            self.delete(of, &files).await;
        }
    }

    /// Deletes the copies of what attempts before `attempt` have written and no manifest of its run's log names.
    pub(super) async fn collect_abandoned(&self, attempt: AttemptId, log: &Outline) {
        let listed = self.by_run().await.remove(&attempt.run).unwrap_or_default();
        self.delete(attempt.run, &abandoned(log, listed.iter().map(String::as_str), attempt.attempt)).await;
    }

    /// The paths of all copies, by run; none if they can't be listed.
    async fn by_run(&self) -> BTreeMap<u32, Vec<String>> {
        let listed = self.objects.list(&Key::default()).await.unwrap_or_else(|error| {
            tracing::warn!("the local copies in {} can't be listed: {}", self.dir, cause(&error));
            Vec::new()
        });
        let mut by_run: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for key in &listed {
            let parts = key.as_ref().split_once('/').and_then(|(run, path)| Some((paths::parse_run_dir(run)?, path)));
            if let Some((run, path)) = parts.filter(|(_, path)| matches!(paths::classify(path), RunPath::State(_))) {
                by_run.entry(run).or_default().push(path.into());
            }
        }
        by_run
    }

    async fn delete(&self, run: u32, files: &[String]) {
        let keys: Vec<Key> = files.iter().map(|path| Key::from(format!("{}/{path}", paths::run_dir(run)))).collect();
        if let Err(error) = self.objects.delete_all(&keys).await {
            tracing::warn!("local copies in {} can't be deleted: {}", self.dir, cause(&error));
        }
    }
}

/// A copy of a large file being made while the file is written. It appears at its end; there is none if it is dropped before.
pub(super) struct Copying {
    copies: Copies,
    key: Key,
    /// None: it could not be made.
    upload: Option<Upload>,
}

impl Copying {
    /// Whether it can still become a copy.
    pub(super) fn goes_on(&self) -> bool {
        self.upload.is_some()
    }

    /// Adds what comes next.
    pub(super) async fn put(&mut self, piece: &Bytes) {
        let Some(upload) = &mut self.upload else { return };
        if let Err(error) = upload.put(piece.clone()).await {
            self.failed(&error);
        }
    }

    /// The file is whole. Whether the copy is, too.
    pub(super) async fn finish(mut self) -> bool {
        let Some(mut upload) = self.upload.take() else { return false };
        let finished = upload.finish().await.inspect_err(|error| self.failed(error));
        finished.is_ok()
    }

    fn failed(&mut self, error: &object_store::Error) {
        self.copies.warn(&self.key, error);
        self.upload = None;
    }
}
