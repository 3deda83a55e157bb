//! The note of checkpoints that have failed, beside a run's log: for people, and for the next attempt, whose manifests remember them. Nothing
//! depends on it.

use bytes::Bytes;

use super::{Store, key, unwritable};
use crate::checkpoint::manifest::FailedCheckpoints;
use crate::checkpoint::paths;
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;

impl Store {
    /// What the note of a run says, or why it can't be understood; none if there is no note.
    ///
    /// # Errors
    /// [`Kind::Storage`] if it can't be read.
    pub async fn failed(&self, run: u32) -> Result<Option<Result<FailedCheckpoints, String>>> {
        let note = self.get(run, paths::FAILED).await?;
        Ok(note.map(|note| serde_json::from_slice(&note).map_err(|error| error.to_string())))
    }

    /// Replaces the note of an attempt's run, unless a newer attempt has taken over.
    ///
    /// # Errors
    /// [`Kind::Storage`] if it can't be written, or it can't be found out whose the run is.
    pub async fn note_failed(&self, attempt: AttemptId, failed: &FailedCheckpoints) -> Result<()> {
        if self.overtaken(attempt).await?.is_some() {
            return Ok(());
        }
        let note = serde_json::to_vec_pretty(failed).map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        let put = self.objects.put(&key(&paths::run_dir(attempt.run), paths::FAILED)?, Bytes::from(note)).await;
        put.map_err(|error| unwritable(&self.run_dir(attempt.run).join(paths::FAILED), &error))
    }
}
