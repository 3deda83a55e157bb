//! What a job was doing when it stood still, as its directory of checkpoints tells.

use std::collections::BTreeSet;

use super::place::names;
use super::{Manifest, Place};

/// What is done for checkpoints.
#[derive(Clone, Copy, Debug)]
pub enum Phase {
    /// State of a checkpoint that is not committed yet is written, or is there.
    Upload,
    /// A manifest is written.
    Commit,
    /// A merged file is written.
    Merge,
    /// Superseded entries are gone, and superseded files are not.
    Deletion,
}

impl Phase {
    pub const ALL: [Phase; 4] = [Phase::Upload, Phase::Commit, Phase::Merge, Phase::Deletion];
}

impl Place {
    /// Whether that was under way in the first run, whose newest checkpoint is of the attempt that stands still, and whose newest `retained`
    /// checkpoints are kept.
    pub fn is_under_way(&self, phase: Phase, retained: usize) -> bool {
        let manifests = self.manifests(1);
        let Some(newest) = manifests.last() else { return false };
        let named: BTreeSet<String> = manifests.iter().flat_map(Manifest::state_files).collect();
        let own = format!("state/{}-", newest.json["attempt"]["attempt"]);
        // What is being written has a `#` and a number at the end of its name.
        let files: Vec<String> = self.state_files(1).into_iter().filter(|file| file.starts_with(&own)).collect();
        let epoch = |file: &str| file[own.len()..].split('/').next().and_then(|epoch| epoch.parse::<u64>().ok());
        let is_new = |file: &str| epoch(file) > Some(newest.checkpoint);
        let mut snapshots = files.iter().filter(|file| !file.contains(".merged."));
        match phase {
            Phase::Upload => snapshots.any(|file| is_new(file)),
            Phase::Commit => {
                let last = self.last_slot(1);
                let written = |name: &String| name.split_once(".json#")?.0.parse::<u64>().ok();
                names(&self.run_dir(1).join("log")).iter().filter_map(written).any(|slot| slot > last)
            }
            Phase::Merge => files.iter().any(|file| file.contains(".merged.state#")),
            Phase::Deletion => {
                let is_left = |file: &String| !file.contains('#') && !is_new(file) && !named.contains(file);
                manifests.len() == retained && snapshots.any(is_left)
            }
        }
    }
}
