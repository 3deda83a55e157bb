//! [`Local`]: the keyed state with which an attempt begins, empty: in memory, or with a store on the local disk, as the job says.

use std::sync::Arc;

use crate::cold::{DiskStore, LocalDir};
use crate::error::{Error, Result};
use crate::plan::{Backend, NodeKind, OperatorSettings, Plan, StateDescriptor};
use crate::state::KeyedState;

/// Where the operators of an attempt keep state.
#[derive(Debug)]
pub(super) struct Local {
    plan: Arc<Plan>,
    /// None where all of it is in memory.
    dir: Option<Arc<LocalDir>>,
}

impl Local {
    /// Makes a directory on the local disk if an operator needs one.
    pub(super) fn create(plan: &Arc<Plan>) -> Result<Self> {
        let needed = (0..plan.nodes.len()).any(|node| disk_settings(plan, node).is_some());
        let dir = needed.then(|| LocalDir::create(&plan.state_dir.join(&plan.name)).map(Arc::new)).transpose()?;
        Ok(Local { plan: Arc::clone(plan), dir })
    }

    /// Whether a node is an operator that keeps state on disk.
    pub(super) fn is_on_disk(&self, node: usize) -> bool {
        disk_settings(&self.plan, node).is_some()
    }

    /// Empty keyed state for a subtask of an operator. Where nothing is kept by key, nothing is opened for it.
    pub(super) fn keyed(&self, node: usize, subtask: u16, states: &[StateDescriptor]) -> Result<KeyedState> {
        let Plan { parallelism, max_parallelism, .. } = *self.plan;
        let settings = disk_settings(&self.plan, node).filter(|_| states.iter().any(|state| state.kind.is_keyed()));
        let (Some(settings), Some(dir)) = (settings, &self.dir) else {
            return Ok(KeyedState::new(states, max_parallelism));
        };
        // One half is for entries, the other for what the database needs to find those on disk.
        let half = settings.state.memory / u64::from(parallelism) / 2;
        let name = format!("{}-{subtask}", self.plan.nodes[node].uid);
        let store = DiskStore::create(dir, &name, half).map_err(|fault| Error::from(fault).context(self.who(node, subtask)))?;
        Ok(KeyedState::over(states, max_parallelism, Box::new(store), usize::try_from(half).unwrap_or(usize::MAX)))
    }

    /// Whose state it is, for errors.
    pub(super) fn who(&self, node: usize, subtask: u16) -> String {
        format!("operator `{}`, subtask {subtask}", self.plan.nodes[node].uid)
    }
}

/// The settings of an operator that keeps state on disk.
fn disk_settings(plan: &Plan, node: usize) -> Option<&OperatorSettings> {
    match &plan.nodes[node].kind {
        NodeKind::Operator(settings) if settings.state.backend == Backend::Disk => Some(settings),
        _ => None,
    }
}
