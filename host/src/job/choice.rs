//! [`Choice`]: which run an attempt is to go on with, and from which checkpoint: what its user asks for, what an attempt before it was told
//! and has not come to, or the newest.

use crate::checkpoint::decide::{RestorePoint, newest_point, point_at};
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::LogEntry;
use crate::checkpoint::paths::{self, RunPath};
use crate::checkpoint::store::{BeginFrom, RunChoice, Store, canonical};
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;

use super::begin::publish;
use super::fallback::{FellBack, newest_whole};
use super::prepare::Prepared;
use super::{Options, discard};

/// Which run an attempt is to go on with, and from which checkpoint.
pub(super) struct Choice {
    pub(super) run: RunChoice,
    pub(super) point: Option<RestorePoint>,
    /// What was told of that checkpoint, if it is one to begin from rather than from the newest.
    pub(super) from: Option<BeginFrom>,
    /// Whether it is asked for now. An attempt before was told it otherwise, and its claim says so already.
    pub(super) is_asked: bool,
    pub(super) fell_back: Option<FellBack>,
}

impl Choice {
    /// To go on from the newest checkpoint, or without one.
    fn newest(run: RunChoice, point: Option<RestorePoint>) -> Self {
        Choice { run, point, from: None, is_asked: false, fell_back: None }
    }

    /// To begin from a checkpoint that is asked for now. `passes_over` says how many newer ones of its run that has been accepted to pass
    /// over, if not any number; `owned` whether it is a savepoint that belongs to the job from now on.
    fn asked(run: RunChoice, point: RestorePoint, passes_over: Option<usize>, owned: bool) -> Self {
        let from = BeginFrom { manifest: canonical(&point.path).to_string(), owned, passes_over };
        Choice { run, point: Some(point), from: Some(from), is_asked: true, fell_back: None }
    }
}

/// Begins from the newest checkpoint that is whole, since the newest of all can't be restored, as `error` says.
pub(super) async fn fall_back(store: &Store, options: &Options, error: Error) -> Result<Choice> {
    let message = error.message().to_owned();
    let (point, fell_back) = newest_whole(store, error).await?;
    if fell_back.doubles && !options.allow_duplicates {
        return Err(duplicates(&point).context(message));
    }
    let passes_over = (!options.allow_duplicates).then_some(point.newer);
    Ok(Choice { fell_back: Some(fell_back), ..Choice::asked(RunChoice::Newest, point, passes_over, false) })
}

pub(super) async fn choose(store: &Store, prepared: &Prepared, options: &Options, after: Option<AttemptId>) -> Result<Option<Choice>> {
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
    let choice = going_on(store, run, &log).await?;
    match &choice.point {
        Some(point) if point.manifest.finished && choice.from.is_none() => {
            // It may have been killed between its last commit and the publication.
            publish(store, prepared, point, None).await?;
            discard::clear_rest(store, &log).await?;
            match after {
                Some(after) if store.taken_over(after, &log) => Ok(Some(choice)),
                // It is this job that has come to its end, and not to be done once more.
                Some(_) => Ok(None),
                None => Ok(Some(Choice::newest(RunChoice::Fresh, None))),
            }
        }
        _ => Ok(Some(choice)),
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
        Some(log) if unfulfilled(log).next().is_some_and(|from| from.manifest == path) => RunChoice::Newest,
        Some(log) if !options.allow_duplicates && has_begun_from(log, &path) => {
            let what = if point.manifest.savepoint.is_some() { "savepoint" } else { "checkpoint" };
            let message = format!("run {} has begun from {what} {path} already, and its output would be published again", log.run);
            return Err(Error::new(Kind::Checkpoint, message)
                .help("run without `-s` to go on with that run, or again with `--allow-duplicates` if that is acceptable"));
        }
        _ => RunChoice::Fresh,
    };
    let passes_over = (!options.allow_duplicates).then_some(0);
    Ok(Choice::asked(run, point, passes_over, options.claim))
}

/// Where an attempt goes on that is asked for nothing: from what one before it was told, as long as that holds, or from the newest
/// checkpoint.
///
/// # Errors
/// Kind `Checkpoint` or `Storage` if that can't be read, or begun from without publishing something twice.
pub(super) async fn going_on(store: &Store, run: RunChoice, log: &Log) -> Result<Choice> {
    for from in unfulfilled(log) {
        if let Some(point) = holds(store, log, &from).await? {
            return Ok(Choice { from: Some(from), ..Choice::newest(run, Some(point)) });
        }
    }
    Ok(Choice::newest(run, newest_point(log)?))
}

/// What attempts were told to begin from since the newest checkpoint, the newest first. Others may have claimed the run after them and been
/// told nothing, which changes nothing of it.
pub(super) fn unfulfilled(log: &Log) -> impl Iterator<Item = BeginFrom> {
    // An entry that is missing or can't be read may be a checkpoint.
    let claims = log.entries.range(log.first_slot()..).rev().map_while(|(_, entry)| match entry {
        Ok(LogEntry::Claim(claim)) => Some(claim),
        _ => None,
    });
    claims.filter_map(|claim| Some(BeginFrom { manifest: claim.from.clone()?, owned: claim.owns, passes_over: claim.passes_over }))
}

/// The checkpoint that an attempt was told to begin from; none if nothing may begin from it, because the run had gone on before the attempt
/// claimed it: with more commits than were accepted, with such as have superseded the checkpoint, or with those of a run that has begun
/// from it.
async fn holds(store: &Store, log: &Log, from: &BeginFrom) -> Result<Option<RestorePoint>> {
    let (own, has_checkpoints) = (slot_of(log, &from.manifest), log.manifests().next().is_some());
    let is_superseded = has_checkpoints && own.is_some_and(|slot| !log.entries.contains_key(&slot));
    if is_superseded || has_begun_from(log, &from.manifest) {
        return Ok(None);
    }
    let point = match own.and_then(|slot| point_at(log, slot)) {
        Some(point) => point,
        None => store.load(&from.manifest).await?,
    };
    let is_overtaken = from.passes_over.is_some_and(|accepted| point.newer > accepted);
    match from_run(&point, log) {
        true => Ok((!is_overtaken).then_some(point)),
        // It was asked for when another run was the newest, and has no place in this one.
        false if has_checkpoints => Ok(None),
        // The run has nothing of its own to go on from.
        false if is_overtaken => {
            Err(duplicates(&point).help("begin by `-s` from the newest checkpoint of that run, or from this one with `--allow-duplicates`"))
        }
        false => Ok(Some(point)),
    }
}

/// Makes sure that what was asked for holds now that the run is claimed, of which this is the log.
///
/// # Errors
/// Kind `Checkpoint` if others have gone on meanwhile; `Storage` if that can't be found out.
pub(super) async fn still_holds(store: &Store, log: &Log, asked: &BeginFrom) -> Result<()> {
    if holds(store, log, asked).await?.is_some() {
        return Ok(());
    }
    let message = format!("run {} has gone on while {} was read, and nothing may begin from that any more", log.run, asked.manifest);
    Err(Error::new(Kind::Checkpoint, message)
        .help("run without `-s` and `--fallback` to go on with that run, or ask again for a checkpoint that it has"))
}

/// Whether the run has a checkpoint, and has begun from the one elsewhere whose manifest lies at `path`.
fn has_begun_from(log: &Log, path: &str) -> bool {
    log.manifests().next().is_some_and(|(_, newest)| newest.origin.as_deref() == Some(path))
}

/// The slot of the entry of this log that lies at `path`, or has lain there; none if that is elsewhere.
fn slot_of(log: &Log, path: &str) -> Option<u64> {
    let within = path.strip_prefix(&canonical(&log.dir).to_string())?.strip_prefix('/')?;
    match paths::classify(within) {
        RunPath::Entry(slot) => Some(slot),
        _ => None,
    }
}

fn from_run(point: &RestorePoint, log: &Log) -> bool {
    point.run_dir == log.dir
}

/// Why beginning from a checkpoint would publish something twice.
fn duplicates(point: &RestorePoint) -> Error {
    let newer = point.newer;
    let cause = if newer > 0 {
        format!("is not the newest of its run: the output of {newer} newer checkpoint(s) is published already and would be published again")
    } else {
        "has ended its run: nothing is left to resume, and what operators send when they finish would be published again".into()
    };
    Error::new(Kind::Checkpoint, format!("{} {cause}", point.name())).help(
        "add `--allow-duplicates` if that is acceptable; or run the job without `-s` to go on from its newest checkpoint, or \
               with `--fresh` to begin anew",
    )
}
