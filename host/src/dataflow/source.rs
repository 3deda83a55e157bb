//! [`SourceStage`]: reads the splits of one subtask in turn, at most at its rate.

use std::time::Duration;

use crate::clock;
use crate::connectors::{RateLimit, SplitReader};
use crate::error::Result;
use crate::record::{Batch, SplitPosition};

/// A batch is what has arrived, up to this many records,
const READ_RECORDS: usize = 1024;
/// and about this many bytes.
const READ_BYTES: usize = 64 << 10;

/// The splits of one subtask of a source.
pub(super) struct SourceStage {
    readers: Vec<(String, Box<dyn SplitReader>)>,
    turn: usize,
    rate: Option<RateLimit>,
    /// Whether its end has been reported.
    pub(super) reported: bool,
}

/// What reading gave.
pub(super) enum Read {
    /// Records.
    Batch(Batch),
    /// The rate allows more after this time only.
    Later(Duration),
    /// All splits are at their end.
    Ended,
}

impl SourceStage {
    pub(super) fn new(readers: Vec<(String, Box<dyn SplitReader>)>, rate: Option<RateLimit>) -> Self {
        SourceStage { readers, turn: 0, rate, reported: false }
    }

    pub(super) fn read(&mut self) -> Result<Read> {
        for _ in 0..self.readers.len() {
            let turn = self.turn % self.readers.len();
            self.turn = turn + 1;
            let (_, reader) = &mut self.readers[turn];
            if reader.position().ended {
                continue;
            }
            let mut records = READ_RECORDS;
            if let Some(rate) = &mut self.rate {
                let now = clock::now();
                records = records.min(rate.allowed(now));
                if records == 0 {
                    self.turn = turn;
                    return Ok(Read::Later(rate.next(now)));
                }
            }
            let mut batch = Batch::default();
            reader.read(&mut batch, records, READ_BYTES)?;
            if let Some(rate) = &mut self.rate {
                rate.take(batch.len());
            }
            if !batch.is_empty() {
                return Ok(Read::Batch(batch));
            }
        }
        Ok(if self.is_ended() { Read::Ended } else { Read::Batch(Batch::default()) })
    }

    pub(super) fn is_ended(&self) -> bool {
        self.readers.iter().all(|(_, reader)| reader.position().ended)
    }

    pub(super) fn positions(&self) -> Vec<SplitPosition> {
        let position =
            |(split, reader): &(String, Box<dyn SplitReader>)| SplitPosition { split: split.clone(), position: reader.position() };
        self.readers.iter().map(position).collect()
    }
}
