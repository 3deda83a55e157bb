//! [`Writer`]: one subtask's file in the staging directory.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Place, STAGING};
use crate::connectors::SinkWriter;
use crate::connectors::lines::write_lines;
use crate::error::{Error, Kind, Result};
use crate::record::{AttemptId, Batch, Staged};

/// Bytes written to the file at once.
const BUFFER: usize = 256 << 10;

/// Writes a file per epoch in which there are records.
pub(super) struct Writer {
    place: Arc<Place>,
    attempt: AttemptId,
    subtask: u16,
    open: Option<OpenFile>,
    /// The last epoch that was staged.
    epoch: Option<u64>,
    /// After an error records are missing: what is written later must not become durable without them.
    failed: Option<Error>,
}

/// A file being written. Dropped, it is removed: nobody could do anything with half an epoch.
struct OpenFile {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    records: u64,
}

impl OpenFile {
    fn create(path: PathBuf) -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER, File::create_new(&path)?);
        Ok(OpenFile { path, out, bytes: 0, records: 0 })
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        self.bytes += write_lines(&mut self.out, &batch.values)?;
        self.records += batch.len() as u64;
        Ok(())
    }

    /// Makes its content durable.
    fn sync(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Not there any more when it was staged. If it can't be removed now, the next attempt will.
        let _ = fs::remove_file(&self.path);
    }
}

impl Writer {
    pub(super) fn new(place: Arc<Place>, attempt: AttemptId, subtask: u16) -> Self {
        Writer { place, attempt, subtask, open: None, epoch: None, failed: None }
    }

    /// Does something once all before has succeeded.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = work(self);
        if let Err(error) = &result {
            self.open = None;
            self.failed = Some(error.clone());
        }
        result
    }

    fn append(&mut self, batch: &Batch) -> Result<()> {
        let file = match &mut self.open {
            Some(file) => file,
            None => {
                let path = self.place.staging.join(self.place.names.open(self.attempt, self.subtask));
                let file = OpenFile::create(path.clone()).map_err(|error| self.uncreatable(&path, &error))?;
                self.open.insert(file)
            }
        };
        file.write(batch).map_err(|error| self.place.io_error(&file.path, "write to it", &error))
    }

    fn uncreatable(&self, path: &Path, error: &io::Error) -> Error {
        match error.kind() {
            ErrorKind::AlreadyExists => self
                .place
                .error(path, "is there already: another job writes to this directory at the same time")
                .help("give one of the two another `path` or `uid`"),
            _ => self.place.io_error(path, "create it", error),
        }
    }

    fn stage_open(&mut self, epoch: u64) -> Result<Vec<Staged>> {
        if self.epoch.is_some_and(|last| last >= epoch) {
            return Err(Error::new(Kind::Internal, format!("sink `{}`: epoch {epoch} is staged after {:?}", self.place.uid, self.epoch)));
        }
        self.epoch = Some(epoch);
        let Some(mut file) = self.open.take() else { return Ok(Vec::new()) };
        let place = &self.place;
        let to = place.names.published(self.attempt.run, epoch, self.subtask);
        // Found out before a manifest names it, because then nothing could be done about it.
        if place.size(&place.dir.join(&to))?.is_some() {
            return Err(place.taken(&place.dir.join(&to)));
        }
        file.sync().map_err(|error| place.io_error(&file.path, "make it durable", &error))?;
        let name = place.names.staged(self.attempt, epoch, self.subtask);
        fs::rename(&file.path, place.staging.join(&name)).map_err(|error| place.io_error(&file.path, "stage it", &error))?;
        place.sync_dir(&place.staging)?;
        Ok(vec![Staged { from: format!("{STAGING}/{name}"), to, bytes: file.bytes, records: file.records }])
    }
}

impl SinkWriter for Writer {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        if batch.is_empty() && self.failed.is_none() {
            return Ok(());
        }
        self.guarded(|writer| writer.append(batch))
    }

    fn stage(&mut self, epoch: u64) -> Result<Vec<Staged>> {
        self.guarded(|writer| writer.stage_open(epoch))
    }
}
