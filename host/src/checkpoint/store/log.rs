//! The log of a run on disk: reading it, claiming it for a new attempt, and committing to it. These keep the fence: whoever has been
//! overtaken by a newer attempt finds out at its next commit, and publishes nothing more.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;

use super::objects::Objects;
use super::{Store, get_from, key, list_below, unreadable};
use crate::checkpoint::decide::next_attempt;
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::{Claim, LogEntry, Manifest, parse, render};
use crate::checkpoint::paths::{self, RunPath};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::Location;
use crate::record::AttemptId;

/// How often a claim is tried again because others were faster. Each time, one of them got further.
const TRIES: usize = 100;

/// How many entries are read at once: where each takes its time, a claim that reads them one by one comes after the next commit.
const READS_AT_ONCE: usize = 16;

/// Which run an attempt is to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChoice {
    /// The newest, or the first if there is none.
    Newest,
    /// A new one, without state.
    Fresh,
    /// The one that this attempt has claimed before, if nobody else has taken over since.
    After(AttemptId),
}

/// What an attempt was told to begin from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginFrom {
    /// Its manifest.
    pub manifest: String,
    /// Whether it is a savepoint that belongs to the job from now on.
    pub owned: bool,
    /// How many newer checkpoints it is accepted to pass over; none: any number.
    pub passes_over: Option<usize>,
}

/// A run that was claimed.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The new attempt.
    pub attempt: AttemptId,
    /// The slot of its claim. It restores from what lies below, and commits first to the slot after it.
    pub slot: u64,
    /// The log, with the claim.
    pub log: Log,
}

impl Store {
    /// The log of a run. Entries that can't be read are in it, with the reason.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read.
    pub async fn log(&self, run: u32) -> Result<Log> {
        self.log_from(&self.objects, &paths::run_dir(run), &self.run_dir(run), run).await
    }

    /// The log of the run at `prefix` of `objects`, which is the directory `dir`.
    pub(super) async fn log_from(&self, objects: &Objects, prefix: &str, dir: &Location, run: u32) -> Result<Log> {
        let read = |slot| async move { Ok::<_, Error>(entry_from(objects, prefix, dir, slot).await?.map(|entry| (slot, entry))) };
        let slots = self.slots_from(objects, prefix, dir).await?;
        let entries: Vec<_> = futures::stream::iter(slots).map(read).buffered(READS_AT_ONCE).try_collect().await?;
        Ok(Log { run, dir: dir.clone(), entries: entries.into_iter().flatten().collect() })
    }

    /// The log of a run that was read before. Entries never change, so only those are read that have come since.
    async fn log_again(&self, mut log: Log) -> Result<Log> {
        let slots: BTreeSet<u64> = self.slots(log.run).await?.into_iter().collect();
        log.entries.retain(|slot, _| slots.contains(slot));
        for slot in slots {
            if let Entry::Vacant(place) = log.entries.entry(slot)
                && let Some(entry) = self.entry(log.run, slot).await?
            {
                place.insert(entry);
            }
        }
        Ok(log)
    }

    /// Claims a run for a new attempt. `by` says who runs it, for people; `from` what it is to begin from, if not from the newest
    /// checkpoint of the run. Older attempts are over from here on.
    ///
    /// # Errors
    /// [`Kind::Fenced`] if someone else has claimed the run right afterwards, or taken over before; [`Kind::Checkpoint`] if the run's log can't be
    /// understood or is gone; [`Kind::Storage`] if the directory can't be read or written.
    pub async fn claim(&self, choice: RunChoice, by: &str, from: Option<&BeginFrom>) -> Result<Claimed> {
        let mut run = self.choose(choice).await?;
        for _ in 0..TRIES {
            let log = self.log(run).await?;
            if choice == RunChoice::Fresh && !log.entries.is_empty() {
                // Someone else has begun this one.
                run += 1;
                continue;
            }
            if let RunChoice::After(last) = choice
                && let Some(newer) = self.fence(last, &log).await?
            {
                return Err(newer);
            }
            let (slot, attempt) = (log.last_slot() + 1, AttemptId { run, attempt: next_attempt(&log)? });
            let (created, token) = (clock::wall_text(), format!("{:016x}{:016x}", self.claimer, clock::entropy()));
            let (owns, passes_over) = (from.is_some_and(|from| from.owned), from.and_then(|from| from.passes_over));
            let (job, from) = (self.job.clone(), from.map(|from| from.manifest.clone()));
            let claim = LogEntry::Claim(Claim { job, attempt, by: by.into(), created, token, from, owns, passes_over });
            if !self.put_new(run, &paths::entry(slot), &text(&claim)?).await? {
                continue;
            }
            let log = self.log_again(log).await?;
            match log.entries.get(&(slot + 1)) {
                None if log.last_slot() == slot => {
                    self.known.begin(attempt, &log);
                    return Ok(Claimed { attempt, slot, log });
                }
                Some(Ok(LogEntry::Claim(next))) if next.attempt.attempt == attempt.attempt + 1 => return Err(self.fenced(&log)),
                // The slot was free only because what it held was superseded long ago: this is no claim.
                _ => {}
            }
        }
        Err(Error::new(Kind::Storage, format!("{} can't be claimed: others are always faster", self.run_dir(run))))
    }

    /// Commits a checkpoint into `slot`, the one after the last that this attempt has written, and returns the slot for the next.
    /// Putting the same manifest again is the same commit.
    ///
    /// # Errors
    /// [`Kind::Fenced`] if a newer attempt, or a newer run, has taken over: nothing may be published then; [`Kind::Storage`] if the
    /// manifest can't be written: then it is unknown whether it was, and the same commit may be tried again.
    pub async fn commit(&self, slot: u64, manifest: &Manifest) -> Result<u64> {
        let run = manifest.attempt.run;
        let entry = LogEntry::Checkpoint(manifest.clone());
        let put = self.put_new(run, &paths::entry(slot), &text(&entry)?).await?;
        // A slot may be free only because a newer attempt has collected what it held.
        if !put || !self.slots_after(run, slot).await?.is_empty() {
            let log = self.log(run).await?;
            return Err(match log.last_attempt() > manifest.attempt.attempt {
                true => self.fenced(&log),
                false if put => obstructed(&log, slot),
                false => Error::new(Kind::Internal, format!("{} exists already, with another content", log.path(slot))),
            });
        }
        if let Some(newer) = self.newer_run(run).await? {
            return Err(newer);
        }
        self.known.entry(run, slot, Some(&entry));
        Ok(slot + 1)
    }

    /// The error for an attempt that has been overtaken by a newer one, or by a newer run; none if it has not been.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read.
    pub async fn overtaken(&self, attempt: AttemptId) -> Result<Option<Error>> {
        let known = self.known.log();
        let was_newest = self.known.is_of(attempt) && known.last_attempt() <= attempt.attempt;
        if was_newest && self.slots_after(attempt.run, known.last_slot()).await?.is_empty() {
            return self.newer_run(attempt.run).await;
        }
        let log = self.log(attempt.run).await?;
        if log.last_attempt() > attempt.attempt { Ok(Some(self.fenced(&log))) } else { self.newer_run(attempt.run).await }
    }

    /// Whether anybody else has taken over from an attempt, given the newest run. Claims of one's own do not count: with what they were
    /// for nothing has begun, or they were put though the put has failed.
    pub fn taken_over(&self, attempt: AttemptId, newest: &Log) -> bool {
        let own = format!("{:016x}", self.claimer);
        let is_own = |entry: &LogEntry| matches!(entry, LogEntry::Claim(claim) if claim.token.starts_with(&own));
        let is_others = |entry: &LogEntry| entry.attempt().attempt > attempt.attempt && !is_own(entry);
        newest.run > attempt.run || newest.entries.values().flatten().any(is_others)
    }

    /// The error for an attempt from which somebody else has taken over, as [`Store::taken_over`] finds; none if nobody has.
    ///
    /// # Errors
    /// [`Kind::Storage`] if the directory can't be read.
    pub async fn fence(&self, attempt: AttemptId, newest: &Log) -> Result<Option<Error>> {
        match self.taken_over(attempt, newest) {
            true => Ok(Some(self.newer_run(attempt.run).await?.unwrap_or_else(|| self.fenced(newest)))),
            false => Ok(None),
        }
    }

    /// The error for an attempt of `run` if there is a newer run.
    async fn newer_run(&self, run: u32) -> Result<Option<Error>> {
        for newer in self.run_dirs().await?.into_iter().filter(|&newer| newer > run) {
            if !self.slots(newer).await?.is_empty() {
                let message = format!("run {newer} of job `{}` has begun and taken over from run {run}", self.job);
                let help = "nothing is lost: this process has stopped, and the newer run goes on";
                return Ok(Some(Error::new(Kind::Fenced, message).help(help)));
            }
        }
        Ok(None)
    }

    /// The log of the newest run that has begun, if one has.
    ///
    /// # Errors
    /// As [`Store::log`].
    pub async fn newest_log(&self) -> Result<Option<Log>> {
        match self.runs().await?.last() {
            Some(&run) => self.log(run).await.map(Some),
            None => Ok(None),
        }
    }

    /// The slots in use in a run, in order.
    pub(super) async fn slots(&self, run: u32) -> Result<Vec<u64>> {
        self.slots_from(&self.objects, &paths::run_dir(run), &self.run_dir(run)).await
    }

    /// The slots in use in a run that are higher than `slot`. Costs nothing for those below.
    pub(super) async fn slots_after(&self, run: u32, slot: u64) -> Result<Vec<u64>> {
        let (prefix, dir) = (paths::run_dir(run), self.run_dir(run));
        let listed = self.objects.list_after(&key(&prefix, "log")?, &key(&prefix, &paths::entry(slot))?).await;
        let listed = listed.map_err(|error| unreadable(&dir.join("log"), &error))?;
        let names = listed.iter().filter_map(Key::filename);
        Ok(names.filter_map(slot_of).filter(|&found| found > slot).collect())
    }

    /// The entry in a slot of a run, or why it can't be read; none if there is none.
    pub(super) async fn entry(&self, run: u32, slot: u64) -> Result<Option<std::result::Result<LogEntry, String>>> {
        entry_from(&self.objects, &paths::run_dir(run), &self.run_dir(run), slot).await
    }

    async fn slots_from(&self, objects: &Objects, prefix: &str, dir: &Location) -> Result<Vec<u64>> {
        let log_prefix = if prefix.is_empty() { "log".into() } else { format!("{prefix}/log") };
        let listed = list_below(&log_prefix, &dir.join("log"), objects).await?;
        Ok(listed.iter().filter_map(|name| slot_of(name)).collect())
    }

    /// The run to claim.
    async fn choose(&self, choice: RunChoice) -> Result<u32> {
        let dirs = self.run_dirs().await?;
        if choice == RunChoice::Fresh {
            return Ok(dirs.last().map_or(1, |run| run + 1));
        }
        for &run in dirs.iter().rev() {
            // In this order: a run's files come after its first claim, so whoever sees a file sees the claim too.
            let has_files = self.list(run).await?.iter().any(|path| paths::classify(path) != RunPath::Foreign);
            if !self.slots(run).await?.is_empty() {
                return Ok(run);
            }
            // A directory without files is left from a start that did not get as far as its claim.
            if has_files {
                let message = format!("{} has files but no log: its checkpoints can't be found", self.run_dir(run));
                let help = "restore its `log` directory, or begin a new run without state with `--fresh`";
                return Err(Error::new(Kind::Checkpoint, message).help(help));
            }
        }
        Ok(dirs.last().copied().unwrap_or(1))
    }

    /// The error for whoever has been overtaken, naming by whom.
    fn fenced(&self, log: &Log) -> Error {
        let newest = log.entries.values().flatten().max_by_key(|entry| entry.attempt().attempt);
        let claim = log.entries.values().rev().flatten().find_map(|entry| match entry {
            LogEntry::Claim(claim) => Some(claim),
            LogEntry::Checkpoint(_) => None,
        });
        let number = newest.map_or(0, |entry| entry.attempt().attempt);
        let by = match claim {
            Some(claim) if claim.attempt.attempt == number => format!(" ({}, since {})", claim.by, claim.created),
            _ => String::new(),
        };
        Error::new(Kind::Fenced, format!("attempt {number} of job `{}`, run {}, has taken over{by}", self.job, log.run))
            .help("nothing is lost: this process has stopped, and the newer attempt goes on")
    }
}

/// The error for an attempt that has put its entry into `slot` and finds something after it that is of no newer attempt, as far as can be read.
fn obstructed(log: &Log, slot: u64) -> Error {
    let what = match log.entries.range(slot + 1..).next() {
        Some((later, Err(reason))) => format!("{} can't be read: {reason}", log.path(*later)),
        Some((later, Ok(_))) => format!("{} is there", log.path(*later)),
        None => format!("something was there after {}", log.path(slot)),
    };
    Error::new(Kind::Fenced, format!("whether a newer attempt has taken over is not known: {what}"))
        .help("this process has stopped, and what it was about to publish is not published: see who has written that file")
}

/// The slot of the entry in a file of a log; none if it is something else.
fn slot_of(name: &str) -> Option<u64> {
    match paths::classify(&format!("log/{name}")) {
        RunPath::Entry(slot) => Some(slot),
        _ => None,
    }
}

/// The entry in a slot of the run at `prefix` of `objects`, which is the directory `dir`, or why it can't be read. None if there is none: one
/// that goes after it was listed was superseded; a gap that matters is noticed by whoever reads the log.
async fn entry_from(objects: &Objects, prefix: &str, dir: &Location, slot: u64) -> Result<Option<std::result::Result<LogEntry, String>>> {
    let path = paths::entry(slot);
    let bytes = get_from(objects, &key(prefix, &path)?, &dir.join(&path)).await?;
    Ok(bytes.map(|bytes| parse(&bytes).map_err(|error| error.to_string())))
}

/// The text of an entry, ready to be put.
fn text(entry: &LogEntry) -> Result<Bytes> {
    render(entry).map(Bytes::from).map_err(|error| Error::new(Kind::Internal, error.to_string()))
}
