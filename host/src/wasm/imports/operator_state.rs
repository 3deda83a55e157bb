//! `operator-state`: the lists of the subtask that the instance runs for. Broadcast state is in `broadcast_state`.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use super::broadcast_state;
use super::keyed_state::values_of;
use crate::plan::StateKind;
use crate::record::Column;
use crate::wasm::failure::Exceeded;
use crate::wasm::guest::{Guest, Phase};
use crate::wasm::wire::{ColumnOut, ColumnReply};

type Store<'a> = StoreContextMut<'a, Guest>;

const LISTS: &[StateKind] = &[StateKind::OperatorList, StateKind::OperatorUnionList];
/// Reading is harmless whenever there is state.
pub(super) const READING: &[Phase] =
    &[Phase::Open, Phase::Process, Phase::Finish, Phase::Snapshot, Phase::CheckpointComplete, Phase::CheckpointAborted, Phase::Close];
/// After `close` nothing is written any more.
const WRITING: &[Phase] =
    &[Phase::Open, Phase::Process, Phase::Finish, Phase::Snapshot, Phase::CheckpointComplete, Phase::CheckpointAborted];

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("cofferdam:operator/operator-state@0.1.0")?;
    interface.func_wrap("list-get", list_get)?;
    interface.func_wrap("list-update", list_update)?;
    broadcast_state::add_to(&mut interface)
}

fn list_get(store: Store<'_>, (state,): (u32,)) -> wasmtime::Result<(Arc<ColumnReply>,)> {
    const NAME: &str = "operator-state.list-get";
    let guest = store.data();
    guest.allow_in(READING, NAME)?;
    let state = guest.declared(state, LISTS, NAME)?;
    let mut reply = guest.page.borrow_mut();
    Arc::make_mut(&mut reply).refill(|page| {
        if let Some(list) = guest.operator_state.borrow().get(state) {
            guest.check_read(list.bytes.len())?;
            page.ends.extend_from_slice(&list.ends);
            page.bytes.extend_from_slice(&list.bytes);
        }
        Ok::<(), Exceeded>(())
    })?;
    Ok((Arc::clone(&reply),))
}

fn list_update(store: Store<'_>, (state, values): (u32, ColumnOut)) -> wasmtime::Result<()> {
    const NAME: &str = "operator-state.list-update";
    let guest = store.data();
    guest.allow_in(WRITING, NAME)?;
    let state = guest.declared(state, LISTS, NAME)?;
    let (ends, bytes) = values_of(&store, &values, NAME)?;
    guest.operator_state.borrow_mut().update(state, Column { ends: ends.to_vec(), bytes: bytes.to_vec() });
    Ok(())
}
