//! The note of how far a run's output is published: `publishing 41 by 3` before attempt 3 makes the first file of checkpoint 41 visible,
//! `published 41 by 3` after the last. Readers may take files away as soon as they see them; without the note, a restore could not tell files
//! that were published and taken from files that were lost.
//!
//! An attempt that was overtaken right before it wrote the note may write it when newer ones have written theirs. So each attempt puts its
//! number there before it commits anything, and a note of an older one than has committed is known to say too little.

use std::cmp::Ordering;

use bytes::Bytes;

use super::{Store, key, unwritable};
use crate::checkpoint::paths;
use crate::error::Result;
use crate::record::AttemptId;

/// How far the publication of a checkpoint's output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// It has not begun, as far as is known: everything is still staged.
    NotBegun,
    /// It has begun, or may have: what is no longer staged was made visible.
    Begun,
    /// All of it was made visible.
    Done,
}

impl Store {
    /// How far the publication of a run's checkpoint `checkpoint` is, which `attempt` has committed.
    ///
    /// # Errors
    /// [`Kind::Storage`](crate::error::Kind::Storage) if the note can't be read.
    pub async fn publication(&self, attempt: AttemptId, checkpoint: u64) -> Result<Publication> {
        let note = self.get(attempt.run, paths::PUBLISHED).await?;
        Ok(note.and_then(|note| read(&note, attempt.attempt, checkpoint)).unwrap_or(Publication::NotBegun))
    }

    /// Whether output of checkpoints of a run after `checkpoint` may be published, when its newest attempt is `newest`. A note that can't be
    /// understood does not say that none is.
    ///
    /// # Errors
    /// [`Kind::Storage`](crate::error::Kind::Storage) if the note can't be read.
    pub async fn is_published_beyond(&self, newest: AttemptId, checkpoint: u64) -> Result<bool> {
        let note = self.get(newest.run, paths::PUBLISHED).await?;
        let beyond = |note: Note<'_>| note.checkpoint > checkpoint || note.is_older_than(newest.attempt);
        Ok(note.is_some_and(|note| parse(&note).is_none_or(beyond)))
    }

    /// Notes that `by` publishes from now on what checkpoints up to `checkpoint` name. Everything before it is published.
    ///
    /// # Errors
    /// [`Kind::Storage`](crate::error::Kind::Storage) if it can't be written.
    pub async fn mark_publishing(&self, by: AttemptId, checkpoint: u64) -> Result<()> {
        self.mark("publishing", by, checkpoint).await
    }

    /// Notes that everything that checkpoints up to `checkpoint` name is published, as `by` knows.
    ///
    /// # Errors
    /// [`Kind::Storage`](crate::error::Kind::Storage) if it can't be written.
    pub async fn mark_published(&self, by: AttemptId, checkpoint: u64) -> Result<()> {
        self.mark("published", by, checkpoint).await
    }

    /// Has a note of older attempts be one of `by`, which has made sure that all up to `checkpoint` is published.
    ///
    /// # Errors
    /// [`Kind::Storage`](crate::error::Kind::Storage) if it can't be read or written.
    pub async fn take_over_note(&self, by: AttemptId, checkpoint: u64) -> Result<()> {
        let note = self.get(by.run, paths::PUBLISHED).await?;
        match note.as_ref().and_then(|note| parse(note)) {
            Some(note) => self.mark_published(by, checkpoint.max(note.checkpoint)).await,
            None => Ok(()),
        }
    }

    async fn mark(&self, word: &str, by: AttemptId, checkpoint: u64) -> Result<()> {
        let note = Bytes::from(format!("{word} {checkpoint} by {}\n", by.attempt));
        let put = self.objects.put(&key(&paths::run_dir(by.run), paths::PUBLISHED)?, note).await;
        put.map_err(|error| unwritable(&self.run_dir(by.run).join(paths::PUBLISHED), &error))
    }
}

/// What a note says.
#[derive(Clone, Copy)]
struct Note<'a> {
    word: &'a str,
    checkpoint: u64,
    /// Who has written it; none: that was not noted at the time.
    by: Option<u32>,
}

impl Note<'_> {
    /// Whether it was written by an attempt before `attempt`.
    fn is_older_than(&self, attempt: u32) -> bool {
        self.by.is_some_and(|by| by < attempt)
    }
}

/// What the note says about a checkpoint that `attempt` has committed. One that can't be understood is no knowledge: publishing again is
/// idempotent.
fn read(note: &[u8], attempt: u32, checkpoint: u64) -> Option<Publication> {
    let note = parse(note)?;
    match (note.word, checkpoint.cmp(&note.checkpoint)) {
        ("publishing" | "published", Ordering::Less) | ("published", Ordering::Equal) => Some(Publication::Done),
        ("publishing", Ordering::Equal) => Some(Publication::Begun),
        ("publishing" | "published", Ordering::Greater) if note.is_older_than(attempt) => Some(Publication::Begun),
        _ => None,
    }
}

/// The note's words.
fn parse(note: &[u8]) -> Option<Note<'_>> {
    let mut words = std::str::from_utf8(note).ok()?.split_ascii_whitespace();
    let (word, checkpoint) = (words.next()?, words.next()?.parse().ok()?);
    let by = match (words.next(), words.next()) {
        (None, _) => None,
        (Some("by"), Some(by)) => Some(by.parse().ok()?),
        _ => return None,
    };
    Some(Note { word, checkpoint, by })
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
            ("published 5 by 2\n", 6, None),
            ("published 5 by 3\n", 6, None),
            ("publishing 5 by 2\n", 5, Some(Publication::Begun)),
            ("published 5 by 1\n", 5, Some(Publication::Done)),
            // Attempt 2 has put its number there before it committed 6, so an older one has come late.
            ("published 5 by 1\n", 6, Some(Publication::Begun)),
            ("published 5 by\n", 5, None),
        ] {
            assert_eq!(read(note.as_bytes(), 2, checkpoint), known, "{note:?} about {checkpoint}");
        }
    }
}
