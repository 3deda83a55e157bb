//! Beginning an attempt: what to restore from, read and checked before anything is changed; then the claim, and what the checkpoint
//! still has to publish.

use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::decide::{RestorePoint, next_epoch};
use crate::checkpoint::log::Log;
use crate::checkpoint::store::{Claimed, RunChoice, Store};
use crate::error::{Kind, Result};
use crate::record::AttemptId;
use crate::threads::apart;

use super::Options;
use super::between::unless_cancelled;
use super::choice::{Choice, choose, fall_back, going_on, still_holds};
use super::fallback::FellBack;
use super::local::Local;
use super::patience::Patience;
use super::prepare::Prepared;
use super::restore::{self, Beginning};
use super::settle::{rename, settle};
use super::sinks;

/// For so long an attempt waits until what failed ones have left is deleted.
const LONGEST_COLLECTION: Duration = Duration::from_secs(10);

/// An attempt that has begun.
pub(super) struct Begun {
    pub(super) attempt: AttemptId,
    /// The slot of its first commit.
    pub(super) slot: u64,
    /// Its first epoch.
    pub(super) epoch: u64,
    /// What it was restored from.
    pub(super) point: Option<RestorePoint>,
    /// The manifest of another run from which this run began.
    pub(super) origin: Option<String>,
    /// Why that is not the newest checkpoint, if it was to be.
    pub(super) fell_back: Option<FellBack>,
    /// The savepoint that the run has begun from and owns, until it is removed.
    pub(super) owned: Option<String>,
    pub(super) beginning: Beginning,
}

/// Begins an attempt of a job. Whatever is wrong with the checkpoint is found before the claim, so that nothing has changed then. None if
/// nothing is left to do: the attempt `after`, one of this process that has failed, came as far as the job's last commit.
pub(super) async fn begin(store: &Store, prepared: &Prepared, options: &Options, after: Option<AttemptId>) -> Result<Option<Begun>> {
    let chosen = match choose_and_read(store, prepared, options, after).await {
        Err(error) if options.fallback && after.is_none() && error.kind() == Kind::Checkpoint => {
            let mut choice = fall_back(store, options, error).await?;
            let beginning = read(store, choice.point.as_mut(), prepared, options).await?;
            Some((choice, beginning))
        }
        chosen => chosen?,
    };
    match chosen {
        Some((choice, beginning)) => take_over(store, prepared, options, choice, beginning).await.map(Some),
        None => Ok(None),
    }
}

/// Claims the run that was chosen and begins from what was read; or from something else, if somebody else has come in between.
pub(super) async fn take_over(
    store: &Store,
    prepared: &Prepared,
    options: &Options,
    choice: Choice,
    beginning: Beginning,
) -> Result<Begun> {
    let by = format!("process {}", std::process::id());
    let asked = choice.from.as_ref().filter(|_| choice.is_asked);
    let Claimed { attempt, slot, log } = store.claim(choice.run, &by, asked).await?;
    let (Choice { mut point, from, fell_back, .. }, beginning) = look_again(store, prepared, options, &log, choice, beginning).await?;
    collect_abandoned(store, options, attempt, &log).await;
    let mut origin = point.as_ref().and_then(|point| point.manifest.origin.clone());
    let mut owned = point.as_ref().and_then(|point| point.manifest.owned.clone());
    if let Some(found) = &mut point {
        publish(store, prepared, found, Some(attempt)).await?;
        if found.run_dir != store.run_dir(attempt.run) {
            owned = from.as_ref().filter(|from| from.owned).map(|from| from.manifest.clone());
            origin = from.map(|from| from.manifest);
        }
        forget_unsaved(found, &beginning.unsaved);
        *found = unless_cancelled(&options.interrupt, store.adopt(found, attempt)).await?;
    }
    // What can't be read may be a manifest.
    let has_committed = log.manifests().next().is_some() || log.broken() > 0;
    sinks::prepare(prepared, attempt, has_committed).await?;
    let epoch = next_epoch(&log).max(point.as_ref().map_or(0, |point| point.manifest.checkpoint + 1));
    Ok(Begun { attempt, slot: slot + 1, epoch, point, origin, fell_back, owned, beginning })
}

/// Deletes what failed attempts have left, as far as that does not take long: the next attempt, or the first commit, sees to the rest.
async fn collect_abandoned(store: &Store, options: &Options, attempt: AttemptId, log: &Log) {
    let collected = unless_cancelled(&options.interrupt, store.collect_abandoned(attempt, log));
    match tokio::time::timeout(LONGEST_COLLECTION, collected).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("what failed attempts have left could not be deleted: {error}"),
        Err(_) => tracing::warn!("what failed attempts have left could not all be deleted in {LONGEST_COLLECTION:?}"),
    }
}

/// Looks once more at what was chosen, now that the run is claimed, of which this is the log: an attempt that was still running may have
/// committed in between, or another one been told where to begin. What is to be begun from after all is read.
async fn look_again(
    store: &Store,
    prepared: &Prepared,
    options: &Options,
    log: &Log,
    mut choice: Choice,
    mut beginning: Beginning,
) -> Result<(Choice, Beginning)> {
    if let Some(asked) = choice.from.as_ref().filter(|_| choice.is_asked) {
        still_holds(store, log, asked).await?;
    } else if choice.run != RunChoice::Fresh {
        let now = going_on(store, choice.run, log).await?;
        choice.from = now.from;
        if now.point.as_ref().map(|now| &now.path) != choice.point.as_ref().map(|point| &point.path) {
            choice.point = now.point;
            beginning = read(store, choice.point.as_mut(), prepared, options).await?;
        }
    }
    // Whoever was overtaken may have deleted what is not the newest.
    if let Some(point) = choice.point.as_ref().filter(|point| choice.from.is_some() && point.run_dir == log.dir) {
        store.check_listed(point).await?;
    }
    Ok((choice, beginning))
}

/// What was migrated or renamed is as no file holds it. The attempt's first checkpoint names what it writes of it, which is all, and nothing of what
/// was there before; the one that was restored stays as it is.
fn forget_unsaved(point: &mut RestorePoint, unsaved: &[String]) {
    for part in point.manifest.operators.iter_mut().filter(|part| unsaved.contains(&part.uid)) {
        part.files.clear();
        part.operator_state.clear();
    }
}

/// Publishes what a committed checkpoint of one of the job's runs names. The output of one that was brought from elsewhere is not this
/// job's to publish. `by` is the attempt that begins from it, if one does.
pub(super) async fn publish(store: &Store, prepared: &Prepared, point: &RestorePoint, by: Option<AttemptId>) -> Result<()> {
    let runs = store.runs().await?;
    let Some(run) = runs.into_iter().find(|&run| store.run_dir(run) == point.run_dir) else { return Ok(()) };
    let mut manifest = point.manifest.clone();
    rename(&mut manifest, &prepared.plan);
    let by = by.filter(|by| by.run == run);
    sinks::publish(store, prepared, by.unwrap_or(AttemptId { run, ..manifest.attempt }), &manifest, Patience::none()).await?;
    match by {
        Some(by) => store.take_over_note(by, manifest.checkpoint).await,
        None => Ok(()),
    }
}

/// Reads a checkpoint, whose manifest speaks in the job's terms from then on.
async fn read(store: &Store, point: Option<&mut RestorePoint>, prepared: &Prepared, options: &Options) -> Result<Beginning> {
    let has_state = |node: usize| prepared.components[node].as_ref().is_some_and(|component| !component.descriptor().states.is_empty());
    let checked = match point {
        None => None,
        Some(point) => {
            let settled = settle(&mut point.manifest, &prepared.plan, options.allow_non_restored_state, has_state)?;
            let migrations = restore::check(&point.manifest, prepared, &options.interrupt).await?;
            Some((point, migrations, settled))
        }
    };
    let plan = Arc::clone(&prepared.plan);
    let local = Arc::new(apart(move || Local::create(&plan)).await?);
    let beginning = match checked {
        None => Beginning::default(),
        Some((point, migrations, settled)) => {
            let read = restore::read(store, point, prepared, &migrations, &local, settled);
            unless_cancelled(&options.interrupt, read).await?
        }
    };
    restore::complete(beginning, prepared, local).await
}

pub(super) async fn choose_and_read(
    store: &Store,
    prepared: &Prepared,
    options: &Options,
    after: Option<AttemptId>,
) -> Result<Option<(Choice, Beginning)>> {
    let Some(mut choice) = choose(store, prepared, options, after).await? else { return Ok(None) };
    let beginning = read(store, choice.point.as_mut(), prepared, options).await?;
    Ok(Some((choice, beginning)))
}
