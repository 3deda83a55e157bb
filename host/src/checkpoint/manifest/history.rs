//! [`History`]: what a run's manifests remember of the checkpoints before them, the failed ones too: those leave no manifest of their own.
//! Until a later manifest remembers them, a note beside the log does: [`FailedCheckpoints`].

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Manifest, SnapshotPart, Trigger};

/// How many a manifest remembers.
const REMEMBERED: usize = 10;

/// A checkpoint of the past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Past {
    /// The attempt.
    pub attempt: u32,
    /// Its number. After one that failed, a later attempt may use it again.
    pub checkpoint: u64,
    /// Why it was taken.
    pub trigger: Trigger,
    /// What became of it.
    pub state: Fate,
    /// When it was triggered, RFC 3339; empty if that is not known.
    pub triggered: String,
    /// Time from the trigger to its commit or failure, in milliseconds.
    pub duration_ms: u64,
    /// Bytes of state files that it added to those of the checkpoint before.
    pub new_bytes: u64,
    /// Bytes of all state files that it named.
    pub total_bytes: u64,
    /// How many state files it named.
    pub files: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What those of its snapshots took that were durable. Manifests know that of their own checkpoint only, lest they grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<SnapshotPart>,
}

/// What became of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It was committed.
    Completed,
    /// It was not. What it had written belongs to the next one.
    Failed,
}

impl Past {
    /// The checkpoint of a manifest.
    pub fn of(manifest: &Manifest) -> Self {
        let operators = &manifest.operators;
        let files: usize = operators.iter().map(|operator| operator.files.len() + operator.operator_state.len()).sum();
        Past {
            attempt: manifest.attempt.attempt,
            checkpoint: manifest.checkpoint,
            trigger: manifest.trigger,
            state: Fate::Completed,
            triggered: manifest.triggered.clone(),
            duration_ms: manifest.duration_ms,
            new_bytes: manifest.new_bytes,
            total_bytes: manifest.total_bytes,
            files: files as u64,
            reason: None,
            snapshots: Vec::new(),
        }
    }

    /// Attempt and number, by which checkpoints of a run stand in order.
    pub fn place(&self) -> (u32, u64) {
        (self.attempt, self.checkpoint)
    }
}

/// The newest checkpoints of a run, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(VecDeque<Past>);

impl History {
    /// Adds what the manifest of the same run remembers, and the manifest's own checkpoint.
    pub fn recall(&mut self, manifest: &Manifest) {
        manifest.history.iter().cloned().chain([Past::of(manifest)]).for_each(|past| self.add(past));
    }

    /// Adds a checkpoint, or what is newly known of one.
    pub fn add(&mut self, past: Past) {
        match self.0.binary_search_by_key(&past.place(), Past::place) {
            Ok(known) => self.0[known] = past,
            Err(place) => self.0.insert(place, past),
        }
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
    }

    /// All of them, for a manifest.
    pub fn to_vec(&self) -> Vec<Past> {
        self.0.iter().map(|past| Past { snapshots: Vec::new(), ..past.clone() }).collect()
    }

    /// Those that have failed.
    pub fn failed(&self) -> Vec<Past> {
        self.0.iter().filter(|past| past.state == Fate::Failed).cloned().collect()
    }
}

/// Checkpoints since the last good one that have failed, in whatever attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Streak {
    /// How many.
    pub failed: u64,
    /// Why the newest has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// What a run's note tells of checkpoints that have failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailedCheckpoints {
    /// How many in a row, when the note was written.
    pub streak: Streak,
    /// The newest of them, the oldest first.
    pub checkpoints: Vec<Past>,
}

impl FailedCheckpoints {
    /// The streak, if it has not ended with the checkpoint of a manifest that is newer than the note.
    pub fn streak_after(&self, good: Option<&Manifest>) -> Streak {
        let good = good.map(|manifest| Past::of(manifest).place());
        let newest = self.checkpoints.last().map(Past::place);
        if newest > good { self.streak.clone() } else { Streak::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::manifest;
    use super::*;

    fn failed(attempt: u32, checkpoint: u64) -> Past {
        Past { state: Fate::Failed, reason: Some("no disk".into()), ..Past::of(&manifest(attempt, checkpoint, vec![])) }
    }

    #[test]
    fn what_was_remembered_and_what_has_failed_since_stand_in_order() {
        let mut history = History::default();
        history.add(failed(2, 5));
        let restored = Manifest { history: vec![failed(1, 2), failed(1, 3)], ..manifest(2, 4, vec![]) };
        history.recall(&restored);
        // Recalled again, nothing is doubled; a number used again is another checkpoint.
        history.recall(&restored);
        history.add(Past::of(&manifest(3, 5, vec![])));
        let told: Vec<_> = history.to_vec().iter().map(|past| (past.attempt, past.checkpoint, past.state)).collect();
        use Fate::{Completed, Failed};
        assert_eq!(told, [(1, 2, Failed), (1, 3, Failed), (2, 4, Completed), (2, 5, Failed), (3, 5, Completed)]);
        // One whose commit could not be written at first, and then could.
        history.add(failed(3, 6));
        history.add(Past::of(&manifest(3, 6, vec![])));
        assert_eq!(history.to_vec().pop().unwrap().state, Completed);
    }

    #[test]
    fn a_streak_ends_with_the_next_good_one() {
        let streak = Streak { failed: 3, reason: Some("no disk".into()) };
        let note = FailedCheckpoints { streak: streak.clone(), checkpoints: vec![failed(1, 9), failed(2, 5)] };
        for (good, expected) in [(None, &streak), (Some((1, 10)), &streak), (Some((2, 4)), &streak), (Some((2, 6)), &Streak::default())] {
            let good = good.map(|(attempt, checkpoint)| manifest(attempt, checkpoint, vec![]));
            assert_eq!(&note.streak_after(good.as_ref()), expected, "{good:?}");
        }
    }

    #[test]
    fn only_the_newest_are_remembered() {
        let mut history = History::default();
        (1..30).for_each(|checkpoint| history.add(failed(1, checkpoint)));
        history.add(failed(1, 3));
        let numbers: Vec<u64> = history.to_vec().iter().map(|past| past.checkpoint).collect();
        assert_eq!(numbers, (20..30).collect::<Vec<_>>());
    }
}
