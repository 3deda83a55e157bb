//! `keyed-state`: reads and writes of the state that is lent to the instance, for many keys at once.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmList};

use super::map_state;
use crate::plan::StateKind;
use crate::state::{ListTooLong, PER_VALUE};
use crate::wasm::failure::Misuse;
use crate::wasm::guest::{Guest, check_column, check_len};
use crate::wasm::limits::{self, STATE_VALUE};
use crate::wasm::wire::{CellsReply, ColumnOut, ColumnReply};

type Store<'a> = StoreContextMut<'a, Guest>;

const VALUES: &[StateKind] = &[StateKind::Value, StateKind::Reducing, StateKind::Aggregating];
const LISTS: &[StateKind] = &[StateKind::List];
const ANY: &[StateKind] = &[StateKind::Value, StateKind::Reducing, StateKind::Aggregating, StateKind::List, StateKind::Map];

/// Keys that are read before the size of the reply is looked at. With [`STATE_VALUE`] it keeps the reply far below 4 GiB.
pub(super) const READ_STEP: usize = 64;
/// Keys that are written or cleared, or fields of maps, between two looks at the time that the call has left.
pub(super) const STEP: usize = 4096;

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("cofferdam:operator/keyed-state@0.1.0")?;
    interface.func_wrap("get", get)?;
    interface.func_wrap("put", put)?;
    interface.func_wrap("clear", clear)?;
    interface.func_wrap("list-append", list_append)?;
    interface.func_wrap("list-replace", list_replace)?;
    interface.func_wrap("list-read", list_read)?;
    map_state::add_to(&mut interface)
}

fn get(store: Store<'_>, (state, keys): (u32, WasmList<u32>)) -> wasmtime::Result<(Arc<CellsReply>,)> {
    const NAME: &str = "keyed-state.get";
    let guest = store.data();
    let state = guest.state_index(state, VALUES, NAME)?;
    let keys = keys.as_le_slice(&store);
    guest.check_keys(keys, NAME)?;
    let mut reply = guest.cells.borrow_mut();
    Arc::make_mut(&mut reply).refill(|cells| -> wasmtime::Result<()> {
        let mut keyed = guest.state.borrow_mut();
        for step in guest.steps(keys.len(), READ_STEP) {
            keyed.get(state, &guest.call, &keys[step?], cells);
            guest.count_taken(&mut keyed)?;
            if guest.check_read(cells.values.bytes.len()).is_err() {
                // The guest asks for the others again.
                guest.cut_read(cells)?;
                break;
            }
        }
        Ok(())
    })?;
    Ok((Arc::clone(&reply),))
}

fn put(store: Store<'_>, (state, keys, values): (u32, WasmList<u32>, ColumnOut)) -> wasmtime::Result<()> {
    const NAME: &str = "keyed-state.put";
    let guest = store.data();
    let state = guest.state_index(state, VALUES, NAME)?;
    let keys = keys.as_le_slice(&store);
    let (ends, bytes) = values_of(&store, &values, NAME)?;
    guest.check_keys(keys, NAME)?;
    check_len("`keys`", keys.len(), ends.len(), NAME)?;
    let mut keyed = guest.state.borrow_mut();
    for step in guest.steps(keys.len(), STEP) {
        keyed.put(state, &guest.call, keys, ends, bytes, step?);
    }
    Ok(())
}

fn clear(store: Store<'_>, (state, keys): (u32, WasmList<u32>)) -> wasmtime::Result<()> {
    const NAME: &str = "keyed-state.clear";
    let guest = store.data();
    let state = guest.state_index(state, ANY, NAME)?;
    let keys = keys.as_le_slice(&store);
    guest.check_keys(keys, NAME)?;
    let mut keyed = guest.state.borrow_mut();
    for step in guest.steps(keys.len(), STEP) {
        keyed.clear(state, &guest.call, &keys[step?]);
        guest.count_taken(&mut keyed)?;
    }
    Ok(())
}

fn list_append(store: Store<'_>, (state, keys, values): (u32, WasmList<u32>, ColumnOut)) -> wasmtime::Result<()> {
    const NAME: &str = "keyed-state.list-append";
    let guest = store.data();
    let state = guest.state_index(state, LISTS, NAME)?;
    let keys = keys.as_le_slice(&store);
    let (ends, bytes) = values_of(&store, &values, NAME)?;
    guest.check_keys(keys, NAME)?;
    check_len("`keys`", keys.len(), ends.len(), NAME)?;
    let mut keyed = guest.state.borrow_mut();
    for step in guest.steps(keys.len(), STEP) {
        keyed.list_append(state, &guest.call, keys, ends, bytes, step?).map_err(|too_long| list_too_long(too_long, NAME))?;
    }
    Ok(())
}

fn list_replace(store: Store<'_>, (state, key, values): (u32, u32, ColumnOut)) -> wasmtime::Result<()> {
    const NAME: &str = "keyed-state.list-replace";
    let guest = store.data();
    let state = guest.state_index(state, LISTS, NAME)?;
    let (ends, bytes) = values_of(&store, &values, NAME)?;
    guest.check_keys(&[key], NAME)?;
    let replaced = guest.state.borrow_mut().list_replace(state, &guest.call, key, ends, bytes);
    replaced.map_err(|too_long| list_too_long(too_long, NAME).into())
}

fn list_read(store: Store<'_>, (state, key, start, max_bytes): (u32, u32, u32, u32)) -> wasmtime::Result<(Arc<ColumnReply>,)> {
    const NAME: &str = "keyed-state.list-read";
    let guest = store.data();
    let state = guest.state_index(state, LISTS, NAME)?;
    guest.check_keys(&[key], NAME)?;
    guest.check_read(max_bytes as usize)?;
    let mut reply = guest.page.borrow_mut();
    Arc::make_mut(&mut reply).refill(|page| {
        let mut keyed = guest.state.borrow_mut();
        keyed.list_read(state, &guest.call, key, start, max_bytes, page);
        guest.count_taken(&mut keyed)
    })?;
    Ok((Arc::clone(&reply),))
}

fn list_too_long(ListTooLong { most }: ListTooLong, function: &str) -> Misuse {
    Misuse(format!("{function}: the list of one key would have more than {}", limits::bytes(most)))
}

/// Values to be written, checked and counted.
pub(super) fn values_of<'a>(store: &'a Store<'_>, values: &ColumnOut, function: &str) -> wasmtime::Result<(&'a [u32], &'a [u8])> {
    let (ends, bytes) = (values.ends.as_le_slice(store), values.bytes.as_le_slice(store));
    check_column("`values`", ends, bytes, function)?;
    let mut start = 0;
    for &end in ends {
        if (end - start) as usize > STATE_VALUE {
            return Err(Misuse(format!("{function}: a value has more than {}", limits::bytes(STATE_VALUE as u64))).into());
        }
        start = end;
    }
    store.data().count_written(bytes.len() + PER_VALUE * ends.len())?;
    Ok((ends, bytes))
}
