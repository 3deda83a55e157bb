//! Checks what a component says about its ports: each on its own, and the inputs together.

use super::describe::{Checked, schema};
use super::wire;
use crate::plan::{InputPort, OutputPort, Partitioning, Schema};

/// What may be told of an input besides.
const WAITS_FOR: &str = "waits-for";

/// The inputs, in their order.
pub(super) fn inputs(described: Vec<wire::Port>) -> Checked<Vec<InputPort>> {
    let inputs: Vec<InputPort> = described.into_iter().map(input).collect::<Checked<_>>()?;
    check_keys(&inputs)?;
    inputs.iter().try_for_each(|input| check_waiting(input, &inputs))?;
    Ok(inputs)
}

/// The outputs, in their order.
pub(super) fn outputs(described: Vec<wire::Port>) -> Checked<Vec<OutputPort>> {
    described.into_iter().map(output).collect()
}

fn input(port: wire::Port) -> Checked<InputPort> {
    let partitioning = match port.partitioning.as_str() {
        "any" => Partitioning::Any,
        "keyed" => Partitioning::Keyed,
        "broadcast" => Partitioning::Broadcast,
        _ => return Err(unknown_partitioning("input", &port)),
    };
    check_key_schema("input", &port, partitioning == Partitioning::Keyed)?;
    let wire::Port { name, key_schema, value_schema, more, .. } = port;
    let told = schema(value_schema).and_then(|value_schema| Ok((value_schema, waits_for(&more)?)));
    let (value_schema, waits_for) = told.map_err(|cause| format!("input `{name}`: {cause}"))?;
    Ok(InputPort { name, partitioning, key_schema: Schema(key_schema), value_schema, waits_for })
}

fn output(port: wire::Port) -> Checked<OutputPort> {
    let keyed = match port.partitioning.as_str() {
        "any" => false,
        "keyed" => true,
        _ => return Err(unknown_partitioning("output", &port)),
    };
    check_key_schema("output", &port, keyed)?;
    let wire::Port { name, key_schema, value_schema, more, .. } = port;
    if let Some((what, _)) = more.first() {
        return Err(format!("output `{name}`: `{}` is unknown", what.escape_debug()));
    }
    let value_schema = schema(value_schema).map_err(|cause| format!("output `{name}`: {cause}"))?;
    Ok(OutputPort { name, keyed, key_schema: Schema(key_schema), value_schema })
}

fn unknown_partitioning(what: &str, port: &wire::Port) -> String {
    format!("{what} `{}`: unknown partitioning `{}`", port.name, port.partitioning.escape_debug())
}

fn check_key_schema(what: &str, port: &wire::Port, keyed: bool) -> Checked<()> {
    match (keyed, port.key_schema.is_empty()) {
        (true, true) => Err(format!("{what} `{}` is keyed and has no key-schema", port.name)),
        (false, false) => Err(format!("{what} `{}` is not keyed and has a key-schema", port.name)),
        _ => Ok(()),
    }
}

/// The input that an input waits for. What else is told is refused: an input that relies on it would not get what it has to.
fn waits_for(more: &[(String, String)]) -> Checked<Option<String>> {
    match more {
        [] => Ok(None),
        [(name, awaited)] if name == WAITS_FOR => Ok(Some(awaited.clone())),
        more => Err(match more.iter().find(|(name, _)| name != WAITS_FOR) {
            Some((unknown, _)) => format!("`{}` is unknown; known is {WAITS_FOR}", unknown.escape_debug()),
            None => format!("`{WAITS_FOR}` is told twice"),
        }),
    }
}

/// Keyed inputs share the keyed state, so a key must be the same in all of them.
fn check_keys(inputs: &[InputPort]) -> Checked<()> {
    let mut keyed = inputs.iter().filter(|input| input.partitioning == Partitioning::Keyed);
    let Some(first) = keyed.next() else { return Ok(()) };
    match keyed.find(|other| other.key_schema != first.key_schema) {
        None => Ok(()),
        Some(other) => Err(format!(
            "inputs `{}` and `{}` share the keyed state, but their keys are of different schemas: {} and {}",
            first.name, other.name, first.key_schema, other.key_schema
        )),
    }
}

/// An input may only wait for what ends by itself.
fn check_waiting(input: &InputPort, inputs: &[InputPort]) -> Checked<()> {
    let mut last = input;
    for _ in 0..inputs.len() {
        let Some(name) = &last.waits_for else { return Ok(()) };
        let awaited = inputs.iter().find(|other| other.name == *name && other.partitioning == Partitioning::Broadcast);
        last = awaited.ok_or_else(|| format!("input `{}` waits for `{}`, which is no broadcast input", last.name, name.escape_debug()))?;
    }
    if last.waits_for.is_none() { Ok(()) } else { Err(format!("input `{}` would wait for ever: inputs wait in a circle", input.name)) }
}
