//! Checkpoints in the local file system: what of it object_store does not do.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use object_store::local::LocalFileSystem;

use super::objects::Objects;
use super::sweep;
use crate::durable;
use crate::error::{Error, Kind, Result};
use crate::plan::Location;

/// The same place by the path that does not depend on where the process runs, nor on links. One that can't be looked up is told as it is.
pub fn canonical(location: &Location) -> Location {
    match location {
        Location::Path(path) => path.canonicalize().map_or_else(|_| location.clone(), Location::from),
        Location::Object(_) | Location::Memory(_) => location.clone(),
    }
}

/// A disk always answers. But a file may go just when it has kept another one from being put in its place.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Files below `dir`, written durably.
pub(super) fn objects(dir: &Path) -> object_store::Result<Objects> {
    // Empty directories go with their last file, so that collected checkpoints leave none behind.
    let files = LocalFileSystem::new_with_prefix(dir)?.with_fsync(true).with_automatic_cleanup(true);
    Ok(Objects::durable(files, dir, PATIENCE))
}

/// Creates a directory with all above it, durably. In a bucket there are none.
pub(super) async fn create(dir: &Location) -> std::result::Result<(), String> {
    let Location::Path(dir) = dir.clone() else { return Ok(()) };
    let created = tokio::task::spawn_blocking(move || durable::create_dirs(&dir)).await;
    created.map_err(|panic| panic.to_string())?.map_err(|error| error.to_string())
}

/// The content of a single file.
pub(super) async fn read(path: &Path) -> Result<Bytes> {
    let unreadable = |error: std::io::Error| Error::new(Kind::Storage, format!("{} can't be read: {error}", path.display()));
    if !tokio::fs::metadata(path).await.map_err(unreadable)?.is_file() {
        return Err(Error::new(Kind::Checkpoint, format!("{} is no file", path.display())).help("give the path of a single file"));
    }
    tokio::fs::read(path).await.map(Bytes::from).map_err(unreadable)
}

/// Removes what interrupted writes have left in a run, as [`sweep::remove_leftovers`] says. In a bucket nothing is seen of them.
pub(super) async fn remove_leftovers(run_dir: &Location, attempt: u32, slot: u64) {
    let Location::Path(dir) = run_dir.clone() else { return };
    // Whether it succeeds is of no importance: what it removes is invisible to everything else.
    let _ = tokio::task::spawn_blocking(move || sweep::remove_leftovers(&dir, attempt, slot)).await;
}

/// Removes what a write that failed has left of a file. In a bucket nothing is seen of it.
pub(super) async fn remove_attempted(file: &Location) {
    let Location::Path(file) = file.clone() else { return };
    let _ = tokio::task::spawn_blocking(move || sweep::remove_attempted(&file)).await;
}

/// Removes what interrupted writes have left of a savepoint, of whose files none is left. In a bucket nothing is seen of them.
pub(super) async fn remove_savepoint_leftovers(dir: &Location) {
    let Location::Path(dir) = dir.clone() else { return };
    let _ = tokio::task::spawn_blocking(move || sweep::remove_savepoint_leftovers(&dir)).await;
}
