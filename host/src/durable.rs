//! Files and directories that survive a loss of power. A file's name is durable only once its directory has been written out too.

use std::fs::{self, File};
use std::io::{ErrorKind, Result, Write};
use std::path::Path;

/// Makes the entries of a directory durable. Where the file system can't do that for directories, it does nothing.
///
/// # Errors
/// If the directory can't be opened or written out.
pub fn sync_dir(dir: &Path) -> Result<()> {
    if cfg!(not(unix)) {
        return Ok(()); // elsewhere directories can't be opened as files
    }
    match File::open(dir)?.sync_all() {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Makes a directory and those above it that are missing, durably. Of what is there already the last may have been made by a call that failed
/// before its name was durable.
///
/// # Errors
/// If one of them can't be made or written out.
pub fn create_dirs(dir: &Path) -> Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if dir.is_dir() {
        return match parent.map_or(Ok(()), sync_dir) {
            // Somebody else has made it, who may do more there.
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => Ok(()),
            result => result,
        };
    }
    if let Some(parent) = parent {
        create_dirs(parent)?;
    }
    match fs::create_dir(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {} // made by someone else just now
        result => result?,
    }
    parent.map_or(Ok(()), sync_dir)
}

/// Puts a file with this content in the place of what is there, if anything is. Whoever reads it, be it after a crash at any point of this,
/// finds the old content or the new one, whole. There must be only one who replaces the file at a time.
///
/// # Errors
/// If it can't be written: then it is unknown which of the two is there.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = File::create(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).map_or(Ok(()), sync_dir)
}
