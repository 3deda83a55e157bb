//! [`Migrator`]: has a component rewrite values that another version of it wrote, in an instance of its own in which nothing but that
//! may happen.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::TypedFunc;

use super::call::Runner;
use super::component::Component;
use super::failure::{Cause, Failure, one_line};
use super::guest::Phase;
use super::limits::{self, Interrupt, PROBE_TIME, STATE_VALUE};
use super::wire::{ColumnIn, ColumnReturned};
use crate::plan::{Limits, StateDescriptor};
use crate::record::{Batch, Column};
use crate::state::Unwritten;

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

    /// Rewrites values of `state` that are as `from` says: as many, in the same order. Those that are only together too much for a limit are
    /// rewritten in parts.
    ///
    /// # Errors
    /// Why it can't, and because of which value, where that can be found out.
    pub fn migrate(&mut self, state: usize, from: &StateDescriptor, values: &Column) -> Result<Column, Unwritten<usize, Failure>> {
        match self.call(state, from, values) {
            Err(Failure { cause: Cause::Limit(_), .. }) if values.len() > 1 => self.migrate_in_parts(state, from, values),
            Err(failure) => Err(self.blame(state, from, values, failure)),
            Ok(rewritten) => Ok(rewritten),
        }
    }

    /// The same by halves, and their halves, on fresh instances wherever one has failed.
    fn migrate_in_parts(&mut self, state: usize, from: &StateDescriptor, values: &Column) -> Result<Column, Unwritten<usize, Failure>> {
        let mut rewritten = Column::default();
        let middle = values.len() / 2;
        let mut todo = vec![(middle, values.len()), (0, middle)];
        while let Some((start, end)) = todo.pop() {
            let part = part(values, start, end);
            match self.call_within(if part.len() > 1 { PROBE_TIME } else { Duration::MAX }, state, from, &part) {
                Err(Failure { cause: Cause::Limit(_), .. }) if part.len() > 1 => {
                    let middle = start + part.len() / 2;
                    todo.extend([(middle, end), (start, middle)]);
                }
                Err(failure) => {
                    let Unwritten { value, cause } = self.blame(state, from, &part, failure);
                    return Err(Unwritten { value: value.map(|value| start + value), cause });
                }
                Ok(more) if rewritten.bytes.len() + more.bytes.len() > u32::MAX as usize => {
                    let cause = Failure::new(Cause::HostCall, None, "returned more than 4 GiB for the values of one call");
                    return Err(Unwritten { value: None, cause });
                }
                Ok(more) => more.iter().for_each(|value| rewritten.push(value)),
            }
        }
        Ok(rewritten)
    }

    /// Finds the value that is to blame for a failure by halving, on fresh instances. Not when the call was interrupted.
    fn blame(&mut self, state: usize, from: &StateDescriptor, values: &Column, failure: Failure) -> Unwritten<usize, Failure> {
        let unknown = Unwritten { value: None, cause: failure };
        if unknown.cause.cause == Cause::Interrupted {
            return unknown;
        }
        if values.len() == 1 {
            return Unwritten { value: Some(0), ..unknown };
        }
        let (mut start, mut end) = (0, values.len());
        while end - start > 1 {
            let middle = start + (end - start) / 2;
            match self.call(state, from, &part(values, start, middle)) {
                Ok(_) => start = middle,
                Err(_) => end = middle,
            }
        }
        match self.call(state, from, &part(values, start, end)) {
            Ok(_) => unknown,
            Err(cause) => Unwritten { value: Some(start), cause },
        }
    }

    fn call(&mut self, state: usize, from: &StateDescriptor, values: &Column) -> Result<Column, Failure> {
        self.call_within(self.limits.time, state, from, values)
    }

    /// A call that may take as long as `time`, and never longer than the operator's limit.
    fn call_within(&mut self, time: Duration, state: usize, from: &StateDescriptor, values: &Column) -> Result<Column, Failure> {
        // A call that is short ends before anyone could interrupt it, and then comes the next one.
        if self.interrupt.is_due() {
            return Err(Failure::interrupted());
        }
        let (mut runner, function) = match self.instance.take() {
            Some(instance) => instance,
            None => self.instantiate()?,
        };
        runner.set_time(time.min(self.limits.time));
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
        let mut runner = Runner::apart(component.engine(), operator, component.shared_descriptor(), *limits, interrupt);
        let function = runner.call(Phase::Migrate, &mut Batch::default(), |store, _| {
            let instance = component.instantiate(store)?;
            let export = component.exported().migrate.ok_or_else(|| wasmtime::Error::msg("there is no `migrate`"))?;
            instance.get_typed_func(&mut *store, export)
        })?;
        Ok((runner, function))
    }
}

/// Values `start..end` of a column.
fn part(values: &Column, start: usize, end: usize) -> Column {
    (start..end).map(|index| values.get(index)).collect()
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
