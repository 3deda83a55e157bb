//! [`LocalDir`]: the directory in which one attempt of a job keeps state, for as long as it lasts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::clock;
use crate::state::ColdFault;

/// Held by whoever uses the directory.
const LOCK: &str = "lock";

/// A directory of one attempt. It is removed when this is dropped, or by the next attempt if the process is killed.
#[derive(Debug)]
pub struct LocalDir {
    path: PathBuf,
    _lock: File,
}

impl LocalDir {
    /// Makes a new directory in `dir`, which belongs to one job, and removes those of attempts that are no more.
    ///
    /// # Errors
    /// When it can't be made. What can't be removed is only told in the log.
    pub fn create(dir: &Path) -> Result<Self, ColdFault> {
        if let Err(error) = wipe(dir) {
            tracing::warn!("{}: local state of earlier attempts can't be removed: {error}", dir.display());
        }
        let path = dir.join(format!("{}-{:016x}", std::process::id(), clock::entropy()));
        let lock = fs::create_dir_all(&path).and_then(|()| locked(&path)).map_err(|error| fault(&path, &error))?;
        Ok(LocalDir { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!("{}: local state can't be removed: {error}", self.path.display());
        }
    }
}

/// Removes the directories of attempts that are no more: nobody holds their locks.
fn wipe(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        // What has no lock is none of ours, or is just being made.
        if path.join(LOCK).is_file()
            && let Ok(_lock) = locked(&path)
        {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

/// The lock of an attempt's directory, if nobody else holds it.
fn locked(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path.join(LOCK))?;
    file.try_lock()?;
    Ok(file)
}

/// Why something at a path can't be used.
pub(super) fn fault(path: &Path, cause: &impl std::fmt::Display) -> ColdFault {
    ColdFault(format!("state in {}: {cause}", path.display()))
}
