//! Keyed state in the host's memory: tables, the undo log of a batch, the freeze at a barrier, and what expires.

mod change;
mod field;
mod freeze;
mod index;
mod keyed;
mod list;
mod lists;
mod maps;
mod sweep;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod ttl;
mod undo;

pub use change::{Change, ChangeKind, Changes};
pub use freeze::Slice;
pub use keyed::{Cells, KeyedState};
pub use list::elements;
pub use lists::{LONGEST_LIST, ListTooLong};
pub use maps::Fields;
pub use ttl::without_expired;
