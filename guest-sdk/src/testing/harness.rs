//! [`Harness`]: an instance of an operator, with a host in memory.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::snapshot::{ListSnapshot, Snapshot};
use super::{Failure, Processed, Record, Rejected};
use crate::backend::keyed::{Entry, KeyedMemory};
use crate::backend::memory::{Backend, Emitted, Memory, OperatorList};
use crate::codec::{Decode, EncodeAs, Malformed};
use crate::column::{Batch, Column};
use crate::error::Result;
use crate::key::{AsKey, Key, MaybeKey};
use crate::operator::{Instance, Operator, describe};
use crate::output::OutputPort;
use crate::scope;
use crate::state::Ttl;

/// How many keys `finish` gets at once, few, so that tests see more than one call.
const FINISH_KEYS: usize = 64;

/// The kind of state of which each subtask sees all at a restore.
const UNION: &str = "operator-union-list";

/// What a call sent: the key of the output's records.
type OutputKey<O> = <<O as Operator>::Output as OutputPort>::Key<<O as crate::operator::Fields>::Key>;
/// What a call sent: the value of the output's records.
type OutputValue<O> = <<O as Operator>::Output as OutputPort>::Value;
/// What came of a call.
type Outcome<O> = Result<Processed<OutputKey<O>, OutputValue<O>>, Failure>;

/// An operator, open, with state in memory. The state outlives the instance, as in the host.
pub struct Harness<O: Operator> {
    instance: Instance<O>,
    pub(super) backend: Backend,
    states: Vec<String>,
    /// Which of them are operator state: by index, and whether it is a union list.
    lists: BTreeMap<usize, bool>,
}

impl<O: Operator> Default for Harness<O> {
    fn default() -> Self {
        Harness::new()
    }
}

impl<O: Operator> Harness<O> {
    /// An operator without configuration.
    ///
    /// # Panics
    /// If it doesn't open.
    pub fn new() -> Self {
        Harness::with_config("{}").unwrap_or_else(|error| panic!("the operator didn't open: {error}"))
    }

    /// An operator with a configuration, given as JSON.
    ///
    /// # Errors
    /// What its `open` returns.
    pub fn with_config(config: &str) -> Result<Self> {
        let descriptor = describe::<O>();
        let facts = [
            ("job", "test"),
            ("operator", descriptor.name.as_str()),
            ("subtask", "0"),
            ("parallelism", "1"),
            ("max-parallelism", "128"),
            ("attempt", "1"),
        ];
        let states: Vec<_> = descriptor.states.iter().map(|state| state.name.clone()).collect();
        let kinds = descriptor.states.iter().map(|state| state.kind.as_str()).enumerate();
        let lists = kinds.filter(|(_, kind)| kind.starts_with("operator-")).map(|(index, kind)| (index, kind == UNION)).collect();
        let context = facts.map(|(name, value)| (name.into(), value.into())).to_vec();
        let memory = KeyedMemory::new(descriptor.states.iter().map(Ttl::of));
        let backend = Backend::new(Memory::new(memory, config.into(), context));
        let instance = Instance::open(backend.clone())?;
        // What `open` wrote stays, whatever the first call does.
        backend.memory().commit();
        Ok(Harness { instance, backend, states, lists })
    }

    /// Works on some records as one batch. Values are of the input's type, or what [`EncodeAs`] allows in its place, or [`Raw`] bytes.
    ///
    /// # Errors
    /// If the operator panics. State is then as before, and the instance a new one.
    ///
    /// # Panics
    /// If some records have an event time and some have none.
    pub fn process<K: AsInputKey<O::Key>, V: EncodeAs<O::Input>>(&mut self, records: impl IntoIterator<Item = Record<K, V>>) -> Outcome<O> {
        let batch = pack(records);
        self.backend.memory().keys = batch.keys.clone();
        self.call(|instance| {
            instance.process(0, &batch);
            Ok(())
        })
    }

    /// Works on some records in batches of `size`.
    ///
    /// # Errors
    /// As [`process`](Self::process); the batches before the one that failed stand.
    ///
    /// # Panics
    /// As `process`.
    pub fn process_in_batches<K: AsInputKey<O::Key>, V: EncodeAs<O::Input>>(
        &mut self,
        size: usize,
        records: impl IntoIterator<Item = Record<K, V>>,
    ) -> Outcome<O> {
        let mut all = Processed { records: Vec::new(), rejected: Vec::new() };
        let mut records = records.into_iter().peekable();
        let mut before = 0;
        while records.peek().is_some() {
            let result = self.process(records.by_ref().take(size.max(1)));
            let mut part = result.map_err(|failure| move_record(failure, before))?;
            part.rejected.iter_mut().for_each(|rejected| rejected.record += before);
            all.records.append(&mut part.records);
            all.rejected.append(&mut part.rejected);
            before += size.max(1);
        }
        Ok(all)
    }

    /// Ends the input: calls `finish` for every key that has state, in the order of the keys' bytes, or once if there is no key.
    ///
    /// # Errors
    /// If `finish` fails or panics. State is then as before, and the instance a new one.
    pub fn finish(&mut self) -> Outcome<O> {
        let keys = self.backend.memory().states.keys();
        let mut all = Processed { records: Vec::new(), rejected: Vec::new() };
        for keys in keys.chunks(FINISH_KEYS).chain([&[][..]]) {
            let mut column = Column::new();
            keys.iter().for_each(|key| column.push(key));
            self.backend.memory().keys = column.clone();
            all.records.append(&mut self.call(|instance| instance.finish(&column))?.records);
        }
        Ok(all)
    }

    /// The state as it is now, without a call of the operator's `snapshot`; see [`checkpoint`](Self::checkpoint).
    pub fn snapshot(&self) -> Snapshot {
        let memory = self.backend.memory();
        let keyed = (0..self.states.len()).filter(|index| !self.lists.contains_key(index));
        let list = |(&index, &union): (&usize, &bool)| {
            let own = memory.lists.get(&index).map(|list| list.own.clone()).unwrap_or_default();
            (self.states[index].clone(), ListSnapshot { union, seen: own.clone(), own })
        };
        Snapshot {
            states: keyed.map(|index| (self.states[index].clone(), memory.states.entries(index))).collect(),
            lists: self.lists.iter().map(list).collect(),
        }
    }

    /// A barrier: calls the operator's `snapshot`, if it has one, and takes the state as it is then.
    ///
    /// # Errors
    /// If `snapshot` fails or panics. State is then as before, and the instance a new one.
    pub fn checkpoint(&mut self, checkpoint: u64) -> Result<Snapshot, Failure>
    where
        OutputValue<O>: for<'de> Decode<'de>,
    {
        self.backend.memory().keys = Column::new();
        self.call(|instance| instance.snapshot(checkpoint))?;
        Ok(self.snapshot())
    }

    /// Tells the operator that a checkpoint is committed.
    ///
    /// # Errors
    /// If it panics. State is then as before, and the instance a new one.
    pub fn checkpoint_complete(&mut self, checkpoint: u64) -> Result<(), Failure>
    where
        OutputValue<O>: for<'de> Decode<'de>,
    {
        self.backend.memory().keys = Column::new();
        let told = self.call(|instance| {
            instance.checkpoint_complete(checkpoint);
            Ok(())
        });
        told.map(|_| ())
    }

    /// The end: calls the operator's `close`.
    pub fn close(mut self) {
        self.backend.memory().keys = Column::new();
        self.instance.close();
    }

    /// Makes the state that of a snapshot, and the instance a new one, as after a restart. States that the operator has no more are left
    /// out, new ones begin empty.
    ///
    /// # Panics
    /// If the operator doesn't open.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        let list = |&index: &usize| {
            let ListSnapshot { seen, own, .. } = snapshot.lists.get(&self.states[index]).cloned().unwrap_or_default();
            (index, OperatorList { seen, own })
        };
        let lists = self.lists.keys().map(list).collect();
        let mut memory = self.backend.memory();
        memory.lists = lists;
        for (index, name) in self.states.iter().enumerate() {
            memory.states.restore(index, snapshot.states.get(name).cloned().unwrap_or_default());
        }
        drop(memory);
        self.replace_instance();
    }

    /// The value of a key in a value or reducing state, or what an aggregating state keeps of it.
    ///
    /// # Panics
    /// If there is no such state, or what it holds is no `T`.
    pub fn value<T: for<'de> Decode<'de>>(&self, state: &str, key: impl AsKey<O::Key>) -> Option<T> {
        self.list(state, key).into_iter().next()
    }

    /// The list of a key in a list state.
    ///
    /// # Panics
    /// If there is no such state, or what it holds are no `T`.
    pub fn list<T: for<'de> Decode<'de>>(&self, state: &str, key: impl AsKey<O::Key>) -> Vec<T> {
        self.entry(state, &key).values().map(|cell| read(state, T::decode(&cell.value))).collect()
    }

    /// The fields of a key in a map state and their values, in order.
    ///
    /// # Panics
    /// If there is no such state, or what it holds are no `F` and `T`.
    pub fn map<F: Key, T: for<'de> Decode<'de>>(&self, state: &str, key: impl AsKey<O::Key>) -> Vec<(F, T)> {
        let entry = self.entry(state, &key);
        entry.iter().map(|(field, cell)| (read(state, F::read(field)), read(state, T::decode(&cell.value)))).collect()
    }

    fn entry(&self, state: &str, key: &impl AsKey<O::Key>) -> Entry {
        let index = self.index_of(state);
        let mut bytes = Vec::new();
        key.write_key(&mut bytes);
        self.backend.memory().states.entries(index).remove(&bytes).unwrap_or_default()
    }

    /// The elements of an operator or union list, as the operator sees them.
    ///
    /// # Panics
    /// If there is no such state, or what it holds are no `T`.
    pub fn operator_list<T: for<'de> Decode<'de>>(&self, state: &str) -> Vec<T> {
        let index = self.index_of(state);
        assert!(self.lists.contains_key(&index), "state `{state}` is kept per key: use `list`");
        let memory = self.backend.memory();
        let elements = memory.lists.get(&index).into_iter().flat_map(|list| &list.seen);
        elements.map(|element| read(state, T::decode(element))).collect()
    }

    fn index_of(&self, state: &str) -> usize {
        let index = self.states.iter().position(|name| name == state);
        index.unwrap_or_else(|| panic!("there is no state `{state}`; there are: {}", self.states.join(", ")))
    }

    /// What [`Meta::processing_time`](crate::Meta::processing_time) tells from now on, and the time by which values expire: 0 until it
    /// is set.
    pub fn set_processing_time(&mut self, milliseconds: i64) {
        let mut memory = self.backend.memory();
        memory.processing_time = milliseconds;
        memory.states.now = milliseconds;
    }

    /// A call as the host makes it: it counts as a whole or not at all.
    fn call(&mut self, work: impl FnOnce(&mut Instance<O>) -> Result<()>) -> Outcome<O> {
        let failure = match catch_unwind(AssertUnwindSafe(|| work(&mut self.instance))) {
            Ok(Ok(())) => return Ok(self.take_output()),
            Ok(Err(error)) => Failure::Error(error.to_string()),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
                let message = text.unwrap_or("a panic without a message").to_owned();
                Failure::Panic { record: scope::record().map(|record| record as usize), message }
            }
        };
        self.backend.memory().undo();
        self.replace_instance();
        Err(failure)
    }

    fn replace_instance(&mut self) {
        self.instance = Instance::open(self.backend.clone()).unwrap_or_else(|error| panic!("the operator didn't open again: {error}"));
        self.backend.memory().commit();
    }

    fn take_output(&mut self) -> Processed<OutputKey<O>, OutputValue<O>>
    where
        OutputValue<O>: for<'de> Decode<'de>,
    {
        let mut memory = self.backend.memory();
        memory.commit();
        let record = |Emitted { key, value, time }: Emitted| Record {
            key: MaybeKey::read(&key).unwrap_or_else(|error| panic!("the operator sent a key that is {error}")),
            value: OutputValue::<O>::decode(&value).unwrap_or_else(|error| panic!("the operator sent a value that is {error}")),
            time,
        };
        let records = memory.emitted.drain(..).map(record).collect();
        let rejected = memory.rejected.drain(..).map(|(record, message)| Rejected { record: record as usize, message }).collect();
        Processed { records, rejected }
    }
}

/// What was read from a state.
fn read<T>(state: &str, read: Result<T, Malformed>) -> T {
    read.unwrap_or_else(|error| panic!("state `{state}`: {error}"))
}

/// Bytes that are given to an operator as they are, to see what it does with values that are none of its input's type.
#[derive(Clone, Debug)]
pub struct Raw<T>(pub T);

impl<V, T: AsRef<[u8]>> EncodeAs<V> for Raw<T> {
    fn encode_as(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_ref());
    }
}

/// What can be given as the key of a record: what [`AsKey`] allows, or [`NoKey`](crate::NoKey).
pub trait AsInputKey<K> {
    /// The key's bytes.
    fn bytes(&self) -> Vec<u8>;

    /// Whether there is a key.
    const KEYED: bool;
}

impl AsInputKey<crate::NoKey> for crate::NoKey {
    fn bytes(&self) -> Vec<u8> {
        Vec::new()
    }

    const KEYED: bool = false;
}

impl<K: crate::Key, A: AsKey<K>> AsInputKey<K> for A {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_key(&mut bytes);
        bytes
    }

    const KEYED: bool = true;
}

/// Packs records into a batch, as the host does: each key once.
fn pack<K2, K: AsInputKey<K2>, V2, V: EncodeAs<V2>>(records: impl IntoIterator<Item = Record<K, V>>) -> Batch {
    let mut batch = Batch { keys: Column::new(), key_of: Vec::new(), values: Column::new(), timestamps: Vec::new() };
    let mut known = BTreeMap::new();
    for Record { key, value, time } in records {
        if K::KEYED {
            let index = *known.entry(key.bytes()).or_insert_with_key(|bytes| {
                batch.keys.push(bytes);
                batch.keys.len() as u32 - 1
            });
            batch.key_of.push(index);
        }
        batch.values.push_with(|bytes| value.encode_as(bytes));
        batch.timestamps.extend(time);
    }
    let times = batch.timestamps.len();
    assert!(times == 0 || times == batch.values.len(), "of a batch either all records have an event time or none");
    batch
}

/// The failure, with its record counted from the first batch on.
fn move_record(failure: Failure, before: usize) -> Failure {
    match failure {
        Failure::Panic { record: Some(record), message } => Failure::Panic { record: Some(record + before), message },
        other => other,
    }
}

#[cfg(test)]
impl<O: Operator> Harness<O> {
    /// The host's functions that were called since this was last asked.
    pub(crate) fn take_calls(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.backend.memory().calls)
    }
}
