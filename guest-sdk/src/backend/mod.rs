//! The way to the host: its functions in a guest, and a stand-in in memory everywhere else. Everything above is the same code.

#[cfg(target_family = "wasm")]
mod host;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod keyed;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod memory;

pub(crate) use crate::bindings::operator::cofferdam::operator::output::EmitKeys;
#[cfg(target_family = "wasm")]
pub(crate) use host::Backend;
#[cfg(not(target_family = "wasm"))]
pub(crate) use memory::Backend;
