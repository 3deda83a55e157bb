//! Which sources wait for others: those above an input that `waits-for` a broadcast input read nothing before the sources above that one
//! are worked off. So nothing has to be held back on its way, and no barrier waits for it.

use std::collections::BTreeSet;

use super::{Descriptor, Plan};

/// For each node the sources that must be worked off before it reads; none for nodes that are no sources, or don't wait.
/// Descriptors are given for each node in the plan's order.
pub fn waits(plan: &Plan, descriptors: &[Option<Descriptor>]) -> Vec<Vec<usize>> {
    let mut waits = vec![BTreeSet::new(); plan.nodes.len()];
    for (node, descriptor) in descriptors.iter().enumerate().filter_map(|(node, descriptor)| Some((node, descriptor.as_ref()?))) {
        for (port, first) in descriptor.inputs.iter().filter_map(|port| Some((port, port.waits_for.as_deref()?))) {
            let awaited = sources_of(plan, node, descriptor, first);
            sources_of(plan, node, descriptor, &port.name).into_iter().for_each(|source| waits[source].extend(&awaited));
        }
    }
    waits.into_iter().map(|waits| waits.into_iter().collect()).collect()
}

/// All sources above an input of an operator.
pub(super) fn sources_of(plan: &Plan, node: usize, descriptor: &Descriptor, port: &str) -> BTreeSet<usize> {
    above(plan, node, descriptor, port).into_iter().filter(|&node| plan.nodes[node].inputs.is_empty()).collect()
}

/// All nodes above an input of an operator.
pub(super) fn above(plan: &Plan, node: usize, descriptor: &Descriptor, port: &str) -> BTreeSet<usize> {
    let place = descriptor.input(Some(port));
    let feeds = plan.nodes[node].inputs.iter().filter(|input| place.is_some() && descriptor.input(input.to.as_deref()) == place);
    let mut todo: Vec<usize> = feeds.map(|input| input.node).collect();
    let mut above = BTreeSet::new();
    while let Some(node) = todo.pop() {
        if above.insert(node) {
            todo.extend(plan.nodes[node].inputs.iter().map(|input| input.node));
        }
    }
    above
}
