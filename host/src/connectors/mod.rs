//! Sources and sinks: what a job reads from and writes to outside the host. One folder or file each; all are synchronous and know
//! nothing of dataflows. A reader is polled on a worker's thread and must not wait; a writer may, on a thread of its own, if its sink
//! says that it blocks.

mod blackhole;
mod file_sink;
mod file_source;
mod lines;
mod rate;
mod stdout;
mod words;

use crate::error::Result;
use crate::plan::{SinkSettings, SourceKind, SourceSettings};
use crate::record::{AttemptId, Batch, Column, Position, Staged};

pub use rate::RateLimit;

/// The longest value that a source makes of a line, in bytes without the line end.
const MAX_LINE: u64 = 16 << 20;

/// A source of a job, able to open its splits. Its records have the schema `text`.
pub trait Source: Send + Sync {
    /// Names of all splits, in a stable order. Called when a job is validated, it also finds what is wrong with the settings.
    ///
    /// # Errors
    /// Of kind `Config`, naming the source and what it can't read.
    fn splits(&self) -> Result<Vec<String>>;

    /// How many splits a subtask reads in turn; each of the others begins when one of these has ended. All of them unless said
    /// otherwise, because behind splits without end the others would never begin. At least 1.
    fn read_in_turn(&self) -> usize {
        usize::MAX
    }

    /// Opens a split at a position; the default position is the start. A split that has ended stays ended and needs not exist any more.
    /// What reading takes is taken at the first read only: a job may have very many splits.
    ///
    /// # Errors
    /// If the split is missing or can't be read, or is not what it was when the position was noted.
    fn open(&self, split: &str, position: &Position) -> Result<Box<dyn SplitReader>>;
}

/// A split of a source, being read.
pub trait SplitReader: Send {
    /// Appends records to `batch`: values only, no keys, no timestamps. Stops after `max_records` records or when their values have
    /// reached `max_bytes` bytes, so the last one may go beyond; but if `max_records` is not 0, it adds a record or the split has ended.
    ///
    /// # Errors
    /// If the split can't be read or was changed, or a record is no acceptable text. What was appended to `batch` and the reader are void then.
    fn read(&mut self, batch: &mut Batch, max_records: usize, max_bytes: usize) -> Result<()>;

    /// Where the next record begins. `ended` says that there is none.
    fn position(&self) -> Position;
}

/// The source with these settings; nothing is opened yet. `settings.rate` is the caller's business (see [`RateLimit`]).
pub fn source(uid: &str, settings: &SourceSettings) -> Box<dyn Source> {
    match &settings.kind {
        SourceKind::File { path, skip_lines } => Box::new(file_source::FileSource::new(uid, path, *skip_lines)),
        SourceKind::Words(words) => Box::new(words::WordsSource::new(uid, words)),
    }
}

/// A sink of a job.
pub trait Sink: Send + Sync {
    /// Makes ready to be written by `attempt`: makes directories, and removes what older attempts of the same run left unpublished.
    /// What a committed manifest names must have been published before this call; `has_committed` says whether the run has any.
    ///
    /// # Errors
    /// If the sink can't be written to, or holds output that this run's would mix with.
    fn prepare(&self, attempt: AttemptId, has_committed: bool) -> Result<()>;

    /// A writer for one subtask of `attempt`.
    ///
    /// # Errors
    /// If the sink can't be written to.
    fn open(&self, attempt: AttemptId, subtask: u16) -> Result<Box<dyn SinkWriter>>;

    /// Whether writing may block; if not, writers are called on the workers themselves.
    fn blocks(&self) -> bool {
        true
    }

    /// Makes staged output visible. Idempotent: called again, after a crash at any point of it, it completes what is left. `again` says
    /// that this is or may be such a call: readers may have taken away what the one before has made visible.
    ///
    /// # Errors
    /// If output can't be made visible, is gone, or would replace something.
    fn publish(&self, staged: &[Staged], again: bool) -> Result<()>;
}

/// One subtask's part of a sink.
pub trait SinkWriter: Send {
    /// Writes the values of a batch.
    ///
    /// # Errors
    /// If they can't be written. The writer is of no use then and fails from then on.
    fn write(&mut self, batch: &Batch) -> Result<()>;

    /// At a barrier: makes what was written since the last one durable under `epoch`, and says where it lies. Nothing written, nothing
    /// staged.
    ///
    /// # Errors
    /// If it can't be made durable. The writer is of no use then and fails from then on.
    fn stage(&mut self, epoch: u64) -> Result<Vec<Staged>>;
}

/// The sink with these settings; nothing is opened yet.
pub fn sink(uid: &str, settings: &SinkSettings) -> Box<dyn Sink> {
    match settings {
        SinkSettings::File { path } => Box::new(file_sink::FileSink::new(uid, path)),
        SinkSettings::Stdout => Box::new(stdout::Stdout::new(uid)),
        SinkSettings::Blackhole => Box::new(blackhole::Blackhole),
    }
}

/// Makes a value of the bytes appended to `column.bytes` since its last value.
#[inline]
fn end_value(column: &mut Column) {
    column.ends.push(u32::try_from(column.bytes.len()).expect("a batch is limited far below 4 GiB"));
}
