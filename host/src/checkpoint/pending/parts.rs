//! What a commit names: gathered from the acknowledgements of all its epochs, and put together with what was there before.

use std::collections::BTreeMap;

use super::{Epoch, Expected, Part};
use crate::checkpoint::decide::FileLists;
use crate::checkpoint::manifest::{
    ComponentFacts, Manifest, OperatorPart, OperatorStateFile, Past, SinkPart, SnapshotPart, SourcePart, StateFile, Trigger,
};
use crate::plan::{Role, Schema, StateDescriptor};
use crate::record::AttemptId;

/// A checkpoint that every subtask has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its number.
    pub epoch: u64,
    /// Why it was taken.
    pub trigger: Trigger,
    /// How far every source had read.
    pub sources: Vec<SourcePart>,
    /// New state files of every operator since the commit before, oldest first.
    pub files: Vec<(String, Vec<StateFile>)>,
    /// New operator state of every operator since the commit before, broadcast state first, then in order of subtask; of each the newest
    /// only.
    pub operator_state: Vec<(String, Vec<OperatorStateFile>)>,
    /// What every sink has staged since the commit before, and what older commits named and nobody has confirmed as published.
    pub sinks: Vec<SinkPart>,
}

/// What a manifest says besides, and only the controller knows.
#[derive(Clone, Debug)]
pub struct CommitFacts<'a> {
    /// The job.
    pub job: &'a str,
    /// The attempt.
    pub attempt: AttemptId,
    /// When it was triggered, RFC 3339.
    pub triggered: String,
    /// The time, RFC 3339.
    pub created: String,
    /// Whether all input has been read.
    pub finished: bool,
    /// Subtasks of every node.
    pub parallelism: u16,
    /// Key groups in all.
    pub max_parallelism: u16,
    /// Time since the trigger, in milliseconds.
    pub duration_ms: u64,
    /// The manifest of another run from which this run began.
    pub origin: Option<String>,
    /// The savepoint that the run has begun from and owns, until it is removed.
    pub owned: Option<String>,
    /// Every operator, in the order of the plan.
    pub operators: &'a [OperatorFacts],
    /// What its snapshots took.
    pub snapshots: Vec<SnapshotPart>,
    /// The checkpoints before it.
    pub history: Vec<Past>,
}

/// What a manifest says about an operator besides its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorFacts {
    /// The operator.
    pub uid: String,
    /// The component that runs.
    pub component: ComponentFacts,
    /// The states that it declares.
    pub states: Vec<StateDescriptor>,
    /// The schema of the keys of its keyed state, if it has any.
    pub key_schema: Option<Schema>,
}

/// What all of `epochs`, complete and in order, come to; the last one is the one to commit.
pub(super) fn gather<'a>(
    nodes: &[Expected],
    epochs: impl Iterator<Item = &'a Epoch>,
    unpublished: impl Iterator<Item = &'a SinkPart>,
) -> Ready {
    let mut ready = Ready {
        epoch: 0,
        trigger: Trigger::Interval,
        sources: Vec::new(),
        files: Vec::new(),
        operator_state: Vec::new(),
        sinks: Vec::new(),
    };
    let mut files: BTreeMap<usize, Vec<StateFile>> = BTreeMap::new();
    let mut operator_state: BTreeMap<usize, BTreeMap<Option<u16>, OperatorStateFile>> = BTreeMap::new();
    let mut sinks: Vec<SinkPart> = Vec::new();
    unpublished.for_each(|sink| stage(&mut sinks, sink));
    for epoch in epochs {
        (ready.epoch, ready.trigger) = (epoch.epoch, epoch.trigger);
        let mut sources: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for (&(node, _), part) in &epoch.parts {
            match part {
                Part::Positions(splits) => sources.entry(node).or_default().extend_from_slice(splits),
                Part::State { files: new, operator_state: whole, .. } => {
                    files.entry(node).or_default().extend_from_slice(new);
                    // It is whole, so it stands for what older epochs have brought.
                    let whole = whole.iter().map(|file| (file.subtask, file.clone()));
                    operator_state.entry(node).or_default().extend(whole);
                }
                Part::Staged(staged) => stage(&mut sinks, &SinkPart { uid: nodes[node].uid.clone(), staged: staged.clone() }),
            }
        }
        // Positions of an older epoch are no use: only the last barrier's count.
        ready.sources = of_role(nodes, Role::Source).map(|node| source(&nodes[node].uid, sources.remove(&node))).collect();
    }
    let operators = of_role(nodes, Role::Operator);
    let newest = |node: usize| (nodes[node].uid.clone(), operator_state.remove(&node).unwrap_or_default().into_values().collect());
    ready.operator_state = operators.map(newest).collect();
    let operators = of_role(nodes, Role::Operator);
    ready.files = operators.map(|node| (nodes[node].uid.clone(), files.remove(&node).unwrap_or_default())).collect();
    ready.sinks = sinks;
    ready
}

/// The manifest of a checkpoint: what `ready` brings comes after what `lists` hold.
pub fn build_manifest(facts: &CommitFacts<'_>, ready: &Ready, lists: &FileLists) -> Manifest {
    let mut operators = Vec::new();
    for OperatorFacts { uid, component, states, key_schema } in facts.operators {
        let new = ready.files.iter().filter(|(operator, _)| operator == uid).flat_map(|(_, files)| files);
        let files = lists.files(uid).iter().chain(new).cloned().collect();
        let new = ready.operator_state.iter().filter(|(operator, _)| operator == uid).flat_map(|(_, files)| files);
        let operator_state = lists.operator_state_with(uid, new);
        let (component, states, key_schema) = (component.clone(), states.clone(), key_schema.clone());
        operators.push(OperatorPart { uid: uid.clone(), component, states, key_schema, files, operator_state });
    }
    let bytes = |file: &StateFile| file.bytes;
    let list_bytes = |file: &OperatorStateFile| file.bytes;
    let new_lists: u64 = ready.operator_state.iter().flat_map(|(_, files)| files).map(list_bytes).sum();
    let all_lists: u64 = operators.iter().flat_map(|operator| &operator.operator_state).map(list_bytes).sum();
    Manifest {
        job: facts.job.into(),
        attempt: facts.attempt,
        checkpoint: ready.epoch,
        trigger: ready.trigger,
        triggered: facts.triggered.clone(),
        created: facts.created.clone(),
        finished: facts.finished,
        parallelism: facts.parallelism,
        max_parallelism: facts.max_parallelism,
        duration_ms: facts.duration_ms,
        new_bytes: ready.files.iter().flat_map(|(_, files)| files).map(bytes).sum::<u64>() + new_lists,
        total_bytes: operators.iter().flat_map(|operator| &operator.files).map(bytes).sum::<u64>() + all_lists,
        origin: facts.origin.clone(),
        owned: facts.owned.clone(),
        savepoint: None,
        sources: ready.sources.clone(),
        operators,
        sinks: ready.sinks.clone(),
        snapshots: facts.snapshots.clone(),
        history: facts.history.clone(),
    }
}

fn of_role(nodes: &[Expected], role: Role) -> impl Iterator<Item = usize> {
    nodes.iter().enumerate().filter(move |(_, node)| node.role == role).map(|(index, _)| index)
}

/// Splits by name, so that manifests do not depend on who reads what.
fn source(uid: &str, splits: Option<Vec<crate::record::SplitPosition>>) -> SourcePart {
    let mut splits = splits.unwrap_or_default();
    splits.sort_by(|a, b| a.split.cmp(&b.split));
    SourcePart { uid: uid.into(), splits }
}

fn stage(sinks: &mut Vec<SinkPart>, part: &SinkPart) {
    match sinks.iter_mut().find(|sink| sink.uid == part.uid) {
        Some(sink) => sink.staged.extend_from_slice(&part.staged),
        None => sinks.push(part.clone()),
    }
}
