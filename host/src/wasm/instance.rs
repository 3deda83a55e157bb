//! [`Instance`]: one running copy of a component, for one subtask. State and outputs are lent to it.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::TypedFunc;

use super::call::{Returned, Runner};
use super::component::Component;
use super::failure::{Failure, Rejected};
use super::guest::{Facts, Guest, Phase};
use super::limits::Interrupt;
use super::log::GuestLog;
use super::metrics::GuestMetrics;
use super::wire::{BatchIn, ColumnIn};
use crate::plan::{Limits, OnError, Variable};
use crate::record::{AttemptId, Batch, Outbox};
use crate::state::{KeyedState, OperatorState, SubtaskState};

/// Where an instance runs, as far as its guest may know, and what it shares with the instances before and after it.
#[derive(Clone, Debug)]
pub struct Context {
    /// The job's name.
    pub job: String,
    /// The operator's uid.
    pub operator: String,
    /// Which subtask of the operator, from 0 on.
    pub subtask: u16,
    /// How many subtasks there are.
    pub parallelism: u16,
    /// How many key groups there are.
    pub max_parallelism: u16,
    /// Which attempt of the job.
    pub attempt: AttemptId,
    /// The checkpoint that the attempt began from, if from one.
    pub restored_from: Option<u64>,
    /// The operator's `config`, as JSON.
    pub config: String,
    /// All of its environment.
    pub environment: Arc<[Variable]>,
    /// The log of the subtask.
    pub log: GuestLog,
    /// The guests' own counters and gauges in the subtask.
    pub metrics: Arc<GuestMetrics>,
    /// Ends its calls.
    pub interrupt: Interrupt,
}

impl Context {
    fn facts(&self) -> Facts {
        let mut context = vec![
            ("job".into(), self.job.clone()),
            ("operator".into(), self.operator.clone()),
            ("subtask".into(), self.subtask.to_string()),
            ("parallelism".into(), self.parallelism.to_string()),
            ("max-parallelism".into(), self.max_parallelism.to_string()),
            ("run".into(), self.attempt.run.to_string()),
            ("attempt".into(), self.attempt.attempt.to_string()),
        ];
        context.extend(self.restored_from.map(|checkpoint| ("restored-from".into(), checkpoint.to_string())));
        Facts {
            context: Arc::new(context),
            config: self.config.as_str().into(),
            environment: Arc::clone(&self.environment),
            log: self.log.clone(),
            metrics: Arc::clone(&self.metrics),
        }
    }
}

/// One running copy of a component.
pub struct Instance {
    runner: Runner,
    functions: Functions,
}

/// An instance that could not be opened, with what was lent to it.
#[derive(Debug)]
pub struct Unopened {
    /// Why.
    pub failure: Failure,
    /// The state, as it was.
    pub state: SubtaskState,
    /// The outputs, empty.
    pub outputs: Vec<Outbox>,
}

#[derive(Clone, Copy)]
struct Functions {
    open: TypedFunc<(), Returned>,
    process: TypedFunc<(u32, BatchIn<'static>), Returned>,
    finish: Option<TypedFunc<(ColumnIn<'static>,), Returned>>,
    snapshot: Option<TypedFunc<(u64,), Returned>>,
    checkpoint_complete: Option<TypedFunc<(u64,), ()>>,
    checkpoint_aborted: Option<TypedFunc<(u64,), ()>>,
    close: Option<TypedFunc<(), ()>>,
}

impl Instance {
    /// Instantiates `component` and calls its `open`. `state` and `outputs` stand in the order of the descriptor.
    ///
    /// # Errors
    /// Why it failed, with the state and the outputs.
    pub fn open(
        component: &Component,
        context: &Context,
        limits: Limits,
        on_error: OnError,
        state: SubtaskState,
        outputs: Vec<Outbox>,
    ) -> Result<Instance, Box<Unopened>> {
        let engine = component.engine();
        let descriptor = Arc::clone(component.shared_descriptor());
        debug_assert_eq!(descriptor.outputs.len(), outputs.len(), "one outbox for each output port");
        let deadline = engine.deadline(context.interrupt.clone());
        let mut runner = Runner::new(engine, Guest::new(descriptor, context.facts(), limits, deadline, state, outputs), limits, on_error);
        let none = &mut Batch::default();
        let opened = runner.call(Phase::Open, none, |store, _| Functions::of_new_instance(component, store)).and_then(|functions| {
            runner.transact(Phase::Open, none, |store, _| functions.open.call(store, ()))?;
            Ok(functions)
        });
        match opened {
            Ok(functions) => Ok(Instance { runner, functions }),
            Err(failure) => {
                let (state, outputs) = lent(runner);
                Err(Box::new(Unopened { failure, state, outputs }))
            }
        }
    }

    /// Has the guest work on records that arrived on input `port`. One call is one transaction: if it fails, the state is as before and
    /// nothing is emitted. The batch is only borrowed: it is whole again afterwards, whatever happened.
    ///
    /// # Errors
    /// Why it failed. With [`OnError::Fail`], or on a broadcast input, a rejected record fails the call; otherwise see
    /// [`Instance::rejected`]. After a cause that [is fatal](super::Cause::is_fatal) the instance takes no more calls.
    pub fn process(&mut self, port: u32, batch: &mut Batch) -> Result<(), Failure> {
        let function: TypedFunc<(u32, BatchIn<'_>), Returned> = self.functions.process;
        self.runner.guest().port = port;
        self.runner.transact(Phase::Process, batch, |store, batch| function.call(store, (port, BatchIn::new(batch))))
    }

    /// As [`Instance::process`], but nothing of it stays, whatever comes of it.
    ///
    /// # Errors
    /// As for [`Instance::process`].
    pub fn rehearse(&mut self, port: u32, batch: &mut Batch) -> Result<(), Failure> {
        let function: TypedFunc<(u32, BatchIn<'_>), Returned> = self.functions.process;
        self.runner.guest().port = port;
        self.runner.rehearse(Phase::Process, batch, |store, batch| function.call(store, (port, BatchIn::new(batch))))
    }

    /// Has the guest emit what is left for `keys`, of which only keys and hashes count; does nothing if it has no such hook. A
    /// transaction like [`Instance::process`].
    ///
    /// # Errors
    /// As for [`Instance::process`].
    pub fn finish(&mut self, keys: &mut Batch) -> Result<(), Failure> {
        let Some(function) = self.functions.finish else { return Ok(()) };
        let function: TypedFunc<(ColumnIn<'_>,), Returned> = function;
        self.runner.transact(Phase::Finish, keys, |store, keys| function.call(store, (ColumnIn::new(&keys.keys),)))
    }

    /// The barrier of `checkpoint` has come: has the guest put into operator state what it keeps in memory; does nothing if it has no
    /// such hook. A transaction like [`Instance::process`].
    ///
    /// # Errors
    /// As for [`Instance::process`].
    pub fn snapshot(&mut self, checkpoint: u64) -> Result<(), Failure> {
        let Some(function) = self.functions.snapshot else { return Ok(()) };
        self.runner.transact(Phase::Snapshot, &mut Batch::default(), |store, _| function.call(store, (checkpoint,)))
    }

    /// Tells the guest that `checkpoint` is committed; does nothing if it has no such hook. A transaction like [`Instance::process`].
    ///
    /// # Errors
    /// As for [`Instance::process`].
    pub fn checkpoint_complete(&mut self, checkpoint: u64) -> Result<(), Failure> {
        self.tell(Phase::CheckpointComplete, self.functions.checkpoint_complete, checkpoint)
    }

    /// Tells the guest that `checkpoint` is given up; does nothing if it has no such hook. A transaction like [`Instance::process`].
    ///
    /// # Errors
    /// As for [`Instance::process`].
    pub fn checkpoint_aborted(&mut self, checkpoint: u64) -> Result<(), Failure> {
        self.tell(Phase::CheckpointAborted, self.functions.checkpoint_aborted, checkpoint)
    }

    fn tell(&mut self, phase: Phase, hook: Option<TypedFunc<(u64,), ()>>, checkpoint: u64) -> Result<(), Failure> {
        let Some(function) = hook else { return Ok(()) };
        let told = |store: &mut Store<Guest>, _: &Batch| function.call(store, (checkpoint,)).map(|()| (Ok(()),));
        self.runner.transact(phase, &mut Batch::default(), told)
    }

    /// Has the guest close; does nothing if it has no such hook.
    ///
    /// # Errors
    /// As for [`Instance::process`].
    pub fn close(&mut self) -> Result<(), Failure> {
        let Some(function) = self.functions.close else { return Ok(()) };
        let closed = |store: &mut Store<Guest>, _: &Batch| function.call(store, ()).map(|()| (Ok(()),));
        self.runner.transact(Phase::Close, &mut Batch::default(), closed)
    }

    /// The calls that follow are its last ones. Where they are interrupted, they have a little longer to end by themselves.
    pub fn begin_to_end(&mut self) {
        self.runner.guest().wasi.deadline.begin_to_end();
    }

    /// Limits the time of the calls that follow, instead of the limit that it was opened with.
    pub fn set_time(&mut self, time: Duration) {
        self.runner.set_time(time);
    }

    /// The records that the last call rejected, in the order in which it did.
    pub fn rejected(&mut self) -> &[Rejected] {
        &self.runner.guest().rejected
    }

    /// Whether it takes calls: it has not trapped.
    pub fn is_usable(&self) -> bool {
        self.runner.is_usable()
    }

    /// The operator state lent to it, between calls.
    pub fn operator_state(&mut self) -> &mut OperatorState {
        self.runner.guest().operator_state.get_mut()
    }

    /// The keyed state lent to it, between calls.
    pub fn state(&mut self) -> &mut KeyedState {
        self.runner.guest().state.get_mut()
    }

    /// What it has emitted, port by port, between calls.
    pub fn outputs(&mut self) -> &mut [Outbox] {
        self.runner.guest().outputs.get_mut()
    }

    /// Ends it and hands back what was lent to it, for another instance.
    pub fn into_parts(self) -> (SubtaskState, Vec<Outbox>) {
        lent(self.runner)
    }
}

fn lent(runner: Runner) -> (SubtaskState, Vec<Outbox>) {
    let guest = runner.into_guest();
    let (keyed, operator) = (guest.state.into_inner(), guest.operator_state.into_inner());
    let state = SubtaskState { keyed, operator, places: guest.places };
    (state, guest.outputs.into_inner())
}

impl Functions {
    fn of_new_instance(component: &Component, store: &mut Store<Guest>) -> wasmtime::Result<Self> {
        let exports = component.exported();
        let instance = component.instantiate(store)?;
        Ok(Functions {
            open: instance.get_typed_func(&mut *store, exports.open)?,
            process: instance.get_typed_func(&mut *store, exports.process)?,
            finish: exports.finish.map(|hook| instance.get_typed_func(&mut *store, hook)).transpose()?,
            snapshot: exports.snapshot.map(|hook| instance.get_typed_func(&mut *store, hook)).transpose()?,
            checkpoint_complete: exports.checkpoint_complete.map(|hook| instance.get_typed_func(&mut *store, hook)).transpose()?,
            checkpoint_aborted: exports.checkpoint_aborted.map(|hook| instance.get_typed_func(&mut *store, hook)).transpose()?,
            close: exports.close.map(|hook| instance.get_typed_func(&mut *store, hook)).transpose()?,
        })
    }
}
