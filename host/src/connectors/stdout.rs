//! The sink `stdout`: a line per record as it comes. Nothing is staged, so after a failure lines may come again.

use std::io::{self, BufWriter, ErrorKind, Write};

use super::lines::write_lines;
use super::{Sink, SinkWriter};
use crate::error::{Error, Kind, Result};
use crate::record::{AttemptId, Batch, Column, Staged};

/// The sink, and each of its writers.
pub(super) struct Stdout {
    uid: String,
}

impl Stdout {
    pub(super) fn new(uid: &str) -> Self {
        Stdout { uid: uid.into() }
    }
}

impl Sink for Stdout {
    fn prepare(&self, _attempt: AttemptId, _has_committed: bool) -> Result<()> {
        Ok(())
    }

    fn open(&self, _attempt: AttemptId, _subtask: u16) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Stdout::new(&self.uid)))
    }

    fn publish(&self, _staged: &[Staged], _again: bool) -> Result<()> {
        Ok(())
    }
}

impl SinkWriter for Stdout {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        // Locked for the whole batch: lines of other subtasks must not come between two halves of a line.
        write_all(&self.uid, io::stdout().lock(), &batch.values)
    }

    fn stage(&mut self, _epoch: u64) -> Result<Vec<Staged>> {
        Ok(Vec::new())
    }
}

/// Writes and flushes a batch.
fn write_all(uid: &str, out: impl Write, values: &Column) -> Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, out);
    write_lines(&mut out, values).and_then(|_| out.flush()).map_err(|error| {
        // Otherwise dropping it would try again.
        let _ = out.into_parts();
        match error.kind() {
            ErrorKind::BrokenPipe => Error::new(Kind::Job, format!("sink `{uid}`: stdout was closed"))
                .help("whatever read this output has ended; write to a file sink to keep all of it")
                .for_people(),
            _ => Error::new(Kind::Storage, format!("sink `{uid}`: can't write to stdout: {error}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails once it has taken `left` bytes.
    struct Closing {
        left: usize,
        kind: ErrorKind,
    }

    impl Write for Closing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.left);
            self.left -= taken;
            if taken == 0 { Err(self.kind.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_record_is_a_line_and_all_are_out_when_write_returns() {
        let values: Column = [&b"one"[..], b"", b"a\nb"].into_iter().collect();
        let mut out = Vec::new();
        write_all("out", &mut out, &values).unwrap();
        assert_eq!(out, b"one\n\na\nb\n");
    }

    #[test]
    fn a_closed_pipe_fails_the_job_by_name() {
        let values: Column = [&b"one"[..], b"two"].into_iter().collect();
        for left in 0..8 {
            let error = write_all("out", Closing { left, kind: ErrorKind::BrokenPipe }, &values).unwrap_err();
            assert_eq!((error.kind(), error.message()), (Kind::Job, "sink `out`: stdout was closed"));
        }
        let error = write_all("out", Closing { left: 3, kind: ErrorKind::StorageFull }, &values).unwrap_err();
        assert_eq!(error.kind(), Kind::Storage);
        write_all("out", Closing { left: 8, kind: ErrorKind::BrokenPipe }, &values).unwrap();
    }
}
