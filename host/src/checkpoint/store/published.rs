//! The note of how far a run's output is published: `publishing 41` before the first file of checkpoint 41 is made visible, `published 41`
//! after the last. Readers may take files away as soon as they see them; without the note, a restore could not tell files that were
//! published and taken from files that were lost.

use std::cmp::Ordering;

use bytes::Bytes;

use super::{Store, key, unwritable};
use crate::checkpoint::paths;
use crate::error::Result;

/// How far the publication of a checkpoint's output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// It has not begun, as far as is known: everything is still staged.
    NotBegun,
    /// It has begun: what is no longer staged was made visible.
    Begun,
    /// All of it was made visible.
    Done,
}

impl Store {
    /// How far the publication of checkpoint `checkpoint` of a run is.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the note can't be read.
    pub async fn publication(&self, run: u32, checkpoint: u64) -> Result<Publication> {
        let note = self.get(run, paths::PUBLISHED).await?;
        Ok(note.and_then(|note| read(&note, checkpoint)).unwrap_or(Publication::NotBegun))
    }

    /// Whether output of checkpoints of a run after `checkpoint` may be published. A note that can't be understood does not say that none is.
    ///
    /// # Errors
    /// [`Kind::Storage`](crate::error::Kind::Storage) if the note can't be read.
    pub async fn is_published_beyond(&self, run: u32, checkpoint: u64) -> Result<bool> {
        let note = self.get(run, paths::PUBLISHED).await?;
        Ok(note.is_some_and(|note| parse(&note).is_none_or(|(_, number)| number > checkpoint)))
    }

    /// Notes that what checkpoints of a run up to `checkpoint` name is published from now on. Everything before it is.
    ///
    /// # Errors
    /// [`Kind::Storage`] if it can't be written.
    pub async fn mark_publishing(&self, run: u32, checkpoint: u64) -> Result<()> {
        self.mark(run, format!("publishing {checkpoint}\n")).await
    }

    /// Notes that everything that checkpoints of a run up to `checkpoint` name is published.
    ///
    /// # Errors
    /// [`Kind::Storage`] if it can't be written.
    pub async fn mark_published(&self, run: u32, checkpoint: u64) -> Result<()> {
        self.mark(run, format!("published {checkpoint}\n")).await
    }

    async fn mark(&self, run: u32, note: String) -> Result<()> {
        let put = self.objects.put(&key(&paths::run_dir(run), paths::PUBLISHED)?, Bytes::from(note)).await;
        put.map_err(|error| unwritable(&self.run_dir(run).join(paths::PUBLISHED), &error))
    }
}

/// What the note says about a checkpoint. One that can't be understood is no knowledge: publishing again is idempotent.
fn read(note: &[u8], checkpoint: u64) -> Option<Publication> {
    let (word, number) = parse(note)?;
    match (word, checkpoint.cmp(&number)) {
        ("publishing" | "published", Ordering::Less) | ("published", Ordering::Equal) => Some(Publication::Done),
        ("publishing", Ordering::Equal) => Some(Publication::Begun),
        _ => None,
    }
}

/// The note's word and number.
fn parse(note: &[u8]) -> Option<(&str, u64)> {
    let (word, number) = std::str::from_utf8(note).ok()?.trim_end().split_once(' ')?;
    Some((word, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_is_known_and_no_more() {
        for (note, checkpoint, known) in [
            ("publishing 5\n", 4, Some(Publication::Done)),
            ("publishing 5\n", 5, Some(Publication::Begun)),
            ("publishing 5\n", 6, None),
            ("published 5\n", 4, Some(Publication::Done)),
            ("published 5\n", 5, Some(Publication::Done)),
            ("published 5\n", 6, None),
            ("", 1, None),
            ("published\n", 1, None),
            ("published x\n", 1, None),
            ("lost 5\n", 5, None),
        ] {
            assert_eq!(read(note.as_bytes(), checkpoint), known, "{note:?} about {checkpoint}");
        }
    }
}
