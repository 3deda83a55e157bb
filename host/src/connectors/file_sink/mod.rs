//! The sink `file`: a line per record, in files that readers see whole or not at all.
//!
//! A writer fills a file in `.staging`, which is hidden and on the same file system; at a barrier the file is made durable there. When
//! the checkpoint has committed, it is renamed into the directory, which is atomic. No published file is ever replaced: names carry
//! sink, run, epoch and subtask, and a name that is taken is an error.

mod names;
#[cfg(test)]
mod tests;
mod writer;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use self::names::Names;
use self::writer::Writer;
use super::{Sink, SinkWriter};
use crate::durable;
use crate::error::{Error, Kind, Result};
use crate::record::{AttemptId, Staged};

/// Where files lie until they are published, in the sink's directory.
const STAGING: &str = ".staging";

/// The sink.
pub(super) struct FileSink {
    place: Arc<Place>,
}

/// The sink's directory, and whose files there are its own.
struct Place {
    uid: String,
    dir: PathBuf,
    staging: PathBuf,
    names: Names,
}

impl Place {
    fn error(&self, path: &Path, what: impl std::fmt::Display) -> Error {
        Error::new(Kind::Storage, format!("sink `{}`: {}: {what}", self.uid, path.display()))
    }

    fn io_error(&self, path: &Path, doing: &str, error: &io::Error) -> Error {
        let help = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room; the job then goes on from its last checkpoint",
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "let the host write there, or change the sink's `path`",
            _ => "check the sink's `path`",
        };
        self.error(path, format_args!("can't {doing}: {error}")).help(help)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        durable::sync_dir(dir).map_err(|error| self.io_error(dir, "make its files durable", &error))
    }

    /// Names in a directory; those that are not UTF-8 are none of ours.
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
            names.filter_map(io::Result::transpose).collect()
        };
        list().map_err(|error| self.io_error(dir, "list it", &error))
    }

    /// A path of a [`Staged`], which comes from a manifest and must not lead out of the directory.
    fn inside(&self, path: &str) -> Result<PathBuf> {
        let is_inside = !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if is_inside { Ok(self.dir.join(path)) } else { Err(self.error(&self.dir, format_args!("`{path}` is no path in it"))) }
    }

    /// The size of a file; none if it is not there.
    fn size(&self, path: &Path) -> Result<Option<u64>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io_error(path, "look at it", &error)),
        }
    }

    fn taken(&self, path: &Path) -> Error {
        self.error(path, "is there already, and published files are never replaced")
            .help("another job writes there, or did; give the sink another `path`, or move the old files away")
    }
}

impl FileSink {
    pub(super) fn new(uid: &str, dir: &Path) -> Self {
        let (dir, staging) = (dir.to_path_buf(), dir.join(STAGING));
        FileSink { place: Arc::new(Place { uid: uid.into(), dir, staging, names: Names::new(uid) }) }
    }

    /// A run without a checkpoint can't have published anything: files with its names are another job's, or of a run whose checkpoints were
    /// removed. Said now, because otherwise the two would mix until the first name clashes.
    fn refuse_strangers(&self, run: u32) -> Result<()> {
        let place = &self.place;
        match place.list(&place.dir)?.into_iter().filter(|name| place.names.is_published(name, run)).min() {
            Some(name) => Err(place.taken(&place.dir.join(name))),
            None => Ok(()),
        }
    }

    /// What older attempts left in the staging directory; of older runs not what is whole, for a checkpoint of theirs may name it, and may
    /// still be asked for. `attempt` itself has written nothing yet: what seems to be of it
    /// was left by a run whose checkpoints were removed, or is another job's, and may be of value there when it is whole.
    fn leftovers(&self, attempt: AttemptId) -> Result<Vec<PathBuf>> {
        let place = &self.place;
        let mut leftovers = Vec::new();
        for name in place.list(&place.staging)? {
            let Some(own) = place.names.own(&name) else { continue };
            let path = place.staging.join(name);
            if own.attempt == attempt && own.is_whole {
                return Err(place
                    .error(&path, "is there already, though this attempt has written nothing yet")
                    .help("another job writes there: give the sink another `path`; if none does, remove the file"));
            }
            if own.attempt <= attempt && (own.attempt.run == attempt.run || !own.is_whole) {
                leftovers.push(path);
            }
        }
        Ok(leftovers)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.place.io_error(path, "remove what an older attempt left", &error))
            }
            _ => Ok(()),
        }
    }

    /// Renames a file into view, unless that has been done: before, or by another process that publishes the same checkpoint just now.
    fn publish_one(&self, staged: &Staged, again: bool) -> Result<()> {
        let place = &self.place;
        let (from, to) = (place.inside(&staged.from)?, place.inside(&staged.to)?);
        match (place.size(&from)?, place.size(&to)?) {
            (Some(size), None) if size == staged.bytes => self.rename(staged, &from, &to, again),
            (Some(size), None) => Err(self.differs(staged, &from, size)),
            // Looked at a second time: the other process may have renamed it after the first.
            (Some(_), Some(_)) if place.size(&from)?.is_some() => Err(place.taken(&to)),
            _ => self.check_published(staged, &from, &to, again),
        }
    }

    /// Renames a file that was there into view.
    fn rename(&self, staged: &Staged, from: &Path, to: &Path, again: bool) -> Result<()> {
        match fs::rename(from, to) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.place.size(from)?.is_none() => {
                self.check_published(staged, from, to, again)
            }
            done => done.map_err(|error| self.place.io_error(to, "publish it", &error)),
        }
    }

    /// Checks that a file that is no longer staged was published.
    fn check_published(&self, staged: &Staged, from: &Path, to: &Path, again: bool) -> Result<()> {
        match self.place.size(to)? {
            Some(size) if size == staged.bytes => Ok(()),
            Some(size) => Err(self.differs(staged, to, size)),
            None if again => {
                tracing::info!("sink `{}`: {} was published, and has been taken away since", self.place.uid, staged.to);
                Ok(())
            }
            None => {
                let what = format_args!("was staged by a committed checkpoint and is gone, nor is it published as {}", staged.to);
                Err(self.place.error(from, what).help("put either file back; or begin without state with --fresh"))
            }
        }
    }

    fn differs(&self, staged: &Staged, path: &Path, size: u64) -> Error {
        self.place
            .error(path, format_args!("has {size} bytes, and {} were staged", staged.bytes))
            .help("someone else wrote to it; put it back as it was, or move it away to begin anew with --fresh")
    }
}

impl Sink for FileSink {
    fn prepare(&self, attempt: AttemptId, has_committed: bool) -> Result<()> {
        let place = &self.place;
        durable::create_dirs(&place.staging).map_err(|error| place.io_error(&place.dir, "make the directory", &error))?;
        // Even if it was there: whoever made it may have crashed before this.
        place.sync_dir(&place.dir)?;
        if !has_committed {
            self.refuse_strangers(attempt.run)?;
        }
        self.leftovers(attempt)?.iter().try_for_each(|path| self.remove(path))
    }

    fn open(&self, attempt: AttemptId, subtask: u16) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Writer::new(self.place.clone(), attempt, subtask)))
    }

    fn publish(&self, staged: &[Staged], again: bool) -> Result<()> {
        for file in staged {
            self.publish_one(file, again)?;
        }
        if staged.is_empty() {
            return Ok(());
        }
        // Also when all were renamed before: that attempt may have crashed in between.
        self.place.sync_dir(&self.place.dir)?;
        // Someone may have tidied it away once all was published.
        if self.place.staging.is_dir() { self.place.sync_dir(&self.place.staging) } else { Ok(()) }
    }
}
