//! [`Parcel`]: a batch on its way over an edge.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::Batch;

/// A batch with where it goes and where it is from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Parcel {
    /// The subtask that it is for.
    pub(super) target: u16,
    /// The input port that it is for.
    pub(super) port: u16,
    /// The subtask that sent it.
    pub(super) sender: u16,
    /// The chain that sent it.
    pub(super) chain: u16,
    /// Shared when several edges carry it.
    pub(super) records: Arc<Batch>,
}
