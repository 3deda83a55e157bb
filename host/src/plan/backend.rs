//! [`StateSettings`]: where an operator's keyed state lies while the job runs. Checkpoints are the same either way.

/// `[state]` of a job file, or `state` of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSettings {
    /// Where it lies.
    pub backend: Backend,
    /// On disk: bytes of memory for what is used most, over all subtasks of the operator.
    pub memory: u64,
}

/// Of the memory of a subtask, one part in this many may be one file of a snapshot: there is one that grows, one that is being written, in
/// two forms.
const FILES: u64 = 16;
/// Bytes of memory that a file of a snapshot may be in any case: smaller files would be too many.
const SMALLEST_FILE: u64 = 4 << 20;

impl StateSettings {
    /// How much of a snapshot, in bytes of memory, makes a file of its own, in each of `parallelism` subtasks. None where state is in memory,
    /// and so may be its snapshot as a whole.
    pub fn snapshot_file(&self, parallelism: u16) -> Option<usize> {
        let bytes = (self.memory / u64::from(parallelism) / FILES).max(SMALLEST_FILE);
        (self.backend == Backend::Disk).then(|| usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

impl Default for StateSettings {
    fn default() -> Self {
        StateSettings { backend: Backend::Memory, memory: 256 << 20 }
    }
}

/// Where keyed state lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// All of it in memory.
    Memory,
    /// On a local disk, as far as there is no room for it in memory.
    Disk,
}
