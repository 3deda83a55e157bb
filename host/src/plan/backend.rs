//! [`StateSettings`]: where an operator's keyed state lies while the job runs. Checkpoints are the same either way.

/// `[state]` of a job file, or `state` of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSettings {
    /// Where it lies.
    pub backend: Backend,
    /// On disk: bytes of memory for what is used most, over all subtasks of the operator.
    pub memory: u64,
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
