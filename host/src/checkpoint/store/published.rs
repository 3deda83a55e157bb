//! The note of how far a run's output is published. Readers may take published files away; without the note, a restore could not tell
//! files that were published and taken from files that were lost.

use bytes::Bytes;
use object_store::ObjectStoreExt;

use super::{Store, location, root_cause};
use crate::checkpoint::paths;
use crate::error::{Error, Kind, Result};

impl Store {
    /// The number of the newest checkpoint of a run whose output is known to be published; none if that is not known.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the note can't be read.
    pub async fn published(&self, run: u32) -> Result<Option<u64>> {
        let note = self.get(run, paths::PUBLISHED).await?;
        // One that can't be understood is no knowledge: publishing again is idempotent.
        Ok(note.and_then(|note| std::str::from_utf8(&note).ok()?.trim().parse().ok()))
    }

    /// Notes that everything that checkpoints of a run up to `checkpoint` name is published.
    ///
    /// # Errors
    /// [`Kind::Storage`] if it can't be written.
    pub async fn mark_published(&self, run: u32, checkpoint: u64) -> Result<()> {
        let note = Bytes::from(format!("{checkpoint}\n"));
        let put = self.objects.put(&location(&paths::run_dir(run), paths::PUBLISHED)?, note.into()).await;
        put.map(drop).map_err(|error| {
            let path = self.run_dir(run).join(paths::PUBLISHED);
            Error::new(Kind::Storage, format!("{} can't be written: {}", path.display(), root_cause(&error)))
        })
    }
}
