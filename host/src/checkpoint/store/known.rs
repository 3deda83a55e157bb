//! [`Known`]: what an attempt knows of its run without looking, because it was there when the attempt began, or it has put it there itself.
//! So a collection costs what there is to delete, and not what is kept.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checkpoint::decide::{Live, Outline, Superseded, superseded};
use crate::checkpoint::log::Log;
use crate::checkpoint::manifest::LogEntry;
use crate::record::AttemptId;

/// After this many collections the run is listed again: whoever was overtaken may have put a file when the first one was over.
const LISTED_AGAIN_AFTER: u32 = 1000;

/// What the newest attempt of this process knows of its run. Cheap to clone.
#[derive(Clone)]
pub(super) struct Known(Arc<Mutex<Contents>>);

struct Contents {
    attempt: AttemptId,
    log: Outline,
    /// All paths, those of log entries included. Some may not be there: they are noted before they are put.
    paths: BTreeSet<String>,
    /// How many collections from now on need not list the run.
    unlisted: u32,
}

impl Known {
    /// What is known before any attempt has begun.
    pub(super) fn nothing() -> Self {
        let (attempt, log) = (AttemptId::NONE, Outline::default());
        Known(Arc::new(Mutex::new(Contents { attempt, log, paths: BTreeSet::new(), unlisted: 0 })))
    }

    /// What an attempt knows when it begins: the log.
    pub(super) fn of(attempt: AttemptId, log: &Log) -> Self {
        let known = Known::nothing();
        known.begin(attempt, log);
        known
    }

    /// An attempt begins.
    pub(super) fn begin(&self, attempt: AttemptId, log: &Log) {
        *self.contents() = Contents { attempt, log: Outline::of(log), paths: BTreeSet::new(), unlisted: 0 };
    }

    /// Whether this is what `attempt` knows.
    pub(super) fn is_of(&self, attempt: AttemptId) -> bool {
        self.contents().attempt == attempt
    }

    /// The outline of the log.
    pub(super) fn log(&self) -> Outline {
        self.contents().log.clone()
    }

    /// The highest slot in use.
    pub(super) fn last_slot(&self) -> u64 {
        self.contents().log.last_slot()
    }

    /// There is an entry in a slot of a run's log; none: it can't be read.
    pub(super) fn entry(&self, run: u32, slot: u64, entry: Option<&LogEntry>) {
        let mut contents = self.contents();
        if contents.attempt.run == run {
            contents.log.add(slot, entry);
        }
    }

    /// There are files in a run, or they are about to be put.
    pub(super) fn files(&self, run: u32, paths: impl IntoIterator<Item = String>) {
        let mut contents = self.contents();
        if contents.attempt.run == run {
            contents.paths.extend(paths);
        }
    }

    /// Whether a collection has to list the run.
    pub(super) fn is_to_list(&self) -> bool {
        let mut contents = self.contents();
        let left = contents.unlisted.checked_sub(1);
        contents.unlisted = left.unwrap_or(LISTED_AGAIN_AFTER);
        left.is_none()
    }

    /// The next collection is to list the run.
    pub(super) fn list_again(&self) {
        self.contents().unlisted = 0;
    }

    /// What of it is superseded, as [`superseded`] says.
    pub(super) fn superseded(&self, live: &Live, retained: usize) -> Superseded {
        let contents = self.contents();
        superseded(&contents.log, contents.paths.iter().map(String::as_str), live, retained)
    }

    /// What was superseded is deleted.
    pub(super) fn deleted(&self, found: &Superseded) {
        let mut contents = self.contents();
        contents.log.forget_below(found.kept);
        found.entries.iter().chain(&found.files).for_each(|path| _ = contents.paths.remove(path));
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
