//! [`Watcher`]: what a running job tells, put where it is asked for.

use std::sync::Arc;
use std::time::Duration;

use super::event::Happened;
use super::job::Job;
use super::state::JobState;
use super::swap::TakenBack;
use crate::clock;
use crate::job::{Health, Metrics, Notice, Observer, Progress};

/// Watches one job.
pub(super) struct Watcher(pub(super) Arc<Job>);

impl Observer for Watcher {
    fn notice(&self, notice: &Notice) {
        match happened(notice) {
            Some(event) => self.0.note(event, notice.to_string()),
            None => tracing::info!("{notice}"),
        }
        // What is written down is locked before where it stands.
        match notice {
            Notice::TakenBack { operator, component, reason } => {
                let (operator, component, reason) = (operator.clone(), component.clone(), reason.clone());
                self.0.swap_failed(TakenBack { operator, component, reason, time: clock::wall_text() });
            }
            Notice::Kept { component, .. } => self.0.swap_is_over(component, true),
            _ => {}
        }
        let mut live = self.0.live();
        if matches!(happened(notice), Some(Happened::Began | Happened::Restarting)) {
            // What was under way is no more, and each attempt finds out anew what is damaged.
            (live.progress.health.late, live.progress.health.damage) = (None, None);
        }
        match notice {
            Notice::Starting { attempt } | Notice::Resuming { attempt, .. } => {
                live.attempt = Some(*attempt);
                live.restored_from = match notice {
                    Notice::Resuming { restored, .. } => Some(restored.checkpoint),
                    _ => None,
                };
                live.enter_running();
            }
            Notice::Restarting { error, .. } => {
                live.restarts += 1;
                live.last_error = Some(error.clone());
                live.enter(JobState::Restarting);
            }
            // It is no failure of the job's.
            Notice::BeginningAgain { .. } => live.enter(JobState::Restarting),
            Notice::Lingering { error, .. } => live.last_error = error.clone().or(live.last_error.take()),
            Notice::Degraded { health, .. } | Notice::Late { health, .. } | Notice::Damaged { health, .. } => {
                live.progress.health = health.clone();
                live.enter_running();
            }
            Notice::Healthy { checkpoint, .. } => {
                let damage = live.progress.health.damage.take();
                live.progress.health = Health { last_good: Some((*checkpoint, Duration::ZERO)), damage, ..Health::default() };
                live.enter_running();
            }
            Notice::Swapped { report } => {
                live.swaps.done += 1;
                live.swapped = Some((**report).clone());
            }
            Notice::TakenBack { .. } => live.swaps.taken_back += 1,
            Notice::Kept { .. }
            | Notice::Unchecked
            | Notice::InMemory
            | Notice::FellBack { .. }
            | Notice::Discarded
            | Notice::NotDiscarded { .. }
            | Notice::Ending { .. } => {}
        }
    }

    fn progress(&self, progress: &Progress) {
        let mut live = self.0.live();
        live.progress = progress.clone();
        if matches!(live.state, JobState::Running | JobState::Degraded) {
            live.enter_running();
        }
    }

    fn began(&self, metrics: &Arc<Metrics>) {
        let mut live = self.0.live();
        live.metrics = Some(Arc::clone(metrics));
        // Until there is news of checkpoints, what was known of them holds.
        live.progress = Progress { health: live.progress.health.clone(), ..Progress::default() };
    }
}

/// What is kept of a notice as an event. What a user has asked for is one already.
fn happened(notice: &Notice) -> Option<Happened> {
    match notice {
        Notice::Starting { .. } | Notice::Resuming { .. } => Some(Happened::Began),
        Notice::Restarting { .. } | Notice::BeginningAgain { .. } => Some(Happened::Restarting),
        Notice::Degraded { .. } | Notice::Late { .. } | Notice::Damaged { .. } => Some(Happened::Degraded),
        Notice::Healthy { .. } => Some(Happened::Healthy),
        Notice::Swapped { .. } => Some(Happened::Swapped),
        Notice::TakenBack { .. } => Some(Happened::TakenBack),
        Notice::Kept { .. } => Some(Happened::Kept),
        Notice::Lingering { .. }
        | Notice::Unchecked
        | Notice::InMemory
        | Notice::FellBack { .. }
        | Notice::Discarded
        | Notice::NotDiscarded { .. }
        | Notice::Ending { .. } => None,
    }
}
