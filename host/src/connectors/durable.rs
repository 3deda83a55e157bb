//! Directories that survive a loss of power. A file's name is durable only once its directory has been written out too.

use std::fs::{self, File};
use std::io::{ErrorKind, Result};
use std::path::Path;

/// Makes the entries of a directory durable. Where the file system can't do that for directories, it does nothing.
pub(super) fn sync_dir(dir: &Path) -> Result<()> {
    if cfg!(not(unix)) {
        return Ok(()); // elsewhere directories can't be opened as files
    }
    match File::open(dir)?.sync_all() {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Makes a directory and those above it that are missing, durably.
pub(super) fn create_dirs(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_dirs(parent)?;
    }
    match fs::create_dir(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {} // made by someone else just now
        result => result?,
    }
    parent.map_or(Ok(()), sync_dir)
}
