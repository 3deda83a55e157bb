//! [`SourceStage`]: reads the splits of one subtask in turn, at most at its rate.

use std::sync::Arc;
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
    readers: Vec<(Arc<str>, Box<dyn SplitReader>)>,
    turn: usize,
    rate: Option<RateLimit>,
    /// Whether its end has been reported.
    pub(super) reported: bool,
}

/// Where the records of a batch were read.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The split.
    pub(super) split: Arc<str>,
    /// The number of the batch's first record within it, from 1 on.
    pub(super) first: u64,
}

/// What reading gave.
pub(super) enum Read {
    /// Records, and where they were read.
    Batch(Batch, Origin),
    /// The rate allows more after this time only.
    Later(Duration),
    /// All splits are at their end.
    Ended,
}

impl SourceStage {
    pub(super) fn new(readers: Vec<(Arc<str>, Box<dyn SplitReader>)>, rate: Option<RateLimit>) -> Self {
        SourceStage { readers, turn: 0, rate, reported: false }
    }

    pub(super) fn read(&mut self) -> Result<Read> {
        for _ in 0..self.readers.len() {
            let turn = self.turn % self.readers.len();
            self.turn = turn + 1;
            let (split, reader) = &mut self.readers[turn];
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
            let origin = Origin { split: Arc::clone(split), first: reader.position().records + 1 };
            reader.read(&mut batch, records, READ_BYTES)?;
            if let Some(rate) = &mut self.rate {
                rate.take(batch.len());
            }
            if !batch.is_empty() {
                return Ok(Read::Batch(batch, origin));
            }
        }
        // Every split has ended, some only now.
        Ok(Read::Ended)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.readers.iter().all(|(_, reader)| reader.position().ended)
    }

    pub(super) fn positions(&self) -> Vec<SplitPosition> {
        let position =
            |(split, reader): &(Arc<str>, Box<dyn SplitReader>)| SplitPosition { split: split.to_string(), position: reader.position() };
        self.readers.iter().map(position).collect()
    }
}
