//! Beginning an attempt: what to restore from, read and checked before anything is changed; then the claim, and what the checkpoint
//! still has to publish.

use crate::checkpoint::decide::{RestorePoint, next_epoch, restore_point};
use crate::checkpoint::store::{Claimed, RunChoice, Store};
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;

use super::Options;
use super::prepare::Prepared;
use super::restore::{self, Beginning};
use super::sinks;

/// An attempt that has begun.
pub(super) struct Begun {
    pub(super) attempt: AttemptId,
    /// The slot of its first commit.
    pub(super) slot: u64,
    /// Its first epoch.
    pub(super) epoch: u64,
    /// What it was restored from.
    pub(super) point: Option<RestorePoint>,
    pub(super) beginning: Beginning,
}

/// Begins an attempt of a job. Whatever is wrong with the checkpoint is found before the claim, so that nothing has changed then.
pub(super) async fn begin(store: &Store, prepared: &Prepared, options: &Options) -> Result<Begun> {
    let (choice, mut point) = choose(store, prepared, options).await?;
    let mut beginning = read(store, point.as_ref(), prepared).await?;
    let Claimed { attempt, slot, log } = store.claim(choice, &format!("process {}", std::process::id())).await?;
    if choice == RunChoice::Newest && options.from.is_none() {
        // An attempt that was still running may have committed in between.
        let newest = restore_point(&log, slot)?;
        if newest.as_ref().map(|point| point.slot) != point.as_ref().map(|point| point.slot) {
            beginning = read(store, newest.as_ref(), prepared).await?;
            point = newest;
        }
    }
    if let Some(found) = &mut point {
        publish(store, prepared, found).await?;
        *found = store.adopt(found, attempt).await?;
    }
    sinks::prepare(prepared, attempt).await?;
    let epoch = next_epoch(&log).max(point.as_ref().map_or(0, |point| point.manifest.checkpoint + 1));
    Ok(Begun { attempt, slot: slot + 1, epoch, point, beginning })
}

/// Publishes what a committed checkpoint of one of the job's runs names. The output of one that was brought from elsewhere is not this
/// job's to publish.
async fn publish(store: &Store, prepared: &Prepared, point: &RestorePoint) -> Result<()> {
    let runs = store.runs().await?;
    match runs.into_iter().find(|&run| store.run_dir(run) == point.run_dir) {
        Some(run) => sinks::publish(store, prepared, run, &point.manifest).await,
        None => Ok(()),
    }
}

async fn read(store: &Store, point: Option<&RestorePoint>, prepared: &Prepared) -> Result<Beginning> {
    match point {
        None => Ok(Beginning::default()),
        Some(point) => {
            restore::check(&point.manifest, prepared)?;
            restore::read(store, point, prepared).await
        }
    }
}

/// Which run to go on with, and from which checkpoint.
async fn choose(store: &Store, prepared: &Prepared, options: &Options) -> Result<(RunChoice, Option<RestorePoint>)> {
    if options.fresh {
        return Ok((RunChoice::Fresh, None));
    }
    let newest = store.runs().await?.last().copied();
    if let Some(wanted) = &options.from {
        let point = store.load(wanted).await?;
        if (point.newer > 0 || point.manifest.finished) && !options.allow_duplicates {
            return Err(duplicates(&point));
        }
        let own = newest.is_some_and(|run| store.run_dir(run) == point.run_dir);
        return Ok((if own { RunChoice::Newest } else { RunChoice::Fresh }, Some(point)));
    }
    let Some(run) = newest else { return Ok((RunChoice::Newest, None)) };
    let log = store.log(run).await?;
    match restore_point(&log, log.last_slot() + 1)? {
        Some(point) if point.manifest.finished => {
            // It may have been killed between its last commit and the publication.
            publish(store, prepared, &point).await?;
            Ok((RunChoice::Fresh, None))
        }
        point => Ok((RunChoice::Newest, point)),
    }
}

/// Why beginning from a checkpoint would publish something twice.
fn duplicates(point: &RestorePoint) -> Error {
    let (checkpoint, newer) = (point.manifest.checkpoint, point.newer);
    let cause = if newer > 0 {
        format!("is not the newest of its run: the output of {newer} newer checkpoint(s) is published already and would be published again")
    } else {
        "has ended its run: nothing is left to resume, and what operators send when they finish would be published again".into()
    };
    Error::new(Kind::Checkpoint, format!("checkpoint {checkpoint} {cause}"))
        .help("run again with `--allow-duplicates` if that is acceptable, or without `-s` to go on from the newest or begin anew")
}
