//! What is done with all sinks of a job, off the asynchronous threads: they block.

use std::sync::Arc;

use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::store::{Publication, Store};
use crate::connectors::Sink;
use crate::error::Result;
use crate::plan::Role;
use crate::record::AttemptId;
use crate::threads::blocking;

use super::patience::Patience;
use super::prepare::Prepared;
use super::restore::find;

/// Makes every sink ready to be written by an attempt of a run that has committed a checkpoint, or has not yet.
pub(super) async fn prepare(prepared: &Prepared, attempt: AttemptId, has_committed: bool) -> Result<()> {
    let sinks: Vec<Arc<dyn Sink>> = prepared.sinks.iter().flatten().cloned().collect();
    blocking("a sink", move || sinks.iter().try_for_each(|sink| sink.prepare(attempt, has_committed))).await
}

/// Has `by` publish what a committed checkpoint of its run names, unless that is known to have happened, and note it. Idempotent. `patience`
/// is with the notes only.
pub(super) async fn publish(store: &Store, prepared: &Prepared, by: AttemptId, manifest: &Manifest, mut patience: Patience) -> Result<()> {
    if manifest.sinks.iter().all(|part| part.staged.is_empty()) {
        return Ok(());
    }
    let checkpoint = manifest.checkpoint;
    let committed_by = AttemptId { run: by.run, ..manifest.attempt };
    let publication = patience.store(|| store.publication(committed_by, checkpoint)).await?;
    if publication == Publication::Done {
        return Ok(());
    }
    // Only now: a sink of which all is published may have gone from the job.
    let mut due = Vec::new();
    for part in manifest.sinks.iter().filter(|part| !part.staged.is_empty()) {
        let node = find(&prepared.plan, &part.uid, Role::Sink)?;
        let sink = prepared.sinks[node].clone().expect("every sink node has its sink");
        due.push((sink, part.staged.clone()));
    }
    let again = publication == Publication::Begun;
    if !again {
        patience.store(|| store.mark_publishing(by, checkpoint)).await?;
    }
    blocking("a sink", move || due.iter().try_for_each(|(sink, staged)| sink.publish(staged, again))).await?;
    patience.store(|| store.mark_published(by, checkpoint)).await
}
