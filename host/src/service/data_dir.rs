//! [`DataDir`]: where a host keeps what must outlive it, for itself alone.
//!
//! ```text
//! <data>/lock                           locked while a host runs
//! <data>/components/<digest>.wasm       a component, by the BLAKE3 of its file
//! <data>/components/<digest>.json       its name and version
//! <data>/jobs/<name>/job.json           a job as it was deployed, and what is wanted of it
//! <data>/jobs/<name>/events, log        what has happened to it, and what was logged about it; in events.1, log.1 what was before
//! ```

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::durable;
use crate::error::{Error, Kind, Result};

/// The data directory of a running host.
#[derive(Debug)]
pub(super) struct DataDir {
    root: PathBuf,
    /// Released when the process ends, however it ends.
    _lock: File,
}

impl DataDir {
    /// Opens the directory, which is made if it is missing, for this user only. In one that was there already only what is of jobs is:
    /// their files may hold secrets.
    ///
    /// # Errors
    /// Kind `Storage`: another host runs there, or it can't be written.
    pub(super) fn open(root: &Path) -> Result<Self> {
        let unusable = |error: &io::Error| unusable(root, error);
        let root = std::path::absolute(root).map_err(|error| unusable(&error))?;
        let is_new = !root.exists();
        ["components", "jobs"].iter().try_for_each(|dir| durable::create_dirs(&root.join(dir))).map_err(|error| unusable(&error))?;
        let secret = [root.join("jobs")].into_iter().chain(is_new.then(|| root.clone()));
        secret.into_iter().try_for_each(|dir| protect(&dir)).map_err(|error| unusable(&error))?;
        let lock = File::create(root.join("lock")).map_err(|error| unusable(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDir { root, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let message = format!("the data directory {} is in use by another host", root.display());
                Err(Error::new(Kind::Storage, message).help("stop that host first, or choose another directory with `--data-dir`"))
            }
            Err(TryLockError::Error(error)) => Err(unusable(&error)),
        }
    }

    pub(super) fn components(&self) -> PathBuf {
        self.root.join("components")
    }

    /// For compiled components, where a user has no place for such things.
    pub(super) fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    pub(super) fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }
}

/// The names of all that lies in a directory, in order.
pub(super) fn names(dir: &Path) -> Result<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut names = read().map_err(|error| unusable(dir, &error))?;
    names.sort_unstable();
    Ok(names)
}

/// Why something in the data directory can't be used.
pub(super) fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::new(Kind::Storage, format!("{} can't be used: {error}", path.display()))
        .help("the place is set by `serve --data-dir`; make it readable and writable, with room on its disk")
}

fn protect(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_of_jobs_is_for_this_user_only_wherever_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &str| std::fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777;
        drop(DataDir::open(&dir.path().join("new")).unwrap());
        assert_eq!((mode("new"), mode("new/jobs")), (0o700, 0o700));
        std::fs::create_dir_all(dir.path().join("old/jobs")).unwrap();
        for path in ["old", "old/jobs"] {
            std::fs::set_permissions(dir.path().join(path), PermissionsExt::from_mode(0o755)).unwrap();
        }
        drop(DataDir::open(&dir.path().join("old")).unwrap());
        assert_eq!((mode("old"), mode("old/jobs")), (0o755, 0o700), "what else lies there is not the host's");
    }
}
