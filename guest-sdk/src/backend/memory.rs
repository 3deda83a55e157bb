//! A stand-in for the host: state, output and rejections in memory, with the host's undo of a failed call.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::backend::EmitKeys;
use crate::column::{Cells, Column};

/// What a state holds for a key: the elements of a list, or the one element that a value is.
type Entry = Vec<Vec<u8>>;
/// What a state holds.
type State = BTreeMap<Vec<u8>, Entry>;

/// The stand-in, shared between an instance and the harness.
#[derive(Clone, Debug)]
pub(crate) struct Backend(Rc<RefCell<Memory>>);

/// A record that was emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Emitted {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) time: Option<i64>,
}

/// What the stand-in holds.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// By the states' indices in the descriptor.
    pub(crate) states: Vec<State>,
    /// The keys of the call at hand.
    pub(crate) keys: Column,
    /// What it has emitted and rejected.
    pub(crate) emitted: Vec<Emitted>,
    pub(crate) rejected: Vec<(u32, String)>,
    /// Entries as they were before the call, to undo it.
    undo: Vec<(usize, Vec<u8>, Option<Entry>)>,
    /// The functions that were called since they were last looked at, for tests of the cache.
    pub(crate) calls: Vec<&'static str>,
    config: String,
    context: Vec<(String, String)>,
    pub(crate) processing_time: i64,
}

impl Memory {
    /// A host without state.
    pub(crate) fn new(states: usize, config: String, context: Vec<(String, String)>) -> Self {
        Memory { states: vec![State::new(); states], config, context, ..Memory::default() }
    }

    /// The call has succeeded: what it wrote stays.
    pub(crate) fn commit(&mut self) {
        self.undo.clear();
    }

    /// The call has failed: as if it had never been.
    pub(crate) fn undo(&mut self) {
        for (state, key, old) in self.undo.drain(..).rev() {
            match old {
                Some(old) => self.states[state].insert(key, old),
                None => self.states[state].remove(&key),
            };
        }
        self.emitted.clear();
        self.rejected.clear();
    }

    fn key(&self, key: u32) -> Vec<u8> {
        self.keys.get(key as usize).to_vec()
    }

    fn entry(&self, state: u32, key: u32) -> Option<&Entry> {
        self.states[state as usize].get(self.keys.get(key as usize))
    }

    /// Changes a key's entry; what is empty afterwards is gone.
    fn change(&mut self, state: u32, key: u32, change: impl FnOnce(&mut Entry)) {
        let (key, state_index) = (self.key(key), state as usize);
        let old = self.states[state_index].remove(&key);
        let mut new = old.clone().unwrap_or_default();
        change(&mut new);
        if !new.is_empty() {
            self.states[state_index].insert(key.clone(), new);
        }
        self.undo.push((state_index, key, old));
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

    pub(crate) fn get(&self, state: u32, keys: &[u32]) -> Cells {
        let memory = self.called("get");
        let mut cells = Cells { present: Vec::new(), values: Column::new() };
        for &key in keys {
            let value = memory.entry(state, key);
            cells.present.push(u8::from(value.is_some()));
            cells.values.push(value.map_or(&[], |value| &value[0]));
        }
        cells
    }

    pub(crate) fn put(&self, state: u32, keys: &[u32], values: &Column) {
        let mut memory = self.called("put");
        assert_eq!(keys.len(), values.len(), "as many keys as values");
        for (&key, value) in keys.iter().zip(values.iter()) {
            memory.change(state, key, |entry| *entry = vec![value.to_vec()]);
        }
    }

    pub(crate) fn clear(&self, state: u32, keys: &[u32]) {
        let mut memory = self.called("clear");
        for &key in keys {
            memory.change(state, key, Vec::clear);
        }
    }

    pub(crate) fn list_append(&self, state: u32, keys: &[u32], values: &Column) {
        let mut memory = self.called("list-append");
        assert_eq!(keys.len(), values.len(), "as many keys as values");
        for (&key, value) in keys.iter().zip(values.iter()) {
            memory.change(state, key, |entry| entry.push(value.to_vec()));
        }
    }

    pub(crate) fn list_replace(&self, state: u32, key: u32, values: &Column) {
        let mut memory = self.called("list-replace");
        memory.change(state, key, |entry| *entry = values.iter().map(<[u8]>::to_vec).collect());
    }

    pub(crate) fn list_read(&self, state: u32, key: u32, start: u32, max_bytes: u32) -> Column {
        let memory = self.called("list-read");
        let mut page = Column::new();
        for element in memory.entry(state, key).into_iter().flatten().skip(start as usize) {
            if page.len() > 0 && page.bytes.len() + element.len() > max_bytes as usize {
                break;
            }
            page.push(element);
        }
        page
    }

    pub(crate) fn emit(&self, _port: u32, keys: &EmitKeys, values: &Column, times: &[i64]) {
        let mut memory = self.called("emit");
        assert!(times.is_empty() || times.len() == values.len(), "as many event times as values, or none");
        for (index, value) in values.iter().enumerate() {
            let key = match keys {
                EmitKeys::None => Vec::new(),
                EmitKeys::Known(keys) => memory.key(keys[index]),
                EmitKeys::Fresh(keys) => keys.get(index).to_vec(),
            };
            memory.emitted.push(Emitted { key, value: value.to_vec(), time: times.get(index).copied() });
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
}
