//! What the `operator` macro makes of a struct and its methods, and [`Instance`], which drives it.

use crate::backend::Backend;
use crate::bindings::descriptor::OperatorDescriptor;
use crate::column::{Batch, Column};
use crate::context::{Context, Meta};
use crate::error::{Error, Result};
use crate::input::InputPort;
use crate::key::MaybeKey;
use crate::metrics;
use crate::migration::Migration;
use crate::output::{Buffer, Outputs};
use crate::schema::Schema;
use crate::scope::{Scope, set_no_record, set_record};
use crate::state::StateDescriptor;

/// An operator's struct: what `#[operator]` on the struct implements.
pub trait Fields: Sized + 'static {
    /// The key of its records and its state, or [`NoKey`](crate::NoKey).
    type Key: MaybeKey;

    /// Its name, for people.
    const NAME: &'static str;

    /// Its version, for people.
    const VERSION: &'static str;

    /// Its states in the order of its fields.
    fn states() -> Vec<StateDescriptor>;

    /// For each of its states, how values of other versions are rewritten.
    fn migrations() -> Vec<Vec<Migration>>;

    /// A new one: states attached, everything else the default.
    fn build(scope: &Scope) -> Self;

    /// Of every state: undoes what the current record has done.
    fn undo(&mut self);

    /// Of every state: writes what the call has changed.
    fn write_back(&mut self);

    /// Of every state: forgets what the call has done.
    fn forget(&mut self);
}

/// An operator's methods: what `#[operator]` on the `impl` implements.
pub trait Operator: Fields {
    /// The values of its first input that is no broadcast one, or of its first if all are, as a type that borrows nothing.
    type Input: Schema;

    /// What it sends records to.
    type Outputs: Outputs;

    /// Its inputs, in the order of their numbers.
    const INPUTS: &'static [InputPort];

    /// Its outputs' names, in the order of their numbers.
    const OUTPUTS: &'static [&'static str];

    /// Its `open`.
    ///
    /// # Errors
    /// What the method returns.
    fn on_open(&mut self, context: &Context) -> Result<()>;

    /// Its method for input `port`.
    ///
    /// # Errors
    /// If the value is not of the input's type, and what the method returns.
    fn on_record(&mut self, port: u32, value: &[u8], meta: &Meta<'_, Self::Key>, outputs: &mut Self::Outputs) -> Result<()>;

    /// Its `finish`.
    ///
    /// # Errors
    /// What the method returns.
    fn on_finish(&mut self, meta: &Meta<'_, Self::Key>, outputs: &mut Self::Outputs) -> Result<()>;

    /// Its `snapshot`.
    ///
    /// # Errors
    /// What the method returns.
    fn on_snapshot(&mut self, checkpoint: u64) -> Result<()>;

    /// Its `checkpoint_complete`.
    fn on_checkpoint_complete(&mut self, checkpoint: u64);

    /// Its `checkpoint_aborted`.
    fn on_checkpoint_aborted(&mut self, checkpoint: u64);

    /// Its `close`.
    fn on_close(&mut self);
}

/// The descriptor of `O`.
pub fn describe<O: Operator>() -> OperatorDescriptor {
    let mut outputs = Vec::new();
    O::Outputs::describe::<O::Key>(O::OUTPUTS, &mut outputs);
    OperatorDescriptor {
        name: O::NAME.into(),
        version: O::VERSION.into(),
        inputs: O::INPUTS.iter().map(InputPort::describe::<O::Key>).collect(),
        outputs,
        states: O::states(),
        more: Vec::new(),
    }
}

/// An open operator with its outputs.
pub struct Instance<O: Operator> {
    operator: O,
    outputs: O::Outputs,
    scope: Scope,
}

impl<O: Operator> Instance<O> {
    /// Builds the operator and opens it.
    pub(crate) fn open(backend: Backend) -> Result<Self> {
        set_no_record();
        metrics::forget();
        let scope = Scope::new(backend);
        let mut operator = O::build(&scope);
        operator.on_open(&Context::new(scope.backend()))?;
        let outputs = O::Outputs::new(&scope, 0, O::Key::KEYED);
        let mut instance = Instance { operator, outputs, scope };
        // There is no key yet: it is operator state that it may have written.
        instance.write_back();
        Ok(instance)
    }

    /// Works on a batch. Records that fail are rejected, and the others go on.
    pub(crate) fn process(&mut self, port: u32, batch: &Batch) {
        let broadcast = O::INPUTS.get(port as usize).is_some_and(|input| input.broadcast);
        if broadcast {
            self.scope.begin_broadcast();
        } else {
            self.scope.begin(batch.keys.len());
        }
        for index in 0..batch.values.len() {
            let key = if O::Key::KEYED && !broadcast { batch.key_of[index] } else { 0 };
            let time = batch.timestamps.get(index).copied();
            // A batch has fewer records than bytes of a guest's memory.
            set_record(index as u32);
            self.step(key, time);
            let meta = Meta::new(&batch.keys, key, time, self.scope.backend());
            if let Err(error) = self.operator.on_record(port, batch.values.get(index), &meta, &mut self.outputs) {
                self.reject(index as u32, &error);
            }
            self.outputs.each(&mut Buffer::flush_if_full);
        }
        self.end();
    }

    /// All input has ended: once for each of `keys`; of an operator that is not keyed, once when there are none.
    pub(crate) fn finish(&mut self, keys: &Column) -> Result<()> {
        self.scope.begin(keys.len());
        set_no_record();
        let calls = if O::Key::KEYED { keys.len() } else { usize::from(keys.len() == 0) };
        for key in 0..calls as u32 {
            self.step(key, None);
            let meta = Meta::new(keys, key, None, self.scope.backend());
            if let Err(error) = self.operator.on_finish(&meta, &mut self.outputs) {
                self.outputs.each(&mut Buffer::forget);
                self.forget();
                return Err(error);
            }
            self.outputs.each(&mut Buffer::flush_if_full);
        }
        self.end();
        Ok(())
    }

    /// A barrier has come.
    pub(crate) fn snapshot(&mut self, checkpoint: u64) -> Result<()> {
        self.without_key();
        let saved = self.operator.on_snapshot(checkpoint);
        match &saved {
            Ok(()) => self.write_back(),
            Err(_) => self.forget(),
        }
        saved
    }

    /// A checkpoint is committed.
    pub(crate) fn checkpoint_complete(&mut self, checkpoint: u64) {
        self.without_key();
        self.operator.on_checkpoint_complete(checkpoint);
        self.write_back();
    }

    /// A checkpoint is given up.
    pub(crate) fn checkpoint_aborted(&mut self, checkpoint: u64) {
        self.without_key();
        self.operator.on_checkpoint_aborted(checkpoint);
        self.write_back();
    }

    /// The end.
    pub(crate) fn close(&mut self) {
        self.without_key();
        self.operator.on_close();
        metrics::send(self.scope.backend());
    }

    /// A call begins that is about no key.
    fn without_key(&mut self) {
        self.scope.begin(0);
        set_no_record();
        self.step(0, None);
    }

    #[inline]
    fn step(&mut self, key: u32, time: Option<i64>) {
        self.scope.step(key);
        self.outputs.each(&mut |buffer| buffer.step(key, time));
    }

    /// The current record is bad: nothing of what it did remains.
    #[cold]
    fn reject(&mut self, record: u32, error: &Error) {
        self.operator.undo();
        self.outputs.each(&mut Buffer::undo);
        metrics::undo();
        self.scope.backend().reject(record, error.message());
    }

    fn end(&mut self) {
        set_no_record();
        self.write_back();
        self.outputs.each(&mut Buffer::end);
    }

    /// The call succeeds: the host is told what has gathered.
    fn write_back(&mut self) {
        self.operator.write_back();
        metrics::send(self.scope.backend());
    }

    /// The call fails: what has gathered is forgotten.
    fn forget(&mut self) {
        self.operator.forget();
        metrics::forget();
    }
}
