//! Finding a checkpoint by what a user says about it, and looking into single files.

use std::path::Path;

use bytes::Bytes;

use super::Store;
use crate::checkpoint::decide::{RestorePoint, by_number, point_at};
use crate::checkpoint::inspect::{Description, describe};
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::LogEntry;
use crate::checkpoint::paths::{self, RunPath};
use crate::error::{Error, Kind, Result};

impl Store {
    /// The checkpoint that `wanted` names: by its number, in the newest run, or by the path of its manifest, in whatever run of whatever
    /// directory.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if there is no such checkpoint, or its manifest is broken; [`Kind::Storage`] if it can't be read.
    pub async fn load(&self, wanted: &str) -> Result<RestorePoint> {
        let Ok(number) = wanted.parse() else { return self.load_path(Path::new(wanted)).await };
        match self.runs().await?.last() {
            Some(&run) => by_number(&self.log(run).await?, number),
            None => Err(Error::new(Kind::Checkpoint, format!("job `{}` has no checkpoints in {}", self.job, self.dir.display()))),
        }
    }

    async fn load_path(&self, path: &Path) -> Result<RestorePoint> {
        // Also makes sure that the file can be read at all, and says it in the words of whoever asked.
        read(path).await?;
        let (log, slot) = self.log_around(path).await?;
        if let Some(point) = point_at(&log, slot) {
            return Ok(point);
        }
        let reason = match log.entries.get(&slot) {
            Some(Ok(LogEntry::Claim(_))) => "this is a claim, with which an attempt begins, and no manifest of a checkpoint",
            Some(Err(reason)) => reason,
            _ => "it has just gone",
        };
        Err(Error::new(Kind::Checkpoint, format!("{}: {reason}", path.display())))
    }

    /// The log in which the entry at `path` lies, and the entry's slot.
    async fn log_around(&self, path: &Path) -> Result<(Log, u64)> {
        let whole = path.canonicalize().map_err(|error| unreadable(path, &error))?;
        let slot = whole.file_name().and_then(|name| name.to_str()).map(|name| paths::classify(&format!("log/{name}")));
        let log_dir = whole.parent().filter(|dir| dir.file_name().is_some_and(|name| name == "log"));
        let (Some(RunPath::Entry(slot)), Some(run_dir)) = (slot, log_dir.and_then(Path::parent)) else {
            let message = format!("{} is not in the log of a run", path.display());
            let help = "give the path of a manifest as it lies in a run's `log` directory, or the number of a checkpoint";
            return Err(Error::new(Kind::Checkpoint, message).help(help));
        };
        let (objects, prefix) = self.objects_of(run_dir)?;
        let run = run_dir.file_name().and_then(|name| name.to_str()).and_then(paths::parse_run_dir).unwrap_or(0);
        // One of the store's own runs is told by the same path as everywhere, whatever links lead to it.
        let dir = if prefix.is_empty() { run_dir.to_path_buf() } else { self.run_dir(run) };
        Ok((self.log_from(objects.as_ref(), &prefix, &dir, run).await?, slot))
    }
}

/// What the file at `path` is: a claim, a manifest or a state file.
///
/// # Errors
/// [`Kind::Storage`] if it can't be read; [`Kind::Checkpoint`] if it is none of ours, damaged, truncated, or from the future.
pub async fn inspect(path: &Path) -> Result<Description> {
    let bytes = read(path).await?;
    let shown = path.display().to_string();
    let described = tokio::task::spawn_blocking(move || describe(&shown, bytes)).await;
    described.map_err(|error| Error::new(Kind::Internal, format!("looking into {} has ended: {error}", path.display())))?
}

async fn read(path: &Path) -> Result<Bytes> {
    let facts = tokio::fs::metadata(path).await.map_err(|error| unreadable(path, &error))?;
    if !facts.is_file() {
        return Err(Error::new(Kind::Checkpoint, format!("{} is no file", path.display())).help("give the path of a single file"));
    }
    tokio::fs::read(path).await.map(Bytes::from).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::new(Kind::Storage, format!("{} can't be read: {error}", path.display()))
}
