//! Restoring: from a manifest to the state and positions with which an attempt begins.

use std::collections::HashMap;
use std::sync::Arc;

use crate::checkpoint::decide::RestorePoint;
use crate::checkpoint::file::{BroadcastReader, OperatorStateReader, StateReader};
use crate::checkpoint::manifest::{Manifest, OperatorPart};
use crate::checkpoint::store::Store;
use crate::dataflow::Splits;
use crate::error::{Error, Kind, Result};
use crate::plan::{Descriptor, NodeKind, Plan, StateDescriptor};
use crate::record::{KeyGroups, Position};
use crate::state::{KeyedState, Lists, Maps, OperatorState, SubtaskState, spread};

use super::prepare::Prepared;

/// What an attempt begins with: state by node and subtask, positions by node and split.
#[derive(Default)]
pub(super) struct Beginning {
    pub(super) states: HashMap<(usize, u16), SubtaskState>,
    pub(super) positions: HashMap<(usize, String), Position>,
}

/// Checks, before anything is touched, that what a checkpoint holds has its place in the job.
///
/// # Errors
/// Kind `Checkpoint`: what has none, or has become something else.
pub(super) fn check(manifest: &Manifest, prepared: &Prepared) -> Result<()> {
    let plan = &prepared.plan;
    if manifest.max_parallelism != plan.max_parallelism {
        let message = format!(
            "checkpoint {} was taken with max-parallelism {}, the job has {}",
            manifest.checkpoint, manifest.max_parallelism, plan.max_parallelism
        );
        return Err(Error::new(Kind::Checkpoint, message)
            .help("max-parallelism is fixed for the life of the state: set it back, or begin a new run without state with `--fresh`"));
    }
    for part in &manifest.operators {
        let node = find(plan, &part.uid, "operator", |kind| matches!(kind, NodeKind::Operator(_)))?;
        let component = prepared.components[node].as_ref().expect("every operator node has its component");
        check_states(part, component.descriptor())?;
    }
    for part in &manifest.sources {
        find(plan, &part.uid, "source", |kind| matches!(kind, NodeKind::Source(_)))?;
    }
    for part in manifest.sinks.iter().filter(|part| !part.staged.is_empty()) {
        find(plan, &part.uid, "sink", |kind| matches!(kind, NodeKind::Sink(_)))?;
    }
    Ok(())
}

/// The node with a uid that a checkpoint names.
pub(super) fn find(plan: &Plan, uid: &str, what: &str, is: impl Fn(&NodeKind) -> bool) -> Result<usize> {
    plan.nodes.iter().position(|node| node.uid == uid && is(&node.kind)).ok_or_else(|| {
        Error::new(Kind::Checkpoint, format!("the checkpoint holds what belongs to {what} `{uid}`, which the job no longer has"))
            .help("put it back into the job file, or begin a new run without state with `--fresh`")
    })
}

/// A state that is there must still be declared as what it is; a newly declared one begins empty.
fn check_states(part: &OperatorPart, descriptor: &Descriptor) -> Result<()> {
    for old in &part.states {
        let misfit = match descriptor.states.iter().find(|new| new.name == old.name) {
            None => "is in the checkpoint, but the component no longer declares it".to_string(),
            Some(new) if old.is_kept_as(new) => continue,
            Some(new) => {
                let (what, there, now) = difference(old, new);
                format!("{what} {there} in the checkpoint and {now} in the component")
            }
        };
        return Err(Error::new(Kind::Checkpoint, format!("operator `{}`: state `{}` {misfit}", part.uid, old.name))
            .help("run the component that wrote the checkpoint, or begin a new run without state with `--fresh`"));
    }
    Ok(())
}

/// In what two states differ, and how each is there.
fn difference(old: &StateDescriptor, new: &StateDescriptor) -> (&'static str, String, String) {
    let told = |tell: fn(&StateDescriptor) -> String| (tell(old), tell(new));
    let (what, (there, now)) = if old.kind != new.kind {
        ("is of kind", told(|state| state.kind.name().into()))
    } else if old.field_schema != new.field_schema {
        ("has fields of schema", told(|state| state.field_schema.as_ref().map_or("none".into(), ToString::to_string)))
    } else if old.ttl.is_some() != new.ttl.is_some() {
        ("has", told(|state| if state.ttl.is_some() { "a time to live" } else { "no time to live" }.into()))
    } else {
        ("has schema", told(|state| format!("{} (version {})", state.schema, state.version)))
    };
    (what, there, now)
}

/// Reads the state and positions of a checkpoint that fits the job.
pub(super) async fn read(store: &Store, point: &RestorePoint, prepared: &Prepared) -> Result<Beginning> {
    let manifest = &point.manifest;
    let mut beginning = Beginning::default();
    for part in &manifest.sources {
        let node = find(&prepared.plan, &part.uid, "source", |kind| matches!(kind, NodeKind::Source(_)))?;
        for split in &part.splits {
            beginning.positions.insert((node, split.split.clone()), split.position.clone());
        }
        check_splits(&part.uid, node, &beginning, prepared)?;
    }
    for part in &manifest.operators {
        let node = find(&prepared.plan, &part.uid, "operator", |kind| matches!(kind, NodeKind::Operator(_)))?;
        for (subtask, state) in read_operator(store, point, part, node, prepared).await? {
            beginning.states.insert((node, subtask), state);
        }
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

/// The state of each subtask of an operator. Each file is fetched once; the subtasks are loaded side by side.
async fn read_operator(
    store: &Store,
    point: &RestorePoint,
    part: &OperatorPart,
    node: usize,
    prepared: &Prepared,
) -> Result<Vec<(u16, SubtaskState)>> {
    let mut whole = read_operator_state(store, point, part, node, prepared).await?.into_iter();
    let mut files = Vec::new();
    for file in &part.files {
        let bytes = store.read_state_file(point, file).await?;
        files.push((file.groups, StateReader::open(point.run_dir.join(&file.path).display().to_string(), bytes)?));
    }
    let files = Arc::new(files);
    let mut loads = Vec::new();
    for subtask in 0..prepared.plan.parallelism {
        let component = prepared.components[node].clone().expect("every operator node has its component");
        let own = KeyGroups::of_subtask(subtask, prepared.plan.parallelism, prepared.plan.max_parallelism);
        let (files, max_parallelism) = (Arc::clone(&files), prepared.plan.max_parallelism);
        loads.push(tokio::task::spawn_blocking(move || Ok((subtask, load(&files, own, component.descriptor(), max_parallelism)?))));
    }
    let mut states = Vec::new();
    for load in loads {
        let loaded = load.await.map_err(|panic| Error::new(Kind::Internal, format!("loading state panicked: {panic}")))?;
        let (subtask, keyed) = loaded?;
        // There is one for each subtask.
        let operator = whole.next().unwrap_or_default();
        states.push((subtask, SubtaskState { keyed, operator }));
    }
    Ok(states)
}

/// The operator state of each subtask: its lists from those of the subtasks of then, and the broadcast state that all had.
async fn read_operator_state(
    store: &Store,
    point: &RestorePoint,
    part: &OperatorPart,
    node: usize,
    prepared: &Prepared,
) -> Result<Vec<OperatorState>> {
    let states = &prepared.components[node].as_ref().expect("every operator node has its component").descriptor().states;
    // A subtask without a file had nothing in its lists.
    let mut before = vec![Lists::new(); usize::from(point.manifest.parallelism)];
    let mut maps = Maps::new();
    for file in &part.operator_state {
        let bytes = store.read_operator_state(point, file).await?;
        let path = point.run_dir.join(&file.path).display().to_string();
        match file.subtask {
            // Reading the manifest has checked that there are so many.
            Some(subtask) => before[usize::from(subtask)] = OperatorStateReader::open(&path, &bytes)?.lists(states),
            None => maps = BroadcastReader::open(&path, &bytes)?.maps(states),
        }
    }
    spread(states, &before, maps, prepared.plan.parallelism).map_err(|state| {
        let message = format!("operator `{}`: union list `{}` has more than 4 GiB in all subtasks together", part.uid, states[state].name);
        Error::new(Kind::Checkpoint, message).help("go back to an older checkpoint with `-s`, and let each subtask keep less in it")
    })
}

fn load(files: &[(KeyGroups, StateReader)], own: KeyGroups, descriptor: &Descriptor, max_parallelism: u16) -> Result<KeyedState> {
    let mut state = KeyedState::new(&descriptor.states, max_parallelism);
    for (_, file) in files.iter().filter(|(groups, _)| groups.overlaps(own)) {
        let mut changes = file.changes_for(own, &descriptor.states)?;
        while let Some(change) = changes.next_change()? {
            state.restore(change);
        }
    }
    Ok(state)
}
