//! Uploads: collects the parts of snapshots as workers hand them over, and makes state files of them, off the workers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::file::{self, FileFacts, OperatorStateFacts, WrittenOperatorState};
use crate::checkpoint::manifest::{Epochs, OperatorStateFile, SnapshotPart, StateFile};
use crate::checkpoint::paths;
use crate::checkpoint::pending::Part;
use crate::checkpoint::store::Store;
use crate::clock;
use crate::dataflow::BarrierCost;
use crate::error::{Error, Kind, Result};
use crate::plan::{Compression, StateDescriptor};
use crate::record::{AttemptId, KeyGroups};
use crate::state::{Changes, OperatorSnapshot, Slice};

use super::patience::Patience;

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
    pub(super) compression: Compression,
    pub(super) id: SnapshotId,
}

/// A snapshot that is durable: what is to be acknowledged, and what it took.
pub(super) struct Uploaded {
    pub(super) part: Part,
    pub(super) took: SnapshotPart,
}

impl Upload {
    /// Writes a snapshot, for as long as `patience` lasts: files only where there is something new to say.
    pub(super) async fn run(
        self,
        changes: Vec<Changes>,
        whole: OperatorSnapshot,
        cost: BarrierCost,
        mut patience: Patience,
    ) -> Result<Uploaded> {
        let start = clock::now();
        let name = |(state, digest): (usize, u128)| (self.states[state].name.clone(), digest);
        let digests = whole.digests.into_iter().map(name).collect();
        let mut operator_state = Vec::new();
        let SnapshotId { subtask, epoch, .. } = self.id;
        // It is the same on all subtasks, so one writes it for all.
        if let Some(maps) = whole.maps.filter(|maps| subtask == 0 && !maps.is_empty()) {
            let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
            operator_state.push(self.write_whole(move || file::write_broadcast(&uid, epoch, &states, &maps), &mut patience).await?);
        }
        // A component without lists has none, however its parallelism has changed.
        if let Some(lists) = whole.lists.filter(|lists| !lists.is_empty()) {
            let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
            let write = move || file::write_operator(OperatorStateFacts { operator: &uid, subtask, epoch }, &states, &lists);
            operator_state.push(self.write_whole(write, &mut patience).await?);
        }
        let file = self.write_changes(changes, &mut patience).await?;
        let took = SnapshotPart {
            operator: self.uid,
            subtask,
            files: (file.iter().len() + operator_state.len()) as u64,
            bytes: file.iter().map(|file| file.bytes).chain(operator_state.iter().map(|file| file.bytes)).sum(),
            aligned_us: micros(cost.aligned),
            froze_us: micros(cost.froze),
            upload_ms: micros(clock::now() - start) / 1000,
        };
        Ok(Uploaded { part: Part::State { files: file.into_iter().collect(), operator_state, digests }, took })
    }

    /// Encodes operator state off the asynchronous threads, writes it, and returns what a manifest says of it.
    async fn write_whole(
        &self,
        encode: impl FnOnce() -> Result<WrittenOperatorState> + Send + 'static,
        patience: &mut Patience,
    ) -> Result<OperatorStateFile> {
        let written = encoded(encode).await?;
        let path = paths::operator_state(self.attempt.attempt, self.id.epoch, &self.uid, written.subtask);
        let inline = patience.store(|| self.store.keep(self.attempt.run, &path, &written.bytes)).await?;
        Ok(OperatorStateFile { inline, ..written.at(path) })
    }

    /// Writes a snapshot as a state file and returns what a manifest says of it; nothing if nothing has changed.
    async fn write_changes(&self, changes: Vec<Changes>, patience: &mut Patience) -> Result<Option<StateFile>> {
        if changes.is_empty() {
            return Ok(None);
        }
        let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
        let (groups, compression, epochs) = (self.groups, self.compression, Epochs::only(self.id.epoch));
        let encode = move || file::write(FileFacts { operator: &uid, states: &states, groups, epochs, compression }, changes);
        let written = encoded(encode).await?;
        let path = paths::snapshot(self.attempt.attempt, self.id.epoch, &self.uid, self.id.subtask);
        let inline = patience.store(|| self.store.keep(self.attempt.run, &path, &written.bytes)).await?;
        Ok(Some(StateFile { inline, ..written.at(path) }))
    }
}

/// Encodes off the asynchronous threads.
async fn encoded<T: Send + 'static>(encode: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let encoded = tokio::task::spawn_blocking(encode).await;
    encoded.map_err(|panic| Error::new(Kind::Internal, format!("writing a snapshot panicked: {panic}")))?
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
