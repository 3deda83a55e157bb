//! [`Store`]: the checkpoints of one job, and the one user of object_store. Writes are durable when they return; log entries
//! are put only where nothing is. What to write and what to delete is decided elsewhere.

mod cause;
mod collect;
mod copies;
mod credentials;
mod failed;
mod files;
mod known;
mod load;
mod local;
mod log;
mod memory;
mod merge;
mod objects;
mod open;
mod pace;
mod published;
mod ranged;
mod remote;
mod savepoint;
mod sweep;
mod upload;
mod write;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod large_tests;
#[cfg(test)]
mod sweep_tests;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;
use object_store::path::Path as Key;

pub use files::unrestorable;
pub use load::inspect;
pub use local::canonical;
pub use log::{BeginFrom, Claimed, RunChoice};
pub use published::Publication;
pub use ranged::Fetching;
pub use savepoint::{Contents, Disposed, Saved, SavepointDir, Target, job_of};

use super::paths;
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::{Access, Location};
use cause::cause;
use copies::Copies;
use known::Known;
use objects::Objects;
use open::Purpose;
use pace::Pace;

/// The checkpoints of one job. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    objects: Objects,
    /// The job's directory.
    dir: Location,
    /// How that is reached, if it is in a bucket.
    access: Access,
    job: String,
    /// State files with fewer bytes are kept in manifests.
    memory_threshold: u64,
    /// Of merges beside a job's work.
    pace: Pace,
    copies: Option<Copies>,
    known: Known,
    /// By this it knows its own claims: their tokens begin with it.
    claimer: u64,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What the objects are reached with is nobody's business.
        f.debug_tuple("Store").field(&self.dir).finish()
    }
}

impl Store {
    /// Opens the checkpoints of `job` below `dir`, creates the directory if it is missing, and makes sure that files can be listed,
    /// written, deleted, and put only where nothing is.
    ///
    /// # Errors
    /// [`Kind::Storage`], naming directory or bucket and the setting, if they can't.
    pub async fn open(dir: &Location, access: &Access, job: &str) -> Result<Self> {
        let dir = dir.join(&paths::job_dir(job));
        let objects = open::open(&dir, access, Purpose::Checkpoints).await?;
        Ok(Store::at(dir, objects, access.clone(), job))
    }

    /// Opens the checkpoints of `job` below `dir` to look at them. Creates nothing.
    ///
    /// # Errors
    /// [`Kind::Storage`] if there is no such directory, or the bucket can't be reached.
    pub async fn open_existing(dir: &Location, access: &Access, job: &str) -> Result<Self> {
        let dir = dir.join(&paths::job_dir(job));
        let access = open::hasty(access);
        let objects = open::objects_at(&dir, &access).map_err(|error| {
            let message = format!("job `{job}` has no checkpoints: {dir} can't be read: {}", cause(&error));
            Error::new(Kind::Storage, message).help("the place is set by `[checkpoint] dir`")
        })?;
        Ok(Store::at(dir, objects, access, job))
    }

    fn at(dir: Location, objects: Objects, access: Access, job: &str) -> Self {
        let (job, known, claimer) = (job.into(), Known::nothing(), clock::entropy());
        Store { objects, dir, access, job, memory_threshold: 0, pace: Pace::unbounded(), copies: None, known, claimer }
    }

    /// The same, with state files of fewer bytes than `threshold` kept in manifests.
    pub fn with_memory_threshold(self, threshold: u64) -> Self {
        Store { memory_threshold: threshold, ..self }
    }

    /// The same, with merges beside a job's work that read and write `rate` bytes in each second.
    pub fn with_merge_rate(self, rate: u64) -> Self {
        Store { pace: Pace::new(rate), ..self }
    }

    /// The same, with copies of state files in a local directory, which is created if it is missing.
    ///
    /// # Errors
    /// [`Kind::Storage`], naming the setting, if it can't be used.
    pub fn with_copies(self, dir: &std::path::Path) -> Result<Self> {
        Ok(Store { copies: Some(Copies::open(dir, &self.job)?), ..self })
    }

    /// The same, with the claims of `claimer` as its own.
    pub fn claiming_as(self, claimer: u64) -> Self {
        Store { claimer, ..self }
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
        let names = self.objects.dirs().await.map_err(|error| unreadable(&self.dir, &error))?;
        let mut runs: Vec<u32> = names.iter().filter_map(|name| paths::parse_run_dir(name)).collect();
        runs.sort_unstable();
        Ok(runs)
    }

    /// The paths of all files of a run, relative to its directory, sorted.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read.
    pub async fn list(&self, run: u32) -> Result<Vec<String>> {
        list_below(&paths::run_dir(run), &self.run_dir(run), &self.objects).await
    }

    /// The paths of all files in the job's directory that belong to none of `runs`, relative to it, sorted.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read.
    pub async fn strays(&self, runs: &[u32]) -> Result<Vec<String>> {
        let mut paths = list_below("", &self.dir, &self.objects).await?;
        let run = |path: &str| path.split_once('/').and_then(|(dir, _)| paths::parse_run_dir(dir));
        paths.retain(|path| run(path).is_none_or(|run| !runs.contains(&run)));
        Ok(paths)
    }

    /// The content of a file of a run; none if it is not there.
    async fn get(&self, run: u32, path: &str) -> Result<Option<Bytes>> {
        get_from(&self.objects, &key(&paths::run_dir(run), path)?, &self.run_dir(run).join(path)).await
    }

    /// Puts a file where nothing is, durably. False if there is a file with another content; one with the same content is ours, from
    /// a put whose answer was lost.
    async fn put_new(&self, run: u32, path: &str, bytes: &Bytes) -> Result<bool> {
        let put = self.objects.put_new(&key(&paths::run_dir(run), path)?, bytes).await;
        put.map_err(|error| unwritable(&self.run_dir(run).join(path), &error))
    }
}

/// The paths of all files below `prefix` of `objects`, relative to it, sorted. `dir` is where that is, for errors.
async fn list_below(prefix: &str, dir: &Location, objects: &Objects) -> Result<Vec<String>> {
    let prefix = Key::parse(prefix).map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
    let listed = objects.list(&prefix).await.map_err(|error| unreadable(dir, &error))?;
    let strip = |key: &Key| Some(key.prefix_match(&prefix)?.map(|part| part.as_ref().to_string()).collect::<Vec<_>>().join("/"));
    let mut paths: Vec<String> = listed.iter().filter_map(strip).collect();
    paths.sort_unstable();
    Ok(paths)
}

async fn get_from(objects: &Objects, key: &Key, path: &Location) -> Result<Option<Bytes>> {
    objects.get(key).await.map_err(|error| unreadable(path, &error))
}

/// A path within a run as a key; `run` is empty if the store begins at the run.
fn key(run: &str, path: &str) -> Result<Key> {
    let whole = if run.is_empty() { path.to_string() } else { format!("{run}/{path}") };
    Key::parse(&whole).map_err(|error| Error::new(Kind::Internal, error.to_string()))
}

fn unreadable(path: &Location, error: &object_store::Error) -> Error {
    Error::new(Kind::Storage, format!("{path} can't be read: {}", cause(error)))
}

fn unwritable(path: &Location, error: &object_store::Error) -> Error {
    Error::new(Kind::Storage, format!("{path} can't be written: {}", cause(error))).help("the place is set by `[checkpoint] dir`")
}
