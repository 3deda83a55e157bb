//! Uploads: collects the parts of snapshots as workers hand them over, and makes state files of them, off the workers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::checkpoint::file::{self, FileFacts, OperatorStateFacts, WrittenOperatorState};
use crate::checkpoint::manifest::{Epochs, OperatorStateFile, StateFile};
use crate::checkpoint::paths;
use crate::checkpoint::pending::Part;
use crate::checkpoint::store::Store;
use crate::error::{Error, Kind, Result};
use crate::plan::StateDescriptor;
use crate::record::{AttemptId, KeyGroups};
use crate::state::{Changes, OperatorSnapshot, Slice};

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
    /// Writes a snapshot and returns what is to be acknowledged: files only where there is something new to say.
    pub(super) async fn run(self, changes: Vec<Changes>, whole: OperatorSnapshot) -> Result<Part> {
        let name = |(state, digest): (usize, u128)| (self.states[state].name.clone(), digest);
        let digests = whole.digests.into_iter().map(name).collect();
        let mut operator_state = Vec::new();
        let SnapshotId { subtask, epoch, .. } = self.id;
        // It is the same on all subtasks, so one writes it for all.
        if let Some(maps) = whole.maps.filter(|_| subtask == 0) {
            let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
            operator_state.push(self.write_whole(move || file::write_broadcast(&uid, epoch, &states, &maps)).await?);
        }
        // A component without lists has none, however its parallelism has changed.
        if let Some(lists) = whole.lists.filter(|lists| !lists.is_empty()) {
            let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
            let write = move || file::write_operator(OperatorStateFacts { operator: &uid, subtask, epoch }, &states, &lists);
            operator_state.push(self.write_whole(write).await?);
        }
        Ok(Part::State { files: self.write_changes(changes).await?.into_iter().collect(), operator_state, digests })
    }

    /// Encodes operator state off the asynchronous threads, writes it, and returns what a manifest says of it.
    async fn write_whole(&self, encode: impl FnOnce() -> Result<WrittenOperatorState> + Send + 'static) -> Result<OperatorStateFile> {
        let encoded = tokio::task::spawn_blocking(encode).await;
        let written = encoded.map_err(|panic| Error::new(Kind::Internal, format!("writing a snapshot panicked: {panic}")))??;
        let path = paths::operator_state(self.attempt.attempt, self.id.epoch, &self.uid, written.subtask);
        self.store.put_state_file(self.attempt.run, &path, written.bytes.clone()).await?;
        Ok(written.at(path))
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
