//! [`SavepointDir`]: a directory that is, or may be, a savepoint: reading, checking and removing it. Nothing takes it for one that has no
//! manifest.

#[cfg(test)]
mod tests;
mod unfinished;
mod write;

use bytes::Bytes;
use serde::Serialize;

use super::files::{Named, Place, read_checked};
use super::local::{self, canonical};
use super::open::{hasty, objects_at};
use super::{Store, cause::cause, key, list_below, unreadable};
use crate::checkpoint::decide::RestorePoint;
use crate::checkpoint::inspect::SavepointDescription;
use crate::checkpoint::listing::Broken;
use crate::checkpoint::manifest::{LogEntry, Manifest, SavepointPart, parse};
use crate::checkpoint::paths::savepoint::{self as paths, SavepointPath};
use crate::error::{Error, Kind, Result};
use crate::plan::{Access, Location};

pub use write::{Contents, Saved, Target, job_of};

/// The directory of a savepoint.
pub struct SavepointDir(Place);

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Disposed {
    /// The savepoint's directory.
    pub path: Location,
    /// Whether it was whole, rather than one whose writing was interrupted.
    pub was_whole: bool,
    /// How many files were deleted.
    pub files: usize,
    /// Files that are none of a savepoint's, and are still there.
    pub foreign: Vec<String>,
}

impl SavepointDir {
    /// The directory that `path` names as a savepoint, by itself or by a manifest in it; none if `path` names a single file of another
    /// kind.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the place can't be reached.
    pub async fn find(path: &Location, access: &Access) -> Result<Option<Self>> {
        let whole = canonical(path);
        let is_manifest = whole.name() == Some(paths::MANIFEST);
        let dir = match &whole {
            Location::Path(path) if is_manifest => path.is_file().then(|| whole.parent()).flatten(),
            _ if is_manifest => whole.parent(),
            Location::Path(dir) => dir.is_dir().then(|| whole.clone()),
            Location::Object(_) | Location::Memory(_) => Some(whole.clone()),
        };
        let Some(dir) = dir else { return Ok(None) };
        let objects = objects_at(&dir, &hasty(access)).map_err(|error| unreadable(path, &error))?;
        let found = SavepointDir(Place::new(objects, String::new(), dir));
        // In a bucket only a look tells a directory from an object.
        let is_known = is_manifest || matches!(whole, Location::Path(_)) || whole.name().is_some_and(paths::is_dir);
        Ok(if is_known || found.0.get(paths::MANIFEST).await?.is_some() { Some(found) } else { None })
    }

    /// The directory.
    pub fn dir(&self) -> &Location {
        &self.0.dir
    }

    /// Its manifest.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it has none, which is so while it is being written and when that was interrupted, or one that is broken;
    /// [`Kind::Storage`] if it can't be read.
    pub async fn manifest(&self) -> Result<Manifest> {
        let dir = &self.0.dir;
        let Some(bytes) = self.0.get(paths::MANIFEST).await? else {
            let help = "give a savepoint's directory; one that has no manifest was not written to its end, and is none";
            return Err(Error::new(Kind::Checkpoint, format!("{dir} is no savepoint: it has no {}", paths::MANIFEST)).help(help));
        };
        let broken = |reason: String| Err(Error::new(Kind::Checkpoint, format!("{}: {reason}", dir.join(paths::MANIFEST))));
        match parse(&bytes) {
            Ok(LogEntry::Checkpoint(manifest)) if manifest.savepoint.is_some() => Ok(manifest),
            Ok(_) => broken("this is no manifest of a savepoint".into()),
            Err(error) => broken(error.to_string()),
        }
    }

    /// The text of the job file.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it is missing or damaged; [`Kind::Storage`] if it can't be read.
    pub async fn job_file(&self, part: &SavepointPart) -> Result<String> {
        let job_file = &part.job_file;
        let named = Named { path: paths::JOB_FILE, bytes: job_file.bytes, checksum: &job_file.checksum, inline: None };
        let bytes = read_checked(&self.0, named).await?;
        String::from_utf8(bytes.into())
            .map_err(|error| Error::new(Kind::Checkpoint, format!("{}: {error}", self.0.dir.join(paths::JOB_FILE))))
    }

    /// A component that must be inside.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it is missing or damaged; [`Kind::Storage`] if it can't be read.
    pub async fn component(&self, digest: &str) -> Result<Bytes> {
        let path = paths::component(digest);
        let broken = |reason: &str| Error::new(Kind::Checkpoint, format!("the file {} {reason}", self.0.dir.join(&path)));
        let bytes = self.0.get(&path).await?.ok_or_else(|| broken("is missing"))?;
        if blake3::hash(&bytes).to_hex().as_str() != digest {
            return Err(broken("is damaged: it is not what its name says"));
        }
        Ok(bytes)
    }

    /// What it is, with every file read.
    ///
    /// # Errors
    /// As [`SavepointDir::manifest`]. Other files that are missing or damaged are told in the answer.
    pub async fn describe(&self) -> Result<SavepointDescription> {
        let manifest = self.manifest().await?;
        let mut broken = Vec::new();
        let mut note = |path: &str, error: Error| broken.push(Broken { path: path.into(), reason: error.message().into() });
        for operator in &manifest.operators {
            let whole = operator.operator_state.iter().map(Named::from);
            for file in operator.files.iter().map(Named::from).chain(whole) {
                self.0.check(file).await.unwrap_or_else(|error| note(file.path, error));
            }
        }
        if let Some(part) = &manifest.savepoint {
            self.job_file(part).await.map_or_else(|error| note(paths::JOB_FILE, error), drop);
            for operator in manifest.operators.iter().filter(|_| part.has_components) {
                let digest = &operator.component.digest;
                self.component(digest).await.map_or_else(|error| note(&paths::component(digest), error), drop);
            }
        }
        let foreign = self.list().await?.into_iter().filter(|path| paths::classify(path) == SavepointPath::Foreign).collect();
        Ok(SavepointDescription { path: self.0.dir.to_string(), manifest, broken, foreign })
    }

    /// Removes it, manifest first. One whose writing was interrupted is removed too; it can't be finished from then on.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it is neither, and nothing is deleted; [`Kind::Storage`] if something can't be deleted: the same again is
    /// safe.
    pub async fn dispose(&self) -> Result<Disposed> {
        let paths = self.list().await?;
        // In a bucket nothing else tells that there is no such directory.
        if paths.is_empty() && !matches!(self.0.dir, Location::Path(_)) {
            return Err(Error::new(Kind::Checkpoint, format!("{} is no savepoint: nothing is there", self.0.dir)));
        }
        let was_whole = match self.manifest().await {
            Ok(_) => true,
            Err(error) if paths.iter().any(|path| path == paths::MANIFEST) && !self.is_disposed().await? => return Err(error),
            Err(error) => {
                let is_ours = |path: &String| paths::classify(path) != SavepointPath::Foreign;
                if !self.0.dir.name().is_some_and(paths::is_dir) || !paths.iter().all(is_ours) {
                    return Err(error);
                }
                // Whoever is still writing it finds the place of its manifest taken.
                self.0.keep(paths::MANIFEST, &Bytes::from_static(DISPOSED)).await?;
                false
            }
        };
        let foreign = if was_whole { self.remove().await? } else { self.delete(&[paths::MANIFEST]).await? };
        Ok(Disposed { path: self.0.dir.clone(), was_whole, files: paths.len() - foreign.len(), foreign })
    }

    /// Looks once more whether everything is there that the manifest, which was put just now, names: it may have been disposed of in its
    /// writing. What is left is removed then.
    ///
    /// # Errors
    /// [`Kind::Storage`] if something is missing.
    async fn keep_if_whole(&self, manifest: &Manifest) -> Result<()> {
        let there = self.list().await?;
        let has_components = manifest.savepoint.as_ref().is_some_and(|savepoint| savepoint.has_components);
        let operators = manifest.operators.iter().filter(|_| has_components);
        let components = operators.map(|operator| paths::component(&operator.component.digest));
        let mut named = manifest.state_files().map(str::to_owned).chain(components).chain([paths::JOB_FILE.to_owned()]);
        let Some(missing) = named.find(|path| there.binary_search(path).is_err()) else { return Ok(()) };
        self.remove().await?;
        let message = format!("{} was removed while the savepoint was written", self.0.dir.join(&missing));
        Err(Error::new(Kind::Storage, message).help("ask for the savepoint again"))
    }

    /// Deletes the manifest, and then the rest.
    async fn remove(&self) -> Result<Vec<String>> {
        self.delete_one(paths::MANIFEST).await?;
        self.delete(&[]).await
    }

    /// Deletes the files of a savepoint, `last` after all others, and returns the paths of what is none of its files and stays.
    async fn delete(&self, last: &[&str]) -> Result<Vec<String>> {
        let (own, foreign): (Vec<String>, Vec<String>) =
            self.list().await?.into_iter().partition(|path| paths::classify(path) != SavepointPath::Foreign);
        let first: Vec<&str> = own.iter().map(String::as_str).filter(|path| !last.contains(path)).collect();
        self.delete_all(&first).await?;
        for path in last {
            self.delete_one(path).await?;
        }
        local::remove_savepoint_leftovers(&self.0.dir).await;
        Ok(foreign)
    }

    async fn delete_one(&self, path: &str) -> Result<()> {
        let deleted = self.0.objects.delete(&key(&self.0.prefix, path)?).await;
        deleted.map_err(|error| Error::new(Kind::Storage, format!("{} can't be deleted: {}", self.0.dir.join(path), cause(&error))))
    }

    /// Deletes files, in no order and many at once.
    async fn delete_all(&self, paths: &[&str]) -> Result<()> {
        let keys = paths.iter().map(|path| key(&self.0.prefix, path)).collect::<Result<Vec<_>>>()?;
        let deleted = self.0.objects.delete_all(&keys).await;
        deleted.map_err(|error| Error::new(Kind::Storage, format!("files in {} can't be deleted: {}", self.0.dir, cause(&error))))
    }

    /// Whether its removal has begun and was interrupted.
    async fn is_disposed(&self) -> Result<bool> {
        Ok(self.0.get(paths::MANIFEST).await?.is_some_and(|found| found == DISPOSED))
    }

    /// The paths of all files in it.
    async fn list(&self) -> Result<Vec<String>> {
        list_below(&self.0.prefix, &self.0.dir, &self.0.objects).await
    }
}

/// What lies in the place of the manifest while a savepoint without one is removed.
const DISPOSED: &[u8] = b"disposed\n";

impl Store {
    /// Removes a savepoint of which a job that owns it has no need any more, given its manifest. What is gone already is no error.
    ///
    /// # Errors
    /// [`Kind::Storage`] if something can't be deleted.
    pub async fn remove_savepoint(&self, manifest: &str) -> Result<()> {
        let path: Location = manifest.parse().map_err(|reason| Error::new(Kind::Internal, format!("`{manifest}`: {reason}")))?;
        let Some(dir) = path.parent() else { return Ok(()) };
        if matches!(&dir, Location::Path(dir) if !dir.exists()) {
            return Ok(());
        }
        let objects = objects_at(&dir, &self.access_to(&dir)).map_err(|error| unreadable(&dir, &error))?;
        SavepointDir(Place::new(objects, String::new(), dir)).remove().await.map(drop)
    }

    /// The savepoint that `path` names; none if it names something else.
    pub(super) async fn load_savepoint(&self, path: &Location) -> Result<Option<RestorePoint>> {
        let Some(SavepointDir(place)) = SavepointDir::find(path, &self.access_to(path)).await? else { return Ok(None) };
        let (run_dir, path) = (place.dir.clone(), place.dir.join(paths::MANIFEST));
        let manifest = SavepointDir(place).manifest().await?;
        let newer = self.newer_than(&manifest).await?;
        Ok(Some(RestorePoint { run_dir, path, slot: 0, manifest, before: None, newer }))
    }

    /// How many checkpoints this job has committed since the one of a savepoint, if that was one of its own.
    async fn newer_than(&self, manifest: &Manifest) -> Result<usize> {
        let log_dir = canonical(&self.run_dir(manifest.attempt.run)).join("log").to_string();
        let from = manifest.savepoint.as_ref().and_then(|savepoint| savepoint.from.rsplit_once('/'));
        if from.is_none_or(|(dir, _)| dir != log_dir) {
            return Ok(0);
        }
        let log = self.log(manifest.attempt.run).await?;
        Ok(log.broken() + log.manifests().filter(|(_, newer)| newer.checkpoint > manifest.checkpoint).count())
    }
}
