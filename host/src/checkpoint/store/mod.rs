//! [`Store`]: the checkpoints of one job, and the one user of object_store. Writes are durable when they return; log entries
//! are put only where nothing is. What to write and what to delete is decided elsewhere.

mod collect;
mod files;
mod load;
mod local;
mod log;
mod published;
mod sweep;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

pub use load::inspect;
pub use local::canonical;
pub use log::{Claimed, RunChoice};
pub use published::Publication;

use super::paths;
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::Location;

/// The checkpoints of one job. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    /// The job's directory.
    dir: Location,
    job: String,
}

impl Store {
    /// Opens the checkpoints of `job` below `dir`, creates the directory if it is missing, and makes sure that it can be written.
    ///
    /// # Errors
    /// [`Kind::Storage`], naming the directory and the setting, if it can't.
    pub async fn open(dir: &Location, job: &str) -> Result<Self> {
        let job_dir = dir.join(&paths::job_dir(job));
        let unusable = |cause: String| {
            Error::new(Kind::Storage, format!("the checkpoint directory {job_dir} can't be used: {cause}"))
                .help("make it writable, or choose another one with `[checkpoint] dir`")
        };
        local::create(&job_dir).await.map_err(unusable)?;
        let store = Store::open_existing(dir, job).await?;
        let probe = Key::from(format!("probe-{:016x}", clock::entropy()));
        store
            .objects
            .put(&probe, Bytes::from_static(b"can this be written?").into())
            .await
            .map_err(|error| unusable(root_cause(&error)))?;
        store.objects.delete(&probe).await.map_err(|error| unusable(root_cause(&error)))?;
        Ok(store)
    }

    /// Opens the checkpoints of `job` below `dir` to look at them. Creates nothing.
    ///
    /// # Errors
    /// [`Kind::Storage`] if there are none.
    pub async fn open_existing(dir: &Location, job: &str) -> Result<Self> {
        let job_dir = dir.join(&paths::job_dir(job));
        let objects = objects_at(&job_dir).map_err(|error| {
            let message = format!("job `{job}` has no checkpoints: {job_dir} can't be read: {}", root_cause(&error));
            Error::new(Kind::Storage, message).help("the directory is set by `[checkpoint] dir`")
        })?;
        Ok(Store { objects, dir: job_dir, job: job.into() })
    }

    /// The job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The directory of a run.
    pub fn run_dir(&self, run: u32) -> Location {
        self.dir.join(&paths::run_dir(run))
    }

    /// The runs that have begun, in order: those whose log has an entry.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read.
    pub async fn runs(&self) -> Result<Vec<u32>> {
        let mut begun = Vec::new();
        for run in self.run_dirs().await? {
            if !self.slots(run).await?.is_empty() {
                begun.push(run);
            }
        }
        Ok(begun)
    }

    /// The runs that have a directory, in order.
    async fn run_dirs(&self) -> Result<Vec<u32>> {
        let found = self.objects.list_with_delimiter(None).await.map_err(|error| self.unreadable(&self.dir, &error))?;
        let names = found.common_prefixes.iter().filter_map(|prefix| prefix.parts().next_back());
        let mut runs: Vec<u32> = names.filter_map(|name| paths::parse_run_dir(name.as_ref())).collect();
        runs.sort_unstable();
        Ok(runs)
    }

    /// The paths of all files of a run, relative to its directory, sorted.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read.
    pub async fn list(&self, run: u32) -> Result<Vec<String>> {
        self.list_below(&paths::run_dir(run), &self.run_dir(run), self.objects.as_ref()).await
    }

    /// The paths of all files in the job's directory that belong to none of `runs`, relative to it, sorted.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read.
    pub async fn strays(&self, runs: &[u32]) -> Result<Vec<String>> {
        let mut paths = self.list_below("", &self.dir, self.objects.as_ref()).await?;
        let run = |path: &str| path.split_once('/').and_then(|(dir, _)| paths::parse_run_dir(dir));
        paths.retain(|path| run(path).is_none_or(|run| !runs.contains(&run)));
        Ok(paths)
    }

    /// The paths of all files below `prefix` of `objects`, relative to it, sorted. `dir` is where that is, for errors.
    async fn list_below(&self, prefix: &str, dir: &Location, objects: &dyn ObjectStore) -> Result<Vec<String>> {
        let prefix = Key::parse(prefix).map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        let listed = objects.list(Some(&prefix)).try_collect::<Vec<_>>().await;
        let strip = |key: &Key| key.prefix_match(&prefix).map(|parts| parts.map(|part| part.as_ref().to_string()).collect());
        let parts = listed.map_err(|error| self.unreadable(dir, &error))?.into_iter().filter_map(|object| strip(&object.location));
        let mut paths: Vec<String> = parts.map(|parts: Vec<String>| parts.join("/")).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    /// The content of a file of a run; none if it is not there.
    async fn get(&self, run: u32, path: &str) -> Result<Option<Bytes>> {
        get_from(self.objects.as_ref(), &key(&paths::run_dir(run), path)?, &self.run_dir(run).join(path)).await
    }

    /// Puts a file where nothing is, durably. False if there is a file with another content; one with the same content is ours, from
    /// a put whose answer was lost.
    async fn put_new(&self, run: u32, path: &str, bytes: Bytes) -> Result<bool> {
        let key = key(&paths::run_dir(run), path)?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.objects.put_opts(&key, bytes.clone().into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(self.get(run, path).await?.is_some_and(|found| found == bytes)),
            Err(error) => {
                let path = self.run_dir(run).join(path);
                let message = format!("{path} can't be written: {}", root_cause(&error));
                Err(Error::new(Kind::Storage, message).help("the directory is set by `[checkpoint] dir`"))
            }
        }
    }

    fn unreadable(&self, path: &Location, error: &object_store::Error) -> Error {
        unreadable(path, error)
    }
}

async fn get_from(objects: &dyn ObjectStore, key: &Key, path: &Location) -> Result<Option<Bytes>> {
    let found = match objects.get(key).await {
        Ok(found) => found.bytes().await,
        Err(error) => Err(error),
    };
    match found {
        Ok(bytes) => Ok(Some(bytes)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// A path within a run as a key; `run` is empty if the store begins at the run.
fn key(run: &str, path: &str) -> Result<Key> {
    let whole = if run.is_empty() { path.to_string() } else { format!("{run}/{path}") };
    Key::parse(&whole).map_err(|error| Error::new(Kind::Internal, error.to_string()))
}

/// The files below `dir`.
fn objects_at(dir: &Location) -> object_store::Result<Arc<dyn ObjectStore>> {
    match dir {
        Location::Path(dir) => local::objects(dir),
        Location::Object(_) => Err(object_store::Error::NotImplemented { operation: "opening".into(), implementer: dir.to_string() }),
    }
}

fn unreadable(path: &Location, error: &object_store::Error) -> Error {
    Error::new(Kind::Storage, format!("{path} can't be read: {}", root_cause(error)))
}

/// What is behind an error: object_store wraps the operating system's word several times.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
