//! The functions of the host that operators import, one file per interface of `wit/operator.wit`. Written by hand rather than
//! generated, so that what a guest passes is read in place in its memory, and checked before anything is kept.

mod broadcast_state;
mod keyed_state;
mod map_state;
mod operator_state;
mod output;
mod runtime;

use wasmtime::component::Linker;

use super::guest::Guest;

/// Offers all of them.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    keyed_state::add_to_linker(linker)?;
    operator_state::add_to_linker(linker)?;
    output::add_to_linker(linker)?;
    runtime::add_to_linker(linker)
}
