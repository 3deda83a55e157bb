//! Keyed state in the host's memory: tables, the undo log of a batch, and the freeze at a barrier.

mod change;
mod freeze;
mod index;
mod keyed;
mod list;
mod table;

pub use change::{Change, ChangeKind, Changes};
pub use freeze::Slice;
pub use keyed::{Cells, KeyedState, LONGEST_LIST, ListTooLong};
pub use list::elements;
