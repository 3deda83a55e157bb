//! [`Content`]: where a state file's content is: in memory, or on a local disk, from which it is read piece by piece.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

/// The content of a state file, which nobody changes.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory.
    Bytes(Bytes),
    /// On a local disk, with so many bytes.
    File(Arc<File>, u64),
}

impl Content {
    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_, len) => *len,
        }
    }

    /// Some bytes from `at` on: `len` of them, or as many as there are.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn read(&self, at: u64, len: u64) -> io::Result<Cow<'_, [u8]>> {
        let end = at.saturating_add(len).min(self.bytes());
        let at = at.min(end);
        match self {
            // Below their length, which fits.
            Content::Bytes(bytes) => Ok(Cow::Borrowed(&bytes[at as usize..end as usize])),
            Content::File(file, _) => {
                let mut read = vec![0; (end - at) as usize];
                file.read_exact_at(&mut read, at)?;
                Ok(Cow::Owned(read))
            }
        }
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Content::Bytes(bytes)
    }
}
