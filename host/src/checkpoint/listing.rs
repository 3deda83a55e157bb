//! [`Listing`]: the checkpoints of a job, run by run, as its manifests tell of them; and which of its files are broken or foreign.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::log::Log;
use super::manifest::{FailedCheckpoints, Fate, Past};
use super::paths::{self, RunPath};
use crate::record::AttemptId;

/// The checkpoints of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Listing {
    /// In the order in which they were taken.
    pub checkpoints: Vec<Listed>,
    /// Files that are not as they should be.
    pub broken: Vec<Broken>,
    /// Paths of files that are none of ours, relative to the job's directory.
    pub foreign: Vec<String>,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Listed {
    /// Its run.
    pub run: u32,
    /// What is known of it.
    #[serde(flatten)]
    pub past: Past,
    /// Its manifest, if it is kept: then it can be restored.
    pub manifest: Option<String>,
}

/// A file that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Broken {
    /// Its path.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Listing {
    /// Adds a run, given its log, what is noted of checkpoints that have failed, and the paths of all its files.
    pub fn add_run(&mut self, log: &Log, failed: &FailedCheckpoints, files: &BTreeSet<String>) {
        let mut known: BTreeMap<(u32, u64), Listed> = BTreeMap::new();
        let listed = |past: Past| Listed { run: log.run, past, manifest: None };
        for (slot, manifest) in log.manifests() {
            // What another run has brought is told there.
            for past in manifest.history.iter().chain([&Past::of(manifest)]) {
                // From the newest to the oldest: the first word on one is the last that was said.
                known.entry((past.attempt, past.checkpoint)).or_insert_with(|| listed(past.clone()));
            }
            let AttemptId { attempt, .. } = manifest.attempt;
            if let Some(own) = known.get_mut(&(attempt, manifest.checkpoint)) {
                let path = log.path(slot).to_string();
                *own = Listed { manifest: Some(path), ..listed(Past { snapshots: manifest.snapshots.clone(), ..Past::of(manifest) }) };
            }
        }
        for past in &failed.checkpoints {
            let known = known.entry(past.place()).or_insert_with(|| listed(past.clone()));
            // It may have been committed all the same; if not, the note says more than manifests do.
            if known.past.state == Fate::Failed {
                known.past = past.clone();
            }
        }
        self.checkpoints.extend(known.into_values());
        self.add_broken(log, files);
        let foreign = files.iter().filter(|path| paths::classify(path) == RunPath::Foreign);
        self.foreign.extend(foreign.map(|path| format!("{}/{path}", paths::run_dir(log.run))));
    }

    fn add_broken(&mut self, log: &Log, files: &BTreeSet<String>) {
        for (slot, entry) in &log.entries {
            if let Err(reason) = entry {
                self.broken.push(Broken { path: log.path(*slot).to_string(), reason: reason.clone() });
            }
        }
        let mut missing: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, manifest) in log.manifests() {
            let gone = manifest.state_files().filter(|path| !files.contains(*path));
            gone.for_each(|path| _ = missing.insert(path, manifest.checkpoint));
        }
        for (path, checkpoint) in missing {
            let path = log.dir.join(path).to_string();
            self.broken.push(Broken { path, reason: format!("it is missing, and checkpoint {checkpoint} needs it") });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::manifest::tests::{claim, manifest, state_file};
    use crate::checkpoint::manifest::{LogEntry, Manifest, SnapshotPart};

    #[test]
    fn kept_past_and_failed_ones_are_listed_once_each_and_what_is_amiss_is_named() {
        let past = |attempt, checkpoint| Past::of(&manifest(attempt, checkpoint, vec![]));
        let failed = Past { state: Fate::Failed, reason: Some("no disk".into()), ..past(1, 3) };
        let part = SnapshotPart { operator: "count".into(), subtask: 0, files: 1, bytes: 9, aligned_us: 1, froze_us: 2, upload_ms: 3 };
        let older = Manifest { history: vec![past(1, 1), past(1, 2)], snapshots: vec![part.clone()], ..manifest(1, 4, vec![]) };
        let newer = Manifest {
            history: vec![past(1, 2), failed.clone(), past(1, 4)],
            ..manifest(2, 5, vec![state_file(1, 4, "count", 0), state_file(2, 5, "count", 0)])
        };
        let entries = [Ok(LogEntry::Checkpoint(older)), Ok(claim(2)), Err("it was altered".into()), Ok(LogEntry::Checkpoint(newer))];
        let log = Log { run: 1, dir: std::path::PathBuf::from("/c/words/run-0001").into(), entries: (7..).zip(entries).collect() };
        let files = ["log/00000000000000000007.json", "notes.txt", "state/2-5/count-0.state"].map(String::from).into();
        let mut listing = Listing::default();
        let noted = Past { reason: Some("no disk at all".into()), snapshots: vec![part.clone()], ..failed.clone() };
        let but_committed = Past { state: Fate::Failed, ..past(1, 4) };
        let newest = Past { state: Fate::Failed, ..past(2, 6) };
        let note = FailedCheckpoints { checkpoints: vec![noted.clone(), but_committed, newest], ..FailedCheckpoints::default() };
        listing.add_run(&log, &note, &files);

        let told: Vec<_> =
            listing.checkpoints.iter().map(|one| (one.past.attempt, one.past.checkpoint, one.past.state, one.manifest.is_some())).collect();
        use Fate::{Completed, Failed};
        let (past, kept) = ([(1, 1, Completed, false), (1, 2, Completed, false)], [(1, 4, Completed, true), (2, 5, Completed, true)]);
        let expected = [&past[..], &[(1, 3, Failed, false)], &kept, &[(2, 6, Failed, false)]].concat();
        assert_eq!(told, expected);
        assert_eq!((&listing.checkpoints[2].past, &listing.checkpoints[3].past.snapshots), (&noted, &vec![part]));
        let path = |path: &str| format!("/c/words/run-0001/{path}");
        let altered = Broken { path: path("log/00000000000000000009.json"), reason: "it was altered".into() };
        let missing = Broken { path: path("state/1-4/count-0.state"), reason: "it is missing, and checkpoint 5 needs it".into() };
        assert_eq!((listing.broken, listing.foreign), (vec![altered, missing], vec!["run-0001/notes.txt".to_owned()]));
    }
}
