//! State per key and per subtask: the handles that operators declare as fields, and the caches between them and the host.
//!
//! The host is reached in bulk. What a call reads is fetched once for all its keys, at the first read; what it writes is kept until
//! the call ends, and then written at once. Of each record the handles remember how to undo it.

mod aggregating;
mod broadcast;
#[cfg(test)]
mod broadcast_tests;
mod cache;
mod declared;
mod journal;
mod list;
mod map;
mod map_iter;
#[cfg(test)]
mod map_tests;
mod operator_list;
mod overlay;
mod reducing;
mod slot;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod ttl_tests;
mod value;

pub use aggregating::{Aggregate, AggregatingState};
pub use broadcast::BroadcastState;
#[cfg(not(target_family = "wasm"))]
pub(crate) use declared::field_schema;
pub use declared::{Declared, Ttl};
pub use list::{ListIter, ListState};
pub use map::MapState;
pub use map_iter::MapIter;
pub use operator_list::{OperatorListState, UnionListState};
pub use reducing::{Max, Min, Reduce, ReducingState, Sum};
pub use value::ValueState;

use crate::codec::Value;
use crate::scope::Scope;

pub use crate::bindings::descriptor::State as StateDescriptor;

/// Bytes of elements or entries that one read asks the host for.
const PAGE: u32 = 64 * 1024;

/// What the `operator` macro does with each field that is a state.
pub trait Handle: Sized {
    /// What the host keeps: values, or elements.
    type Kept: Value;

    /// What the descriptor says about it.
    fn describe(declared: Declared) -> StateDescriptor;

    /// The handle to the state with this index in the descriptor.
    fn attach(scope: &Scope, index: u32, declared: Declared) -> Self;

    /// Undoes what the current record has done.
    fn undo(&mut self);

    /// The call ends: writes what has changed to the host, and forgets what was read.
    fn write_back(&mut self);

    /// The call has failed: forgets everything.
    fn forget(&mut self);
}

/// Ends the instance: the bytes in the host are not what the operator's type says.
#[cold]
fn unreadable(name: &str, error: &crate::codec::Malformed) -> ! {
    panic!("state `{name}` holds something else than its schema says: {error}")
}
