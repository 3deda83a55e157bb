//! [`Harness`]: an instance of an operator, with a host in memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Record;
use super::input::{AsInputKey, pack};
use super::processed::{Failure, Processed, Rejected, Side};
use super::snapshot::{ListSnapshot, Snapshot};
use crate::backend::keyed::KeyedMemory;
use crate::backend::memory::{Backend, Memory};
use crate::bindings::descriptor::Port;
use crate::codec::EncodeAs;
use crate::column::{Batch, Column};
use crate::error::{Error, Result};
use crate::key::{MaybeKey, NoKey};
use crate::operator::{Instance, Operator, describe};
use crate::output::Outputs;
use crate::schema::Schema;
use crate::scope;
use crate::state::Ttl;

/// How many keys `finish` gets at once, few, so that tests see more than one call.
const FINISH_KEYS: usize = 64;

/// To whom a state belongs, and how it is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Keyed,
    List,
    UnionList,
    Broadcast,
}

/// The key of the records on the first output.
type OutputKey<O> = <<O as Operator>::Outputs as Outputs>::Key<<O as crate::operator::Fields>::Key>;
/// Their values.
type OutputValue<O> = <<O as Operator>::Outputs as Outputs>::Value;
/// What came of a call.
type Outcome<O> = Result<Processed<OutputKey<O>, OutputValue<O>>, Failure>;

/// An operator, open, with state in memory. The state outlives the instance, as in the host.
pub struct Harness<O: Operator> {
    instance: Instance<O>,
    pub(super) backend: Backend,
    pub(super) states: Vec<(String, Kind)>,
    outputs: Vec<Port>,
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
            ("run", "1"),
            ("attempt", "1"),
        ];
        let states = descriptor.states.iter().map(|state| (state.name.clone(), Kind::named(&state.kind))).collect();
        let context = facts.map(|(name, value)| (name.into(), value.into())).to_vec();
        let keyed = KeyedMemory::new(descriptor.states.iter().map(Ttl::of));
        let broadcast = KeyedMemory::new(descriptor.states.iter().map(|_| None));
        let backend = Backend::new(Memory::new(keyed, broadcast, config.into(), context));
        let instance = Instance::open(backend.clone())?;
        // What `open` wrote stays, whatever the first call does.
        backend.memory().commit();
        Ok(Harness { instance, backend, states, outputs: descriptor.outputs })
    }

    /// Works on some records as one batch, on the operator's input; of several, on the first that is no broadcast one. Values are of the
    /// input's type, or what [`EncodeAs`] allows in its place, or [`Raw`](super::Raw) bytes.
    ///
    /// # Errors
    /// If the operator panics. State is then as before, and the instance a new one.
    ///
    /// # Panics
    /// If some records have an event time and some have none.
    pub fn process<K: AsInputKey<O::Key>, V: EncodeAs<O::Input>>(&mut self, records: impl IntoIterator<Item = Record<K, V>>) -> Outcome<O> {
        let port = O::INPUTS.iter().position(|input| !input.broadcast).unwrap_or(0);
        self.process_batch(port, &pack(records))
    }

    /// Works on some records as one batch, on the input of this name, which takes values of type `T`. The harness holds nothing back from
    /// an input that waits for another.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    ///
    /// # Panics
    /// As `process`, and if there is no such input, or it takes other values, or it is a broadcast one.
    pub fn process_on<T: Schema>(
        &mut self,
        input: &str,
        records: impl IntoIterator<Item = Record<impl AsInputKey<O::Key>, impl EncodeAs<T>>>,
    ) -> Outcome<O> {
        let port = port::<O, T>(input);
        assert!(!O::INPUTS[port].broadcast, "`{input}` is a broadcast input: use `broadcast`");
        self.process_batch(port, &pack(records))
    }

    /// Works on some records as one batch, on the broadcast input of this name, which takes values of type `T`.
    ///
    /// # Errors
    /// As [`process`](Self::process), and also if a record is rejected: with it the host fails the job.
    ///
    /// # Panics
    /// As `process`, and if there is no such input, or it takes other values, or it is no broadcast one.
    pub fn broadcast<T: Schema>(&mut self, input: &str, records: impl IntoIterator<Item = Record<NoKey, impl EncodeAs<T>>>) -> Outcome<O> {
        let port = port::<O, T>(input);
        assert!(O::INPUTS[port].broadcast, "`{input}` is no broadcast input: use `process_on`");
        self.process_batch(port, &pack(records))
    }

    fn process_batch(&mut self, port: usize, batch: &Batch) -> Outcome<O> {
        let input = &O::INPUTS[port];
        let backend = self.backend.clone();
        backend.memory().keys = batch.keys.clone();
        self.call(|instance| {
            // An operator has few inputs.
            instance.process(port as u32, batch);
            match backend.memory().rejected.first() {
                Some((record, message)) if input.broadcast => {
                    Err(Error::new(format_args!("record {record} on broadcast input `{}`: {message}", input.name)))
                }
                _ => Ok(()),
            }
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
        let mut all = self.nothing();
        let mut records = records.into_iter().peekable();
        let mut before = 0;
        while records.peek().is_some() {
            let result = self.process(records.by_ref().take(size.max(1)));
            all.append(result.map_err(|failure| move_record(failure, before))?, before);
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
        let mut all = self.nothing();
        for keys in keys.chunks(FINISH_KEYS).chain([&[][..]]) {
            let mut column = Column::new();
            keys.iter().for_each(|key| column.push(key));
            self.backend.memory().keys = column.clone();
            all.append(self.call(|instance| instance.finish(&column))?, 0);
        }
        Ok(all)
    }

    /// The state as it is now, without a call of the operator's `snapshot`; see [`checkpoint`](Self::checkpoint).
    pub fn snapshot(&self) -> Snapshot {
        let memory = self.backend.memory();
        let declared = O::states().iter().map(|state| (state.name.clone(), state.into())).collect();
        let mut snapshot = Snapshot { key_schema: self.key_schema(), declared, ..Snapshot::default() };
        for (index, (name, kind)) in self.states.iter().enumerate() {
            let name = name.clone();
            match kind {
                Kind::Keyed => drop(snapshot.states.insert(name, memory.states.entries(index))),
                Kind::Broadcast => drop(snapshot.broadcast.insert(name, memory.broadcast.entries(index))),
                Kind::List | Kind::UnionList => {
                    let own = memory.lists.get(&index).map(|list| list.own.clone()).unwrap_or_default();
                    let list = ListSnapshot { union: *kind == Kind::UnionList, seen: own.clone(), own };
                    snapshot.lists.insert(name, list);
                }
            }
        }
        snapshot
    }

    /// The schema of the keys of keyed state; none without such state.
    pub(super) fn key_schema(&self) -> Option<String> {
        self.states.iter().any(|(_, kind)| *kind == Kind::Keyed).then(O::Key::schema_or_empty)
    }

    /// A barrier: calls the operator's `snapshot`, if it has one, and takes the state as it is then.
    ///
    /// # Errors
    /// If `snapshot` fails or panics. State is then as before, and the instance a new one.
    pub fn checkpoint(&mut self, checkpoint: u64) -> Result<Snapshot, Failure> {
        self.backend.memory().keys = Column::new();
        self.call(|instance| instance.snapshot(checkpoint))?;
        Ok(self.snapshot())
    }

    /// Tells the operator that a checkpoint is committed.
    ///
    /// # Errors
    /// If it panics. State is then as before, and the instance a new one.
    pub fn checkpoint_complete(&mut self, checkpoint: u64) -> Result<(), Failure> {
        self.tell(|instance| instance.checkpoint_complete(checkpoint))
    }

    /// Tells the operator that a checkpoint is given up.
    ///
    /// # Errors
    /// If it panics. State is then as before, and the instance a new one.
    pub fn checkpoint_aborted(&mut self, checkpoint: u64) -> Result<(), Failure> {
        self.tell(|instance| instance.checkpoint_aborted(checkpoint))
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Instance<O>)) -> Result<(), Failure> {
        self.backend.memory().keys = Column::new();
        let told = self.call(|instance| {
            tell(instance);
            Ok(())
        });
        told.map(|_| ())
    }

    /// The end: calls the operator's `close`.
    pub fn close(mut self) {
        self.backend.memory().keys = Column::new();
        self.instance.close();
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

    pub(super) fn replace_instance(&mut self) {
        self.instance = Instance::open(self.backend.clone()).unwrap_or_else(|error| panic!("the operator didn't open again: {error}"));
        self.backend.memory().commit();
    }

    fn take_output(&mut self) -> Processed<OutputKey<O>, OutputValue<O>> {
        let mut all = self.nothing();
        let mut memory = self.backend.memory();
        memory.commit();
        for emitted in memory.emitted.drain(..) {
            match emitted.port.checked_sub(1) {
                None => all.records.push(Record::read(&emitted)),
                Some(side) => all.sides[side as usize].records.push(emitted),
            }
        }
        let rejected = memory.rejected.drain(..).map(|(record, message)| Rejected { record: record as usize, message });
        all.rejected.extend(rejected);
        drop(memory);
        all
    }

    fn nothing(&self) -> Processed<OutputKey<O>, OutputValue<O>> {
        let sides = self.outputs.iter().skip(1).map(Side::new).collect();
        Processed { records: Vec::new(), rejected: Vec::new(), sides }
    }
}

impl Kind {
    /// The kind that the descriptor names.
    fn named(kind: &str) -> Kind {
        match kind {
            "operator-list" => Kind::List,
            "operator-union-list" => Kind::UnionList,
            "broadcast" => Kind::Broadcast,
            _ => Kind::Keyed,
        }
    }
}

/// The number of an input, which must take values of type `T`.
fn port<O: Operator, T: Schema>(name: &str) -> usize {
    let Some(port) = O::INPUTS.iter().position(|input| input.name == name) else {
        let names: Vec<&str> = O::INPUTS.iter().map(|input| input.name).collect();
        panic!("there is no input `{name}`; there are: {}", names.join(", "));
    };
    let schema = (O::INPUTS[port].value_schema)();
    assert_eq!(schema, T::schema(), "input `{name}` takes other values than `{}`", std::any::type_name::<T>());
    port
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

    /// Works on a batch of a broadcast input, as if a host took rejections there as elsewhere.
    pub(crate) fn broadcast_leniently<T>(
        &mut self,
        port: u32,
        records: impl IntoIterator<Item = Record<NoKey, impl EncodeAs<T>>>,
    ) -> Outcome<O> {
        let batch = pack(records);
        self.backend.memory().keys = Column::new();
        self.call(|instance| {
            instance.process(port, &batch);
            Ok(())
        })
    }
}
