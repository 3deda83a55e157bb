//! A stand-in for the host: state, output, rejections and metrics in memory, with the host's undo of a failed call.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::keyed::KeyedMemory;
use crate::backend::EmitKeys;
use crate::column::{Cells, Column};

/// The key under which broadcast state is kept.
const EVERY: &[u8] = &[];

/// A reply with more bytes than this ends, as the host's do at the limit of an operator. So few that tests come to it.
const READ_BYTES: usize = 128;

/// An operator state.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperatorList {
    /// What the operator sees.
    pub(crate) seen: Vec<Vec<u8>>,
    /// What a snapshot holds: differs for a union list that was not written since it was restored.
    pub(crate) own: Vec<Vec<u8>>,
}

/// The stand-in, shared between an instance and the harness.
#[derive(Clone, Debug)]
pub(crate) struct Backend(Rc<RefCell<Memory>>);

/// A record that was emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Emitted {
    pub(crate) port: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) time: Option<i64>,
}

/// What the stand-in holds.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// By the states' indices in the descriptor.
    pub(crate) states: KeyedMemory,
    /// Broadcast state, by the states' indices, each as the map of an empty key.
    pub(crate) broadcast: KeyedMemory,
    /// Operator state, by the states' indices in the descriptor.
    pub(crate) lists: BTreeMap<usize, OperatorList>,
    /// The keys of the call at hand.
    pub(crate) keys: Column,
    /// What it has emitted and rejected.
    pub(crate) emitted: Vec<Emitted>,
    pub(crate) rejected: Vec<(u32, String)>,
    /// What it has told of its metrics.
    counted: Vec<(String, u64)>,
    gauged: Vec<(String, f64)>,
    /// Metrics, of all calls that have succeeded.
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) gauges: BTreeMap<String, f64>,
    /// Operator state as it was before each of its writes.
    undo_lists: Vec<(usize, OperatorList)>,
    /// The functions that were called since they were last looked at, for tests of the cache.
    pub(crate) calls: Vec<&'static str>,
    config: String,
    context: Vec<(String, String)>,
    pub(crate) processing_time: i64,
}

impl Memory {
    /// A host with empty state.
    pub(crate) fn new(states: KeyedMemory, broadcast: KeyedMemory, config: String, context: Vec<(String, String)>) -> Self {
        Memory { states, broadcast, config, context, ..Memory::default() }
    }

    /// The call has succeeded: what it wrote stays.
    pub(crate) fn commit(&mut self) {
        self.states.commit();
        self.broadcast.commit();
        self.undo_lists.clear();
        self.counted.drain(..).for_each(|(metric, by)| *self.counters.entry(metric).or_default() += by);
        self.gauges.extend(self.gauged.drain(..));
    }

    /// The call has failed: as if it had never been.
    pub(crate) fn undo(&mut self) {
        self.states.undo();
        self.broadcast.undo();
        self.lists.extend(self.undo_lists.drain(..).rev());
        self.emitted.clear();
        self.rejected.clear();
        self.counted.clear();
        self.gauged.clear();
    }

    fn key(&self, key: u32) -> Vec<u8> {
        self.keys.get(key as usize).to_vec()
    }
}

impl Backend {
    pub(crate) fn new(memory: Memory) -> Self {
        Backend(Rc::new(RefCell::new(memory)))
    }

    pub(crate) fn memory(&self) -> RefMut<'_, Memory> {
        self.0.borrow_mut()
    }

    fn called(&self, function: &'static str) -> RefMut<'_, Memory> {
        let mut memory = self.memory();
        memory.calls.push(function);
        memory
    }

    /// Looks at or changes the state of each of `keys`.
    fn each(&self, function: &'static str, keys: &[u32], mut work: impl FnMut(&mut KeyedMemory, usize, &[u8])) {
        let mut memory = self.called(function);
        for (index, &key) in keys.iter().enumerate() {
            let key = memory.key(key);
            work(&mut memory.states, index, &key);
        }
    }

    pub(crate) fn get(&self, state: u32, keys: &[u32]) -> Cells {
        let mut cells = Cells { present: Vec::new(), values: Column::new() };
        self.each("get", keys, |states, _, key| {
            if cells.values.bytes.len() <= READ_BYTES {
                states.read(state as usize, key, &[], &mut cells);
            }
        });
        cells
    }

    pub(crate) fn put(&self, state: u32, keys: &[u32], values: &Column) {
        assert_eq!(keys.len(), values.len(), "as many keys as values");
        self.each("put", keys, |states, index, key| states.put(state as usize, key, &[], values.get(index)));
    }

    pub(crate) fn clear(&self, state: u32, keys: &[u32]) {
        self.each("clear", keys, |states, _, key| states.clear(state as usize, key));
    }

    pub(crate) fn list_append(&self, state: u32, keys: &[u32], values: &Column) {
        assert_eq!(keys.len(), values.len(), "as many keys as values");
        self.each("list-append", keys, |states, index, key| states.append(state as usize, key, values.get(index)));
    }

    pub(crate) fn list_replace(&self, state: u32, key: u32, values: &Column) {
        self.each("list-replace", &[key], |states, _, key| {
            states.clear(state as usize, key);
            values.iter().for_each(|value| states.append(state as usize, key, value));
        });
    }

    pub(crate) fn list_read(&self, state: u32, key: u32, start: u32, max_bytes: u32) -> Column {
        let mut page = Column::new();
        self.each("list-read", &[key], |states, _, key| page = states.list(state as usize, key, start, max_bytes));
        page
    }

    pub(crate) fn map_get_one(&self, state: u32, key: u32, field: &[u8]) -> Option<Vec<u8>> {
        let mut cells = Cells { present: Vec::new(), values: Column::new() };
        self.each("map-get-one", &[key], |states, _, key| states.read(state as usize, key, field, &mut cells));
        (cells.present == [1]).then_some(cells.values.bytes)
    }

    pub(crate) fn map_put(&self, state: u32, keys: &[u32], fields: &Column, values: &Column) {
        assert_eq!((keys.len(), fields.len()), (values.len(), values.len()), "as many keys and fields as values");
        self.each("map-put", keys, |states, index, key| states.put(state as usize, key, fields.get(index), values.get(index)));
    }

    pub(crate) fn map_remove(&self, state: u32, keys: &[u32], fields: &Column) {
        assert_eq!(keys.len(), fields.len(), "as many keys as fields");
        self.each("map-remove", keys, |states, index, key| states.remove(state as usize, key, fields.get(index)));
    }

    pub(crate) fn map_scan(&self, state: u32, key: u32, start: &[u8], max_bytes: u32) -> (Column, Column) {
        let mut page = (Column::new(), Column::new());
        self.each("map-scan", &[key], |states, _, key| page = states.scan(state as usize, key, start, max_bytes));
        page
    }

    pub(crate) fn operator_list_get(&self, state: u32) -> Column {
        let memory = self.called("operator-list-get");
        let mut column = Column::new();
        memory.lists.get(&(state as usize)).into_iter().flat_map(|list| &list.seen).for_each(|element| column.push(element));
        column
    }

    pub(crate) fn operator_list_update(&self, state: u32, values: &Column) {
        let mut memory = self.called("operator-list-update");
        let seen: Vec<_> = values.iter().map(<[u8]>::to_vec).collect();
        let list = OperatorList { own: seen.clone(), seen };
        let old = memory.lists.insert(state as usize, list).unwrap_or_default();
        memory.undo_lists.push((state as usize, old));
    }

    pub(crate) fn broadcast_get(&self, state: u32, fields: &Column) -> Cells {
        let mut memory = self.called("broadcast-get");
        let mut cells = Cells { present: Vec::new(), values: Column::new() };
        fields.iter().for_each(|field| memory.broadcast.read(state as usize, EVERY, field, &mut cells));
        cells
    }

    pub(crate) fn broadcast_scan(&self, state: u32, start: &[u8], max_bytes: u32) -> (Column, Column) {
        self.called("broadcast-scan").broadcast.scan(state as usize, EVERY, start, max_bytes)
    }

    pub(crate) fn broadcast_put(&self, state: u32, fields: &Column, values: &Column) {
        assert_eq!(fields.len(), values.len(), "as many fields as values");
        let mut memory = self.called("broadcast-put");
        fields.iter().zip(values.iter()).for_each(|(field, value)| memory.broadcast.put(state as usize, EVERY, field, value));
    }

    pub(crate) fn broadcast_remove(&self, state: u32, fields: &Column) {
        let mut memory = self.called("broadcast-remove");
        fields.iter().for_each(|field| memory.broadcast.remove(state as usize, EVERY, field));
    }

    pub(crate) fn emit(&self, port: u32, keys: &EmitKeys, values: &Column, times: &[i64]) {
        let mut memory = self.called("emit");
        assert!(times.is_empty() || times.len() == values.len(), "as many event times as values, or none");
        for (index, value) in values.iter().enumerate() {
            let key = match keys {
                EmitKeys::None => Vec::new(),
                EmitKeys::Known(keys) => memory.key(keys[index]),
                EmitKeys::Fresh(keys) => keys.get(index).to_vec(),
            };
            memory.emitted.push(Emitted { port, key, value: value.to_vec(), time: times.get(index).copied() });
        }
    }

    pub(crate) fn reject(&self, record: u32, message: &str) {
        self.called("reject").rejected.push((record, message.into()));
    }

    pub(crate) fn context(&self) -> Vec<(String, String)> {
        self.memory().context.clone()
    }

    pub(crate) fn config(&self) -> String {
        self.memory().config.clone()
    }

    pub(crate) fn processing_time(&self) -> i64 {
        self.memory().processing_time
    }

    pub(crate) fn count(&self, metric: &str, by: u64) {
        self.called("count").counted.push((metric.into(), by));
    }

    pub(crate) fn gauge(&self, metric: &str, value: f64) {
        self.called("gauge").gauged.push((metric.into(), value));
    }
}
