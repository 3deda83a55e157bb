//! The end of a cancelled job whose checkpoints are not to stay. What counts is one put: an entry in the log that says that nothing is
//! left to resume and names no state. What is deleted after that is superseded by it, as by any checkpoint; so a process that dies in the
//! middle leaves nothing that could be taken for whole, and the next one to begin deletes the rest. The entry itself stays: it keeps
//! the run's number, which stands in the names of published files, from being used again.

#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeSet;

use crate::checkpoint::decide::{Live, newest_point, next_epoch, restore_point};
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::{History, Manifest, Trigger};
use crate::checkpoint::paths;
use crate::checkpoint::store::{Claimed, RunChoice, Store};
use crate::clock;
use crate::error::Result;
use crate::plan::Plan;
use crate::record::AttemptId;

use super::patience::Patience;
use super::prepare::Prepared;
use super::settle::settle;
use super::sinks;

/// Deletes the checkpoints of a run whose attempt `last` was cancelled, and what sinks have staged for no checkpoint. What is committed is
/// published first.
///
/// # Errors
/// Kind `Fenced` if somebody else has taken over: then nothing is deleted. Kind `Storage` or `Job` if something could not be done; the
/// checkpoints are whole, or what is left of them is deleted at the next start.
pub(super) async fn discard(store: &Store, prepared: &Prepared, last: AttemptId) -> Result<()> {
    // A new attempt, because files of the last one may still be on their way.
    let by = format!("process {}, to delete the checkpoints of a cancelled job", std::process::id());
    let Claimed { attempt, slot, log } = store.claim(RunChoice::After(last), &by, None).await?;
    let mut newest = restore_point(&log, slot)?.map(|point| point.manifest);
    if let Some(manifest) = &mut newest {
        // It may be older than a change of the job, and `last` have died before it has published it.
        settle(manifest, &prepared.plan, true, |_| false)?;
        sinks::publish(store, prepared, attempt, manifest, Patience::none()).await?;
    }
    // Nothing more is written, so whose files lie beside those of the run does not matter.
    sinks::prepare(prepared, attempt, true).await?;
    let last = nothing(&prepared.plan, attempt, next_epoch(&log), newest.as_ref());
    store.commit(slot + 1, &last).await?;
    clear(store, attempt).await?;
    remove_owned(store, &last).await
}

/// The same for the newest run of a job, whose newest attempt is `last`, as far as there is something to go on with. What was begun to be
/// deleted is deleted to its end.
///
/// # Errors
/// As [`discard`].
pub(super) async fn discard_newest(store: &Store, prepared: &Prepared, last: AttemptId) -> Result<()> {
    if last == AttemptId::NONE {
        return Ok(());
    }
    let log = store.log(last.run).await?;
    match newest_point(&log)?.map(|point| point.manifest).filter(|manifest| manifest.finished) {
        Some(manifest) if manifest.trigger == Trigger::Cancel => {
            clear(store, manifest.attempt).await?;
            remove_owned(store, &manifest).await
        }
        Some(_) => Ok(()),
        None => discard(store, prepared, last).await,
    }
}

/// Deletes what lies below the entry with which `attempt` has discarded a run, as far as it is still there.
///
/// # Errors
/// Kind `Storage` if something can't be read or deleted.
async fn clear(store: &Store, attempt: AttemptId) -> Result<()> {
    let live = Live { attempt, paths: BTreeSet::new(), next_serial: u64::MAX, committed: Some(u64::MAX) };
    store.collect(&live, 1).await?;
    store.delete(attempt.run, &[paths::FAILED.into()]).await
}

/// Removes the savepoint that a run has begun from and owns: since its first commit it needs it no more.
///
/// # Errors
/// Kind `Storage` if something can't be deleted.
async fn remove_owned(store: &Store, newest: &Manifest) -> Result<()> {
    match &newest.owned {
        Some(owned) => store.remove_savepoint(owned).await,
        None => Ok(()),
    }
}

/// Deletes what is left of a run that nobody goes on with: of one that was discarded, all of it; of any, a savepoint that it owns.
///
/// # Errors
/// As [`clear`].
pub(super) async fn clear_rest(store: &Store, log: &Log) -> Result<()> {
    let Some((_, newest)) = log.manifests().next() else { return Ok(()) };
    // Not to be rid of it is no reason not to begin.
    remove_owned(store, newest).await.unwrap_or_else(|error| tracing::warn!("a savepoint that the job owned is left: {error}"));
    if newest.trigger == Trigger::Cancel { clear(store, newest.attempt).await } else { Ok(()) }
}

/// A manifest that names nothing.
fn nothing(plan: &Plan, attempt: AttemptId, checkpoint: u64, newest: Option<&Manifest>) -> Manifest {
    let mut history = History::default();
    newest.into_iter().for_each(|manifest| history.recall(manifest));
    let now = clock::wall_text();
    Manifest {
        job: plan.name.clone(),
        attempt,
        checkpoint,
        trigger: Trigger::Cancel,
        triggered: now.clone(),
        created: now,
        finished: true,
        parallelism: plan.parallelism,
        max_parallelism: plan.max_parallelism,
        duration_ms: 0,
        new_bytes: 0,
        total_bytes: 0,
        origin: None,
        owned: newest.and_then(|manifest| manifest.owned.clone()),
        savepoint: None,
        sources: vec![],
        operators: vec![],
        sinks: vec![],
        snapshots: vec![],
        history: history.to_vec(),
    }
}
