//! Deleting what is superseded. Which that is, `decide` says; here it is carried out.

use super::cause::cause;
use super::known::Known;
use super::{Store, key, local};
use crate::checkpoint::decide::{Live, Outline, Superseded, abandoned};
use crate::checkpoint::log::Log;
use crate::checkpoint::paths;
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;

impl Store {
    /// Deletes what is superseded in the run of the attempt that `live` is about, when its newest `retained` checkpoints are kept, and
    /// says what that was. The run is listed for it the first time that the attempt does so, and now and then.
    ///
    /// # Errors
    /// [`Kind::Storage`] if something can't be read or deleted. What was deleted until then was superseded; the rest is left for the
    /// next time.
    pub async fn collect(&self, live: &Live, retained: usize) -> Result<Superseded> {
        let run = live.attempt.run;
        let known = if self.known.is_of(live.attempt) { self.known.clone() } else { Known::of(live.attempt, &self.log(run).await?) };
        let lists = known.is_to_list();
        if lists {
            known.files(run, self.list(run).await.inspect_err(|_| known.list_again())?);
        }
        // A commit just made, or a newer attempt.
        for slot in self.slots_after(run, known.last_slot()).await? {
            if let Some(entry) = self.entry(run, slot).await? {
                known.entry(run, slot, entry.as_ref().ok());
            }
        }
        let found = known.superseded(live, retained);
        // Entries first, so that a manifest that is still there has its files.
        self.delete(run, &found.entries).await?;
        self.delete(run, &found.files).await?;
        known.deleted(&found);
        if let Some(copies) = &self.copies {
            copies.collect(run, &known.log(), live).await;
            if lists {
                copies.remove_leftovers(run, live.attempt.attempt).await;
            }
        }
        if lists && found.held.is_none() {
            local::remove_leftovers(&self.run_dir(run), live.attempt.attempt, found.kept).await;
        }
        Ok(found)
    }

    /// Deletes what attempts before `attempt` have written and no manifest of `log`, the log as it was when `attempt` claimed the run,
    /// names; and local copies and leftovers of that. So attempts that fail before they commit anything don't fill the disk.
    ///
    /// # Errors
    /// [`Kind::Storage`] if something can't be read or deleted. The rest is left for the next time.
    pub async fn collect_abandoned(&self, attempt: AttemptId, log: &Log) -> Result<()> {
        let (run, outline) = (attempt.run, Outline::of(log));
        let files = abandoned(&outline, self.list(run).await?.iter().map(String::as_str), attempt.attempt);
        self.delete(run, &files).await?;
        local::remove_leftovers(&self.run_dir(run), attempt.attempt, 0).await;
        if let Some(copies) = &self.copies {
            copies.collect_abandoned(attempt, &outline).await;
            copies.remove_leftovers(run, attempt.attempt).await;
        }
        Ok(())
    }

    /// The next collection lists the run again.
    pub fn list_again(&self) {
        self.known.list_again();
    }

    /// Deletes files of a run, in no order. Those that are gone already are no error.
    ///
    /// # Errors
    /// [`Kind::Storage`] if one can't be deleted. Others may have been.
    pub async fn delete(&self, run: u32, files: &[String]) -> Result<()> {
        let keys = files.iter().map(|path| key(&paths::run_dir(run), path)).collect::<Result<Vec<_>>>()?;
        self.objects.delete_all(&keys).await.map_err(|error| {
            let message = format!("superseded files in {} can't be deleted: {}", self.run_dir(run), cause(&error));
            Error::new(Kind::Storage, message)
        })
    }
}
