//! Whether the edges of a plan fit what its components say about themselves: ports, keys and schemas at both ends.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::suggest::closest;
use super::{DEAD_LETTER, Descriptor, Input, InputPort, Node, NodeKind, OnError, OutputPort, Partitioning, Plan, Schema, SinkSettings};
use crate::error::{Error, Kind, Result};

/// Checks every edge of `plan` against the components' descriptors, given for each node in the plan's order: none for a source or
/// sink. Nothing is said about edges at an operator whose descriptor is missing.
///
/// # Errors
/// All that does not fit, in one message; each edge by the uids, ports and schemas of both its ends.
pub fn fit(plan: &Plan, descriptors: &[Option<Descriptor>]) -> Result<()> {
    let view = View { plan, descriptors };
    let mut misfits: Vec<Misfit> = (0..plan.nodes.len()).flat_map(|node| view.misfits_of(node)).collect();
    let Some(help) = misfits.first_mut().map(|first| std::mem::take(&mut first.help)) else { return Ok(()) };
    let messages: Vec<String> = misfits.into_iter().map(|misfit| misfit.message).collect();
    let message = match messages.as_slice() {
        [only] => only.clone(),
        many => format!("{} misfits in job `{}`: {}", many.len(), plan.name, many.join("; ")),
    };
    Err(Error::new(Kind::Component, message).help(help))
}

struct Misfit {
    message: String,
    help: String,
}

impl Misfit {
    fn new(message: String, help: impl Into<String>) -> Self {
        Misfit { message, help: help.into() }
    }
}

/// What an end of an edge gives or takes.
struct End<'a> {
    /// As messages name it: "output `late` of operator `parse`".
    name: String,
    keyed: bool,
    key_schema: &'a Schema,
    value_schema: &'a Schema,
}

struct View<'a> {
    plan: &'a Plan,
    descriptors: &'a [Option<Descriptor>],
}

impl View<'_> {
    fn descriptor(&self, node: usize) -> Option<&Descriptor> {
        self.descriptors.get(node)?.as_ref()
    }

    fn misfits_of(&self, node: usize) -> Vec<Misfit> {
        let to = &self.plan.nodes[node];
        let mut misfits = Vec::new();
        if let (NodeKind::Operator(settings), Some(descriptor)) = (&to.kind, self.descriptor(node)) {
            misfits.extend(wrong_count_of_inputs(&to.uid, descriptor));
            misfits.extend(settings.on_error.eq(&OnError::DeadLetter).then(|| self.lost_dead_letters(node)).flatten());
            misfits.extend((settings.on_error != OnError::Fail && descriptor.snapshot_hook).then(|| memory_without_undo(to, descriptor)));
        }
        let mut seen = HashSet::new();
        for input in &to.inputs {
            match self.output(input) {
                Ok((port, from)) => {
                    if !seen.insert((input.node, port)) {
                        let message = format!("{} has {} twice among its inputs", name(to), from.name);
                        misfits.push(Misfit::new(message, "name it once: an output without a port is the first one"));
                    } else {
                        misfits.extend(self.misfit(&from, node));
                    }
                }
                Err(misfit) => misfits.extend(misfit),
            }
        }
        misfits
    }

    /// Dead letters that nobody takes would be lost without a trace.
    fn lost_dead_letters(&self, node: usize) -> Option<Misfit> {
        let takes = |input: &Input| input.node == node && input.port.as_deref() == Some(DEAD_LETTER);
        if self.plan.nodes.iter().any(|other| other.inputs.iter().any(takes)) {
            return None;
        }
        let (uid, name) = (&self.plan.nodes[node].uid, name(&self.plan.nodes[node]));
        let message = format!("{name} has `on-error = \"{DEAD_LETTER}\"`, but nothing takes its dead letters");
        Some(Misfit::new(message, format!("give a sink `inputs = [\"{uid}.{DEAD_LETTER}\"]`, or set `on-error = \"skip\"`")))
    }

    /// The upper end of an edge, with its number among the outputs of its node; an error of none: nothing is known about it.
    fn output(&self, input: &Input) -> Result<(usize, End<'_>), Option<Misfit>> {
        let from = &self.plan.nodes[input.node];
        match &from.kind {
            NodeKind::Source(_) => Ok((0, End { name: name(from), keyed: false, key_schema: &NO_KEYS, value_schema: &TEXT })),
            NodeKind::Sink(_) => Err(None),
            NodeKind::Operator(_) => {
                let descriptor = self.descriptor(input.node).ok_or(None)?;
                if input.port.as_deref() == Some(DEAD_LETTER) {
                    return dead_letters(from, descriptor);
                }
                let (number, port) = find_output(from, descriptor, input.port.as_deref())?;
                let name = format!("output `{}` of {}", port.name, name(from));
                Ok((number, End { name, keyed: port.keyed, key_schema: &port.key_schema, value_schema: &port.value_schema }))
            }
        }
    }

    /// What keeps records of `from` from going into `node`, if anything.
    fn misfit(&self, from: &End<'_>, node: usize) -> Option<Misfit> {
        let to = &self.plan.nodes[node];
        match &to.kind {
            NodeKind::Source(_) | NodeKind::Sink(SinkSettings::Blackhole) => None,
            NodeKind::Sink(SinkSettings::File { .. } | SinkSettings::Stdout) if from.value_schema.is_lines() => None,
            NodeKind::Sink(SinkSettings::File { .. } | SinkSettings::Stdout) => Some(Misfit::new(
                format!(
                    "{} writes lines, so it takes values of schema text or json, but {} gives {}",
                    name(to),
                    from.name,
                    from.value_schema
                ),
                "put an operator between them that turns the records into text",
            )),
            NodeKind::Operator(_) => match self.descriptor(node)?.inputs.as_slice() {
                [port] => operator_misfit(from, to, port),
                _ => None,
            },
        }
    }
}

/// What a failed batch did to a guest's own memory can't be undone, so a job that goes on after one would go on with wrong state.
fn memory_without_undo(node: &Node, descriptor: &Descriptor) -> Misfit {
    let message = format!(
        "{} can only have `on-error = \"fail\"`: its component `{}` has a snapshot hook, so it keeps memory from batch to batch, where what a failed batch did can't be undone",
        name(node),
        descriptor.name
    );
    Misfit::new(message, "leave `on-error` out, or let the component write operator state with each batch, without a snapshot hook")
}

/// The output for records that failed, which an operator has only if it is told so.
fn dead_letters<'a>(from: &Node, descriptor: &Descriptor) -> Result<(usize, End<'a>), Option<Misfit>> {
    match &from.kind {
        NodeKind::Operator(settings) if settings.on_error == OnError::DeadLetter => {
            let name = format!("output `{DEAD_LETTER}` of {}", name(from));
            Ok((descriptor.outputs.len(), End { name, keyed: false, key_schema: &NO_KEYS, value_schema: &JSON }))
        }
        _ => {
            let help = format!("set `on-error = \"{DEAD_LETTER}\"` for it");
            Err(Some(Misfit::new(format!("{} has no output `{DEAD_LETTER}`", name(from)), help)))
        }
    }
}

static JSON: LazyLock<Schema> = LazyLock::new(|| Schema("json".into()));
static NO_KEYS: Schema = Schema(String::new());
static TEXT: LazyLock<Schema> = std::sync::LazyLock::new(Schema::text);

fn name(node: &Node) -> String {
    let kind = match node.kind {
        NodeKind::Source(_) => "source",
        NodeKind::Operator(_) => "operator",
        NodeKind::Sink(_) => "sink",
    };
    format!("{kind} `{}`", node.uid)
}

fn wrong_count_of_inputs(uid: &str, descriptor: &Descriptor) -> Option<Misfit> {
    let count = descriptor.inputs.len();
    let names: Vec<String> = descriptor.inputs.iter().map(|port| format!("`{}`", port.name)).collect();
    let found = match count {
        1 => return None,
        0 => "none".into(),
        _ => format!("{count} ({})", names.join(", ")),
    };
    let message = format!("operator `{uid}`: an operator has exactly one input port, its component `{}` has {found}", descriptor.name);
    Some(Misfit::new(message, "give the component one input port; all `inputs` of the operator in the job file feed it together"))
}

fn find_output<'a>(from: &Node, descriptor: &'a Descriptor, port: Option<&str>) -> Result<(usize, &'a OutputPort), Option<Misfit>> {
    let names = || descriptor.outputs.iter().map(|output| output.name.as_str());
    let found = match port {
        None => descriptor.outputs.first().map(|first| (0, first)),
        Some(wanted) => descriptor.outputs.iter().enumerate().find(|(_, output)| output.name == wanted),
    };
    found.ok_or_else(|| {
        let has = match names().collect::<Vec<_>>().join("`, `") {
            none if none.is_empty() => "it has no outputs".to_owned(),
            names => format!("its outputs: `{names}`"),
        };
        let message = match port {
            None => format!("{} feeds others, but its component `{}` has no output", name(from), descriptor.name),
            Some(wanted) => format!("{} has no output `{wanted}`", name(from)),
        };
        let help = match port.and_then(|wanted| closest(wanted, names())) {
            Some(near) => format!("did you mean `{}.{near}`? {has}", from.uid),
            None => has,
        };
        Some(Misfit::new(message, help))
    })
}

fn operator_misfit(from: &End<'_>, to: &Node, port: &InputPort) -> Option<Misfit> {
    let to = format!("input `{}` of {}", port.name, name(to));
    if port.partitioning == Partitioning::Keyed {
        let wants = format!("{to} takes records keyed by schema {}", port.key_schema);
        if !from.keyed {
            let help = "put an operator between them that gives each record a key";
            return Some(Misfit::new(format!("{wants}, but {} gives records without keys", from.name), help));
        }
        if *from.key_schema != port.key_schema {
            let help = "let both ends use one type of key, or put an operator between them that changes it";
            return Some(Misfit::new(format!("{wants}, but {} gives keys of schema {}", from.name, from.key_schema), help));
        }
    }
    if *from.value_schema != port.value_schema && port.value_schema.0 != "bytes" {
        let message = format!("{to} takes values of schema {}, but {} gives {}", port.value_schema, from.name, from.value_schema);
        return Some(Misfit::new(message, "let both ends use one type of record, or put an operator between them that changes it"));
    }
    None
}

#[cfg(test)]
mod tests;
