//! [`Versions`]: which component each operator has run, epoch by epoch. What is written down of an epoch goes by the one that ran in it,
//! also when another one has taken over since.

use std::sync::Arc;

use crate::checkpoint::manifest::{ComponentFacts, Manifest};
use crate::checkpoint::pending::OperatorFacts;
use crate::dataflow::Version;
use crate::plan::{Plan, StateDescriptor, Ttl};
use crate::state::Arrangement;
use crate::wasm::Component;

use super::states::kept_since;

/// By node the versions of its operator, each with its first epoch, the oldest first; none of a node that is no operator.
pub(super) struct Versions(Vec<Vec<(u64, Version)>>);

impl Versions {
    /// What an attempt begins with, from a checkpoint if it was restored from one.
    pub(super) fn new(plan: &Plan, components: &[Option<Arc<Component>>], restored: Option<&Manifest>) -> Self {
        let first = |node: usize, component: &Arc<Component>| {
            let states = &component.descriptor().states;
            let part = restored
                .and_then(|manifest| manifest.operators.iter().find(|part| part.uid == plan.nodes[node].uid).map(|part| (manifest, part)));
            let states = part.map_or_else(|| states.clone(), |(manifest, part)| kept_since(manifest, part, states));
            (0, Version { component: Arc::clone(component), arrangement: Arrangement::new(&states) })
        };
        let versions =
            |(node, component): (usize, &Option<Arc<Component>>)| component.iter().map(|component| first(node, component)).collect();
        Versions(components.iter().enumerate().map(versions).collect())
    }

    /// From `epoch` on, since the time `now`, an operator runs another one, whatever was said of that time before. What has expired with what
    /// it ran until then stays so.
    pub(super) fn replace(&mut self, node: usize, epoch: u64, mut version: Version, now: i64) {
        let versions = &mut self.0[node];
        if let Some((_, before)) = versions.last() {
            let states = version.arrangement.states.iter().map(|state| state.after(&before.arrangement.states, now));
            version.arrangement.states = states.collect();
        }
        versions.retain(|(first, _)| *first < epoch);
        versions.push((epoch, version));
    }

    /// The states of an operator for whoever leaves out what has expired: each lives as long as it does with any version that the job may
    /// still go on with.
    pub(super) fn longest_lived(&self, plan: &Plan, operator: &str) -> Vec<StateDescriptor> {
        let versions = plan.nodes.iter().position(|node| node.uid == operator).map_or(&[][..], |node| &self.0[node]);
        let Some((_, newest)) = versions.last() else { return Vec::new() };
        let same = |state: &StateDescriptor| {
            let states =
                versions.iter().filter_map(|(_, version)| version.arrangement.states.iter().find(|other| other.name == state.name));
            states.filter_map(|other| other.ttl).map(|ttl| ttl.ms).max()
        };
        let longest = |state: &StateDescriptor| {
            let ttl = state.ttl.map(|ttl| Ttl { ms: same(state).map_or(ttl.ms, |ms| ms.max(ttl.ms)), ..ttl });
            StateDescriptor { ttl, ..state.clone() }
        };
        newest.arrangement.states.iter().map(longest).collect()
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
