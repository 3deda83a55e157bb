//! What a job's checkpoints look like on disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::Place;
use super::place::names;

/// A committed checkpoint.
pub struct Manifest {
    /// Its file.
    pub path: PathBuf,
    /// Its number.
    pub checkpoint: u64,
    /// All of it.
    pub json: Value,
}

impl Manifest {
    /// The state files that it names and does not hold itself, relative to its run's directory.
    pub fn state_files(&self) -> BTreeSet<String> {
        let operators = self.json["operators"].as_array().into_iter().flatten();
        let named = |operator: &'_ Value, field| operator[field].as_array().cloned().unwrap_or_default();
        let files = operators.flat_map(|operator| [named(operator, "files"), named(operator, "operator-state")].concat());
        let files = files.filter(|file| file["inline"].is_null());
        files.map(|file| file["path"].as_str().expect("a file has a path").to_owned()).collect()
    }
}

impl Place {
    /// The directory of a run, within this one.
    pub fn run_dir(&self, run: u32) -> PathBuf {
        self.path(&format!("checkpoints/job/run-{run:04}"))
    }

    /// The highest number in use in a run's log; 0 if there is none.
    pub fn last_slot(&self, run: u32) -> u64 {
        let slots = names(&self.run_dir(run).join("log"));
        slots.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).max().unwrap_or(0)
    }

    /// The committed checkpoints of a run that can be read, from the oldest to the newest. While a job runs, some may just have gone.
    pub fn manifests(&self, run: u32) -> Vec<Manifest> {
        let log = self.run_dir(run).join("log");
        let read = |name: &String| {
            // Not what is still being written beside its place.
            let path = log.join(name.strip_suffix(".json").map(|_| name)?);
            let json: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            let checkpoint = json["checkpoint"].as_u64().filter(|_| json["entry"] == "checkpoint")?;
            Some(Manifest { path, checkpoint, json })
        };
        names(&log).iter().filter_map(read).collect()
    }

    /// The number of the newest committed checkpoint of a run; 0 if there is none.
    pub fn newest(&self, run: u32) -> u64 {
        self.manifests(run).last().map_or(0, |manifest| manifest.checkpoint)
    }

    /// All state files of a run, relative to its directory.
    pub fn state_files(&self, run: u32) -> BTreeSet<String> {
        let state = self.run_dir(run).join("state");
        let files = |dir: &String| names(&state.join(dir)).into_iter().map(move |file| format!("state/{dir}/{file}")).collect::<Vec<_>>();
        names(&state).iter().flat_map(files).collect()
    }
}
