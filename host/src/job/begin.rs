//! Beginning an attempt: what to restore from, read and checked before anything is changed; then the claim, and what the checkpoint
//! still has to publish.

use std::sync::Arc;

use crate::checkpoint::decide::{RestorePoint, next_epoch, point_at, restore_point};
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::LogEntry;
use crate::checkpoint::store::{Claimed, RunChoice, Store, canonical};
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;

use super::Options;
use super::local::Local;
use super::migrate::{Migrations, apart};
use super::patience::Patience;
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
    /// The manifest of another run from which this run began.
    pub(super) origin: Option<String>,
    pub(super) beginning: Beginning,
}

/// Which run an attempt is to go on with, and from which checkpoint.
struct Choice {
    run: RunChoice,
    point: Option<RestorePoint>,
    /// Whether the checkpoint was asked for, rather than the newest.
    asked: bool,
    /// Whether it has been accepted that output is published twice.
    may_double: bool,
}

/// Begins an attempt of a job. Whatever is wrong with the checkpoint is found before the claim, so that nothing has changed then. None if
/// nothing is left to do: the attempt `after`, one of this process that has failed, came as far as the job's last commit.
pub(super) async fn begin(store: &Store, prepared: &Prepared, options: &Options, after: Option<AttemptId>) -> Result<Option<Begun>> {
    let Some(Choice { run, mut point, asked, may_double }) = choose(store, prepared, options, after).await? else { return Ok(None) };
    let mut beginning = read(store, point.as_ref(), prepared).await?;
    let from = point.as_ref().filter(|_| asked).map(|point| canonical(&point.path).to_string());
    let Claimed { attempt, slot, log } = store.claim(run, &format!("process {}", std::process::id()), from.as_deref()).await?;
    if run != RunChoice::Fresh {
        // An attempt that was still running may have committed in between.
        match &point {
            Some(point) if asked => still_newest(point, &log, may_double)?,
            _ => {
                let newest = restore_point(&log, slot)?;
                if newest.as_ref().map(|newest| &newest.path) != point.as_ref().map(|point| &point.path) {
                    beginning = read(store, newest.as_ref(), prepared).await?;
                    point = newest;
                }
            }
        }
    }
    let mut origin = point.as_ref().and_then(|point| point.manifest.origin.clone());
    if let Some(found) = &mut point {
        publish(store, prepared, found).await?;
        if found.run_dir != store.run_dir(attempt.run) {
            origin = from;
        }
        forget_migrated(found, &beginning.migrated);
        *found = store.adopt(found, attempt).await?;
    }
    sinks::prepare(prepared, attempt).await?;
    let epoch = next_epoch(&log).max(point.as_ref().map_or(0, |point| point.manifest.checkpoint + 1));
    Ok(Some(Begun { attempt, slot: slot + 1, epoch, point, origin, beginning }))
}

/// What was migrated is as no file holds it. The attempt's first checkpoint names what it writes of it, which is all, and nothing of what
/// was there before; the one that was restored stays as it is.
fn forget_migrated(point: &mut RestorePoint, migrated: &[String]) {
    for part in point.manifest.operators.iter_mut().filter(|part| migrated.contains(&part.uid)) {
        part.files.clear();
        part.operator_state.clear();
    }
}

/// A checkpoint that was asked for, and was the newest, must still be.
fn still_newest(point: &RestorePoint, log: &Log, may_double: bool) -> Result<()> {
    match point_at(log, point.slot) {
        Some(now) if from_run(point, log) && now.newer > 0 && !may_double => Err(duplicates(&now)),
        _ => Ok(()),
    }
}

fn from_run(point: &RestorePoint, log: &Log) -> bool {
    point.run_dir == log.dir
}

/// Publishes what a committed checkpoint of one of the job's runs names. The output of one that was brought from elsewhere is not this
/// job's to publish.
async fn publish(store: &Store, prepared: &Prepared, point: &RestorePoint) -> Result<()> {
    let runs = store.runs().await?;
    match runs.into_iter().find(|&run| store.run_dir(run) == point.run_dir) {
        Some(run) => sinks::publish(store, prepared, run, &point.manifest, Patience::none()).await,
        None => Ok(()),
    }
}

async fn read(store: &Store, point: Option<&RestorePoint>, prepared: &Prepared) -> Result<Beginning> {
    let migrations = match point {
        None => Migrations::new(),
        Some(point) => restore::check(&point.manifest, prepared).await?,
    };
    let plan = Arc::clone(&prepared.plan);
    let local = Arc::new(apart(move || Local::create(&plan)).await?);
    let beginning = match point {
        None => Beginning::default(),
        Some(point) => restore::read(store, point, prepared, &migrations, &local).await?,
    };
    restore::complete(beginning, prepared, local).await
}

async fn choose(store: &Store, prepared: &Prepared, options: &Options, after: Option<AttemptId>) -> Result<Option<Choice>> {
    if let (true, None) = (options.fresh, after) {
        return Ok(Some(Choice { run: RunChoice::Fresh, point: None, asked: false, may_double: false }));
    }
    let run = after.map_or(RunChoice::Newest, RunChoice::After);
    let newest = match store.runs().await?.last() {
        Some(&run) => Some(store.log(run).await?),
        None => None,
    };
    if let (Some(wanted), None) = (&options.from, after) {
        return asked(store.load(wanted).await?, newest.as_ref(), options).map(Some);
    }
    let Some(log) = newest else { return Ok(Some(Choice { run, point: None, asked: false, may_double: false })) };
    if let Some(from) = unfulfilled(&log) {
        // The last attempt was told where to begin, and has not committed anything since: that still holds.
        let point = store.load(from).await?;
        return Ok(Some(Choice { run, point: Some(point), asked: true, may_double: true }));
    }
    match restore_point(&log, log.last_slot() + 1)? {
        Some(point) if point.manifest.finished => {
            // It may have been killed between its last commit and the publication.
            publish(store, prepared, &point).await?;
            match after {
                Some(after) if log.run > after.run || log.last_attempt() > after.attempt => {
                    Ok(Some(Choice { run, point: Some(point), asked: false, may_double: false }))
                }
                // It is this job that has come to its end, and not to be done once more.
                Some(_) => Ok(None),
                None => Ok(Some(Choice { run: RunChoice::Fresh, point: None, asked: false, may_double: false })),
            }
        }
        point => Ok(Some(Choice { run, point, asked: false, may_double: false })),
    }
}

/// Begins from a checkpoint that was asked for: in its own run if that is the newest, else in a new one. A run that has begun from it
/// already is gone on with, as long as it has committed nothing.
fn asked(point: RestorePoint, newest: Option<&Log>, options: &Options) -> Result<Choice> {
    if (point.newer > 0 || point.manifest.finished) && !options.allow_duplicates {
        return Err(duplicates(&point));
    }
    let path = canonical(&point.path).to_string();
    let run = match newest {
        Some(log) if from_run(&point, log) => RunChoice::Newest,
        Some(log) if unfulfilled(log) == Some(&path) => RunChoice::Newest,
        Some(log)
            if !options.allow_duplicates && log.manifests().next().is_some_and(|(_, newest)| newest.origin.as_ref() == Some(&path)) =>
        {
            let message = format!("run {} has begun from checkpoint {} already, and its output would be published again", log.run, path);
            return Err(Error::new(Kind::Checkpoint, message)
                .help("run without `-s` to go on with that run, or again with `--allow-duplicates` if that is acceptable"));
        }
        _ => RunChoice::Fresh,
    };
    Ok(Choice { run, point: Some(point), asked: true, may_double: options.allow_duplicates })
}

/// The checkpoint from which the newest attempt was told to begin, if it has not committed one of its own.
fn unfulfilled(log: &Log) -> Option<&String> {
    match log.entries.values().next_back()? {
        Ok(LogEntry::Claim(claim)) => claim.from.as_ref(),
        _ => None,
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
