//! [`Migration`]: at a restore or a swap, what another version of an operator's component has written becomes what this one reads. All of
//! it happens in memory, for all of it has to be in the next snapshot; at a restore, before anything of the job is touched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock;
use crate::dataflow::Version;
use crate::error::{Error, Kind, Result};
use crate::plan::{Limits, StateDescriptor};
use crate::record::Column;
use crate::state::{ColdFault, Lists, Maps, SubtaskState, Unwritten, rewrite_elements};
use crate::wasm::{Cause, Failure, Interrupt, Migrator};

use super::states::Occasion;

/// The migrations that a restore takes, by node.
pub(super) type Migrations = BTreeMap<usize, Arc<Migration>>;

/// The states of an operator whose values have to be rewritten.
pub(super) struct Migration {
    operator: String,
    to: Version,
    limits: Limits,
    states: Vec<Migrating>,
    occasion: Occasion,
    interrupt: Interrupt,
    since: Instant,
}

/// One of them.
struct Migrating {
    /// Its place in the component's descriptor.
    place: usize,
    /// Where it is kept.
    kept: usize,
    /// As it is there.
    from: StateDescriptor,
    /// Values that have been rewritten, in all subtasks.
    values: AtomicU64,
    /// Values to be rewritten, in the subtasks that have started.
    of: AtomicU64,
}

/// How far a migration has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MigrationProgress {
    /// Values that have been rewritten.
    pub values: u64,
    /// All values to be rewritten, in the subtasks that have begun.
    pub of: u64,
}

impl Migrating {
    /// Values of one subtask have been rewritten all at once.
    fn rewritten(&self, values: u64) {
        self.of.fetch_add(values, Ordering::Relaxed);
        self.values.fetch_add(values, Ordering::Relaxed);
    }
}

impl Migration {
    /// `states` are as they are there, each with its place in the component's descriptor. Calls of the guest end with `interrupt`.
    pub(super) fn new(
        operator: &str,
        to: Version,
        limits: Limits,
        states: Vec<(usize, StateDescriptor)>,
        occasion: Occasion,
        interrupt: &Interrupt,
    ) -> Self {
        let migrating =
            |(place, from)| Migrating { place, kept: to.arrangement.places[place], from, values: AtomicU64::new(0), of: AtomicU64::new(0) };
        let states = states.into_iter().map(migrating).collect();
        Migration { operator: operator.into(), to, limits, states, occasion, interrupt: interrupt.clone(), since: clock::now() }
    }

    /// Asks the component whether it has a way from each of the states. Calls the guest.
    ///
    /// # Errors
    /// In what the first one differs from which it has none, and why.
    pub(super) fn ask(&self) -> Result<()> {
        let mut migrator = self.migrator();
        for state in &self.states {
            let reason = match &mut migrator {
                None => "exports no migrations".into(),
                Some(migrator) => match migrator.ask(state.place, &state.from) {
                    Ok(()) => continue,
                    Err(failure) if failure.cause == Cause::Interrupted => return Err(self.interrupted(&state.from, &failure)),
                    Err(failure) => format!("has no migration for it: asked for one, it {failure}"),
                },
            };
            let Migrating { place, from, .. } = state;
            let [there, now] = self.occasion.places();
            let differs = from.difference(self.declared(*place), there, now);
            let message = format!("operator `{}`: state `{}` {differs}; the component {reason}", self.operator, from.name);
            let way_out = self.occasion.way_out();
            let help = format!("give the state a migration (in Rust `#[state(migrate(…))]`), or leave it as it was: {way_out}");
            return Err(Error::new(self.occasion.kind(), message).help(help));
        }
        Ok(())
    }

    /// Rewrites all state of a subtask, wherever it lies, and has it count as not saved. Calls the guest.
    ///
    /// # Errors
    /// As [`Migration::rewrite`], and when the store on disk fails.
    pub(super) fn rewrite_all(&self, state: &mut SubtaskState) -> Result<()> {
        state.keyed.take_in_all().map_err(|fault| {
            let message = format!("operator `{}`: taking its state into memory, to migrate it: {fault}", self.operator);
            Error::new(Kind::Storage, message).help(ColdFault::HELP)
        })?;
        let mut migrator = self.migrator();
        for migrating in self.states.iter().filter(|migrating| !migrating.from.kind.is_keyed()) {
            let rewritten = state.operator.rewrite(migrating.kept, &mut |values| migrate(&mut migrator, migrating, values));
            let count = rewritten.map_err(|unwritten| self.failed(migrating, unwritten, |index| format!("value {index}")))?;
            migrating.rewritten(count);
        }
        self.rewrite(state)
    }

    /// Rewrites keyed state, and has all state of the subtask count as not saved, for no file holds it so. Calls the guest.
    ///
    /// # Errors
    /// Which value can't be rewritten, and why.
    pub(super) fn rewrite(&self, state: &mut SubtaskState) -> Result<()> {
        let mut migrator = self.migrator();
        let now = clock::wall_ms();
        for migrating in self.states.iter().filter(|migrating| migrating.from.kind.is_keyed()) {
            let all = state.keyed.values(migrating.kept);
            migrating.of.fetch_add(all, Ordering::Relaxed);
            let rewritten = state.keyed.rewrite(migrating.kept, now, &mut |values| {
                let new = migrate(&mut migrator, migrating, values)?;
                migrating.values.fetch_add(values.len() as u64, Ordering::Relaxed);
                Ok(new)
            });
            let place = |key: Vec<u8>| format!("the value of key `{}`", key.escape_ascii());
            let count = rewritten.map_err(|unwritten| self.failed(migrating, unwritten, place))?;
            // The others had expired.
            migrating.of.fetch_sub(all - count, Ordering::Relaxed);
        }
        state.save_anew();
        Ok(())
    }

    /// Rewrites lists of operator state, given subtask by subtask. Calls the guest.
    ///
    /// # Errors
    /// As [`Migration::rewrite`].
    pub(super) fn rewrite_lists(&self, mut lists: Vec<Lists>) -> Result<Vec<Lists>> {
        let mut migrator = self.migrator();
        for (subtask, lists) in lists.iter_mut().enumerate() {
            for (place, elements) in lists {
                let Some(migrating) = self.states.iter().find(|migrating| migrating.kept == *place) else { continue };
                let rewritten = rewrite_elements(elements, &mut |values| migrate(&mut migrator, migrating, values));
                let place = |index| format!("element {index} of subtask {subtask}");
                let rewritten = rewritten.map_err(|unwritten| self.failed(migrating, unwritten, place))?;
                migrating.rewritten(rewritten.len() as u64);
                *elements = Arc::new(rewritten);
            }
        }
        Ok(lists)
    }

    /// Rewrites broadcast state. Calls the guest.
    ///
    /// # Errors
    /// As [`Migration::rewrite`].
    pub(super) fn rewrite_maps(&self, mut maps: Maps) -> Result<Maps> {
        let mut migrator = self.migrator();
        for (place, map) in &mut maps {
            let Some(migrating) = self.states.iter().find(|migrating| migrating.kept == *place) else { continue };
            let rewritten = map.rewritten(&mut |values| migrate(&mut migrator, migrating, values));
            let place =
                |index| format!("the value of field `{}`", map.iter().nth(index).map_or(&[][..], |(field, _)| field).escape_ascii());
            *map = rewritten.map_err(|unwritten| self.failed(migrating, unwritten, place))?;
            migrating.rewritten(map.len() as u64);
        }
        Ok(maps)
    }

    /// How far it has come.
    pub(super) fn progress(&self) -> MigrationProgress {
        let sum = |count: fn(&Migrating) -> &AtomicU64| self.states.iter().map(|state| count(state).load(Ordering::Relaxed)).sum();
        MigrationProgress { values: sum(|state| &state.values), of: sum(|state| &state.of) }
    }

    /// Says in the log what has been done.
    pub(super) fn tell(&self) {
        let took = humantime::format_duration(Duration::from_millis((clock::now() - self.since).as_millis() as u64));
        for Migrating { place, from, values, .. } in &self.states {
            let (values, to) = (values.load(Ordering::Relaxed), self.declared(*place).version);
            let (state, operator) = (&from.name, &self.operator);
            tracing::info!(
                "migrated {values} values of state `{state}` of operator `{operator}` from version {} to {to} in {took}",
                from.version
            );
        }
    }

    fn migrator(&self) -> Option<Migrator> {
        Migrator::new(&self.to.component, &self.operator, self.limits, self.interrupt.clone())
    }

    fn declared(&self, place: usize) -> &StateDescriptor {
        &self.to.component.descriptor().states[place]
    }

    /// A call about a state was interrupted, which says nothing about the component.
    fn interrupted(&self, from: &StateDescriptor, failure: &Failure) -> Error {
        let message = format!("operator `{}`: state `{}`: asked for a migration, the component {failure}", self.operator, from.name);
        Error::new(self.occasion.kind(), message)
    }

    /// The restore is refused because of a value, or was interrupted there.
    fn failed<V>(&self, migrating: &Migrating, unwritten: Unwritten<V, Failure>, place: impl FnOnce(V) -> String) -> Error {
        let Migrating { from, place: state, .. } = migrating;
        let (old, new) = (from.version, self.declared(*state).version);
        let what = unwritten.value.map_or("its values".into(), place);
        let (operator, name, failure) = (&self.operator, &from.name, unwritten.cause);
        let message =
            format!("operator `{operator}`: state `{name}`: migrating {what} from version {old} to {new}, the component {failure}");
        let error = Error::new(self.occasion.kind(), message);
        let mend = match failure.cause {
            Cause::Interrupted => return error,
            Cause::Limit(limit) => format!("raise `limits = {{ {} = … }}` of the operator if it needs more", limit.key()),
            _ => "mend the component's migration".into(),
        };
        error.help(format!("{mend}; {}", self.occasion.way_out()))
    }
}

fn migrate(migrator: &mut Option<Migrator>, migrating: &Migrating, values: &Column) -> Result<Column, Unwritten<usize, Failure>> {
    // One was there when it was asked.
    let migrator = migrator.as_mut().expect("a component that has offered a migration exports it");
    migrator.migrate(migrating.place, &migrating.from, values)
}
