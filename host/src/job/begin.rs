//! Beginning an attempt: what to restore from, read and checked before anything is changed; then the claim, and what the checkpoint
//! still has to publish.

use std::sync::Arc;

use crate::checkpoint::decide::{RestorePoint, newest_point, next_epoch, restore_point};
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::{Claim, LogEntry};
use crate::checkpoint::store::{BeginFrom, Claimed, RunChoice, Store, canonical};
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;
use crate::threads::apart;

use super::between::unless_cancelled;
use super::fallback::{FellBack, newest_whole};
use super::local::Local;
use super::patience::Patience;
use super::prepare::Prepared;
use super::restore::{self, Beginning};
use super::settle::{rename, settle};
use super::sinks;
use super::{Options, discard};

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

/// Which run an attempt is to go on with, and from which checkpoint.
struct Choice {
    run: RunChoice,
    point: Option<RestorePoint>,
    /// Whether the checkpoint was asked for, rather than the newest.
    asked: bool,
    /// How many newer checkpoints of its run it has been accepted to pass over; none: any number.
    passes_over: Option<usize>,
    fell_back: Option<FellBack>,
    /// Whether it is a savepoint that belongs to the job from now on.
    owns: bool,
}

impl Choice {
    /// To go on from the newest checkpoint, or without one.
    fn newest(run: RunChoice, point: Option<RestorePoint>) -> Self {
        Choice { run, point, asked: false, passes_over: None, fell_back: None, owns: false }
    }
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
    let Some((Choice { run, mut point, asked, passes_over, fell_back, owns }, mut beginning)) = chosen else { return Ok(None) };
    let from = |point: &RestorePoint| BeginFrom { manifest: canonical(&point.path).to_string(), owned: owns, passes_over };
    let from = point.as_ref().filter(|_| asked).map(from);
    let Claimed { attempt, slot, log } = store.claim(run, &format!("process {}", std::process::id()), from.as_ref()).await?;
    // An attempt that was still running may have committed in between.
    if let Some(from) = &from {
        still_newest(store, from).await?;
    } else if run != RunChoice::Fresh {
        let mut newest = restore_point(&log, slot)?;
        if newest.as_ref().map(|newest| &newest.path) != point.as_ref().map(|point| &point.path) {
            beginning = read(store, newest.as_mut(), prepared, options).await?;
            point = newest;
        }
    }
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
    Ok(Some(Begun { attempt, slot: slot + 1, epoch, point, origin, fell_back, owned, beginning }))
}

/// What was migrated or renamed is as no file holds it. The attempt's first checkpoint names what it writes of it, which is all, and nothing of what
/// was there before; the one that was restored stays as it is.
fn forget_unsaved(point: &mut RestorePoint, unsaved: &[String]) {
    for part in point.manifest.operators.iter_mut().filter(|part| unsaved.contains(&part.uid)) {
        part.files.clear();
        part.operator_state.clear();
    }
}

/// No more checkpoints may be newer than one that was asked for than when it was.
async fn still_newest(store: &Store, from: &BeginFrom) -> Result<()> {
    let Some(accepted) = from.passes_over else { return Ok(()) };
    let now = store.load(&from.manifest).await?;
    if now.newer > accepted { Err(duplicates(&now)) } else { Ok(()) }
}

fn from_run(point: &RestorePoint, log: &Log) -> bool {
    point.run_dir == log.dir
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

async fn choose_and_read(
    store: &Store,
    prepared: &Prepared,
    options: &Options,
    after: Option<AttemptId>,
) -> Result<Option<(Choice, Beginning)>> {
    let Some(mut choice) = choose(store, prepared, options, after).await? else { return Ok(None) };
    let beginning = read(store, choice.point.as_mut(), prepared, options).await?;
    Ok(Some((choice, beginning)))
}

/// Begins from the newest checkpoint that is whole, since the newest of all can't be restored, as `error` says.
async fn fall_back(store: &Store, options: &Options, error: Error) -> Result<Choice> {
    let message = error.message().to_owned();
    let (point, fell_back) = newest_whole(store, error).await?;
    if fell_back.doubles && !options.allow_duplicates {
        return Err(duplicates(&point).context(message));
    }
    let passes_over = (!options.allow_duplicates).then_some(point.newer);
    Ok(Choice { run: RunChoice::Newest, point: Some(point), asked: true, passes_over, fell_back: Some(fell_back), owns: false })
}

async fn choose(store: &Store, prepared: &Prepared, options: &Options, after: Option<AttemptId>) -> Result<Option<Choice>> {
    let run = after.map_or(RunChoice::Newest, RunChoice::After);
    let newest = store.newest_log().await?;
    if let (true, None) = (options.fresh, after) {
        if let Some(log) = &newest {
            discard::clear_rest(store, log).await?;
        }
        return Ok(Some(Choice::newest(RunChoice::Fresh, None)));
    }
    if let (Some(wanted), None) = (&options.from, after) {
        return asked(store.load(wanted).await?, newest.as_ref(), options).map(Some);
    }
    let Some(log) = newest else { return Ok(Some(Choice::newest(run, None))) };
    if let Some(claim) = unfulfilled(&log)
        && let Some(from) = &claim.from
    {
        // The last attempt was told where to begin, and has not committed anything since: that still holds.
        let point = store.load(from).await?;
        let Claim { passes_over, owns, .. } = *claim;
        let is_refused = passes_over.is_some_and(|accepted| point.newer > accepted);
        if is_refused && !from_run(&point, &log) {
            // The run has nothing of its own to go on from.
            let help = "begin by `-s` from the newest checkpoint of that run, or from this one with `--allow-duplicates`";
            return Err(duplicates(&point).help(help));
        }
        if !is_refused {
            return Ok(Some(Choice { run, point: Some(point), asked: true, passes_over, fell_back: None, owns }));
        }
        // It had been overtaken by a commit before it was claimed, so nothing may begin from it.
    }
    match newest_point(&log)? {
        Some(point) if point.manifest.finished => {
            // It may have been killed between its last commit and the publication.
            publish(store, prepared, &point, None).await?;
            discard::clear_rest(store, &log).await?;
            match after {
                Some(after) if store.taken_over(after, &log) => Ok(Some(Choice::newest(run, Some(point)))),
                // It is this job that has come to its end, and not to be done once more.
                Some(_) => Ok(None),
                None => Ok(Some(Choice::newest(RunChoice::Fresh, None))),
            }
        }
        point => Ok(Some(Choice::newest(run, point))),
    }
}

/// Begins from a checkpoint that was asked for: in its own run if that is the newest, else in a new one. A run that has begun from it
/// already is gone on with, as long as it has committed nothing.
fn asked(point: RestorePoint, newest: Option<&Log>, options: &Options) -> Result<Choice> {
    if (point.newer > 0 || point.manifest.finished) && !options.allow_duplicates {
        return Err(duplicates(&point));
    }
    if options.claim && point.manifest.savepoint.is_none() {
        let message = format!("{} is no savepoint, and can't be claimed", point.path);
        return Err(
            Error::new(Kind::Checkpoint, message).help("leave out `--claim-mode claim`: a checkpoint belongs to the job whose it is")
        );
    }
    let path = canonical(&point.path).to_string();
    let run = match newest {
        Some(log) if from_run(&point, log) => RunChoice::Newest,
        Some(log) if unfulfilled(log).is_some_and(|claim| claim.from.as_ref() == Some(&path)) => RunChoice::Newest,
        Some(log)
            if !options.allow_duplicates && log.manifests().next().is_some_and(|(_, newest)| newest.origin.as_ref() == Some(&path)) =>
        {
            let what = if point.manifest.savepoint.is_some() { "savepoint" } else { "checkpoint" };
            let message = format!("run {} has begun from {what} {path} already, and its output would be published again", log.run);
            return Err(Error::new(Kind::Checkpoint, message)
                .help("run without `-s` to go on with that run, or again with `--allow-duplicates` if that is acceptable"));
        }
        _ => RunChoice::Fresh,
    };
    let passes_over = (!options.allow_duplicates).then_some(0);
    Ok(Choice { run, point: Some(point), asked: true, passes_over, fell_back: None, owns: options.claim })
}

/// The claim of the newest attempt, if it was told where to begin and has not committed a checkpoint of its own.
pub(super) fn unfulfilled(log: &Log) -> Option<&Claim> {
    match log.entries.values().next_back()? {
        Ok(LogEntry::Claim(claim)) if claim.from.is_some() => Some(claim),
        _ => None,
    }
}

/// Why beginning from a checkpoint would publish something twice.
fn duplicates(point: &RestorePoint) -> Error {
    let newer = point.newer;
    let cause = if newer > 0 {
        format!("is not the newest of its run: the output of {newer} newer checkpoint(s) is published already and would be published again")
    } else {
        "has ended its run: nothing is left to resume, and what operators send when they finish would be published again".into()
    };
    Error::new(Kind::Checkpoint, format!("{} {cause}", point.name()))
        .help("run again with `--allow-duplicates` if that is acceptable, or without `-s` to go on from the newest or begin anew")
}
