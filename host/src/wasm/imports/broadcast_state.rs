//! `operator-state`: broadcast state. Any call reads it, and only records that every subtask gets may change it.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{LinkerInstance, WasmList};

use super::keyed_state::{READ_STEP, STEP, values_of};
use super::map_state::{Page, field_column};
use super::operator_state::READING;
use crate::plan::StateKind;
use crate::record::slice;
use crate::wasm::failure::Misuse;
use crate::wasm::guest::{Guest, check_len};
use crate::wasm::wire::{CellsReply, ColumnOut};

type Store<'a> = StoreContextMut<'a, Guest>;

const BROADCAST: &[StateKind] = &[StateKind::Broadcast];

pub(super) fn add_to(interface: &mut LinkerInstance<'_, Guest>) -> wasmtime::Result<()> {
    interface.func_wrap("broadcast-get", get)?;
    interface.func_wrap("broadcast-scan", scan)?;
    interface.func_wrap("broadcast-put", put)?;
    interface.func_wrap("broadcast-remove", remove)
}

fn get(store: Store<'_>, (state, fields): (u32, ColumnOut)) -> wasmtime::Result<(Arc<CellsReply>,)> {
    const NAME: &str = "operator-state.broadcast-get";
    let guest = store.data();
    guest.allow_in(READING, NAME)?;
    let state = guest.declared(state, BROADCAST, NAME)?;
    let (ends, bytes) = field_column(&store, &fields, NAME)?;
    let mut reply = guest.cells.borrow_mut();
    Arc::make_mut(&mut reply).refill(|cells| -> wasmtime::Result<()> {
        let state_of_subtask = guest.operator_state.borrow();
        for step in guest.steps(ends.len(), READ_STEP) {
            step?.for_each(|index| state_of_subtask.broadcast.get(state, slice(ends, bytes, index), cells));
            guest.check_read(cells.values.bytes.len())?;
        }
        Ok(())
    })?;
    Ok((Arc::clone(&reply),))
}

fn scan(store: Store<'_>, (state, start, max_bytes): (u32, WasmList<u8>, u32)) -> wasmtime::Result<(Page,)> {
    const NAME: &str = "operator-state.broadcast-scan";
    let guest = store.data();
    guest.allow_in(READING, NAME)?;
    let state = guest.declared(state, BROADCAST, NAME)?;
    guest.check_read(max_bytes as usize)?;
    let start = start.as_le_slice(&store);
    let (mut fields, mut values) = (guest.fields.borrow_mut(), guest.page.borrow_mut());
    Arc::make_mut(&mut fields).refill(|fields| {
        Arc::make_mut(&mut values).refill(|values| {
            guest.operator_state.borrow().broadcast.scan(state, start, max_bytes, fields, values);
            Ok::<(), Misuse>(())
        })
    })?;
    Ok(((Arc::clone(&fields), Arc::clone(&values)),))
}

fn put(store: Store<'_>, (state, fields, values): (u32, ColumnOut, ColumnOut)) -> wasmtime::Result<()> {
    const NAME: &str = "operator-state.broadcast-put";
    let guest = store.data();
    guest.allow_on_broadcast_input(NAME)?;
    let state = guest.declared(state, BROADCAST, NAME)?;
    let (field_ends, field_bytes) = field_column(&store, &fields, NAME)?;
    let (ends, bytes) = values_of(&store, &values, NAME)?;
    check_len("`fields`", field_ends.len(), ends.len(), NAME)?;
    guest.count_written(field_bytes.len())?;
    let entry = |index| (slice(field_ends, field_bytes, index), slice(ends, bytes, index));
    let mut state_of_subtask = guest.operator_state.borrow_mut();
    for step in guest.steps(ends.len(), STEP) {
        state_of_subtask.broadcast.put(state, step?.map(entry));
    }
    Ok(())
}

fn remove(store: Store<'_>, (state, fields): (u32, ColumnOut)) -> wasmtime::Result<()> {
    const NAME: &str = "operator-state.broadcast-remove";
    let guest = store.data();
    guest.allow_on_broadcast_input(NAME)?;
    let state = guest.declared(state, BROADCAST, NAME)?;
    let (ends, bytes) = field_column(&store, &fields, NAME)?;
    let mut state_of_subtask = guest.operator_state.borrow_mut();
    for step in guest.steps(ends.len(), STEP) {
        let removed = state_of_subtask.broadcast.remove(state, step?.map(|index| slice(ends, bytes, index)));
        guest.count_written(removed)?;
    }
    Ok(())
}
