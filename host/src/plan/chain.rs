//! Chains: which nodes run as one, without an exchange between them, and the edges that are left.

use super::waits::waits;
use super::{DEAD_LETTER, Descriptor, Input, Partitioning, Plan, Role};

/// How a plan is cut into chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Chains in topological order.
    pub chains: Vec<Chain>,
    /// What is left between them.
    pub edges: Vec<Edge>,
    /// For each node, for each of its output ports, where records go.
    pub routes: Vec<Vec<Vec<Route>>>,
    /// For each node, the sources that must be worked off before it reads: none but for sources that feed an input that waits.
    pub waits: Vec<Vec<usize>>,
}

/// Nodes that run as one: batches are handed on in place, and a barrier is a call to each in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// What it does.
    pub work: Work,
    /// The edges into its head, as indices into [`Layout::edges`]; none if the head is a source.
    pub inputs: Vec<usize>,
    /// The edges out of it.
    pub outputs: Vec<usize>,
}

/// What a chain does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Runs nodes, in topological order; the first is its head.
    Run(Vec<usize>),
    /// Puts what comes to the broadcast inputs of a node into one order, on its first subtask, and sends it to all.
    Sequence(usize),
}

/// A connection between two chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Which subtasks of the receiving chain get a record.
    pub exchange: Exchange,
    /// The input port of the chain's head that it feeds.
    pub port: u16,
}

/// Which subtasks get a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The one where it is.
    None,
    /// The one that has its key's group.
    Key,
    /// The first one.
    First,
    /// All of them.
    All,
}

/// Where the records of an output port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To a node of the same chain.
    Chained(usize),
    /// Over an edge.
    Edge(usize),
}

impl Chain {
    /// The nodes that it runs.
    pub fn nodes(&self) -> &[usize] {
        match &self.work {
            Work::Run(nodes) => nodes,
            Work::Sequence(_) => &[],
        }
    }
}

impl Layout {
    /// Cuts a plan whose edges fit its components' descriptors (one for each node that is an operator).
    pub fn new(plan: &Plan, descriptors: &[Option<Descriptor>]) -> Layout {
        // An operator has one more: for its dead letters.
        let ports = |node: usize| descriptors[node].as_ref().map_or(1, |descriptor| descriptor.outputs.len() + 1);
        let routes = (0..plan.nodes.len()).map(|node| vec![Vec::new(); ports(node)]).collect();
        let layout = Layout { chains: Vec::new(), edges: Vec::new(), routes, waits: waits(plan, descriptors) };
        let mut cut = Cut { descriptors, layout, chain_of: Vec::with_capacity(plan.nodes.len()) };
        plan.nodes.iter().enumerate().for_each(|(index, node)| cut.node(index, &node.inputs));
        let is_source = |chain: &Chain| chain.nodes().first().is_some_and(|&head| plan.nodes[head].kind.role() == Role::Source);
        debug_assert!(cut.layout.chains.iter().all(|chain| chain.inputs.is_empty() == is_source(chain)));
        cut.layout
    }

    /// Gives an operator so many outputs. Nothing may be connected to those that come or go, the last ones; its dead letters go their way.
    pub fn set_outputs(&mut self, node: usize, outputs: usize) {
        let routes = &mut self.routes[node];
        let dead_letters = routes.pop();
        routes.resize(outputs, Vec::new());
        routes.extend(dead_letters);
    }
}

/// A layout that grows, node by node.
struct Cut<'a> {
    descriptors: &'a [Option<Descriptor>],
    layout: Layout,
    /// The chain of each node so far.
    chain_of: Vec<usize>,
}

impl Cut<'_> {
    fn node(&mut self, index: usize, inputs: &[Input]) {
        if let [only] = inputs
            && self.input(index, only).1 == Partitioning::Any
        {
            let (chain, port) = (self.chain_of[only.node], self.output(only));
            let Work::Run(nodes) = &mut self.layout.chains[chain].work else { unreachable!("no node is in a sequencer") };
            nodes.push(index);
            self.layout.routes[only.node][port].push(Route::Chained(index));
            self.chain_of.push(chain);
            return;
        }
        let (broadcast, others): (Vec<&Input>, Vec<&Input>) =
            inputs.iter().partition(|input| self.input(index, input).1 == Partitioning::Broadcast);
        let mut edges: Vec<usize> = others.into_iter().map(|input| self.edge(index, input)).collect();
        if !broadcast.is_empty() {
            let inputs = broadcast.into_iter().map(|input| self.edge(index, input)).collect();
            // Its parcels know the port that they are for.
            let all = self.new_edge(Edge { exchange: Exchange::All, port: 0 });
            self.layout.chains.push(Chain { work: Work::Sequence(index), inputs, outputs: vec![all] });
            edges.push(all);
        }
        self.chain_of.push(self.layout.chains.len());
        self.layout.chains.push(Chain { work: Work::Run(vec![index]), inputs: edges, outputs: Vec::new() });
    }

    /// The port of a node that an input feeds, and how that wants its records. Sinks take them as they are.
    fn input(&self, node: usize, input: &Input) -> (usize, Partitioning) {
        self.descriptors[node].as_ref().map_or((0, Partitioning::Any), |descriptor| {
            let port = descriptor.input(input.to.as_deref()).expect("the plan was fitted");
            (port, descriptor.inputs[port].partitioning)
        })
    }

    /// The port of the feeding node.
    fn output(&self, input: &Input) -> usize {
        match (input.port.as_deref(), &self.descriptors[input.node]) {
            (Some(DEAD_LETTER), Some(from)) => from.outputs.len(),
            (name, Some(from)) => from.output(name).expect("the plan was fitted"),
            _ => 0,
        }
    }

    /// A new edge for an input of a node.
    fn edge(&mut self, node: usize, input: &Input) -> usize {
        let (port, partitioning) = self.input(node, input);
        let exchange = match partitioning {
            Partitioning::Any => Exchange::None,
            Partitioning::Keyed => Exchange::Key,
            Partitioning::Broadcast => Exchange::First,
        };
        // A descriptor has far fewer inputs than a u16 counts.
        let edge = self.new_edge(Edge { exchange, port: port as u16 });
        let output = self.output(input);
        self.layout.routes[input.node][output].push(Route::Edge(edge));
        self.layout.chains[self.chain_of[input.node]].outputs.push(edge);
        edge
    }

    fn new_edge(&mut self, edge: Edge) -> usize {
        self.layout.edges.push(edge);
        self.layout.edges.len() - 1
    }
}
