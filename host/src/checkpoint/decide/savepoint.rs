//! What a savepoint is made of: the state of a checkpoint in files that build on no others, and the manifest that names them.

use std::collections::BTreeMap;

use super::{Merge, MergeOutput};
use crate::checkpoint::manifest::{Epochs, Manifest, OperatorPart, OperatorStateFile, SavepointPart, StateFile};
use crate::checkpoint::paths;
use crate::record::KeyGroups;

/// The merges that give all keyed state of a checkpoint as bases, one for the key groups of each subtask.
pub fn bases(manifest: &Manifest) -> Vec<Merge> {
    let Manifest { parallelism, max_parallelism, .. } = *manifest;
    let ranges = (0..parallelism).map(|subtask| KeyGroups::of_subtask(subtask, parallelism, max_parallelism));
    let base = |operator: &OperatorPart, groups: KeyGroups, serial: u64| {
        let inputs: Vec<StateFile> = operator.files.iter().filter(|file| file.groups.overlaps(groups)).cloned().collect();
        let epochs = inputs.iter().skip(1).fold(inputs.first()?.epochs, |all: Epochs, file| all.union(file.epochs));
        let path = paths::merged(manifest.attempt.attempt, epochs, &operator.uid, serial);
        let outputs = vec![MergeOutput { path, groups }];
        Some(Merge { operator: operator.uid.clone(), inputs, outputs, base: true, states: operator.states.clone() })
    };
    let of_operator = |operator| ranges.clone().zip(1..).filter_map(move |(groups, serial)| base(operator, groups, serial));
    manifest.operators.iter().flat_map(of_operator).collect()
}

/// The manifest of the savepoint of a checkpoint: `files` are its state, by operator. What the checkpoint had staged was published because
/// of its commit, and is nobody's to publish again.
pub fn savepoint(manifest: &Manifest, mut files: BTreeMap<String, Vec<StateFile>>, part: SavepointPart) -> Manifest {
    let own = |operator: &OperatorPart| {
        // All of it lies in files of its own there.
        let operator_state = operator.operator_state.iter().map(|file| OperatorStateFile { inline: None, ..file.clone() }).collect();
        OperatorPart { files: files.remove(&operator.uid).unwrap_or_default(), operator_state, ..operator.clone() }
    };
    let operators: Vec<OperatorPart> = manifest.operators.iter().map(own).collect();
    let keyed: u64 = operators.iter().flat_map(|operator| &operator.files).map(|file| file.bytes).sum();
    let whole: u64 = operators.iter().flat_map(|operator| &operator.operator_state).map(|file| file.bytes).sum();
    let mut sinks = manifest.sinks.clone();
    sinks.iter_mut().for_each(|sink| sink.staged.clear());
    Manifest {
        operators,
        sinks,
        new_bytes: keyed + whole,
        total_bytes: keyed + whole,
        origin: None,
        owned: None,
        savepoint: Some(Box::new(part)),
        snapshots: Vec::new(),
        history: Vec::new(),
        ..manifest.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::manifest::tests::{manifest, state_file};

    #[test]
    fn each_subtask_gets_one_base_of_all_that_covers_its_key_groups() {
        let whole = StateFile { groups: KeyGroups { start: 0, end: 128 }, base: true, ..state_file(1, 3, "count", 7) };
        let newer = state_file(3, 41, "count", 1);
        let merges = bases(&manifest(3, 41, vec![whole.clone(), newer.clone()]));
        let [first, second] = merges.as_slice() else { panic!("{merges:?}") };
        assert_eq!((&first.inputs, &second.inputs), (&vec![whole.clone()], &vec![whole, newer]));
        let output = |path: &str, start, end| vec![MergeOutput { path: path.into(), groups: KeyGroups { start, end } }];
        assert_eq!(first.outputs, output("state/3-3/count.3-3.1.merged.state", 0, 64));
        assert_eq!(second.outputs, output("state/3-41/count.3-41.2.merged.state", 64, 128));
        assert!(merges.iter().all(|merge| merge.base));
        assert_eq!(bases(&manifest(3, 41, vec![])), [], "an operator without keyed state needs none");
    }
}
