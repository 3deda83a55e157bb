//! The sink `blackhole`: forgets what it is given. How much that was is counted for every sink by its caller.

use super::{Sink, SinkWriter};
use crate::error::Result;
use crate::record::{AttemptId, Batch, Staged};

/// The sink, and each of its writers.
pub(super) struct Blackhole;

impl Sink for Blackhole {
    fn prepare(&self, _attempt: AttemptId, _has_committed: bool) -> Result<()> {
        Ok(())
    }

    fn open(&self, _attempt: AttemptId, _subtask: u16) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Blackhole))
    }

    fn blocks(&self) -> bool {
        false
    }

    fn publish(&self, _staged: &[Staged], _again: bool) -> Result<()> {
        Ok(())
    }
}

impl SinkWriter for Blackhole {
    fn write(&mut self, _batch: &Batch) -> Result<()> {
        Ok(())
    }

    fn stage(&mut self, _epoch: u64) -> Result<Vec<Staged>> {
        Ok(Vec::new())
    }
}
