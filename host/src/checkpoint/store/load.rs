//! Finding a checkpoint by what a user says about it, and looking into single files.

use bytes::Bytes;

use super::local::{self, canonical};
use super::open::{hasty, objects_at};
use super::{SavepointDir, Store, get_from, key, unreadable};
use crate::checkpoint::decide::{RestorePoint, by_number, point_at};
use crate::checkpoint::inspect::{Description, describe};
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::LogEntry;
use crate::checkpoint::paths::{self, RunPath};
use crate::error::{Error, Kind, Result};
use crate::plan::{Access, Location};
use crate::threads::blocking;

impl Store {
    /// The checkpoint that `wanted` names: by its number, in the newest run, or by the path of its manifest, in whatever run of whatever
    /// directory; or the savepoint, by its directory or its manifest.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if there is no such checkpoint, or its manifest is broken; [`Kind::Storage`] if it can't be read.
    pub async fn load(&self, wanted: &str) -> Result<RestorePoint> {
        let Ok(number) = wanted.parse() else {
            let location = wanted.parse::<Location>().map_err(|reason| Error::new(Kind::Checkpoint, format!("`{wanted}`: {reason}")))?;
            return self.load_from(&location).await;
        };
        match self.newest_log().await? {
            Some(log) => by_number(&log, number),
            None => Err(Error::new(Kind::Checkpoint, format!("job `{}` has no checkpoints in {}", self.job, self.dir))),
        }
    }

    async fn load_from(&self, path: &Location) -> Result<RestorePoint> {
        if let Some(savepoint) = self.load_savepoint(path).await? {
            return Ok(savepoint);
        }
        // Also makes sure that the file can be read at all, and says it in the words of whoever asked.
        read(path, &self.access_to(path)).await?;
        let (log, slot) = self.log_around(path).await?;
        if let Some(point) = point_at(&log, slot) {
            return Ok(point);
        }
        let reason = match log.entries.get(&slot) {
            Some(Ok(LogEntry::Claim(_))) => "this is a claim, with which an attempt begins, and no manifest of a checkpoint",
            Some(Err(reason)) => reason,
            _ => "it has just gone",
        };
        Err(Error::new(Kind::Checkpoint, format!("{path}: {reason}")))
    }

    /// The log in which the entry at `path` lies, and the entry's slot.
    async fn log_around(&self, path: &Location) -> Result<(Log, u64)> {
        let whole = canonical(path);
        let slot = whole.name().map(|name| paths::classify(&format!("log/{name}")));
        let log_dir = whole.parent().filter(|dir| dir.name() == Some("log"));
        let (Some(RunPath::Entry(slot)), Some(run_dir)) = (slot, log_dir.and_then(|dir| dir.parent())) else {
            let message = format!("{path} is not in the log of a run");
            let help =
                "give the path of a manifest as it lies in a run's `log` directory, the number of a checkpoint, or a savepoint's directory";
            return Err(Error::new(Kind::Checkpoint, message).help(help));
        };
        let (objects, prefix) = self.objects_of(&run_dir)?;
        let run = run_dir.name().and_then(paths::parse_run_dir).unwrap_or(0);
        // One of the store's own runs is told by the same path as everywhere, whatever links lead to it.
        let dir = if prefix.is_empty() { run_dir } else { self.run_dir(run) };
        Ok((self.log_from(&objects, &prefix, &dir, run).await?, slot))
    }
}

/// What lies at `path`: a claim, a manifest, a state file, or a savepoint. A bucket is reached as the environment says.
///
/// # Errors
/// [`Kind::Storage`] if it can't be read; [`Kind::Checkpoint`] if it is none of ours, damaged, truncated, or from the future.
pub async fn inspect(path: &Location) -> Result<Description> {
    if let Some(savepoint) = SavepointDir::find(path, &Access::default()).await? {
        return Ok(Description::Savepoint(Box::new(savepoint.describe().await?)));
    }
    let bytes = read(path, &Access::default()).await?;
    let shown = path.to_string();
    blocking("looking into a file", move || describe(&shown, bytes)).await
}

async fn read(location: &Location, access: &Access) -> Result<Bytes> {
    if let Location::Path(path) = location {
        return local::read(path).await;
    }
    let (Some(dir), Some(name)) = (location.parent(), location.name()) else {
        return Err(Error::new(Kind::Checkpoint, format!("{location} is no file")).help("give the URL of a single file"));
    };
    let objects = objects_at(&dir, &hasty(access)).map_err(|error| unreadable(location, &error))?;
    let found = get_from(&objects, &key("", name)?, location).await?;
    found.ok_or_else(|| Error::new(Kind::Storage, format!("{location} can't be read: it is not there")))
}
