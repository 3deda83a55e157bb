//! `keyed-state`: maps. Their fields are read and written for many keys at once, and scanned key by key.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{LinkerInstance, WasmList};

use super::keyed_state::{READ_STEP, STEP, values_of};
use crate::plan::StateKind;
use crate::record::append;
use crate::state::Fields;
use crate::wasm::failure::Misuse;
use crate::wasm::guest::{Guest, check_column, check_len};
use crate::wasm::limits::{self, MAP_FIELD};
use crate::wasm::wire::{CellsReply, ColumnOut, ColumnReply, emptied};

type Store<'a> = StoreContextMut<'a, Guest>;

const MAPS: &[StateKind] = &[StateKind::Map];

pub(super) fn add_to(interface: &mut LinkerInstance<'_, Guest>) -> wasmtime::Result<()> {
    interface.func_wrap("map-get", map_get)?;
    interface.func_wrap("map-get-one", map_get_one)?;
    interface.func_wrap("map-put", map_put)?;
    interface.func_wrap("map-remove", map_remove)?;
    interface.func_wrap("map-scan", map_scan)
}

fn map_get(store: Store<'_>, (state, keys, fields): (u32, WasmList<u32>, ColumnOut)) -> wasmtime::Result<(Arc<CellsReply>,)> {
    const NAME: &str = "keyed-state.map-get";
    let guest = store.data();
    let state = guest.state_index(state, MAPS, NAME)?;
    let fields = fields_of(&store, &keys, &fields, NAME)?;
    let mut reply = guest.cells.borrow_mut();
    Arc::make_mut(&mut reply).refill(|cells| -> wasmtime::Result<()> {
        let mut keyed = guest.state.borrow_mut();
        for step in guest.steps(fields.keys.len(), READ_STEP) {
            keyed.map_get(state, &guest.call, fields, step?, cells);
            guest.count_taken(&mut keyed)?;
            guest.check_read(cells.values.bytes.len())?;
        }
        Ok(())
    })?;
    Ok((Arc::clone(&reply),))
}

fn map_get_one(store: Store<'_>, (state, key, field): (u32, u32, WasmList<u8>)) -> wasmtime::Result<(Option<Arc<Vec<u8>>>,)> {
    const NAME: &str = "keyed-state.map-get-one";
    let guest = store.data();
    let state = guest.state_index(state, MAPS, NAME)?;
    guest.check_keys(&[key], NAME)?;
    let field = field.as_le_slice(&store);
    check_field(field.len(), NAME)?;
    let mut reply = guest.value.borrow_mut();
    let buffer = Arc::make_mut(&mut reply);
    *buffer = emptied(std::mem::take(buffer));
    let mut keyed = guest.state.borrow_mut();
    let Some(value) = keyed.map_get_one(state, &guest.call, key, field) else { return Ok((None,)) };
    guest.check_read(value.len())?;
    append(buffer, value);
    guest.count_taken(&mut keyed)?;
    Ok((Some(Arc::clone(&reply)),))
}

fn map_put(store: Store<'_>, (state, keys, fields, values): (u32, WasmList<u32>, ColumnOut, ColumnOut)) -> wasmtime::Result<()> {
    const NAME: &str = "keyed-state.map-put";
    let guest = store.data();
    let state = guest.state_index(state, MAPS, NAME)?;
    let fields = fields_of(&store, &keys, &fields, NAME)?;
    let (ends, bytes) = values_of(&store, &values, NAME)?;
    check_len("`keys`", fields.keys.len(), ends.len(), NAME)?;
    guest.count_written(written_with(guest, fields))?;
    let mut keyed = guest.state.borrow_mut();
    for step in guest.steps(fields.keys.len(), STEP) {
        keyed.map_put(state, &guest.call, fields, ends, bytes, step?);
    }
    Ok(())
}

fn map_remove(store: Store<'_>, (state, keys, fields): (u32, WasmList<u32>, ColumnOut)) -> wasmtime::Result<()> {
    const NAME: &str = "keyed-state.map-remove";
    let guest = store.data();
    let state = guest.state_index(state, MAPS, NAME)?;
    let fields = fields_of(&store, &keys, &fields, NAME)?;
    let mut keyed = guest.state.borrow_mut();
    for step in guest.steps(fields.keys.len(), STEP) {
        keyed.map_remove(state, &guest.call, fields, step?);
        guest.count_taken(&mut keyed)?;
    }
    Ok(())
}

/// What a scan replies: fields and values.
pub(super) type Page = (Arc<ColumnReply>, Arc<ColumnReply>);

fn map_scan(store: Store<'_>, (state, key, start, max_bytes): (u32, u32, WasmList<u8>, u32)) -> wasmtime::Result<(Page,)> {
    const NAME: &str = "keyed-state.map-scan";
    let guest = store.data();
    let state = guest.state_index(state, MAPS, NAME)?;
    guest.check_keys(&[key], NAME)?;
    guest.check_read(max_bytes as usize)?;
    let start = start.as_le_slice(&store);
    let (mut fields, mut values) = (guest.fields.borrow_mut(), guest.page.borrow_mut());
    Arc::make_mut(&mut fields).refill(|fields| {
        Arc::make_mut(&mut values).refill(|values| {
            let mut keyed = guest.state.borrow_mut();
            keyed.map_scan(state, &guest.call, key, start, max_bytes, fields, values);
            guest.count_taken(&mut keyed)
        })
    })?;
    Ok(((Arc::clone(&fields), Arc::clone(&values)),))
}

/// Fields with their keys, checked.
fn fields_of<'a>(store: &'a Store<'_>, keys: &WasmList<u32>, fields: &ColumnOut, function: &str) -> Result<Fields<'a>, Misuse> {
    let keys = keys.as_le_slice(store);
    let (ends, bytes) = field_column(store, fields, function)?;
    store.data().check_keys(keys, function)?;
    if keys.len() != ends.len() {
        return Err(Misuse(format!("{function}: `keys` has {} entries, but there are {} fields", keys.len(), ends.len())));
    }
    Ok(Fields { keys, ends, bytes })
}

/// Fields as a column, checked.
pub(super) fn field_column<'a>(store: &'a Store<'_>, fields: &ColumnOut, function: &str) -> Result<(&'a [u32], &'a [u8]), Misuse> {
    let (ends, bytes) = (fields.ends.as_le_slice(store), fields.bytes.as_le_slice(store));
    check_column("`fields`", ends, bytes, function)?;
    let mut start = 0;
    for &end in ends {
        check_field((end - start) as usize, function)?;
        start = end;
    }
    Ok((ends, bytes))
}

fn check_field(len: usize, function: &str) -> Result<(), Misuse> {
    if len <= MAP_FIELD { Ok(()) } else { Err(Misuse(format!("{function}: a field has more than {}", limits::bytes(MAP_FIELD as u64)))) }
}

/// Bytes that fields take: each is kept with its key.
fn written_with(guest: &Guest, fields: Fields<'_>) -> usize {
    let keys = &guest.call.keys;
    fields.keys.iter().fold(fields.bytes.len(), |bytes, &key| bytes.saturating_add(keys.get(key as usize).len()))
}
