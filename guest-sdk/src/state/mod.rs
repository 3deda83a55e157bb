//! State per key: the handles that operators declare as fields, and the cache between them and the host.
//!
//! The host is reached in bulk. What a call reads is fetched once for all its keys, at the first read; what it writes is kept until
//! the call ends, and then written at once. Of each record the handles remember how to undo it.

mod cache;
mod list;
mod reducing;
#[cfg(test)]
mod tests;
mod value;

pub use list::{ListIter, ListState};
pub use reducing::{Max, Min, Reduce, ReducingState, Sum};
pub use value::ValueState;

use crate::scope::Scope;

pub use crate::bindings::descriptor::State as StateDescriptor;

/// What the `operator` macro does with each field that is a state.
pub trait Handle: Sized {
    /// What the descriptor says about it.
    fn describe(name: &str, version: u32) -> StateDescriptor;

    /// The handle to the state with this index in the descriptor.
    fn attach(scope: &Scope, index: u32, name: &'static str) -> Self;

    /// Undoes what the current record has done.
    fn undo(&mut self);

    /// The call ends: writes what has changed to the host, and forgets what was read.
    fn write_back(&mut self);

    /// The call has failed: forgets everything.
    fn forget(&mut self);
}

/// A descriptor's entry.
fn describe(name: &str, kind: &str, schema: String, version: u32) -> StateDescriptor {
    StateDescriptor { name: name.into(), kind: kind.into(), schema, version, more: Vec::new() }
}

/// Ends the instance: the bytes in the host are not what the operator's type says.
#[cold]
fn unreadable(name: &str, error: &crate::codec::Malformed) -> ! {
    panic!("state `{name}` holds something else than its schema says: {error}")
}
