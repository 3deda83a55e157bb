//! The order of a job's graph: inputs before what they feed, or the cycles that make that impossible.

use std::collections::BTreeSet;

use super::Node;

/// Indices of the nodes in topological order: `inputs[n]` are the nodes that feed node n. Of the nodes that could come next the one
/// with the lowest index does, so the order is the given one wherever the edges allow it.
///
/// # Errors
/// The cycles, each in the direction in which records would flow, beginning with its lowest index. Cycles that share nodes are told as
/// one, since breaking it may break the others; every cycle in the graph shares a node with one that is told.
///
/// # Panics
/// If an input is not the index of a node.
pub fn order(inputs: &[Vec<usize>]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let mut sort = Sort::new(inputs);
    let mut cycles = Vec::new();
    loop {
        sort.place_what_is_ready();
        let Some(stuck) = sort.placed.iter().position(|placed| !placed) else { break };
        let cycle = cycle_above(stuck, inputs, &sort.placed);
        // Taken as placed, so that the next round finds cycles elsewhere, and not nodes that merely wait for this one.
        cycle.iter().for_each(|&node| sort.place(node));
        cycles.push(cycle);
    }
    if cycles.is_empty() { Ok(sort.order) } else { Err(cycles) }
}

/// Brings nodes, whose inputs are indices into `nodes`, into topological order, and adapts the indices.
///
/// # Errors
/// The cycles, as [`order`] tells them.
///
/// # Panics
/// If an input is not the index of a node.
pub fn arrange(nodes: Vec<Node>) -> Result<Vec<Node>, Vec<Vec<usize>>> {
    let inputs: Vec<Vec<usize>> = nodes.iter().map(|node| node.inputs.iter().map(|input| input.node).collect()).collect();
    let order = order(&inputs)?;
    let mut place_of = vec![0; nodes.len()];
    order.iter().enumerate().for_each(|(place, &node)| place_of[node] = place);
    let mut placed: Vec<(usize, Node)> = nodes.into_iter().enumerate().map(|(index, node)| (place_of[index], node)).collect();
    placed.sort_unstable_by_key(|(place, _)| *place);
    let adapt = |mut node: Node| {
        node.inputs.iter_mut().for_each(|input| input.node = place_of[input.node]);
        node
    };
    Ok(placed.into_iter().map(|(_, node)| adapt(node)).collect())
}

/// Kahn's algorithm, halfway.
struct Sort {
    /// Of each node, the nodes that it feeds, once per edge.
    feeds: Vec<Vec<usize>>,
    /// Of each node, how many edges from nodes that are not placed yet.
    waits_for: Vec<usize>,
    ready: BTreeSet<usize>,
    placed: Vec<bool>,
    order: Vec<usize>,
}

impl Sort {
    fn new(inputs: &[Vec<usize>]) -> Self {
        let mut feeds = vec![Vec::new(); inputs.len()];
        for (node, inputs) in inputs.iter().enumerate() {
            inputs.iter().for_each(|&input| feeds[input].push(node));
        }
        let waits_for: Vec<usize> = inputs.iter().map(Vec::len).collect();
        let ready = (0..inputs.len()).filter(|&node| waits_for[node] == 0).collect();
        Sort { feeds, waits_for, ready, placed: vec![false; inputs.len()], order: Vec::with_capacity(inputs.len()) }
    }

    fn place_what_is_ready(&mut self) {
        while let Some(node) = self.ready.pop_first() {
            self.place(node);
        }
    }

    fn place(&mut self, node: usize) {
        // A node of a cycle may be placed as such, and be ready too once the nodes above it are placed.
        if std::mem::replace(&mut self.placed[node], true) {
            return;
        }
        self.order.push(node);
        for &fed in &self.feeds[node] {
            self.waits_for[fed] -= 1;
            if self.waits_for[fed] == 0 {
                self.ready.insert(fed);
            }
        }
    }
}

/// A cycle among the nodes that are not placed, found by walking against the flow from `start`: each of them has an input that is not
/// placed, otherwise it would be ready, so the walk comes back to a node that it has seen.
fn cycle_above(start: usize, inputs: &[Vec<usize>], placed: &[bool]) -> Vec<usize> {
    let mut walk = vec![start];
    loop {
        let node = walk[walk.len() - 1];
        let above = inputs[node].iter().copied().find(|&input| !placed[input]);
        let above = above.expect("a node that is not ready waits for one that is not placed");
        if let Some(first) = walk.iter().position(|&seen| seen == above) {
            let mut cycle = walk.split_off(first);
            cycle.reverse();
            let lowest = (0..cycle.len()).min_by_key(|&place| cycle[place]).unwrap_or(0);
            cycle.rotate_left(lowest);
            return cycle;
        }
        walk.push(above);
    }
}

#[cfg(test)]
mod tests;
