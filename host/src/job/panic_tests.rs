//! Threads of a job that panic: the attempt fails, another follows in the same process, and what comes out is exact.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;

use super::attempt::attempts;
use super::discard::tests::plan;
use super::prepare::Prepared;
use super::{Notice, Observer, Options, Outcome, Progress};
use crate::connectors::{Sink, SinkWriter};
use crate::error::Result;
use crate::plan::{NodeKind, Restart, SourceKind};
use crate::record::{AttemptId, Batch, Staged};
use crate::wasm::{Engine, Interrupt};

/// A sink of which one write panics.
struct Panicking {
    sink: Arc<dyn Sink>,
    /// Writes before it.
    left: Arc<AtomicI64>,
    blocks: bool,
}

struct Writer {
    writer: Box<dyn SinkWriter>,
    left: Arc<AtomicI64>,
}

impl Sink for Panicking {
    fn prepare(&self, attempt: AttemptId, has_committed: bool) -> Result<()> {
        self.sink.prepare(attempt, has_committed)
    }

    fn open(&self, attempt: AttemptId, subtask: u16) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Writer { writer: self.sink.open(attempt, subtask)?, left: Arc::clone(&self.left) }))
    }

    fn blocks(&self) -> bool {
        self.blocks
    }

    fn publish(&self, staged: &[Staged], again: bool) -> Result<()> {
        self.sink.publish(staged, again)
    }
}

impl SinkWriter for Writer {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        assert!(self.left.fetch_sub(1, Ordering::SeqCst) != 0, "told to panic");
        self.writer.write(batch)
    }

    fn stage(&mut self, epoch: u64) -> Result<Vec<Staged>> {
        self.writer.stage(epoch)
    }
}

struct Nobody;

impl Observer for Nobody {
    fn notice(&self, _: &Notice) {}

    fn progress(&self, _: &Progress) {}
}

/// What comes out of a job whose sink writes on the workers, or on threads of its own if it `blocks`, with its one write that panics after
/// `left` others; and how its failed attempts were told.
async fn output(dir: &Path, left: i64, blocks: bool) -> (Vec<String>, Vec<String>) {
    let mut plan = plan(dir);
    plan.restart = Restart::FixedDelay { attempts: 1, delay: Duration::from_millis(1) };
    if let NodeKind::Source(settings) = &mut plan.nodes[0].kind
        && let SourceKind::Words(words) = &mut settings.kind
    {
        words.lines = Some(2_000);
    }
    let mut prepared = Prepared::new(&plan, &Engine::new(None).unwrap(), &Interrupt::default()).unwrap();
    let sink = prepared.sinks[1].take().unwrap();
    prepared.sinks[1] = Some(Arc::new(Panicking { sink, left: Arc::new(AtomicI64::new(left)), blocks }));
    let (_orders, mut taken) = unbounded_channel();
    let summary = attempts(Arc::new(prepared), &Options::default(), Arc::new(Nobody), &mut taken).await.unwrap();
    assert_eq!(summary.outcome, Outcome::Finished);
    let files = std::fs::read_dir(dir.join("out")).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).unwrap());
    let mut lines: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.sort_unstable();
    (lines, summary.failures.into_iter().map(|failed| failed.error).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_panics_costs_an_attempt_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, failures) = output(&dir.path().join("whole"), -1, false).await;
    assert_eq!((expected.len(), failures.len()), (2_000, 0));
    for (case, blocks) in [("worker", false), ("writer", true)] {
        let (lines, failures) = output(&dir.path().join(case), 40, blocks).await;
        assert_eq!(failures.len(), 1, "{case}: {failures:?}");
        assert!(failures[0].contains("panicked"), "{case}: {failures:?}");
        assert!(lines == expected, "{case}: {} lines", lines.len());
    }
}
