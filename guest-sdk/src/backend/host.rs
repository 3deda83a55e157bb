//! The host's functions.

use crate::backend::EmitKeys;
use crate::bindings::operator::cofferdam::operator::{keyed_state, operator_state, output, runtime};
use crate::column::{Cells, Column};

/// The host that runs this guest.
#[derive(Clone, Debug)]
pub(crate) struct Backend;

impl Backend {
    pub(crate) fn get(&self, state: u32, keys: &[u32]) -> Cells {
        keyed_state::get(state, keys)
    }

    pub(crate) fn put(&self, state: u32, keys: &[u32], values: &Column) {
        keyed_state::put(state, keys, values);
    }

    pub(crate) fn clear(&self, state: u32, keys: &[u32]) {
        keyed_state::clear(state, keys);
    }

    pub(crate) fn list_append(&self, state: u32, keys: &[u32], values: &Column) {
        keyed_state::list_append(state, keys, values);
    }

    pub(crate) fn list_replace(&self, state: u32, key: u32, values: &Column) {
        keyed_state::list_replace(state, key, values);
    }

    pub(crate) fn list_read(&self, state: u32, key: u32, start: u32, max_bytes: u32) -> Column {
        keyed_state::list_read(state, key, start, max_bytes)
    }

    pub(crate) fn map_get_one(&self, state: u32, key: u32, field: &[u8]) -> Option<Vec<u8>> {
        keyed_state::map_get_one(state, key, field)
    }

    pub(crate) fn map_put(&self, state: u32, keys: &[u32], fields: &Column, values: &Column) {
        keyed_state::map_put(state, keys, fields, values);
    }

    pub(crate) fn map_remove(&self, state: u32, keys: &[u32], fields: &Column) {
        keyed_state::map_remove(state, keys, fields);
    }

    pub(crate) fn map_scan(&self, state: u32, key: u32, start: &[u8], max_bytes: u32) -> (Column, Column) {
        keyed_state::map_scan(state, key, start, max_bytes)
    }

    pub(crate) fn operator_list_get(&self, state: u32) -> Column {
        operator_state::list_get(state)
    }

    pub(crate) fn operator_list_update(&self, state: u32, values: &Column) {
        operator_state::list_update(state, values);
    }

    pub(crate) fn broadcast_get(&self, state: u32, fields: &Column) -> Cells {
        operator_state::broadcast_get(state, fields)
    }

    pub(crate) fn broadcast_scan(&self, state: u32, start: &[u8], max_bytes: u32) -> (Column, Column) {
        operator_state::broadcast_scan(state, start, max_bytes)
    }

    pub(crate) fn broadcast_put(&self, state: u32, fields: &Column, values: &Column) {
        operator_state::broadcast_put(state, fields, values);
    }

    pub(crate) fn broadcast_remove(&self, state: u32, fields: &Column) {
        operator_state::broadcast_remove(state, fields);
    }

    pub(crate) fn emit(&self, port: u32, keys: &EmitKeys, values: &Column, times: &[i64]) {
        output::emit(port, keys, values, times);
    }

    pub(crate) fn reject(&self, record: u32, message: &str) {
        output::reject(record, message);
    }

    pub(crate) fn context(&self) -> Vec<(String, String)> {
        runtime::context()
    }

    pub(crate) fn config(&self) -> String {
        runtime::config()
    }

    pub(crate) fn processing_time(&self) -> i64 {
        runtime::processing_time()
    }

    pub(crate) fn count(&self, metric: &str, by: u64) {
        runtime::count(metric, by);
    }

    pub(crate) fn gauge(&self, metric: &str, value: f64) {
        runtime::gauge(metric, value);
    }
}
