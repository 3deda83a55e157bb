//! What becomes of checkpoints that fail, and of the attempt when too many do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::checkpoint::manifest::{FailedCheckpoints, Fate, Past, Trigger};
use crate::checkpoint::store::Store;
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;

use super::commit::Committing;
use super::controller::{Controller, Done, joined};
use super::cycle::Cycle;
use super::notice::in_milliseconds;
use super::{Notice, Outcome};

/// Subtasks of a node that are named in a message; of more only the number is told.
const NAMED: usize = 3;

/// How long an attempt that has ended waits for its note of failed checkpoints to be written.
const NOTE_TIME: Duration = Duration::from_secs(2);

/// Where the note of failed checkpoints stands.
#[derive(Default)]
pub(super) struct Noting {
    /// There is something to be noted.
    due: bool,
    /// It is being written.
    under_way: bool,
}

/// State of the newest checkpoint that can't be restored, because a file is missing or damaged.
pub(super) struct Damage {
    /// A file that was to be merged with that one: while checkpoints name it, they name both.
    pub(super) input: String,
    pub(super) reason: Arc<str>,
}

impl Controller {
    /// Gives up checkpoints that have taken too long.
    pub(super) fn give_up_overdue(&mut self) -> Result<()> {
        while let Some((epoch, taken)) = self.cycle.overdue(clock::now()) {
            let message = format!("it has taken {} so far, and its `timeout` is over: {}", in_milliseconds(taken), self.missing(epoch));
            let help = "raise `timeout` or `tolerable-failures` in [checkpoint], or find out what it waits for: a record that takes long, or a slow store";
            self.fail(epoch, Error::new(Kind::Job, message).help(help))?;
        }
        Ok(())
    }

    /// Tells of checkpoints that take long, before they are given up.
    pub(super) fn tell_late(&mut self) {
        while let Some((checkpoint, taken)) = self.cycle.newly_late(clock::now()) {
            let (timeout, missing) = (self.prepared.plan.checkpoint.timeout, self.missing(checkpoint));
            self.observer.notice(&Notice::Late { checkpoint, taken, timeout, missing, health: self.health() });
        }
    }

    /// What keeps a checkpoint from being committed.
    pub(super) fn missing(&self, epoch: u64) -> String {
        // A commit names what those before it have brought, so that it waits for them too.
        let missing = self.pending.epochs().take_while(|pending| *pending <= epoch).find_map(|pending| {
            let subtasks = self.pending.missing(pending);
            (!subtasks.is_empty()).then_some((pending, subtasks))
        });
        let Some((pending, subtasks)) = missing else { return "its manifest is not written yet".into() };
        let what = if pending == epoch { String::new() } else { format!(", of checkpoint {pending} on which it builds") };
        format!("no acknowledgement yet from {}{what}", named(&subtasks))
    }

    /// A checkpoint has failed. None but the first failure of a checkpoint counts.
    ///
    /// # Errors
    /// The failure, if it is one too many.
    pub(super) fn fail(&mut self, epoch: u64, cause: Error) -> Result<()> {
        let now = clock::now();
        let committing = self.committing.as_ref().is_some_and(|committing| committing.ready.epoch == epoch);
        let Some(failure) = self.cycle.failed(epoch, committing, now, cause.message()) else { return Ok(()) };
        if failure.is_given_up {
            self.pending.give_up(epoch);
            self.control.aborted(epoch);
        }
        self.remember(epoch, now, cause.message());
        self.fail_savepoints(epoch, &cause);
        let (in_a_row, tolerable) = (self.cycle.tally().in_a_row, self.prepared.plan.checkpoint.tolerable_failures);
        if !failure.is_tolerated {
            let error = cause.context(format!("checkpoint {epoch} has failed"));
            return Err(match tolerable {
                0 => error,
                _ => error.note(format!("{in_a_row} have failed in a row, and `tolerable-failures` is {tolerable}")),
            });
        }
        self.note_failed();
        let reason = cause.message().to_owned();
        if failure.counts && in_a_row == 1 {
            self.observer.notice(&Notice::Degraded { checkpoint: epoch, reason, in_a_row, tolerable, health: self.health() });
        } else {
            tracing::info!(checkpoint = epoch, in_a_row, "failed: {reason}");
        }
        Ok(())
    }

    /// An operator's subtask can't take part in a checkpoint.
    ///
    /// # Errors
    /// If the attempt can't go on: with an instance that is spent, or without a checkpoint that no other makes up for.
    pub(super) fn unsaved(&mut self, epoch: u64, error: Error, is_spent: bool) -> Result<()> {
        let trigger = self.cycle.get(epoch).map(|under_way| under_way.trigger);
        let is_asked = match trigger {
            Some(Trigger::Savepoint) => true,
            Some(Trigger::EndOfInput) => self.savepoints.is_drain,
            _ => false,
        };
        let error = if is_asked { error.help("the job goes on: ask again later, or mend the operator") } else { error };
        if !is_spent && trigger.is_none_or(Cycle::may_be_given_up) {
            return self.fail(epoch, error);
        }
        // Whoever has told the job to end meanwhile would not be heard by another attempt.
        self.is_forgiven = is_asked && (self.ending.is_none() || self.savepoints.is_drain);
        Err(error)
    }

    /// State files could not be merged. They are as they were, and it is tried again after the next checkpoint. If one is not what was
    /// written, no checkpoint that names it can be restored.
    pub(super) fn unmerged(&mut self, operator: &str, error: &Error) {
        tracing::warn!(operator, "state files could not be merged: {error}");
        let input = self.lists.give_up(operator).and_then(|merge| merge.inputs.into_iter().next());
        if let (Some(input), Kind::Checkpoint, None) = (input, error.kind(), &self.damage) {
            self.damage = Some(Damage { input: input.path, reason: error.message().into() });
            self.observer.notice(&Notice::Damaged { operator: operator.into(), damage: error.message().into(), health: self.health() });
        }
    }

    /// Notes that a checkpoint has failed, for whoever looks at the history.
    fn remember(&mut self, epoch: u64, now: Instant, reason: &str) {
        let Some(under_way) = self.cycle.get(epoch) else { return };
        self.history.add(Past {
            attempt: self.attempt.attempt,
            checkpoint: epoch,
            trigger: under_way.trigger,
            state: Fate::Failed,
            triggered: under_way.triggered.clone(),
            duration_ms: u64::try_from((now - under_way.since).as_millis()).unwrap_or(u64::MAX),
            new_bytes: 0,
            total_bytes: 0,
            files: 0,
            reason: Some(reason.into()),
            snapshots: under_way.snapshots.clone(),
        });
        self.noting.due = true;
    }

    /// Writes the note of failed checkpoints, beside all else. While one is being written, the next one waits.
    fn note_failed(&mut self) {
        if self.noting.under_way || !std::mem::take(&mut self.noting.due) {
            return;
        }
        self.noting.under_way = true;
        let (store, attempt, failed) = (self.store.clone(), self.attempt, self.failed());
        self.tasks.spawn(async move {
            note(&store, attempt, &failed).await;
            Ok(Done::Noted)
        });
    }

    /// The note was written, or could not be.
    pub(super) fn noted(&mut self) {
        self.noting.under_way = false;
        self.note_failed();
    }

    fn failed(&self) -> FailedCheckpoints {
        FailedCheckpoints { streak: self.cycle.streak().clone(), checkpoints: self.history.failed() }
    }

    /// The attempt has ended, maybe with checkpoints under way; savepoints are given up already. A commit under way is waited for, so that the next attempt doesn't begin in
    /// the middle of it.
    pub(super) async fn abandon(&mut self, ended: &Result<Outcome>) {
        let why = match ended {
            Ok(Outcome::Finished | Outcome::Stopped) => return,
            Ok(Outcome::Cancelled) => "the job was cancelled",
            Err(_) => "its attempt has failed",
        };
        let running: Vec<u64> = self.cycle.running().map(|(epoch, _)| epoch).collect();
        running.into_iter().for_each(|epoch| self.remember(epoch, clock::now(), why));
        // What is tried again for want of storage is given up.
        self.patience = watch::Sender::default();
        self.tasks.abort_all();
        if let Some(Committing { task, .. }) = self.committing.take() {
            match joined(task.await) {
                Ok(_) => tracing::debug!("the last commit came to its end"),
                Err(error) => tracing::info!("the last commit did not come to its end: {error}"),
            }
        }
        if self.noting.due || self.noting.under_way {
            let noted = tokio::time::timeout(NOTE_TIME, note(&self.store, self.attempt, &self.failed())).await;
            noted.unwrap_or_else(|_| tracing::info!("which checkpoints have failed could not be noted in time"));
        }
    }
}

/// Notes which checkpoints have failed. Where that is not possible nothing is lost but that.
async fn note(store: &Store, attempt: AttemptId, failed: &FailedCheckpoints) {
    if let Err(error) = store.note_failed(attempt, failed).await {
        tracing::info!("which checkpoints have failed could not be noted: {error}");
    }
}

/// Subtasks, which stand node by node.
fn named(subtasks: &[(&str, u16)]) -> String {
    let node = |node: &[(&str, u16)]| {
        let mut numbers: Vec<String> = node.iter().take(NAMED).map(|(_, subtask)| subtask.to_string()).collect();
        numbers.extend((node.len() > NAMED).then(|| format!("{} more", node.len() - NAMED)));
        format!("`{}` (subtask {})", node[0].0, numbers.join(", "))
    };
    subtasks.chunk_by(|(one, _), (other, _)| one == other).map(node).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtasks_are_named_node_by_node() {
        let many = (0..9).map(|subtask| ("b", subtask));
        assert_eq!(named(&[("a", 0), ("a", 7)]), "`a` (subtask 0, 7)");
        assert_eq!(named(&[("a", 1)].into_iter().chain(many).collect::<Vec<_>>()), "`a` (subtask 1), `b` (subtask 0, 1, 2, 6 more)");
    }
}
