//! Keyed state in the host's memory: tables, the undo log of a batch, and the freeze at a barrier.

mod change;
mod keyed;

pub use change::{Change, ChangeKind, Changes};
pub use keyed::{Cells, KeyedState};
