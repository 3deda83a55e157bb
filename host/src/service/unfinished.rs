//! Savepoints of a host's jobs of which it is not known what has come of them. They are written down before anything is written of them, so
//! that a host that comes back finds what it has left, and removes it unless it is whole.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::deployment::Deployment;
use super::host::lock;
use super::job::Job;
use crate::error::{Error, Kind, Result};
use crate::job::{self, SavepointOrder};

/// A savepoint of which it is not known what has come of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Unfinished {
    pub(super) trigger_id: String,
    /// The directory in which it has one of its own.
    pub(super) target: String,
    /// By this it is known that nobody else writes it.
    pub(super) writer: String,
}

impl Unfinished {
    pub(super) fn of(order: &SavepointOrder) -> Self {
        let SavepointOrder { trigger_id, target, writer, .. } = order;
        Unfinished { trigger_id: trigger_id.clone(), target: target.to_string(), writer: writer.clone() }
    }
}

impl Job {
    /// Removes what is left of savepoints that nobody writes any more, in a thread of its own.
    pub(super) fn clear_interrupted_beside(self: &Arc<Self>) {
        if self.deployed().unfinished.is_empty() {
            return;
        }
        if let Err(error) = self.beside(Job::clear_interrupted) {
            tracing::warn!("what is left of savepoints of job `{}` is not removed: {error}", self.name());
        }
    }

    /// Removes what is left of savepoints that nobody writes any more.
    pub(super) fn clear_interrupted(&self) {
        // One at a time: what another takes for interrupted may have been removed, and be written anew.
        let _clearing = lock(&self.clearing);
        // Whoever is asked for one has noted both before this can be looked at.
        let unfinished = self.deployed().unfinished;
        let interrupted = unfinished.into_iter().filter(|unfinished| !self.savepoints().is_under_way(&unfinished.writer));
        interrupted.for_each(|unfinished| self.clear(&unfinished));
    }

    /// Removes what is left of a savepoint that is not whole. If that can't be done, it is tried again when the host is started the next
    /// time.
    fn clear(&self, unfinished: &Unfinished) {
        match clear(&self.deployed(), unfinished) {
            Ok(()) => self.finished(unfinished),
            Err(error) => {
                let Unfinished { trigger_id, target, .. } = unfinished;
                tracing::warn!("what is left of savepoint `{trigger_id}` in {target} can't be removed: {error}");
            }
        }
    }

    /// Nothing is left to be done about a savepoint.
    fn finished(&self, unfinished: &Unfinished) {
        let mut deployment = self.deployment();
        let mut changed = deployment.clone();
        changed.unfinished.retain(|other| other != unfinished);
        if changed.unfinished.len() == deployment.unfinished.len() {
            return;
        }
        if let Err(error) = self.change(&mut deployment, changed) {
            // It is found out again when the host is started the next time.
            tracing::warn!("what has come of savepoint `{}` can't be written down: {error}", unfinished.trigger_id);
        }
    }
}

fn clear(deployment: &Deployment, unfinished: &Unfinished) -> Result<()> {
    let Unfinished { trigger_id, target, writer } = unfinished;
    let plan = deployment.plan_without_components()?;
    let target = target.parse().map_err(|reason| Error::new(Kind::Internal, format!("`{target}`: {reason}")))?;
    job::block_on(job::clear_savepoint(&plan, &target, trigger_id, writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_of_savepoints_brings_no_forgotten_job_back() {
        let dir = tempfile::tempdir().unwrap();
        let (own, note) = (dir.path().join("words"), |writer: &str| Unfinished {
            trigger_id: "5f".into(),
            target: "/saved".into(),
            writer: writer.into(),
        });
        let unfinished = vec![note("one"), note("other")];
        let deployment = Deployment { unfinished, ..Deployment::unreadable("words", &Error::new(Kind::Internal, "none")) };
        deployment.write(&own).unwrap();
        let job = Job::new(own.clone(), deployment);
        job.finished(&note("one"));
        assert_eq!(Deployment::read(&own).unwrap().unwrap().unfinished, [note("other")]);
        job.forget().unwrap();
        job.finished(&note("other"));
        assert!(!own.exists());
    }
}
