//! Writing a savepoint: state, components and job file first, each durable, then the manifest, where nothing is: that is the commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde::Serialize;

use super::{DISPOSED, SavepointDir};
use crate::checkpoint::decide::{Merge, bases, savepoint};
use crate::checkpoint::manifest::{JobFilePart, LogEntry, Manifest, SavepointPart, StateFile, render};
use crate::checkpoint::paths::savepoint as paths;
use crate::checkpoint::store::files::{Named, Place, checksum, read_checked};
use crate::checkpoint::store::merge::{carry_out, copy};
use crate::checkpoint::store::open::{self, Purpose};
use crate::checkpoint::store::pace::Pace;
use crate::checkpoint::store::{Store, unreadable};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::Location;

/// A directory in which savepoints can be written.
#[derive(Clone)]
pub struct Target(pub(super) Place);

/// What goes into a savepoint besides state.
#[derive(Clone, Debug)]
pub struct Contents {
    /// By which name it was asked for.
    pub trigger_id: String,
    /// Who writes it: the id of the job, and after a blank what tells this time from all others.
    pub writer: String,
    /// Once this is set it is not gone on with.
    pub given_up: Arc<AtomicBool>,
    /// Where its checkpoint's manifest lies.
    pub from: String,
    /// The text of the job file.
    pub job_file: String,
    /// The directory that paths in the job file count from.
    pub directory: String,
    /// The operators' components by digest; none: they are left out.
    pub components: Option<BTreeMap<String, Bytes>>,
}

/// A savepoint that is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Saved {
    /// By which name it was asked for.
    pub trigger_id: String,
    /// Its directory.
    pub path: Location,
    /// The checkpoint whose state it has.
    pub checkpoint: u64,
    /// Bytes of state.
    pub bytes: u64,
}

impl Saved {
    fn of(dir: &Location, manifest: &Manifest) -> Self {
        let trigger_id = manifest.savepoint.as_ref().map(|savepoint| savepoint.trigger_id.clone()).unwrap_or_default();
        Saved { trigger_id, path: dir.clone(), checkpoint: manifest.checkpoint, bytes: manifest.total_bytes }
    }
}

impl Store {
    /// Makes sure that savepoints can be written in a directory.
    ///
    /// # Errors
    /// [`Kind::Storage`] if they can't.
    pub async fn savepoint_target(&self, dir: &Location) -> Result<Target> {
        let objects = open::open(dir, &self.access_to(dir), Purpose::Savepoints).await?;
        Ok(Target(Place::new(objects, String::new(), dir.clone())))
    }

    /// Makes a savepoint of a committed checkpoint, of whose files none may be deleted meanwhile.
    ///
    /// # Errors
    /// [`Kind::Storage`] if something can't be read or written, or somebody else writes it; [`Kind::Checkpoint`] if something is damaged;
    /// [`Kind::Conflict`] if it was given up. Then there is no savepoint, nor anything that was written of it, as far as that can be removed;
    /// only if it was the manifest that could not be written, it may be there all the same, and is whole.
    pub async fn save(&self, manifest: &Manifest, target: &Target, contents: Contents) -> Result<Saved> {
        let to = target.place(&paths::dir(&manifest.job, manifest.checkpoint, &contents.trigger_id));
        let help = |error: Error| match error.kind() {
            Kind::Storage => error.help("make room, or choose another place by `[checkpoint] savepoint-dir` or with the command"),
            _ => error,
        };
        let to = SavepointDir(to);
        to.take(&contents.writer).await?;
        let writer = contents.writer.clone();
        let whole = match self.write_savepoint(manifest, &to.0, contents).await {
            Ok(whole) => whole,
            Err(error) => {
                // Without a manifest it is nothing. What is left of it all the same can be disposed of.
                to.give_up(&writer).await.unwrap_or_else(|left| tracing::warn!("{} is left unfinished: {left}", to.0.dir));
                return Err(help(error));
            }
        };
        to.finish().await;
        to.keep_if_whole(&whole).await?;
        Ok(Saved::of(&to.0.dir, &whole))
    }

    /// Writes all of a savepoint, its manifest last, which is returned.
    async fn write_savepoint(&self, manifest: &Manifest, to: &Place, contents: Contents) -> Result<Manifest> {
        let given_up = contents.given_up;
        let go_on = || match given_up.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(Error::new(Kind::Conflict, "the savepoint was given up")),
        };
        let from = self.place(manifest.attempt.run);
        let mut files: BTreeMap<String, Vec<StateFile>> = BTreeMap::new();
        for base in bases(manifest) {
            go_on()?;
            let written = match whole(&base) {
                Some(file) => vec![copy(&from, file, to, &base.outputs[0].path).await?],
                None => carry_out(&from, to, &base, clock::wall_ms(), &Pace::unbounded()).await?,
            };
            files.entry(base.operator).or_default().extend(written);
        }
        for file in manifest.operators.iter().flat_map(|operator| &operator.operator_state) {
            go_on()?;
            to.keep(&file.path, &read_checked(&from, Named::from(file)).await?).await?;
        }
        let has_components = contents.components.is_some();
        for (digest, bytes) in contents.components.into_iter().flatten() {
            go_on()?;
            to.keep(&paths::component(&digest), &bytes).await?;
        }
        let (bytes, checksum) = (contents.job_file.len() as u64, checksum(contents.job_file.as_bytes()));
        to.keep(paths::JOB_FILE, &contents.job_file.into()).await?;
        let job_file = JobFilePart { directory: contents.directory, bytes, checksum };
        let Contents { trigger_id, writer, from, .. } = contents;
        let part = SavepointPart { trigger_id, writer: Some(writer.trim_end().into()), from, job_file, has_components };
        let whole = savepoint(manifest, files, part);
        let text = render(&LogEntry::Checkpoint(whole.clone())).map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        go_on()?;
        to.keep(paths::MANIFEST, &text.into()).await?;
        Ok(whole)
    }
}

impl Target {
    /// The whole savepoint of `job` that was asked for as `trigger_id`, if there is one here. Another job of this name, on another host, may
    /// have one too: `id` is that of the job that is meant.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read; [`Kind::Checkpoint`] if the savepoint's manifest is broken.
    pub async fn find(&self, job: &str, id: &str, trigger_id: &str) -> Result<Option<Saved>> {
        let Target(Place { objects, dir, .. }) = self;
        let names = objects.dirs().await.map_err(|error| unreadable(dir, &error))?;
        for name in names.iter().filter(|name| paths::is_dir_of(name, job, trigger_id)) {
            let found = SavepointDir(self.place(name));
            // One that is being removed is none.
            if found.0.get(paths::MANIFEST).await?.is_none_or(|manifest| manifest == DISPOSED) {
                continue;
            }
            let manifest = found.manifest().await?;
            let writer = manifest.savepoint.as_ref().and_then(|savepoint| savepoint.writer.as_deref());
            // Those of earlier versions don't say whose they are.
            if writer.is_none_or(|writer| job_of(writer) == id) {
                return Ok(Some(Saved::of(&found.0.dir, &manifest)));
            }
        }
        Ok(None)
    }

    pub(super) fn place(&self, name: &str) -> Place {
        Place::new(self.0.objects.clone(), name.into(), self.0.dir.join(name))
    }
}

/// The id of the job for which a savepoint is written.
pub fn job_of(writer: &str) -> &str {
    writer.split_whitespace().next().unwrap_or_default()
}

/// The file that a merge would only repeat, if so.
fn whole(merge: &Merge) -> Option<&StateFile> {
    match (merge.inputs.as_slice(), merge.outputs.as_slice()) {
        ([input], [output]) if input.base && input.groups == output.groups => Some(input),
        _ => None,
    }
}
