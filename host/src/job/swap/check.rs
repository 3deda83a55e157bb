//! Whether a component can take an operator over, found out while the job runs: nothing of it has changed when it can't.

use std::sync::Arc;

use super::told::told;
use super::{CheckReport, StateFate, StateReport, SwapRequest, WayBack};
use crate::dataflow::{self, Version};
use crate::error::{Error, Kind, Result};
use crate::job::migrate::Migration;
use crate::job::prepare::Prepared;
use crate::job::states::{Occasion, compare};
use crate::plan::{Backend, Descriptor, Layout, Node, NodeKind, OperatorSettings, StateDescriptor, StateKind, fit};
use crate::record::{AttemptId, Outbox, Shape};
use crate::state::SubtaskState;
use crate::wasm::{Component, Context, Instance, Interrupt};

/// A component that can take over.
pub(in crate::job) struct Candidate {
    pub(super) to: Version,
    /// None if all values stay as they are.
    pub(super) migration: Option<Arc<Migration>>,
    /// What becomes of each state.
    pub(super) states: Vec<StateReport>,
    /// What was checked.
    pub(super) checks: Vec<CheckReport>,
}

/// Loads the component and checks it against the job and the version that runs, which `prepared` holds too. Calls guests, whose calls, also
/// those of a migration later, end with `interrupt`.
///
/// # Errors
/// What does not fit; mostly of kind `Component`.
pub(super) fn check(prepared: &Prepared, node: usize, runs: &Version, request: &SwapRequest, interrupt: &Interrupt) -> Result<Candidate> {
    let Node { uid, kind: NodeKind::Operator(settings), .. } = &prepared.plan.nodes[node] else {
        return Err(Error::new(Kind::Internal, format!("node {node} is no operator")));
    };
    let named = |error: Error| error.context(format!("operator `{uid}`"));
    let component = Component::load(runs.component.engine(), &request.component, settings.limits, interrupt).map_err(named)?;
    if component.digest() == runs.component.digest() {
        return Ok(Candidate { to: runs.clone(), migration: None, states: fates(runs, runs.component.descriptor()), checks: Vec::new() });
    }
    let (old, new) = (runs.component.descriptor(), component.descriptor());
    ports(uid, old, new)?;
    edges(prepared, node, old, new)?;
    let kept = (&*runs.arrangement.states, old.state_key_schema());
    let migrating = compare(uid, kept, new, Occasion::Swap)?;
    on_disk(uid, settings, &runs.arrangement.states, new)?;
    let to = Version { arrangement: runs.arrangement.taken_over_by(&new.states), component: Arc::new(component) };
    let states = fates(runs, to.component.descriptor());
    let migration = Some(migrating).filter(|migrating| !migrating.is_empty());
    let migration =
        migration.map(|migrating| Arc::new(Migration::new(uid, to.clone(), settings.limits, migrating, Occasion::Swap, interrupt)));
    migration.as_ref().map_or(Ok(()), |migration| migration.ask())?;
    if request.way_back == WayBack::Forward && !request.probation.is_zero() {
        way_back(uid, [old, to.component.descriptor()], &states)?;
    }
    opens(prepared, node, settings, &to.component, interrupt)?;
    let checks = told(&prepared.plan, settings, &to.component, &states, request);
    Ok(Candidate { to, migration, states, checks })
}

/// A store on disk is made where an attempt begins, for operators that have state by key.
fn on_disk(uid: &str, settings: &OperatorSettings, kept: &[StateDescriptor], new: &Descriptor) -> Result<()> {
    let is_keyed = |state: &StateDescriptor| state.kind.is_keyed();
    if settings.state.backend == Backend::Memory || kept.iter().any(is_keyed) || !new.states.iter().any(is_keyed) {
        return Ok(());
    }
    let message =
        format!("operator `{uid}`, whose state is to lie on disk, can't change over while the job runs: it has had no state by key");
    Err(Error::new(Kind::Component, message).help("stop the job and begin it again with the new component: a restore sees to it"))
}

/// Ports are numbered by their place, and records on their way are for a number. Outputs to which nothing is connected may come and go
/// behind the others.
fn ports(uid: &str, old: &Descriptor, new: &Descriptor) -> Result<()> {
    let inputs = |descriptor: &Descriptor| names(descriptor.inputs.iter().map(|port| &port.name));
    let outputs = |descriptor: &Descriptor| names(descriptor.outputs.iter().map(|port| &port.name));
    let stand = || old.outputs.iter().zip(&new.outputs).all(|(old, new)| old.name == new.name);
    let taken =
        |descriptor: &Descriptor| descriptor.inputs.iter().map(|port| (port.partitioning, port.waits_for.clone())).collect::<Vec<_>>();
    let what = if inputs(old) != inputs(new) {
        format!("the component that runs has the inputs {}, the new one {}", inputs(old), inputs(new))
    } else if !stand() {
        format!("the component that runs has the outputs {}, the new one {}", outputs(old), outputs(new))
    } else if taken(old) != taken(new) {
        format!("the new component takes what comes to its inputs {} in another way than the one that runs", inputs(new))
    } else {
        return Ok(());
    };
    Err(Error::new(Kind::Component, format!("operator `{uid}`: {what}"))
        .help("ports can change only while the job does not run: stop it, change its file, and begin it again"))
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    match names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none".into(),
        names => names,
    }
}

/// What goes in and out must be what the nodes around it give and take, and go where it goes now.
fn edges(prepared: &Prepared, node: usize, old: &Descriptor, new: &Descriptor) -> Result<()> {
    let mut descriptors = prepared.descriptors();
    descriptors[node] = Some(new.clone());
    fit(&prepared.plan, &descriptors)?;
    let mut layout = Layout::new(&prepared.plan, &descriptors);
    layout.set_outputs(node, old.outputs.len());
    if layout == prepared.layout {
        return Ok(());
    }
    let uid = &prepared.plan.nodes[node].uid;
    Err(Error::new(Kind::Component, format!("operator `{uid}`: with the new component records would take other ways through the job"))
        .help("stop the job and begin it again with the new component"))
}

/// What becomes of each state.
fn fates(runs: &Version, new: &Descriptor) -> Vec<StateReport> {
    let fate = |state: &StateDescriptor| {
        let old = runs.arrangement.states.iter().find(|old| old.name == state.name);
        let fate = match old {
            None => StateFate::New,
            Some(old) if old.is_kept_as(state) => StateFate::Same,
            Some(_) => StateFate::Migrated,
        };
        StateReport { state: state.name.clone(), fate, from: old.map(|old| old.version), version: state.version }
    };
    new.states.iter().map(fate).collect()
}

/// Going back forward means that the old component goes on with what the new one has made of the state.
fn way_back(uid: &str, descriptors: [&Descriptor; 2], states: &[StateReport]) -> Result<()> {
    let refused = |why: String| {
        let message = format!("operator `{uid}`: the old component could not go on where the new one fails, because {why}");
        Err(Error::new(Kind::Component, message).help("swap with `--way-back rewind`, or without a way back with `--probation 0s`"))
    };
    if let Some(changed) = states.iter().find(|state| state.fate != StateFate::Same) {
        return refused(format!("state `{}` is not the same in both", changed.state));
    }
    for descriptor in descriptors {
        if descriptor.snapshot_hook {
            return refused(format!("component `{}` has a snapshot hook, so it keeps memory from batch to batch", descriptor.name));
        }
        if let Some(state) = descriptor.states.iter().find(|state| state.kind == StateKind::Broadcast) {
            return refused(format!("state `{}` must be the same on all subtasks, which go back one by one", state.name));
        }
    }
    Ok(())
}

/// Opens an instance over state of its own, of which nothing stays.
fn opens(prepared: &Prepared, node: usize, settings: &OperatorSettings, component: &Component, interrupt: &Interrupt) -> Result<()> {
    let (plan, descriptor) = (&prepared.plan, component.descriptor());
    let context = dataflow::context(plan, node, settings, 0, AttemptId { run: 0, attempt: 0 }, Arc::default());
    let context = Context { interrupt: interrupt.clone(), ..context };
    let state = SubtaskState::new(&descriptor.states, plan.max_parallelism);
    let outputs = descriptor.outputs.iter().map(|_| Outbox::new(Shape::default())).collect();
    match Instance::open(component, &context, settings.limits, settings.on_error, state, outputs) {
        Ok(_) => Ok(()),
        Err(unopened) => {
            let message = format!("operator `{}`: opening the new component: {}", plan.nodes[node].uid, unopened.failure);
            Err(Error::new(Kind::Component, message).help("mend the component, or what the job file has for the operator"))
        }
    }
}
