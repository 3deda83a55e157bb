//! [`Reader`]: a file being read, line by line, straight into a column.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::str;

use crate::connectors::{MAX_LINE, SplitReader, end_value};
use crate::error::{Error, Kind, Result};
use crate::record::{Batch, Column, Position};

/// Bytes read from the file at once.
const BUFFER: usize = 256 << 10;

/// A file being read. It is open, and has its buffer, from the first read to the end only: a source may have more files than a process
/// may open.
pub(super) struct Reader {
    place: Place,
    /// None before the first read, and when the split has ended.
    file: Option<BufReader<File>>,
    position: Position,
}

/// What errors are about.
struct Place {
    uid: String,
    path: PathBuf,
    skip_lines: u64,
}

impl Place {
    fn error(&self, kind: Kind, what: impl std::fmt::Display) -> Error {
        Error::new(kind, format!("source `{}`: {}: {what}", self.uid, self.path.display()))
    }

    fn unreadable(&self, error: &io::Error) -> Error {
        let error = self.error(Kind::Storage, format_args!("can't be read: {error}"));
        error.help("make the file readable again; the job then goes on from its last checkpoint")
    }

    /// Opens the file where a line begins: at its start, or behind a line feed. Otherwise it is not what it was.
    fn open_at(&self, offset: u64) -> Result<File> {
        let (mut file, length) = self.open().map_err(|error| self.unreadable(&error))?;
        if offset == 0 {
            return Ok(file);
        }
        if length < offset {
            return Err(self.changed(format_args!("it has {length} bytes, and {offset} had been read")));
        }
        let mut before = [0];
        file.seek(SeekFrom::Start(offset - 1)).and_then(|_| file.read_exact(&mut before)).map_err(|error| self.unreadable(&error))?;
        if before != *b"\n" {
            return Err(self.changed(format_args!("no line begins at byte {offset}, up to which it had been read")));
        }
        Ok(file)
    }

    /// The file and its length.
    fn open(&self) -> io::Result<(File, u64)> {
        // Not opened before: opening a pipe would wait for its writer.
        let metadata = fs::metadata(&self.path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok((File::open(&self.path)?, metadata.len()))
    }

    fn changed(&self, how: std::fmt::Arguments) -> Error {
        let error = self.error(Kind::Checkpoint, format_args!("the file was changed since the checkpoint: {how}"));
        error.help("put the file back as it was, or begin without state with --fresh")
    }

    /// An error about the line of record `record`, counted from 0 on.
    fn line_error(&self, record: u64, what: &str) -> Error {
        let line = self.skip_lines.saturating_add(record).saturating_add(1);
        Error::new(Kind::Job, format!("source `{}`: {}:{line}: {what}", self.uid, self.path.display()))
    }
}

/// A split that had been read to its end before: nothing more, whatever has become of the file.
pub(super) struct Ended(pub(super) Position);

impl SplitReader for Ended {
    fn read(&mut self, _batch: &mut Batch, _max_records: usize, _max_bytes: usize) -> Result<()> {
        Ok(())
    }

    fn position(&self) -> Position {
        self.0.clone()
    }
}

impl Reader {
    /// Of the file at `path`, from where `position` says on. What can't be read there is found now; the file stays closed.
    ///
    /// # Errors
    /// If it can't be opened, or there is no beginning of a line at that position.
    pub(super) fn new(uid: &str, path: PathBuf, skip_lines: u64, position: &Position) -> Result<Self> {
        let place = Place { uid: uid.into(), path, skip_lines };
        place.open_at(position.offset)?;
        Ok(Reader { place, file: None, position: position.clone() })
    }

    /// Opens the file for the first read. It is checked again: it may have been changed since.
    fn begin(&mut self) -> Result<()> {
        let Reader { place, position, .. } = self;
        let mut file = BufReader::with_capacity(BUFFER, place.open_at(position.offset)?);
        if position.offset == 0 {
            position.offset = skip(&mut file, place.skip_lines).map_err(|error| place.unreadable(&error))?;
        }
        // Ended from here on if nothing follows: a last line without an end may have been skipped, and its position is no line's start.
        position.ended = file.fill_buf().map_err(|error| place.unreadable(&error))?.is_empty();
        self.file = (!position.ended).then_some(file);
        Ok(())
    }

    /// Checks values from `first` on to be text, all at once where they are.
    fn check_text(&self, values: &Column, first: usize) -> Result<()> {
        let start = if first == 0 { 0 } else { values.ends[first - 1] };
        let bytes = &values.bytes[start as usize..];
        // Together they may be text though a character is cut by a line's end.
        let is_text = |text: &str| values.ends[first..].iter().all(|end| text.is_char_boundary((end - start) as usize));
        if str::from_utf8(bytes).is_ok_and(is_text) {
            return Ok(());
        }
        let bad = (first..values.len()).find(|&index| str::from_utf8(values.get(index)).is_err());
        let before = self.position.records - (values.len() - first) as u64;
        let record = before + (bad.unwrap_or(first) - first) as u64;
        let error = self.place.line_error(record, "the line is not UTF-8 text");
        Err(error.help("convert the file, for example with `iconv -f latin1 -t utf-8`"))
    }
}

impl SplitReader for Reader {
    fn read(&mut self, batch: &mut Batch, max_records: usize, max_bytes: usize) -> Result<()> {
        if self.file.is_none() && !self.position.ended {
            self.begin()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let values = &mut batch.values;
        let (first, start) = (values.len(), values.bytes.len());
        for _ in 0..max_records {
            let line = append_line(file, &mut values.bytes).map_err(|error| self.place.unreadable(&error))?;
            if line.length > MAX_LINE {
                let error = self.place.line_error(self.position.records, "the line is longer than 16 MiB");
                return Err(error.help("check that this is a text file with a record on each line"));
            }
            if line.read > 0 {
                end_value(values);
                self.position.offset += line.read;
                self.position.records += 1;
            }
            if line.last {
                self.position.ended = true;
                self.file = None;
                break;
            }
            if values.bytes.len() - start >= max_bytes {
                break;
            }
        }
        self.check_text(&batch.values, first)
    }

    fn position(&self) -> Position {
        self.position.clone()
    }
}

/// A line as it was read.
struct Line {
    /// Bytes read, its end included.
    read: u64,
    /// Bytes kept.
    length: u64,
    /// Whether the file ended instead of it.
    last: bool,
}

/// Appends the next line without its end.
fn append_line(file: &mut BufReader<File>, bytes: &mut Vec<u8>) -> io::Result<Line> {
    let start = bytes.len();
    // Room for the longest and its end; what fills it without one is too long.
    let read = file.take(MAX_LINE + 2).read_until(b'\n', bytes)?;
    let whole = read > 0 && bytes.ends_with(b"\n");
    if whole {
        bytes.pop();
        if bytes.len() > start && bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    Ok(Line { read: read as u64, length: (bytes.len() - start) as u64, last: !whole })
}

/// Leaves out `lines` lines; how many bytes they had.
fn skip(file: &mut BufReader<File>, lines: u64) -> io::Result<u64> {
    let mut skipped = 0;
    for _ in 0..lines {
        match file.skip_until(b'\n')? {
            0 => break,
            read => skipped += read as u64,
        }
    }
    Ok(skipped)
}
