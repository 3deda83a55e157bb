//! [`Journal`]: lines that are kept in order and numbered, the oldest of which go when there are too many. A host that was killed goes on
//! after the last whole line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock;
use crate::error::Result;

use super::data_dir::unusable;

/// A line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry<T> {
    /// Its number, counted from 1 since the job was first deployed.
    pub number: u64,
    /// When it was written, RFC 3339.
    pub time: String,
    /// What it says.
    #[serde(flatten)]
    pub what: T,
}

/// Lines in a file, and in another one those before.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Of one file; when it has more, the next is begun, and the one before the last is dropped.
    max_bytes: u64,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
    /// The number of the next entry.
    next: u64,
}

impl Journal {
    /// The journal at `path`, which is opened when it is needed.
    pub(super) fn new(path: PathBuf, max_bytes: u64) -> Self {
        Journal { path, max_bytes, open: Mutex::default() }
    }

    /// Adds a line. What can't be written is lost, which is told in the log.
    pub(super) fn add(&self, what: &impl Serialize) {
        if let Err(error) = self.try_add(what) {
            tracing::warn!(target: "cofferdam::journal", "a line is lost, because {} can't be written: {error}", self.path.display());
        }
    }

    fn try_add(&self, what: &impl Serialize) -> io::Result<()> {
        let mut guard = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match &mut *guard {
            Some(open) => open,
            none => none.insert(Open::at(&self.path)?),
        };
        let entry = Entry { number: open.next, time: clock::wall_text(), what };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        if let Err(error) = open.file.write_all(&line) {
            // What was written of it is found, and cut off, when it is opened anew.
            *guard = None;
            return Err(error);
        }
        (open.next, open.bytes) = (open.next + 1, open.bytes + line.len() as u64);
        if open.bytes > self.max_bytes {
            fs::rename(&self.path, before(&self.path))?;
            let next = open.next;
            *guard = None;
            *guard = Some(Open { file: append(&self.path)?, bytes: 0, next });
        }
        Ok(())
    }

    /// Up to `limit` entries from number `from` on, as far as they are still there; without `from`, the last ones.
    pub(super) fn read<T: DeserializeOwned>(&self, from: Option<u64>, limit: usize) -> Result<Vec<Entry<T>>> {
        // Held, so that no file is exchanged meanwhile.
        let _guard = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for path in [before(&self.path), self.path.clone()] {
            read_lines(&path, &mut lines).map_err(|error| unusable(&path, &error))?;
        }
        // Numbers have no gaps, so that only what is asked for has to be understood.
        let first = lines.first().and_then(number).unwrap_or(1);
        let skip = match from {
            Some(from) => usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX),
            None => lines.len().saturating_sub(limit),
        };
        let entries = lines.iter().skip(skip).take(limit).filter_map(|line| serde_json::from_slice(line).ok());
        Ok(entries.collect())
    }
}

/// The file of the lines before those in `path`.
fn before(path: &Path) -> PathBuf {
    let mut before = path.as_os_str().to_owned();
    before.push(".1");
    before.into()
}

impl Open {
    /// Goes on after the last whole line; what follows it was cut off by a crash.
    fn at(path: &Path) -> io::Result<Self> {
        let mut file = append(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let whole = content.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        if whole < content.len() {
            file.set_len(whole as u64)?;
        }
        let last = content[..whole].split(|&byte| byte == b'\n').rev().find_map(number);
        let last = match last {
            Some(last) => last,
            // It was begun, and nothing written to it.
            None => {
                let mut lines = Vec::new();
                read_lines(&before(path), &mut lines)?;
                lines.iter().rev().find_map(number).unwrap_or(0)
            }
        };
        file.seek(SeekFrom::End(0))?;
        Ok(Open { file, bytes: whole as u64, next: last + 1 })
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

/// Adds the whole lines of a file, if it is there.
fn read_lines(path: &Path, lines: &mut Vec<Vec<u8>>) -> io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut reader = BufReader::new(file);
    loop {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(());
        }
        lines.push(line);
    }
}

/// The number of the entry in a line.
fn number(line: impl AsRef<[u8]>) -> Option<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        number: u64,
    }
    serde_json::from_slice::<Numbered>(line.as_ref()).ok().map(|numbered| numbered.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Line {
        text: String,
    }

    fn line(number: u64) -> Line {
        Line { text: format!("line {number}") }
    }

    fn numbers(journal: &Journal, from: Option<u64>, limit: usize) -> Vec<u64> {
        let entries = journal.read::<Line>(from, limit).unwrap();
        entries.iter().for_each(|entry| assert_eq!(entry.what, line(entry.number)));
        entries.iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn lines_are_kept_in_order_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(dir.path().join("log"), 1000);
        assert!(numbers(&journal, None, 10).is_empty());
        for number in 1..=100 {
            journal.add(&line(number));
        }
        assert_eq!(numbers(&journal, None, 3), [98, 99, 100]);
        assert_eq!(numbers(&journal, Some(97), 2), [97, 98]);
        assert!(numbers(&journal, Some(101), 2).is_empty());
        let kept = numbers(&journal, Some(1), 1000);
        assert!(kept[0] > 1 && kept.len() > 10 && *kept.last().unwrap() == 100, "{kept:?}");
        let bytes: u64 = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes < 2200, "{bytes}");
    }

    #[test]
    fn it_goes_on_after_the_last_whole_line_wherever_it_was_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        (1..=3).for_each(|number| Journal::new(path.clone(), 1000).add(&line(number)));
        let whole = fs::read(&path).unwrap();
        let second = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for cut in second..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count() as u64;
            Journal::new(path.clone(), 1000).add(&line(lines + 1));
            assert_eq!(numbers(&Journal::new(path.clone(), 1000), None, 10), (1..=lines + 1).collect::<Vec<_>>(), "{cut}");
        }
        // The file before was full, and nothing is in the new one yet.
        fs::rename(&path, dir.path().join("log.1")).unwrap();
        fs::write(&path, "{\"num").unwrap();
        Journal::new(path.clone(), 1000).add(&line(5));
        assert_eq!(numbers(&Journal::new(path, 1000), Some(2), 10), [2, 3, 4, 5]);
    }
}
