//! Has a component describe itself, in an instance of its own in which nothing but that may happen, and checks what it says.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use wasmtime::component::{InstancePre, TypedFunc};

use super::call::Runner;
use super::component::Exported;
use super::engine::Engine;
use super::guest::{Guest, Phase};
use super::limits::Interrupt;
use super::{ports, wire};
use crate::error::{Error, Kind, Result};
use crate::plan::{Descriptor, Limits, Partitioning, Schema, StateDescriptor, StateKind};
use crate::record::Batch;

/// Bytes that a description may have.
const DESCRIPTION_BYTES: usize = 1 << 20;

/// Calls `describe`.
pub(super) fn describe(
    engine: &Engine,
    pre: &InstancePre<Guest>,
    exported: &Exported,
    path: &Path,
    limits: Limits,
    interrupt: &Interrupt,
) -> Result<Descriptor> {
    let operator = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut runner = Runner::apart(engine, &operator, &Arc::new(nothing()), limits, interrupt);
    let described = runner.call(Phase::Describe, &mut Batch::default(), |store, _| {
        store.set_hostcall_fuel(DESCRIPTION_BYTES);
        let instance = pre.instantiate(&mut *store)?;
        let function: TypedFunc<(), (wire::OperatorDescriptor,)> = instance.get_typed_func(&mut *store, exported.describe)?;
        function.call(store, ())
    });
    match described {
        Ok((descriptor,)) => check(descriptor, exported).map_err(|cause| {
            Error::new(Kind::Component, format!("it describes an operator that can't be: {cause}"))
                .help("the descriptor's fields are explained in wit/operator.wit; cofferdam-sdk fills them from the operator's definition")
        }),
        Err(failure) => Err(Error::new(Kind::Component, format!("asked to describe itself, it {failure}"))),
    }
}

/// What is known about an operator before it has described itself.
fn nothing() -> Descriptor {
    Descriptor {
        name: String::new(),
        version: String::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        states: Vec::new(),
        finish_hook: false,
        snapshot_hook: false,
        checkpoint_hooks: false,
        checkpoint_aborted_hook: false,
        close_hook: false,
        migration: false,
    }
}

/// A cause in words.
pub(super) type Checked<T> = std::result::Result<T, String>;

fn check(described: wire::OperatorDescriptor, exported: &Exported) -> Checked<Descriptor> {
    let wire::OperatorDescriptor { name, version, inputs, outputs, states, .. } = described;
    if name.is_empty() {
        return Err("it has no name".into());
    }
    if inputs.is_empty() {
        return Err("it has no input".into());
    }
    if states.len() > usize::from(u16::MAX) {
        return Err(format!("it has {} states, and {} are possible", states.len(), u16::MAX));
    }
    unique("input", inputs.iter().map(|port| port.name.as_str()))?;
    unique("output", outputs.iter().map(|port| port.name.as_str()))?;
    unique("state", states.iter().map(|state| state.name.as_str()))?;
    let (inputs, outputs) = (ports::inputs(inputs)?, ports::outputs(outputs)?);
    let states: Vec<StateDescriptor> = states.into_iter().map(state).collect::<Checked<_>>()?;
    let broadcasts = inputs.iter().any(|input| input.partitioning == Partitioning::Broadcast);
    if let Some(state) = states.iter().find(|state| state.kind == StateKind::Broadcast && !broadcasts) {
        return Err(format!("state `{}`: broadcast state is written on broadcast inputs, and there is none", state.name));
    }
    Ok(Descriptor {
        name,
        version,
        inputs,
        outputs,
        states,
        finish_hook: exported.finish.is_some(),
        snapshot_hook: exported.snapshot.is_some(),
        checkpoint_hooks: exported.checkpoint_complete.is_some(),
        checkpoint_aborted_hook: exported.checkpoint_aborted.is_some(),
        close_hook: exported.close.is_some(),
        migration: exported.migrate.is_some(),
    })
}

/// Names must be usable in job files, and each once.
fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Checked<()> {
    let mut seen = HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(format!("an {what} has no name").replace("an state", "a state"));
        }
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(format!("{what} `{}`: names consist of letters, digits, `-` and `_`", name.escape_debug()));
        }
        if !seen.insert(name) {
            return Err(format!("{what} `{name}` is there twice"));
        }
    }
    Ok(())
}

fn state(state: wire::State) -> Checked<StateDescriptor> {
    let Some(kind) = StateKind::named(&state.kind) else {
        return Err(format!("state `{}`: unknown kind `{}`", state.name, state.kind.escape_debug()));
    };
    if state.version == 0 {
        return Err(format!("state `{}`: versions count from 1 on", state.name));
    }
    let schema = schema(state.schema).map_err(|cause| format!("state `{}`: {cause}", state.name))?;
    let described = StateDescriptor::new(state.name.as_str(), kind, schema, state.version).with_more(&state.more);
    described.map_err(|cause| format!("state `{}`: {cause}", state.name))
}

/// A schema of values that this host knows: one from a later version must not be taken for bytes.
pub(super) fn schema(schema: String) -> Checked<Schema> {
    let known = matches!(schema.as_str(), "text" | "bytes" | "json") || schema.strip_prefix("postcard:").is_some_and(|ty| !ty.is_empty());
    if known { Ok(Schema(schema)) } else { Err(format!("unknown schema `{}`", schema.escape_debug())) }
}
