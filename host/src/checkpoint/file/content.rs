//! [`Content`]: what a state file is read from: memory, a local disk, or whatever else gives bytes by their place.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

/// The content of a state file, which nobody changes. Reading may wait, so it belongs on a thread that may.
pub trait Content: fmt::Debug + Send + Sync {
    /// How many bytes there are.
    fn bytes(&self) -> u64;

    /// Some bytes from `at` on: `len` of them, or as many as there are.
    ///
    /// # Errors
    /// When it can't be read.
    fn read(&self, at: u64, len: u64) -> io::Result<Bytes>;

    /// The same for one more reader, who reads somewhere else in it, if the two would be in each other's way.
    fn beside(&self) -> Option<Arc<dyn Content>> {
        None
    }
}

impl Content for Bytes {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, at: u64, len: u64) -> io::Result<Bytes> {
        let (at, end) = within(self, at, len);
        // Not above the length, which fits.
        Ok(self.slice(at as usize..end as usize))
    }
}

/// A file on a local disk.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    bytes: u64,
}

impl LocalFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(LocalFile { file, bytes })
    }
}

impl Content for LocalFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, at: u64, len: u64) -> io::Result<Bytes> {
        let (at, end) = within(self, at, len);
        let mut read = vec![0; (end - at) as usize];
        self.file.read_exact_at(&mut read, at)?;
        Ok(read.into())
    }
}

/// Where the `len` bytes from `at` on begin and end, as far as there are any.
pub fn within(content: &dyn Content, at: u64, len: u64) -> (u64, u64) {
    let end = at.saturating_add(len).min(content.bytes());
    (at.min(end), end)
}

impl<C: Content + ?Sized> Content for Arc<C> {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn read(&self, at: u64, len: u64) -> io::Result<Bytes> {
        (**self).read(at, len)
    }

    fn beside(&self) -> Option<Arc<dyn Content>> {
        (**self).beside()
    }
}
