//! [`DiskStore`]: entries of one subtask in a database of fjall.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::config::PartitioningPolicy;
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};

use super::dir::{LocalDir, fault};
use crate::state::{Cold, ColdFault, Take};

/// A database of fjall. It takes about the memory that it is given; that its files are indexed takes some more.
pub struct DiskStore {
    path: PathBuf,
    entries: Keyspace,
    /// Up to how many bytes what is written is collected in memory.
    memtable: u64,
    /// What is noted.
    batch: OwnedWriteBatch,
    database: Database,
    /// Removes the files, after the database has closed them.
    _dir: Arc<LocalDir>,
}

/// Of the memory of a store, one part in this many is for blocks that were read.
const CACHE: u64 = 2;
/// Of the memory of a store, one part in this many is for what is written. There may be several such parts at once: one that grows, and
/// [`SEALED`] on their way to disk.
const MEMTABLE: u64 = 8;
const SEALED: usize = 3;
/// Smaller ones would only make many small files.
const SMALLEST_MEMTABLE: u64 = 64 << 10;
const LARGEST_MEMTABLE: u64 = 64 << 20;

/// A file is about as large as what is collected, so that merging what was collected rewrites a few times as much and not more; but smaller
/// ones would be too many.
const SMALLEST_FILE: u64 = 1 << 20;

/// Runs of files that wait to be merged, of which every read has to look into each.
const RUNS: usize = 16;

/// Files that a store keeps open. There may be many stores.
const OPEN_FILES: usize = 100;

/// The least that fjall takes; only a measure for when it begins a new journal.
const JOURNALS: u64 = 64 << 20;

impl DiskStore {
    /// An empty store named `name` in a directory; it uses about `memory` bytes.
    ///
    /// # Errors
    /// When the disk can't be written.
    pub fn create(dir: &Arc<LocalDir>, name: &str, memory: u64) -> Result<Self, ColdFault> {
        let path = dir.path().join(name);
        let memtable = (memory / MEMTABLE).clamp(SMALLEST_MEMTABLE, LARGEST_MEMTABLE);
        let open = || {
            let database = Database::builder(&path)
                .cache_size(memory / CACHE)
                // One that only writes what is collected, so that it does not wait for files to be merged, and one that merges.
                .worker_threads(2)
                .max_cached_files(Some(OPEN_FILES))
                .max_journaling_size(JOURNALS)
                .manual_journal_persist(true)
                .open()?;
            let entries = database.keyspace("entries", || {
                // In parts, so that a lookup needs a small one and not all of them, which would not fit.
                KeyspaceCreateOptions::default()
                    .max_memtable_size(memtable)
                    .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(memtable.max(SMALLEST_FILE))))
                    .index_block_partitioning_policy(PartitioningPolicy::all(true))
                    .filter_block_partitioning_policy(PartitioningPolicy::all(true))
            })?;
            Ok((database, entries))
        };
        let (database, entries) = open().map_err(|error| fault(&path, &Cause(&error)))?;
        let batch = database.batch();
        Ok(DiskStore { path, entries, memtable, batch, database, _dir: Arc::clone(dir) })
    }

    fn fault(&self, error: fjall::Error) -> ColdFault {
        fault(&self.path, &Cause(&error))
    }

    /// Waits until the database's own threads have caught up. It would do so itself, and for ever if one of them fails in the meantime; and
    /// until they come to look at it, what is collected would grow.
    fn wait(&self) -> fjall::Result<()> {
        if self.entries.tree.active_memtable().size() > self.memtable {
            self.entries.rotate_memtable()?;
        }
        while self.entries.tree.sealed_memtable_count() >= SEALED || self.entries.tree.l0_run_count() >= RUNS {
            // Fails when one of the threads has.
            self.database.persist(PersistMode::Buffer)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Cold for DiskStore {
    fn get(&mut self, place: &[u8], value: &mut Vec<u8>) -> Result<bool, ColdFault> {
        let found = self.entries.get(place).map_err(|error| self.fault(error))?;
        value.clear();
        found.iter().for_each(|found| value.extend_from_slice(found));
        Ok(found.is_some())
    }

    fn put(&mut self, place: &[u8], value: &[u8]) {
        self.batch.insert(&self.entries, place, value);
    }

    fn remove(&mut self, place: &[u8]) {
        self.batch.remove(&self.entries, place);
    }

    fn commit(&mut self) -> Result<(), ColdFault> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, self.database.batch());
        self.wait().and_then(|()| batch.commit()).map_err(|error| self.fault(error))
    }

    fn range(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), ColdFault> {
        for entry in self.entries.range(from..) {
            let (place, value) = entry.into_inner().map_err(|error| self.fault(error))?;
            if !visit(&place, &value) {
                break;
            }
        }
        Ok(())
    }

    fn fill(&mut self, source: &mut dyn FnMut(&mut Take<'_>)) -> Result<(), ColdFault> {
        let mut ingestion = self.entries.start_ingestion().map_err(|error| self.fault(error))?;
        source(&mut |place, value| ingestion.write(place, value).map_err(|error| self.fault(error)));
        ingestion.finish().map_err(|error| self.fault(error))
    }

    fn bytes(&self) -> u64 {
        self.entries.disk_space()
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An error of fjall in words for people.
struct Cause<'a>(&'a fjall::Error);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => error.fmt(f),
            fjall::Error::Poisoned => f.write_str("it could not be written in the background, as when the disk is full"),
            other => write!(f, "it is damaged ({other:?})"),
        }
    }
}
