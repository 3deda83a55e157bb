//! Uploads: collects the parts of snapshots as workers hand them over, and makes state files of them, off the workers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::checkpoint::file::{self, FileFacts, OperatorStateFacts};
use crate::checkpoint::manifest::{Epochs, OperatorStateFile, StateFile};
use crate::checkpoint::paths;
use crate::checkpoint::store::Store;
use crate::error::{Error, Kind, Result};
use crate::plan::StateDescriptor;
use crate::record::{AttemptId, KeyGroups};
use crate::state::{Changes, Lists, Slice};

/// Which subtask's snapshot of which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SnapshotId {
    pub(super) node: usize,
    pub(super) subtask: u16,
    pub(super) epoch: u64,
}

/// Snapshots of which not all parts have come.
#[derive(Default)]
pub(super) struct Parts(HashMap<SnapshotId, Vec<Changes>>);

impl Parts {
    /// Takes a part; returns the whole when it was the last.
    pub(super) fn take(&mut self, id: SnapshotId, slice: Slice) -> Option<Vec<Changes>> {
        let parts = self.0.entry(id).or_default();
        if !slice.changes.is_empty() {
            parts.push(slice.changes);
        }
        if slice.last { self.0.remove(&id) } else { None }
    }
}

/// Whose snapshot it is and where it goes.
#[derive(Clone)]
pub(super) struct Upload {
    pub(super) store: Store,
    pub(super) attempt: AttemptId,
    pub(super) uid: String,
    pub(super) states: Arc<[StateDescriptor]>,
    pub(super) groups: KeyGroups,
    pub(super) id: SnapshotId,
}

impl Upload {
    /// Writes a snapshot and returns what a manifest says of it: a state file and one of operator state, each only if there is something
    /// new to say.
    pub(super) async fn run(self, changes: Vec<Changes>, lists: Option<Lists>) -> Result<(Option<StateFile>, Option<OperatorStateFile>)> {
        // A component without operator state has no lists, however its parallelism has changed.
        let lists = match lists.filter(|lists| !lists.is_empty()) {
            Some(lists) => Some(self.write_lists(lists).await?),
            None => None,
        };
        Ok((self.write_changes(changes).await?, lists))
    }

    async fn write_lists(&self, lists: Lists) -> Result<OperatorStateFile> {
        let (uid, states, SnapshotId { subtask, epoch, .. }) = (self.uid.clone(), Arc::clone(&self.states), self.id);
        let path = paths::operator_state(self.attempt.attempt, epoch, &self.uid, subtask);
        let named = path.clone();
        let encode = move || {
            let facts = OperatorStateFacts { operator: &uid, subtask, epoch };
            let bytes = file::write_operator(facts, &states, &lists)?;
            Ok((file::named(facts, named, &lists, &bytes), bytes))
        };
        let encoded = tokio::task::spawn_blocking(encode).await;
        let (file, bytes) = encoded.map_err(|panic| Error::new(Kind::Internal, format!("writing a snapshot panicked: {panic}")))??;
        self.store.put_state_file(self.attempt.run, &path, bytes).await?;
        Ok(file)
    }

    /// Writes a snapshot as a state file and returns what a manifest says of it; nothing if nothing has changed.
    async fn write_changes(self, changes: Vec<Changes>) -> Result<Option<StateFile>> {
        if changes.is_empty() {
            return Ok(None);
        }
        let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
        let (groups, epochs) = (self.groups, Epochs::only(self.id.epoch));
        let encode = move || file::write(FileFacts { operator: &uid, states: &states, groups, epochs }, changes);
        let encoded = tokio::task::spawn_blocking(encode).await;
        let written = encoded.map_err(|panic| Error::new(Kind::Internal, format!("writing a snapshot panicked: {panic}")))??;
        let path = paths::snapshot(self.attempt.attempt, self.id.epoch, &self.uid, self.id.subtask);
        self.store.put_state_file(self.attempt.run, &path, written.bytes.clone()).await?;
        Ok(Some(written.at(path)))
    }
}
