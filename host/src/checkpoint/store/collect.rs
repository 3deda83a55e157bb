//! Deleting what is superseded. Which that is, `decide` says; here it is carried out.

use super::cause::cause;
use super::{Store, key, local};
use crate::checkpoint::decide::{Live, Superseded, superseded};
use crate::checkpoint::paths;
use crate::error::{Error, Kind, Result};

impl Store {
    /// Deletes what is superseded in the run of the attempt that `live` is about, when its newest `retained` checkpoints are kept, and
    /// says what that was.
    ///
    /// # Errors
    /// [`Kind::Storage`] if something can't be read or deleted. What was deleted until then was superseded; the rest is left for the
    /// next time.
    pub async fn collect(&self, live: &Live, retained: usize) -> Result<Superseded> {
        let run = live.attempt.run;
        let log = self.log(run).await?;
        let listed = self.list(run).await?;
        let found = superseded(&log, &listed, live, retained);
        // Entries first, so that a manifest that is still there has its files.
        self.delete(run, &found.entries).await?;
        self.delete(run, &found.files).await?;
        if let Some(copies) = &self.copies {
            copies.collect(&log, live).await;
        }
        // The superseded entries are the lowest.
        let kept = log.entries.keys().nth(found.entries.len()).copied();
        if found.held.is_none() {
            local::remove_leftovers(&self.run_dir(run), live.attempt.attempt, kept.unwrap_or(0)).await;
        }
        Ok(found)
    }

    /// Deletes files of a run, in order. One that is gone already is no error.
    ///
    /// # Errors
    /// [`Kind::Storage`], naming the first that can't be deleted.
    pub async fn delete(&self, run: u32, files: &[String]) -> Result<()> {
        for path in files {
            if let Err(error) = self.objects.delete(&key(&paths::run_dir(run), path)?).await {
                let path = self.run_dir(run).join(path);
                return Err(Error::new(Kind::Storage, format!("{path} can't be deleted: {}", cause(&error))));
            }
        }
        Ok(())
    }
}
