//! [`Migration`]: at a restore, what another version of an operator's component has written becomes what this one reads. All of it happens
//! in memory, before anything of the job is touched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::{Limits, StateDescriptor};
use crate::record::Column;
use crate::state::{ListTooLong, Lists, Maps, SubtaskState, Unwritten, rewrite_each};
use crate::wasm::{Cause, Component, Failure, Migrator};

/// The migrations that a restore takes, by node.
pub(super) type Migrations = BTreeMap<usize, Arc<Migration>>;

/// The states of an operator whose values have to be rewritten.
pub(super) struct Migration {
    operator: String,
    component: Arc<Component>,
    limits: Limits,
    states: Vec<Migrating>,
    since: Instant,
}

/// One of them.
struct Migrating {
    /// Its place in the component's descriptor.
    place: usize,
    /// As it is in the checkpoint.
    from: StateDescriptor,
    /// How many values have been rewritten, in all subtasks.
    values: AtomicU64,
}

/// What a list of operator state stays below, in bytes: it is a column.
const LONGEST_LIST: usize = 4 << 30;

/// The way out of a restore that is refused.
const WAY_OUT: &str =
    "the checkpoint can still be restored with the component that wrote it; to begin a new run without state, run with `--fresh`";

impl Migration {
    /// `states` are as they are in the checkpoint, each with its place in the component's descriptor.
    pub(super) fn new(operator: &str, component: &Arc<Component>, limits: Limits, states: Vec<(usize, StateDescriptor)>) -> Self {
        let migrating = |(place, from)| Migrating { place, from, values: AtomicU64::new(0) };
        let states = states.into_iter().map(migrating).collect();
        Migration { operator: operator.into(), component: Arc::clone(component), limits, states, since: clock::now() }
    }

    /// Asks the component whether it has a way from each of the states. Calls the guest.
    ///
    /// # Errors
    /// Kind `Checkpoint`: in what the first one differs from which it has none, and why.
    pub(super) fn ask(&self) -> Result<()> {
        let mut migrator = self.migrator();
        for state in &self.states {
            let reason = match &mut migrator {
                None => "exports no migrations".into(),
                Some(migrator) => match migrator.ask(state.place, &state.from) {
                    Ok(()) => continue,
                    Err(failure) => format!("has no migration for it: asked for one, it {failure}"),
                },
            };
            let Migrating { place, from, .. } = state;
            let new = &self.component.descriptor().states[*place];
            let differs = from.difference(new, "in the checkpoint", "in the component");
            let message = format!("operator `{}`: state `{}` {differs}; the component {reason}", self.operator, from.name);
            let help = format!("give the state a migration (in Rust `#[state(migrate(…))]`), or leave it as it was: {WAY_OUT}");
            return Err(Error::new(Kind::Checkpoint, message).help(help));
        }
        Ok(())
    }

    /// Rewrites keyed state, and has all state of the subtask count as not saved, for no file holds it so. Calls the guest.
    ///
    /// # Errors
    /// Kind `Checkpoint`: which value can't be rewritten, and why.
    pub(super) fn rewrite(&self, state: &mut SubtaskState) -> Result<()> {
        let mut migrator = self.migrator();
        let now = clock::wall_ms();
        for migrating in self.states.iter().filter(|migrating| migrating.from.kind.is_keyed()) {
            let rewritten = state.keyed.rewrite(migrating.place, now, &mut |values| migrate(&mut migrator, migrating, values));
            let place = |key: Vec<u8>| format!("the value of key `{}`", key.escape_ascii());
            let count = rewritten.map_err(|unwritten| self.failed(migrating, unwritten, place))?;
            migrating.values.fetch_add(count, Ordering::Relaxed);
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
                let mut new = Column::default();
                let keep = |element: &[u8]| {
                    if new.bytes.len() + element.len() >= LONGEST_LIST {
                        return Err(ListTooLong { most: LONGEST_LIST as u64 }.into());
                    }
                    new.push(element);
                    Ok(())
                };
                let place_of = |index| format!("element {index} of subtask {subtask}");
                if self.rewrite_each(&mut migrator, *place, elements.iter(), keep, place_of)? {
                    *elements = Arc::new(new);
                }
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
            let old = map.clone();
            let mut fields = old.iter().map(|(field, _)| field);
            let keep = |value: &[u8]| {
                if let Some(field) = fields.next() {
                    map.put(field, value);
                }
                Ok(())
            };
            let field = |index| old.iter().nth(index).map_or(&[][..], |(field, _)| field).escape_ascii();
            let values = old.iter().map(|(_, value)| value);
            self.rewrite_each(&mut migrator, *place, values, keep, |index| format!("the value of field `{}`", field(index)))?;
        }
        Ok(maps)
    }

    /// Rewrites values of operator state, if those of the state at `place` have to be; returns whether. `keep` gets the new ones in their
    /// order, `place_of` says where one stands that can't be rewritten.
    fn rewrite_each<'v>(
        &self,
        migrator: &mut Option<Migrator>,
        place: usize,
        values: impl Iterator<Item = &'v [u8]>,
        keep: impl FnMut(&[u8]) -> Result<(), Failure>,
        place_of: impl FnOnce(usize) -> String,
    ) -> Result<bool> {
        let Some(migrating) = self.states.iter().find(|migrating| migrating.place == place) else { return Ok(false) };
        let rewritten = rewrite_each(values, &mut |values| migrate(migrator, migrating, values), keep);
        let count = rewritten.map_err(|unwritten| self.failed(migrating, unwritten, place_of))?;
        migrating.values.fetch_add(count, Ordering::Relaxed);
        Ok(true)
    }

    /// Says in the log what has been done.
    pub(super) fn tell(&self) {
        let took = humantime::format_duration(Duration::from_millis((clock::now() - self.since).as_millis() as u64));
        for Migrating { place, from, values } in &self.states {
            let (values, to) = (values.load(Ordering::Relaxed), self.component.descriptor().states[*place].version);
            let (state, operator) = (&from.name, &self.operator);
            tracing::info!(
                "migrated {values} values of state `{state}` of operator `{operator}` from version {} to {to} in {took}",
                from.version
            );
        }
    }

    fn migrator(&self) -> Option<Migrator> {
        Migrator::new(&self.component, &self.operator, self.limits)
    }

    /// The restore is refused because of a value.
    fn failed<V>(&self, migrating: &Migrating, unwritten: Unwritten<V, Failure>, place: impl FnOnce(V) -> String) -> Error {
        let Migrating { from, place: state, .. } = migrating;
        let (old, new) = (from.version, self.component.descriptor().states[*state].version);
        let what = unwritten.value.map_or("its values".into(), place);
        let (operator, name, failure) = (&self.operator, &from.name, unwritten.cause);
        let message =
            format!("operator `{operator}`: state `{name}`: migrating {what} from version {old} to {new}, the component {failure}");
        let mend = match failure.cause {
            Cause::Limit(limit) => format!("raise `limits = {{ {} = … }}` of the operator if it needs more", limit.key()),
            _ => "mend the component's migration".into(),
        };
        Error::new(Kind::Checkpoint, message).help(format!("{mend}; {WAY_OUT}"))
    }
}

fn migrate(migrator: &mut Option<Migrator>, migrating: &Migrating, values: &Column) -> Result<Column, Unwritten<usize, Failure>> {
    // One was there when it was asked.
    let migrator = migrator.as_mut().expect("a component that has offered a migration exports it");
    migrator.migrate(migrating.place, &migrating.from, values)
}

/// Does work that may call guests, at once, on a thread of its own: guests never run on the runtime's.
pub(super) fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> impl Future<Output = Result<T>> {
    let (done, result) = tokio::sync::oneshot::channel();
    // Nobody waits any more if another one has failed.
    let spawned = std::thread::Builder::new().name("restore".into()).spawn(move || drop(done.send(work())));
    async move {
        spawned.map_err(|error| Error::new(Kind::Internal, format!("a thread for restoring can't be started: {error}")))?;
        result.await.map_err(|_| Error::new(Kind::Internal, "restoring state panicked"))?
    }
}
