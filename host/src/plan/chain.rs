//! Chains: which nodes run as one, without an exchange between them, and the edges that are left.

use super::{DEAD_LETTER, Descriptor, NodeKind, Partitioning, Plan};

/// How a plan is cut into chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Chains in topological order.
    pub chains: Vec<Chain>,
    /// What is left between them.
    pub edges: Vec<Edge>,
    /// For each node, for each of its output ports, where records go.
    pub routes: Vec<Vec<Vec<Route>>>,
}

/// Nodes that run as one: batches are handed on in place, and a barrier is a call to each in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its nodes in topological order; the first is its head.
    pub nodes: Vec<usize>,
    /// The edges into its head, as indices into [`Layout::edges`]; none if the head is a source.
    pub inputs: Vec<usize>,
    /// The edges out of it.
    pub outputs: Vec<usize>,
}

/// A connection between two chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Whether records are spread by key; otherwise they stay on their subtask.
    pub keyed: bool,
}

/// Where the records of an output port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To a node of the same chain.
    Chained(usize),
    /// Over an edge.
    Edge(usize),
}

impl Layout {
    /// Cuts a plan whose edges fit its components' descriptors (one for each node that is an operator).
    pub fn new(plan: &Plan, descriptors: &[Option<Descriptor>]) -> Layout {
        // An operator has one more: for its dead letters.
        let ports = |node: usize| descriptors[node].as_ref().map_or(1, |descriptor| descriptor.outputs.len() + 1);
        let mut layout = Layout {
            chains: Vec::new(),
            edges: Vec::new(),
            routes: (0..plan.nodes.len()).map(|node| vec![Vec::new(); ports(node)]).collect(),
        };
        let mut chain_of = Vec::with_capacity(plan.nodes.len());
        for (index, node) in plan.nodes.iter().enumerate() {
            let keyed = descriptors[index].as_ref().is_some_and(|descriptor| descriptor.inputs[0].partitioning == Partitioning::Keyed);
            let port = |input: &super::Input| match (&input.port, &descriptors[input.node]) {
                (Some(name), Some(from)) if name == DEAD_LETTER => from.outputs.len(),
                (Some(name), Some(from)) => from.outputs.iter().position(|output| output.name == *name).expect("the plan was fitted"),
                _ => 0,
            };
            if let [only] = node.inputs.as_slice()
                && !keyed
            {
                let chain: usize = chain_of[only.node];
                layout.chains[chain].nodes.push(index);
                layout.routes[only.node][port(only)].push(Route::Chained(index));
                chain_of.push(chain);
                continue;
            }
            let mut chain = Chain { nodes: vec![index], inputs: Vec::new(), outputs: Vec::new() };
            for input in &node.inputs {
                let edge = layout.edges.len();
                layout.edges.push(Edge { keyed });
                layout.routes[input.node][port(input)].push(Route::Edge(edge));
                layout.chains[chain_of[input.node]].outputs.push(edge);
                chain.inputs.push(edge);
            }
            chain_of.push(layout.chains.len());
            layout.chains.push(chain);
        }
        debug_assert!(
            layout.chains.iter().all(|chain| chain.inputs.is_empty() == matches!(plan.nodes[chain.nodes[0]].kind, NodeKind::Source(_)))
        );
        layout
    }
}
