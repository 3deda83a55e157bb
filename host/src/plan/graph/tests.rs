//! What must hold of [`order`] and [`arrange`].

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::plan::{Input, NodeKind, SinkSettings};

/// Whether `to` can be reached from `from` along the flow, by at least one edge. The oracle: a plain search.
fn reaches(inputs: &[Vec<usize>], from: usize, to: usize) -> bool {
    let (mut seen, mut todo) = (HashSet::new(), inputs[to].clone());
    while let Some(node) = todo.pop() {
        if node == from {
            return true;
        }
        if seen.insert(node) {
            todo.extend(&inputs[node]);
        }
    }
    false
}

fn graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1usize..12).prop_flat_map(|nodes| vec(vec(0..nodes, 0..3), nodes))
}

proptest! {
    #[test]
    fn either_an_order_that_keeps_all_edges_or_cycles_that_cover_all_cycles(inputs in graph()) {
        let on_a_cycle: Vec<usize> = (0..inputs.len()).filter(|&node| reaches(&inputs, node, node)).collect();
        match order(&inputs) {
            Ok(order) => {
                prop_assert!(on_a_cycle.is_empty());
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..inputs.len()).collect::<Vec<_>>());
                let place = |node: usize| order.iter().position(|&n| n == node);
                for (node, inputs) in inputs.iter().enumerate() {
                    prop_assert!(inputs.iter().all(|&input| place(input) < place(node)));
                }
            }
            Err(cycles) => {
                for cycle in &cycles {
                    for (place, &node) in cycle.iter().enumerate() {
                        prop_assert!(inputs[cycle[(place + 1) % cycle.len()]].contains(&node), "{:?} is no cycle", cycle);
                    }
                    prop_assert_eq!(cycle.iter().min(), cycle.first());
                }
                let told: HashSet<usize> = cycles.iter().flatten().copied().collect();
                prop_assert_eq!(told.len(), cycles.iter().map(Vec::len).sum::<usize>(), "a node is told twice");
                // Without the told nodes nothing is left that goes in a circle.
                let rest: Vec<Vec<usize>> = (inputs.iter().enumerate())
                    .map(|(node, inputs)| if told.contains(&node) { vec![] } else { inputs.clone() })
                    .collect();
                prop_assert!(order(&rest).is_ok());
                prop_assert!(!on_a_cycle.is_empty());
            }
        }
    }

    #[test]
    fn a_graph_that_is_given_in_order_keeps_it(mut inputs in graph()) {
        for (node, inputs) in inputs.iter_mut().enumerate() {
            inputs.retain(|&input| input < node);
        }
        prop_assert_eq!(order(&inputs), Ok((0..inputs.len()).collect()));
    }

    #[test]
    fn arranging_changes_places_and_no_edge(inputs in graph()) {
        let name = |node: usize| format!("n{node}");
        let nodes: Vec<Node> = (inputs.iter().enumerate())
            .map(|(node, inputs)| Node {
                renamed_from: None,
                uid: name(node),
                kind: NodeKind::Sink(SinkSettings::Blackhole),
                inputs: inputs.iter().map(|&input| Input { node: input, port: Some(name(input)), to: None }).collect(),
            })
            .collect();
        if let Ok(arranged) = arrange(nodes) {
            for (place, node) in arranged.iter().enumerate() {
                let number: usize = node.uid[1..].parse()?;
                prop_assert_eq!(node.inputs.len(), inputs[number].len());
                for input in &node.inputs {
                    prop_assert!(input.node < place);
                    prop_assert_eq!(Some(&arranged[input.node].uid), input.port.as_ref());
                }
            }
        }
    }
}

#[test]
fn two_separate_cycles_are_both_told_and_what_hangs_on_them_is_not() {
    // 0 → 1 → 2 → 1, 2 → 3, 4 → 4, 4 → 3
    let inputs = [vec![], vec![0, 2], vec![1], vec![2, 4], vec![4]].map(Vec::from);
    assert_eq!(order(&inputs), Err(vec![vec![1, 2], vec![4]]));
}
