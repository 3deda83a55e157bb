//! [`Versions`]: which component each operator has run, epoch by epoch. What is written down of an epoch goes by the one that ran in it,
//! also when another one has taken over since.

use std::sync::Arc;

use crate::checkpoint::manifest::ComponentFacts;
use crate::checkpoint::pending::OperatorFacts;
use crate::dataflow::Version;
use crate::plan::Plan;
use crate::state::Arrangement;
use crate::wasm::Component;

/// By node the versions of its operator, each with its first epoch, the oldest first; none of a node that is no operator.
pub(super) struct Versions(Vec<Vec<(u64, Version)>>);

impl Versions {
    /// What an attempt begins with.
    pub(super) fn new(components: &[Option<Arc<Component>>]) -> Self {
        let first = |component: &Arc<Component>| {
            let arrangement = Arrangement::new(&component.descriptor().states);
            (0, Version { component: Arc::clone(component), arrangement })
        };
        Versions(components.iter().map(|component| component.iter().map(first).collect()).collect())
    }

    /// From `epoch` on an operator runs another one, whatever was said of that time before.
    pub(super) fn replace(&mut self, node: usize, epoch: u64, version: Version) {
        let versions = &mut self.0[node];
        versions.retain(|(first, _)| *first < epoch);
        versions.push((epoch, version));
    }

    /// The checkpoint that ends `epoch` is committed, and nothing more is written down of epochs before: lets go of what ran in those only.
    pub(super) fn committed(&mut self, epoch: u64) {
        for versions in &mut self.0 {
            let run = versions.iter().rposition(|(first, _)| *first <= epoch).unwrap_or_default();
            versions.drain(..run);
        }
    }

    /// What an operator ran in an epoch whose checkpoint is not committed.
    pub(super) fn at(&self, node: usize, epoch: u64) -> &Version {
        let found = self.0[node].iter().rev().find(|(first, _)| *first <= epoch);
        found.map(|(_, version)| version).expect("an operator has a version from the first epoch on")
    }

    /// What an operator runs now.
    pub(super) fn newest(&self, node: usize) -> &Version {
        self.at(node, u64::MAX)
    }

    /// The components that ran in an epoch.
    pub(super) fn components(&self, epoch: u64) -> Vec<Arc<Component>> {
        let operators = (0..self.0.len()).filter(|node| !self.0[*node].is_empty());
        operators.map(|node| Arc::clone(&self.at(node, epoch).component)).collect()
    }

    /// What the manifest of an epoch says about every operator, in the order of the plan.
    pub(super) fn facts(&self, plan: &Plan, epoch: u64) -> Vec<OperatorFacts> {
        let operators = (0..self.0.len()).filter(|node| !self.0[*node].is_empty());
        let facts = |node: usize| {
            let Version { component, arrangement } = self.at(node, epoch);
            OperatorFacts {
                uid: plan.nodes[node].uid.clone(),
                component: component_facts(component),
                states: arrangement.states.to_vec(),
                key_schema: component.descriptor().state_key_schema().cloned(),
            }
        };
        operators.map(facts).collect()
    }
}

/// What a manifest says about a component.
pub(super) fn component_facts(component: &Component) -> ComponentFacts {
    let descriptor = component.descriptor();
    ComponentFacts { digest: component.digest().into(), name: descriptor.name.clone(), version: descriptor.version.clone() }
}
