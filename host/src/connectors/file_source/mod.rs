//! The source `file`: each line of a file, or of each file in a directory, is a record.
//!
//! A split is a file, named by its file name, so that a directory may be moved. A line ends with "\n" or "\r\n", which are not part of
//! the record; the last one may lack its end. A position's `offset` is the byte at which the next line begins.

mod reader;
#[cfg(test)]
mod tests;

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use self::reader::{Ended, Reader};
use super::{Source, SplitReader};
use crate::error::{Error, Kind, Result};
use crate::record::Position;

/// The source.
pub(super) struct FileSource {
    uid: String,
    path: PathBuf,
    skip_lines: u64,
}

impl FileSource {
    pub(super) fn new(uid: &str, path: &Path, skip_lines: u64) -> Self {
        FileSource { uid: uid.into(), path: path.into(), skip_lines }
    }

    /// An error about `path`, or another file of this source.
    fn error(&self, kind: Kind, path: &Path, what: impl std::fmt::Display) -> Error {
        Error::new(kind, format!("source `{}`: {}: {what}", self.uid, path.display()))
    }

    fn metadata(&self) -> Result<Metadata> {
        fs::metadata(&self.path).map_err(|error| self.unreadable(&self.path, &error))
    }

    fn unreadable(&self, path: &Path, error: &io::Error) -> Error {
        self.error(Kind::Config, path, format_args!("can't be read: {error}")).help("check the source's `path`")
    }

    /// The regular files in the directory that are not hidden. Links count as what they lead to.
    fn files(&self) -> Result<Vec<String>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|error| self.unreadable(&self.path, &error))? {
            let entry = entry.map_err(|error| self.unreadable(&self.path, &error))?;
            let (path, name) = (entry.path(), entry.file_name());
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if !fs::metadata(&path).map_err(|error| self.unreadable(&path, &error))?.is_file() {
                continue;
            }
            files.push(self.name(&path)?);
        }
        files.sort_unstable();
        Ok(files)
    }

    fn name(&self, path: &Path) -> Result<String> {
        path.file_name()
            .and_then(|name| name.to_str())
            .map(String::from)
            .ok_or_else(|| self.error(Kind::Config, path, "its name is not UTF-8").help("rename the file: its name goes into checkpoints"))
    }

    /// The file of a split, as far as its name tells.
    fn file_of(&self, split: &str) -> Result<PathBuf> {
        let is_name = Path::new(split).file_name().is_some_and(|name| name == split);
        if !is_name {
            return Err(self.error(Kind::Checkpoint, &self.path, format_args!("`{split}` can't be one of its files")));
        }
        if self.metadata()?.is_dir() {
            return Ok(self.path.join(split));
        }
        if self.name(&self.path)? == split {
            return Ok(self.path.clone());
        }
        Err(self
            .error(Kind::Checkpoint, &self.path, format_args!("is not the file `{split}` that the checkpoint was reading"))
            .help("set the source's `path` as it was, or begin without state with --fresh"))
    }
}

impl Source for FileSource {
    fn splits(&self) -> Result<Vec<String>> {
        let metadata = self.metadata()?;
        if metadata.is_dir() {
            let files = self.files()?;
            if files.is_empty() {
                return Err(self
                    .error(Kind::Config, &self.path, "has no files")
                    .help("files in subdirectories and hidden ones are not read; check the source's `path`"));
            }
            return Ok(files);
        }
        if !metadata.is_file() {
            return Err(self
                .error(Kind::Config, &self.path, "is no regular file")
                .help("a source must be able to read it again after a failure: give it a file or a directory"));
        }
        Ok(vec![self.name(&self.path)?])
    }

    /// One file after the other: each ends, and one at a time needs one buffer and keeps the order of their names.
    fn read_in_turn(&self) -> usize {
        1
    }

    fn open(&self, split: &str, position: &Position) -> Result<Box<dyn SplitReader>> {
        if position.ended {
            return Ok(Box::new(Ended(position.clone())));
        }
        Ok(Box::new(Reader::new(&self.uid, self.file_of(split)?, self.skip_lines, position)?))
    }
}
