//! State in the host's memory, per key and per subtask: tables and lists, the undo log of a batch, the freeze at a barrier, what
//! expires, and what lies below the tables when they would get too large.

mod below;
#[cfg(test)]
pub(crate) mod below_tests;
mod broadcast;
mod change;
mod changed;
mod cold;
mod evict;
mod facts;
mod field;
mod freeze;
mod index;
mod keyed;
mod list;
mod listing;
mod lists;
mod maps;
mod notes;
mod operator;
mod parts;
mod rewrite;
mod subtask;
mod sweep;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod ttl;
mod undo;
mod usage;
mod written;

pub use broadcast::{BroadcastMap, BroadcastState, Maps};
pub use change::{Change, ChangeKind, Changes};
pub use cold::{Cold, ColdFault, LONGEST_PLACE, Take};
pub use freeze::Slice;
pub use keyed::{Cells, KeyedState, PER_VALUE};
pub use list::elements;
pub use listing::Keys;
pub use lists::{LONGEST_LIST, ListTooLong};
pub use maps::Fields;
pub use operator::{Lists, OperatorSnapshot, OperatorState, spread};
pub use rewrite::{Unwritten, rewrite_elements};
pub use subtask::{Arrangement, SubtaskState};
pub use ttl::without_expired;
pub use usage::Usage;
