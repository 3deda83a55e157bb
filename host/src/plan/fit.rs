//! Whether the edges of a plan fit what its components say about themselves: ports, keys and schemas at both ends.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::suggest::closest;
use super::waits::{above, sources_of, waits};
use super::{
    DEAD_LETTER, Descriptor, Input, InputPort, Node, NodeKind, OnError, OutputPort, Partitioning, Plan, Schema, SinkSettings, order,
};
use crate::error::{Error, Kind, Result};

/// Checks every edge of `plan` against the components' descriptors, given for each node in the plan's order: none for a source or
/// sink. Nothing is said about edges at an operator whose descriptor is missing.
///
/// # Errors
/// All that does not fit, in one message; each edge by the uids, ports and schemas of both its ends.
pub fn fit(plan: &Plan, descriptors: &[Option<Descriptor>]) -> Result<()> {
    let view = View { plan, descriptors };
    let mut misfits: Vec<Misfit> = (0..plan.nodes.len()).flat_map(|node| view.misfits_of(node)).collect();
    if misfits.is_empty() {
        misfits.extend(view.waits_in_a_circle());
    }
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
            misfits.extend(self.unfed_inputs(node, descriptor));
            misfits.extend(descriptor.inputs.iter().filter_map(|port| self.endless_wait(node, port)));
            misfits.extend(settings.on_error.eq(&OnError::DeadLetter).then(|| self.lost_dead_letters(node)).flatten());
            misfits.extend((settings.on_error != OnError::Fail && descriptor.snapshot_hook).then(|| memory_without_undo(to, descriptor)));
        }
        let mut seen = HashSet::new();
        for input in &to.inputs {
            match self.output(input) {
                Ok((port, from)) => {
                    if !seen.insert((input.node, port, input.to.as_deref())) {
                        let message = format!("{} has {} twice among its inputs", name(to), from.name);
                        misfits.push(Misfit::new(message, "name it once: an output without a port is the first one"));
                    } else {
                        misfits.extend(self.misfit(&from, node, input.to.as_deref()));
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

    /// Inputs that nothing feeds.
    fn unfed_inputs(&self, node: usize, descriptor: &Descriptor) -> Vec<Misfit> {
        let to = &self.plan.nodes[node];
        let fed: HashSet<Option<usize>> = to.inputs.iter().map(|input| descriptor.input(input.to.as_deref())).collect();
        if fed.contains(&None) {
            // Told with the edge that names no input or a wrong one.
            return Vec::new();
        }
        let unfed = descriptor.inputs.iter().enumerate().filter(|(place, _)| !fed.contains(&Some(*place)));
        let misfit = |(_, port): (usize, &InputPort)| {
            let help = format!("feed it: `inputs = {{ {} = [\"…\"], … }}`", port.name);
            Misfit::new(format!("nothing feeds input `{}` of {}", port.name, name(to)), help)
        };
        unfed.map(misfit).collect()
    }

    /// An input that waits for one that never ends, or that is fed by what feeds it itself.
    fn endless_wait(&self, node: usize, port: &InputPort) -> Option<Misfit> {
        let descriptor = self.descriptor(node)?;
        let first = port.waits_for.as_deref()?;
        let sources_of = |port: &str| sources_of(self.plan, node, descriptor, port);
        let (awaited, waiting) = (sources_of(first), sources_of(&port.name));
        let what = format!("input `{}` of {} waits for the end of input `{first}`", port.name, name(&self.plan.nodes[node]));
        if let Some(&both) = awaited.intersection(&waiting).next() {
            let message = format!("{what}, but {} feeds both", name(&self.plan.nodes[both]));
            return Some(Misfit::new(message, "feed them from different sources"));
        }
        let finishes = |node: &usize| self.descriptor(*node).is_some_and(|descriptor| descriptor.finish_hook);
        if let Some(late) = above(self.plan, node, descriptor, first).into_iter().find(finishes) {
            let message = format!("{what}, but {} may send to it when all input of the job has ended", name(&self.plan.nodes[late]));
            return Some(Misfit::new(message, "feed it without an operator that has a finish hook"));
        }
        let endless = awaited.into_iter().find(|&source| self.plan.nodes[source].is_endless())?;
        let message = format!("{what}, but {} has no end", name(&self.plan.nodes[endless]));
        Some(Misfit::new(message, "feed it from a source that ends: a file, or a generator with `lines`"))
    }

    /// Sources each of which reads nothing before the others have ended.
    fn waits_in_a_circle(&self) -> Vec<Misfit> {
        let cycles = order(&waits(self.plan, self.descriptors)).err().unwrap_or_default();
        let misfit = |cycle: Vec<usize>| {
            let names: Vec<String> = cycle.into_iter().map(|node| name(&self.plan.nodes[node])).collect();
            Misfit::new(
                format!("{} wait for each other to end", names.join(" and ")),
                "feed one of the inputs that wait from another source",
            )
        };
        cycles.into_iter().map(misfit).collect()
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
    fn misfit(&self, from: &End<'_>, node: usize, port: Option<&str>) -> Option<Misfit> {
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
            NodeKind::Operator(_) => {
                let descriptor = self.descriptor(node)?;
                match descriptor.input(port) {
                    Some(port) => operator_misfit(from, to, &descriptor.inputs[port]),
                    None => Some(no_such_input(from, to, descriptor, port)),
                }
            }
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
    format!("{} `{}`", node.kind.role().name(), node.uid)
}

/// An edge that doesn't say, or says wrongly, which of several inputs it feeds.
fn no_such_input(from: &End<'_>, to: &Node, descriptor: &Descriptor, port: Option<&str>) -> Misfit {
    let names = || descriptor.inputs.iter().map(|input| input.name.as_str());
    let has = format!("its component `{}` has the inputs `{}`", descriptor.name, names().collect::<Vec<_>>().join("`, `"));
    match port {
        None => {
            let help = format!("name the input: `inputs = {{ {} = [\"…\"], … }}`", names().next().unwrap_or_default());
            Misfit::new(format!("{} doesn't say which of its inputs {} feeds: {has}", name(to), from.name), help)
        }
        Some(wanted) => {
            let help = closest(wanted, names()).map_or(has.clone(), |near| format!("did you mean `{near}`? {has}"));
            Misfit::new(format!("{} has no input `{wanted}`", name(to)), help)
        }
    }
}

fn find_output<'a>(from: &Node, descriptor: &'a Descriptor, port: Option<&str>) -> Result<(usize, &'a OutputPort), Option<Misfit>> {
    let names = || descriptor.outputs.iter().map(|output| output.name.as_str());
    descriptor.output(port).map(|place| (place, &descriptor.outputs[place])).ok_or_else(|| {
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
