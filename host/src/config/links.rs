//! How the nodes of a job file are connected: uids, inputs, and the order that they make possible.

use std::collections::{HashMap, HashSet};

use toml::Spanned;

use super::faults::Faults;
use super::nodes::Draft;
use crate::plan::suggest::closest;
use crate::plan::{self, Input, Node, Role};

/// The nodes, connected and in topological order; none if a fault was noted, here or when a node was read.
pub(super) fn connect(faults: &Faults, drafts: Vec<Draft>) -> Option<Vec<Node>> {
    let links = Links { faults, drafts: &drafts, by_uid: by_uid(faults, &drafts) };
    let edges: Vec<Vec<Input>> = drafts.iter().map(|draft| links.inputs_of(draft)).collect();
    let cyclic = links.note_cycles(&edges);
    links.note_renames();
    let node = |(draft, inputs): (Draft, Vec<Input>)| {
        let (uid, renamed_from) = (draft.uid?.into_inner(), draft.renamed_from.map(Spanned::into_inner));
        Some(Node { uid, renamed_from, kind: draft.kind?, inputs })
    };
    let nodes: Vec<Node> = drafts.into_iter().zip(edges).map(node).collect::<Option<_>>()?;
    if cyclic { None } else { plan::arrange(nodes).ok() }
}

/// Nodes by uid. Of several with the same, the first has it and the others are noted.
fn by_uid(faults: &Faults, drafts: &[Draft]) -> HashMap<String, usize> {
    let mut by_uid: HashMap<String, usize> = HashMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        let Some(uid) = &draft.uid else { continue };
        // Of two the later in the file is told, though sources, operators and sinks may stand in any order.
        let Some(other) = by_uid.get(uid.get_ref()).copied() else {
            by_uid.insert(uid.get_ref().clone(), index);
            continue;
        };
        let other = &drafts[other];
        let Some(other_uid) = &other.uid else { continue };
        let (first, second) = if other_uid.span().start < uid.span().start { (other_uid, uid) } else { (uid, other_uid) };
        let message = format!("uid {} is taken: line {} has it already", faults.quote(second.span()), faults.line(&first.span()));
        faults.add(second.span(), message, "a uid owns the state under it, so each belongs to one source, operator or sink");
    }
    by_uid
}

struct Links<'a> {
    faults: &'a Faults,
    drafts: &'a [Draft],
    by_uid: HashMap<String, usize>,
}

impl Links<'_> {
    /// The inputs of a node that could be found.
    fn inputs_of(&self, draft: &Draft) -> Vec<Input> {
        let mut seen = HashSet::new();
        let mut inputs = Vec::new();
        for (to, written) in &draft.inputs {
            if seen.insert((to, written.get_ref())) {
                inputs.extend(self.input(draft, written).map(|input| Input { to: to.clone(), ..input }));
            } else {
                let message = format!("{}: {} is twice among its inputs", draft.name, self.faults.quote(written.span()));
                self.faults.add(written.span(), message, "name it once: records would come twice");
            }
        }
        inputs
    }

    fn input(&self, draft: &Draft, written: &Spanned<String>) -> Option<Input> {
        let text = written.get_ref().as_str();
        // A uid with a dot in it is a fault of its own; what names it means all of it.
        let (uid, port) = match text.split_once('.') {
            Some((uid, port)) if !self.by_uid.contains_key(text) => (uid, Some(port)),
            _ => (text, None),
        };
        let fault = |message: String, help: String| {
            self.faults.add(written.span(), format!("{}: {message}", draft.name), help);
            None
        };
        let quoted = self.faults.quote(written.span());
        let Some(&node) = self.by_uid.get(uid) else {
            let feeding = self.drafts.iter().filter(|other| other.role != Role::Sink && other.span != draft.span);
            let uids: Vec<&str> = feeding.filter_map(|other| Some(other.uid.as_ref()?.get_ref().as_str())).collect();
            let help = match closest(uid, uids.iter().copied()) {
                Some(near) => format!("did you mean \"{near}{}\"?", &text[uid.len()..]),
                None if uids.is_empty() => "there is nothing that could feed it: add a `[[source]]`".into(),
                None => format!("what can feed it: {}", uids.join(", ")),
            };
            return fault(format!("its input {quoted} does not exist"), help);
        };
        let from = &self.drafts[node];
        match (from.role, port) {
            (Role::Sink, _) => {
                fault(format!("its input {quoted} is a sink, which has no output"), "name what feeds the sink instead".into())
            }
            (Role::Source, Some(_)) => {
                fault(format!("its input {quoted} names an output, but a source has only one"), format!("write \"{uid}\""))
            }
            (Role::Operator, Some("")) => fault(format!("its input {quoted} names no output after the dot"), format!("write \"{uid}\"")),
            (_, port) => Some(Input { node, port: port.map(str::to_owned), to: None }),
        }
    }

    /// Notes nodes that claim a name which another one has, or claims too: whose state would it be?
    fn note_renames(&self) {
        let mut claimed: HashMap<&str, &Draft> = HashMap::new();
        for draft in self.drafts {
            let Some(old) = &draft.renamed_from else { continue };
            let owner = self.by_uid.get(old.get_ref()).map(|&node| &self.drafts[node]);
            let Some(owner) = owner.or_else(|| claimed.insert(old.get_ref(), draft)) else { continue };
            let message =
                format!("{}: `renamed-from` names {}, whose state belongs to {}", draft.name, self.faults.quote(old.span()), owner.name);
            self.faults.add(old.span(), message, "name the uid that it had before and that nothing has now, or remove the line");
        }
    }

    /// Notes each cycle where its first node names the input that closes it. Whether there is one.
    fn note_cycles(&self, edges: &[Vec<Input>]) -> bool {
        let inputs: Vec<Vec<usize>> = edges.iter().map(|inputs| inputs.iter().map(|input| input.node).collect()).collect();
        let Err(cycles) = plan::order(&inputs) else { return false };
        for cycle in &cycles {
            let name = |&node: &usize| self.drafts[node].uid.as_ref().map_or("?", |uid| uid.get_ref().as_str());
            let (first, last) = (&self.drafts[cycle[0]], cycle[cycle.len() - 1]);
            let names: Vec<&str> = cycle.iter().chain(&cycle[..1]).map(name).collect();
            let closing =
                first.inputs.iter().map(|(_, written)| written).find(|written| self.by_uid.get(uid_of(written.get_ref())) == Some(&last));
            let span = closing.map_or(first.span.clone(), Spanned::span);
            let message = match names.as_slice() {
                [only, _] => format!("{}: `{only}` is an input of itself", first.name),
                _ => format!("{}: its input closes a cycle: {}", first.name, names.join(" → ")),
            };
            self.faults.add(span, message, "records can't flow in a circle: remove one of these inputs");
        }
        true
    }
}

fn uid_of(input: &str) -> &str {
    input.split_once('.').map_or(input, |(uid, _)| uid)
}
