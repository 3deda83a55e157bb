//! [`Migrator`]: has a component rewrite values that another version of it wrote, in an instance of its own in which nothing but that
//! may happen.

use std::sync::Arc;

use wasmtime::component::TypedFunc;

use super::call::Runner;
use super::component::Component;
use super::failure::{Cause, Failure, one_line};
use super::guest::{Facts, Guest, Phase};
use super::limits::{self, Interrupt, STATE_VALUE};
use super::log::GuestLog;
use super::wire::{ColumnIn, ColumnReturned};
use crate::plan::{Limits, OnError, StateDescriptor};
use crate::record::{Batch, Column};
use crate::state::{SubtaskState, Unwritten};

/// Has a component rewrite values that another version of it wrote.
pub struct Migrator {
    component: Arc<Component>,
    operator: String,
    limits: Limits,
    interrupt: Interrupt,
    /// None before the first call, and after one that trapped.
    instance: Option<(Runner, Function<'static>)>,
}

type Function<'a> = TypedFunc<(u32, u32, &'a str, ColumnIn<'a>), (Result<ColumnReturned, String>,)>;

impl Migrator {
    /// One for the component of `operator`, each of whose calls keeps within `limits` and ends with `interrupt`; none if it has no migrations.
    pub fn new(component: &Arc<Component>, operator: &str, limits: Limits, interrupt: Interrupt) -> Option<Migrator> {
        component.descriptor().migration.then(|| Migrator {
            component: Arc::clone(component),
            operator: operator.into(),
            limits,
            interrupt,
            instance: None,
        })
    }

    /// Whether there is a migration of values of `state`, by its place in the descriptor, that are as `from` says.
    ///
    /// # Errors
    /// Why there is none.
    pub fn ask(&mut self, state: usize, from: &StateDescriptor) -> Result<(), Failure> {
        self.call(state, from, &Column::default()).map(|_| ())
    }

    /// Rewrites values of `state` that are as `from` says: as many, in the same order.
    ///
    /// # Errors
    /// Why it can't, and because of which value, where that can be found out.
    pub fn migrate(&mut self, state: usize, from: &StateDescriptor, values: &Column) -> Result<Column, Unwritten<usize, Failure>> {
        self.call(state, from, values).map_err(|failure| self.blame(state, from, values, failure))
    }

    /// Finds the value that is to blame for a failure by halving, on fresh instances. Not when a limit was reached: that may be because of
    /// all of them, and trying takes long; nor when the call was interrupted.
    fn blame(&mut self, state: usize, from: &StateDescriptor, values: &Column, failure: Failure) -> Unwritten<usize, Failure> {
        let unknown = Unwritten { value: None, cause: failure };
        if matches!(unknown.cause.cause, Cause::Limit(_) | Cause::Interrupted) {
            return unknown;
        }
        let mut part = |start: usize, end: usize| {
            let values = (start..end).map(|index| values.get(index)).collect::<Column>();
            self.call(state, from, &values)
        };
        let (mut start, mut end) = (0, values.len());
        while end - start > 1 {
            let middle = start + (end - start) / 2;
            match part(start, middle) {
                Ok(_) => start = middle,
                Err(_) => end = middle,
            }
        }
        match part(start, end) {
            Ok(_) => unknown,
            Err(cause) => Unwritten { value: Some(start), cause },
        }
    }

    fn call(&mut self, state: usize, from: &StateDescriptor, values: &Column) -> Result<Column, Failure> {
        let (mut runner, function) = match self.instance.take() {
            Some(instance) => instance,
            None => self.instantiate()?,
        };
        // A descriptor has far fewer states than a u32 counts.
        let arguments = (state as u32, from.version, from.schema.0.as_str(), ColumnIn::new(values));
        let (returned,) = {
            let function: Function<'_> = function;
            runner.call(Phase::Migrate, &mut Batch::default(), |store, _| function.call(store, arguments))?
        };
        self.instance = Some((runner, function));
        match returned {
            Ok(ColumnReturned { ends, bytes }) => check(Column { ends, bytes }, values.len()),
            Err(reason) => Err(Failure::new(Cause::Error, None, format!("failed: {}", one_line(&reason)))),
        }
    }

    fn instantiate(&self) -> Result<(Runner, Function<'static>), Failure> {
        let Migrator { component, operator, limits, interrupt, .. } = self;
        let engine = component.engine();
        let log = GuestLog::new(operator, 0, limits.log_lines);
        let facts = Facts { context: Arc::default(), config: "".into(), environment: Arc::new([]), log, metrics: Arc::default() };
        let descriptor = Arc::clone(component.shared_descriptor());
        let deadline = engine.deadline(interrupt.clone());
        let guest = Guest::new(descriptor, facts, *limits, deadline, SubtaskState::new(&[], 1), Vec::new());
        let mut runner = Runner::new(engine, guest, *limits, OnError::Fail);
        let function = runner.call(Phase::Migrate, &mut Batch::default(), |store, _| {
            let instance = component.instantiate(store)?;
            let export = component.exported().migrate.ok_or_else(|| wasmtime::Error::msg("there is no `migrate`"))?;
            instance.get_typed_func(&mut *store, export)
        })?;
        Ok((runner, function))
    }
}

/// A column from a guest, if it is one, and of so many values that state can hold.
fn check(column: Column, values: usize) -> Result<Column, Failure> {
    let wrong = |what: String| Err(Failure::new(Cause::HostCall, None, format!("returned {what}")));
    if let Err(malformed) = Column::check(&column.ends, &column.bytes) {
        return wrong(format!("what is no column: {malformed}"));
    }
    if column.len() != values {
        return wrong(format!("{} values for {values}", column.len()));
    }
    if column.iter().any(|value| value.len() > STATE_VALUE) {
        return wrong(format!("a value of more than {}", limits::bytes(STATE_VALUE as u64)));
    }
    Ok(column)
}
