//! What is done with all sinks of a job, off the asynchronous threads: they block.

use std::sync::Arc;

use crate::checkpoint::manifest::SinkPart;
use crate::connectors::Sink;
use crate::error::{Error, Kind, Result};
use crate::plan::NodeKind;
use crate::record::AttemptId;

use super::prepare::Prepared;
use super::restore::find;

/// Makes every sink ready to be written by an attempt.
pub(super) async fn prepare(prepared: &Prepared, attempt: AttemptId) -> Result<()> {
    let sinks: Vec<Arc<dyn Sink>> = prepared.sinks.iter().flatten().cloned().collect();
    blocking(move || sinks.iter().try_for_each(|sink| sink.prepare(attempt))).await
}

/// Publishes what a committed checkpoint names. Idempotent.
pub(super) async fn publish(prepared: &Prepared, parts: &[SinkPart]) -> Result<()> {
    let mut due = Vec::new();
    for part in parts.iter().filter(|part| !part.staged.is_empty()) {
        let node = find(&prepared.plan, &part.uid, "sink", |kind| matches!(kind, NodeKind::Sink(_)))?;
        let sink = prepared.sinks[node].clone().expect("every sink node has its sink");
        due.push((sink, part.staged.clone()));
    }
    blocking(move || due.iter().try_for_each(|(sink, staged)| sink.publish(staged))).await
}

async fn blocking(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|panic| Error::new(Kind::Internal, format!("a sink panicked: {panic}")))?
}
