//! Restoring: from a manifest to the state and positions with which an attempt begins.

use std::collections::HashMap;
use std::sync::Arc;

use crate::checkpoint::decide::RestorePoint;
use crate::checkpoint::file::{BroadcastReader, OperatorStateReader, StateReader, each_entry};
use crate::checkpoint::manifest::{Manifest, OperatorPart};
use crate::checkpoint::store::{Fetching, Store, unrestorable};
use crate::dataflow::{Splits, Version};
use crate::error::{Error, Kind, Result};
use crate::plan::{Descriptor, NodeKind, Plan, Role, StateDescriptor};
use crate::record::{KeyGroups, Position};
use crate::state::{Arrangement, KeyedState, Lists, Maps, OperatorState, SubtaskState, spread};
use crate::threads::apart;
use crate::wasm::{Component, Interrupt};

use super::local::Local;
use super::migrate::{Migration, Migrations};
use super::prepare::Prepared;
use super::settle::Settled;
use super::states::{Occasion, compare, kept_since};

/// What an attempt begins with: state by node and subtask, positions by node and split.
#[derive(Default)]
pub(super) struct Beginning {
    pub(super) states: HashMap<(usize, u16), SubtaskState>,
    pub(super) positions: HashMap<(usize, String), Position>,
    /// Operators whose state is as no file holds it, because it was migrated, or they were renamed.
    pub(super) unsaved: Vec<String>,
    /// What has changed since.
    pub(super) settled: Settled,
}

impl Beginning {
    /// How many records of a source were read.
    pub(super) fn records(&self, node: usize) -> u64 {
        self.positions.iter().filter(|((of, _), _)| *of == node).map(|(_, position)| position.records).sum()
    }
}

/// Checks, before anything is touched, that what a checkpoint holds has its place in the job. Returns the migrations that it takes, whose
/// calls of guests end with `interrupt`.
///
/// # Errors
/// Kind `Checkpoint`: what has none, or has become something else.
pub(super) async fn check(manifest: &Manifest, prepared: &Prepared, interrupt: &Interrupt) -> Result<Migrations> {
    let plan = &prepared.plan;
    if manifest.max_parallelism != plan.max_parallelism {
        let message = format!(
            "checkpoint {} was taken with max-parallelism {}, the job has {}",
            manifest.checkpoint, manifest.max_parallelism, plan.max_parallelism
        );
        return Err(Error::new(Kind::Checkpoint, message)
            .help("max-parallelism is fixed for the life of the state: set it back, or begin a new run without state with `--fresh`"));
    }
    let mut migrations = Migrations::new();
    for part in &manifest.operators {
        let node = find(plan, &part.uid, Role::Operator)?;
        let component = prepared.components[node].as_ref().expect("every operator node has its component");
        let states = compare(&part.uid, (&part.states, part.key_schema.as_ref()), component.descriptor(), Occasion::Restore)?;
        if let (NodeKind::Operator(settings), false) = (&plan.nodes[node].kind, states.is_empty()) {
            let to = Version { component: Arc::clone(component), arrangement: Arrangement::new(&component.descriptor().states) };
            migrations.insert(node, Arc::new(Migration::new(&part.uid, to, settings.limits, states, Occasion::Restore, interrupt)));
        }
    }
    for part in &manifest.sources {
        find(plan, &part.uid, Role::Source)?;
    }
    for part in manifest.sinks.iter().filter(|part| !part.staged.is_empty()) {
        find(plan, &part.uid, Role::Sink)?;
    }
    for migration in migrations.values() {
        let asked = Arc::clone(migration);
        apart(move || asked.ask()).await?;
    }
    Ok(migrations)
}

/// The node with a uid that a checkpoint names.
pub(super) fn find(plan: &Plan, uid: &str, role: Role) -> Result<usize> {
    plan.nodes.iter().position(|node| node.uid == uid && node.kind.role() == role).ok_or_else(|| {
        let name = role.name();
        Error::new(Kind::Checkpoint, format!("the checkpoint holds what belongs to {name} `{uid}`, which the job no longer has"))
            .help("put it back into the job file, or begin a new run without state with `--fresh`")
    })
}

/// Reads the state and positions of a checkpoint that fits the job, and migrates what has to be.
pub(super) async fn read(
    store: &Store,
    point: &RestorePoint,
    prepared: &Prepared,
    migrations: &Migrations,
    local: &Arc<Local>,
    settled: Settled,
) -> Result<Beginning> {
    let manifest = &point.manifest;
    let reader = Reader { store, point, prepared, local };
    let mut beginning = Beginning { unsaved: settled.renamed.clone(), settled, ..Beginning::default() };
    for part in &manifest.sources {
        let node = find(&prepared.plan, &part.uid, Role::Source)?;
        for split in &part.splits {
            beginning.positions.insert((node, split.split.clone()), split.position.clone());
        }
        check_splits(&part.uid, node, &beginning, prepared)?;
    }
    for part in &manifest.operators {
        let node = find(&prepared.plan, &part.uid, Role::Operator)?;
        let migration = migrations.get(&node);
        let anew = beginning.settled.renamed.contains(&part.uid);
        for (subtask, state) in reader.operator(part, node, migration, anew).await? {
            beginning.states.insert((node, subtask), state);
        }
        beginning.unsaved.extend(migration.map(|_| part.uid.clone()));
    }
    Ok(beginning)
}

/// A split that was being read must still be there: "not found" never means "empty".
fn check_splits(uid: &str, node: usize, beginning: &Beginning, prepared: &Prepared) -> Result<()> {
    let Some(Splits { names, .. }) = &prepared.sources[node] else { return Ok(()) };
    let gone = beginning.positions.iter().find(|((at, split), position)| *at == node && !position.ended && !names.contains(split));
    match gone {
        None => Ok(()),
        Some(((_, split), position)) => {
            let message = format!("source `{uid}`: split `{split}` was read up to record {} and is gone", position.records);
            Err(Error::new(Kind::Checkpoint, message).help("bring it back, or begin a new run without state with `--fresh`"))
        }
    }
}

/// Adds what no checkpoint holds: empty state for the operators that keep it on disk.
pub(super) async fn complete(mut beginning: Beginning, prepared: &Prepared, local: Arc<Local>) -> Result<Beginning> {
    let mut missing = Vec::new();
    for (node, component) in prepared.components.iter().enumerate() {
        let Some(component) = component.as_ref().filter(|_| local.is_on_disk(node)) else { continue };
        let subtasks = (0..prepared.plan.parallelism).filter(|&subtask| !beginning.states.contains_key(&(node, subtask)));
        missing.extend(subtasks.map(|subtask| (node, subtask, Arc::clone(component))));
    }
    let empty = apart(move || {
        let state = |(node, subtask, component): (usize, u16, Arc<Component>)| {
            let states = &component.descriptor().states;
            let state = SubtaskState {
                keyed: local.keyed(node, subtask, states)?,
                operator: OperatorState::new(states),
                places: Arrangement::new(states).places,
            };
            Ok(((node, subtask), state))
        };
        missing.into_iter().map(state).collect::<Result<Vec<_>>>()
    });
    beginning.states.extend(empty.await?);
    Ok(beginning)
}

/// Reads what belongs to operators of a checkpoint.
struct Reader<'a> {
    store: &'a Store,
    point: &'a RestorePoint,
    prepared: &'a Prepared,
    local: &'a Arc<Local>,
}

impl Reader<'_> {
    /// The state of each subtask of an operator. Each file is opened once; the subtasks are loaded side by side.
    async fn operator(
        &self,
        part: &OperatorPart,
        node: usize,
        migration: Option<&Arc<Migration>>,
        // No file may name an operator by another's name, so after a renaming all of it is written again.
        anew: bool,
    ) -> Result<Vec<(u16, SubtaskState)>> {
        let Reader { store, point, prepared, local } = *self;
        let component = prepared.components[node].as_ref().expect("every operator node has its component");
        let mut whole = self.operator_state(part, component, migration).await?.into_iter();
        let (mut files, mut fetching) = (Vec::new(), Fetching::of(part.files.len()));
        for file in &part.files {
            files.push(store.open_state_file(point, file, &mut fetching).await?);
        }
        let files = Arc::new(files);
        let saved: Arc<[StateDescriptor]> = saved_as(part, component.descriptor()).into();
        let kept: Arc<[StateDescriptor]> = kept_since(&point.manifest, part, &component.descriptor().states).into();
        let mut loads = Vec::new();
        for subtask in 0..prepared.plan.parallelism {
            let own = KeyGroups::of_subtask(subtask, prepared.plan.parallelism, prepared.plan.max_parallelism);
            let (files, saved, states, migration) = (Arc::clone(&files), Arc::clone(&saved), Arc::clone(&kept), migration.cloned());
            let local = Arc::clone(local);
            // There is one for each subtask.
            let operator = whole.next().unwrap_or_default();
            loads.push(apart(move || {
                let mut keyed = local.keyed(node, subtask, &states)?;
                let files: Vec<_> = files.iter().filter(|file| file.head().groups.overlaps(own)).map(StateReader::beside).collect();
                // What is to be written anew as a whole is in memory.
                if keyed.is_backed() && migration.is_none() && !anew {
                    let filled = fill(&mut keyed, &files, own, &saved);
                    filled.map_err(|error| error.context(local.who(node, subtask)))?;
                } else {
                    load(&mut keyed, &files, own, &saved)?;
                }
                let mut state = SubtaskState { keyed, operator, places: Arrangement::new(&states).places };
                migration.map_or(Ok(()), |migration| migration.rewrite(&mut state))?;
                if anew {
                    state.save_anew();
                }
                Ok((subtask, state))
            }));
        }
        let mut states = Vec::new();
        for load in loads {
            states.push(load.await.map_err(|error| unrestorable(point, error))?);
        }
        if let Some(migration) = migration {
            migration.tell();
        }
        Ok(states)
    }

    /// The operator state of each subtask: its lists from those of the subtasks of then, and the broadcast state that all had.
    async fn operator_state(
        &self,
        part: &OperatorPart,
        component: &Arc<Component>,
        migration: Option<&Arc<Migration>>,
    ) -> Result<Vec<OperatorState>> {
        let Reader { store, point, prepared, .. } = *self;
        let states = &component.descriptor().states;
        // A subtask without a file had nothing in its lists.
        let mut before = vec![Lists::new(); usize::from(point.manifest.parallelism)];
        let mut maps = Maps::new();
        for file in &part.operator_state {
            let bytes = store.read_operator_state(point, file).await?;
            let path = point.run_dir.join(&file.path).to_string();
            match file.subtask {
                // Reading the manifest has checked that there are so many.
                Some(subtask) => before[usize::from(subtask)] = OperatorStateReader::open(&path, &bytes)?.lists(states),
                None => maps = BroadcastReader::open(&path, &bytes)?.maps(states),
            }
        }
        if let Some(migration) = migration.cloned() {
            // Before they are spread: of a union list, and of broadcast state, each subtask gets all.
            (before, maps) = apart(move || Ok((migration.rewrite_lists(before)?, migration.rewrite_maps(maps)?))).await?;
        }
        spread(states, &before, maps, prepared.plan.parallelism).map_err(|state| {
            let message = format!("operator `{}`: list `{}` would have more than 4 GiB in one subtask", part.uid, states[state].name);
            Error::new(Kind::Checkpoint, message).help("go back to an older checkpoint with `-s`, and let each subtask keep less in it")
        })
    }
}

/// The component's states as the checkpoint has them; those that it has not, as they are.
fn saved_as(part: &OperatorPart, descriptor: &Descriptor) -> Vec<StateDescriptor> {
    let saved = |new: &StateDescriptor| part.states.iter().find(|old| old.name == new.name).unwrap_or(new).clone();
    descriptor.states.iter().map(saved).collect()
}

/// Loads state into memory.
fn load(state: &mut KeyedState, files: &[StateReader], own: KeyGroups, saved: &[StateDescriptor]) -> Result<()> {
    for file in files {
        let mut changes = file.changes_for(own, saved)?;
        while let Some(change) = changes.next_change()? {
            state.restore(change);
        }
    }
    Ok(())
}

/// Loads state onto the disk below it.
fn fill(state: &mut KeyedState, files: &[StateReader], own: KeyGroups, saved: &[StateDescriptor]) -> Result<()> {
    let mut by_name = saved.to_vec();
    by_name.sort_by(|one, other| one.name.cmp(&other.name));
    state.fill(|visit| each_entry(files, own, &by_name, visit))
}
