//! Uploads: collects the parts of snapshots as workers hand them over, and makes state files of them, off the workers. Where state may
//! be larger than memory, so may a snapshot; then it becomes several files, each of which is stored before more is handed over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::checkpoint::file::{self, FileFacts, Grouped, OperatorStateFacts, WrittenOperatorState};
use crate::checkpoint::manifest::{Epochs, OperatorStateFile, SnapshotPart, StateFile};
use crate::checkpoint::paths;
use crate::checkpoint::pending::Part;
use crate::checkpoint::store::Store;
use crate::clock;
use crate::dataflow::{Held, SnapshotSlice};
use crate::error::{Error, Kind, Result};
use crate::plan::{Compression, StateDescriptor};
use crate::record::{AttemptId, KeyGroups};
use crate::state::{Changes, OperatorSnapshot};
use crate::threads::blocking;

use super::patience::Patience;

/// Which subtask's snapshot of which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SnapshotId {
    pub(super) node: usize,
    pub(super) subtask: u16,
    pub(super) epoch: u64,
}

/// Where the parts go of snapshots of which not all have come.
#[derive(Default)]
pub(super) struct Parts(HashMap<SnapshotId, UnboundedSender<SnapshotSlice>>);

impl Parts {
    /// Passes a part on. If it is the first of its snapshot, returns where it and all others come out.
    pub(super) fn pass(&mut self, id: SnapshotId, part: SnapshotSlice) -> Option<UnboundedReceiver<SnapshotSlice>> {
        let last = part.slice.last;
        let (parts, begun) = match self.0.remove(&id) {
            Some(parts) => (parts, None),
            None => {
                let (parts, begun) = unbounded_channel();
                (parts, Some(begun))
            }
        };
        // If nobody uploads it any more, the attempt has ended.
        parts.send(part).unwrap_or(());
        if !last {
            self.0.insert(id, parts);
        }
        begun
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
    /// How many bytes of memory make a file.
    pub(super) file: usize,
    pub(super) id: SnapshotId,
}

/// Parts of a snapshot that become a file.
#[derive(Default)]
struct Collected {
    changes: Vec<Changes>,
    /// To be dropped when the file is stored.
    held: Vec<Held>,
    /// The last part of all, without its changes.
    last: Option<SnapshotSlice>,
}

/// A snapshot that is durable: what is to be acknowledged, and what it took.
pub(super) struct Uploaded {
    pub(super) part: Part,
    pub(super) took: SnapshotPart,
}

impl Upload {
    /// Writes a snapshot as its parts come, for as long as `patience` lasts: files only where there is something new to say.
    pub(super) async fn run(self, mut parts: UnboundedReceiver<SnapshotSlice>, mut patience: Patience) -> Result<Uploaded> {
        let (mut files, mut begun) = (Vec::new(), None);
        let (last, start) = loop {
            let Collected { changes, held, last } = self.collect(&mut parts).await?;
            let start = *begun.get_or_insert_with(clock::now);
            // Far fewer than there are key groups and bytes.
            files.extend(self.write_changes(changes, files.len() as u32, &mut patience).await?);
            drop(held);
            if let Some(last) = last {
                break (last, start);
            }
        };
        let SnapshotSlice { operator_state: whole, cost, .. } = last;
        let name = |(state, digest): (usize, u128)| (self.states[state].name.clone(), digest);
        let digests = whole.digests.iter().copied().map(name).collect();
        let operator_state = self.write_operator_state(whole, &mut patience).await?;
        let took = SnapshotPart {
            operator: self.uid,
            subtask: self.id.subtask,
            files: (files.len() + operator_state.len()) as u64,
            bytes: files.iter().map(|file: &StateFile| file.bytes).chain(operator_state.iter().map(|file| file.bytes)).sum(),
            aligned_us: micros(cost.aligned),
            froze_us: micros(cost.froze),
            upload_ms: micros(clock::now() - start) / 1000,
        };
        Ok(Uploaded { part: Part::State { files, operator_state, digests }, took })
    }

    /// Takes parts until they make a file, or there are no more.
    async fn collect(&self, parts: &mut UnboundedReceiver<SnapshotSlice>) -> Result<Collected> {
        let (mut collected, mut bytes) = (Collected::default(), 0);
        while bytes < self.file && collected.last.is_none() {
            let Some(mut part) = parts.recv().await else {
                return Err(Error::new(Kind::Internal, "a snapshot has ended before its last part"));
            };
            bytes += part.slice.changes.memory();
            if !part.slice.changes.is_empty() {
                collected.changes.push(std::mem::take(&mut part.slice.changes));
            }
            collected.held.extend(part.held.take());
            collected.last = Some(part).filter(|part| part.slice.last);
        }
        Ok(collected)
    }

    /// Writes operator state that has changed.
    async fn write_operator_state(&self, whole: OperatorSnapshot, patience: &mut Patience) -> Result<Vec<OperatorStateFile>> {
        let mut written = Vec::new();
        let SnapshotId { subtask, epoch, .. } = self.id;
        // It is the same on all subtasks, so one writes it for all.
        if let Some(maps) = whole.maps.filter(|maps| subtask == 0 && !maps.is_empty()) {
            let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
            written.push(self.write_whole(move || file::write_broadcast(&uid, epoch, &states, &maps), patience).await?);
        }
        // A component without lists has none, however its parallelism has changed.
        if let Some(lists) = whole.lists.filter(|lists| !lists.is_empty()) {
            let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
            let write = move || file::write_operator(OperatorStateFacts { operator: &uid, subtask, epoch }, &states, &lists);
            written.push(self.write_whole(write, patience).await?);
        }
        Ok(written)
    }

    /// Encodes operator state off the asynchronous threads, writes it, and returns what a manifest says of it.
    async fn write_whole(
        &self,
        encode: impl FnOnce() -> Result<WrittenOperatorState> + Send + 'static,
        patience: &mut Patience,
    ) -> Result<OperatorStateFile> {
        let written = blocking("writing a snapshot", encode).await?;
        let path = paths::operator_state(self.attempt.attempt, self.id.epoch, &self.uid, written.subtask);
        let inline = patience.store(|| self.store.keep(self.attempt.run, &path, &written.bytes)).await?;
        Ok(OperatorStateFile { inline, ..written.at(path) })
    }

    /// Writes some of a snapshot as a state file and returns what a manifest says of it; nothing if nothing has changed.
    async fn write_changes(&self, changes: Vec<Changes>, part: u32, patience: &mut Patience) -> Result<Option<StateFile>> {
        if changes.is_empty() {
            return Ok(None);
        }
        let (uid, states) = (self.uid.clone(), Arc::clone(&self.states));
        let (groups, compression, epochs) = (self.groups, self.compression, Epochs::only(self.id.epoch));
        let group = move || Grouped::new(FileFacts { operator: &uid, states: &states, groups, epochs, compression }, changes);
        let grouped = Arc::new(blocking("writing a snapshot", group).await?);
        let path = paths::snapshot(self.attempt.attempt, self.id.epoch, &self.uid, self.id.subtask, part);
        let write = || {
            let grouped = Arc::clone(&grouped);
            self.store.write(self.attempt.run, &path, move |take| grouped.write(take))
        };
        patience.store(write).await.map(Some)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
