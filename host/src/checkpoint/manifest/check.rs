//! What must hold in a log entry, checked when one is written and when one is read: so that nothing behind it needs to ask again.

use std::collections::BTreeSet;

use super::{Inline, LogEntry, Manifest, OperatorPart, OperatorStateFile, SavepointPart, StateFile};
use crate::checkpoint::paths::{self, Origin, RunPath, savepoint};

/// Checks an entry; the error names what breaks which rule.
pub(super) fn check(entry: &LogEntry) -> Result<(), String> {
    let attempt = entry.attempt();
    if attempt.run == 0 || attempt.attempt == 0 {
        return Err(format!("run {} and attempt {} are to count from 1", attempt.run, attempt.attempt));
    }
    entry.manifest().map_or(Ok(()), check_manifest)
}

fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    let Manifest { parallelism, max_parallelism, .. } = *manifest;
    if parallelism == 0 || parallelism > max_parallelism {
        return Err(format!("a parallelism of {parallelism} does not fit {max_parallelism} key groups"));
    }
    let sources = manifest.sources.iter().map(|source| &source.uid);
    let operators = manifest.operators.iter().map(|operator| &operator.uid);
    let sinks = manifest.sinks.iter().map(|sink| &sink.uid);
    let mut seen = BTreeSet::new();
    if let Some(twice) = sources.chain(operators).chain(sinks).find(|uid| !seen.insert(uid.as_str())) {
        return Err(format!("`{twice}` occurs twice"));
    }
    for source in &manifest.sources {
        let mut seen = BTreeSet::new();
        if let Some(twice) = source.splits.iter().find(|split| !seen.insert(split.split.as_str())) {
            return Err(format!("split `{}` of source `{}` occurs twice", twice.split, source.uid));
        }
    }
    manifest.operators.iter().try_for_each(|operator| check_operator(manifest, operator))?;
    manifest.savepoint.as_ref().map_or(Ok(()), |savepoint| check_savepoint(manifest, savepoint))
}

/// A savepoint depends on nothing outside of it, and has nothing left to publish.
fn check_savepoint(manifest: &Manifest, savepoint: &SavepointPart) -> Result<(), String> {
    let mut files = manifest.operators.iter().flat_map(|operator| &operator.files);
    if let Some(delta) = files.find(|file| !file.base) {
        return Err(format!("state file `{}` of a savepoint builds on another", delta.path));
    }
    if let Some(sink) = manifest.sinks.iter().find(|sink| !sink.staged.is_empty()) {
        return Err(format!("a savepoint has output of sink `{}` left to publish", sink.uid));
    }
    check_content(savepoint::JOB_FILE, &savepoint.job_file.checksum, savepoint.job_file.bytes, None)
}

fn check_operator(manifest: &Manifest, operator: &OperatorPart) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for file in &operator.files {
        check_file(manifest, &operator.uid, file)?;
        if !seen.insert(file.path.as_str()) {
            return Err(format!("state file `{}` occurs twice", file.path));
        }
    }
    let mut last = None;
    for file in &operator.operator_state {
        check_operator_state(manifest, &operator.uid, file)?;
        if last.replace(file.subtask) >= Some(file.subtask) {
            return Err(format!("operator `{}`: its operator state is not in order of subtask", operator.uid));
        }
    }
    Ok(())
}

fn check_operator_state(manifest: &Manifest, uid: &str, file: &OperatorStateFile) -> Result<(), String> {
    let path = &file.path;
    let RunPath::State(state) = paths::classify(path) else {
        return Err(format!("`{path}` is no path of a state file"));
    };
    if state.uid != uid || state.epoch != file.epoch || state.origin != Origin::of_operator_state(file.subtask) {
        let whose = file.subtask.map_or("broadcast state".into(), |subtask| format!("operator state of subtask {subtask}"));
        return Err(format!("state file `{path}` is not the {whose} of `{uid}` in epoch {}", file.epoch));
    }
    if file.subtask.is_some_and(|subtask| subtask >= manifest.parallelism) || file.epoch > manifest.checkpoint {
        return Err(format!("the subtask or the epoch of state file `{path}` does not exist"));
    }
    check_content(path, &file.checksum, file.bytes, file.inline.as_ref())
}

fn check_content(path: &str, checksum: &str, bytes: u64, inline: Option<&Inline>) -> Result<(), String> {
    if let Some(Inline(content)) = inline
        && content.len() as u64 != bytes
    {
        return Err(format!("state file `{path}` is to have {bytes} bytes, and {} are kept in the manifest", content.len()));
    }
    if checksum.len() != 8 || u32::from_str_radix(checksum, 16).is_err() {
        return Err(format!("`{checksum}` is no checksum of state file `{path}`"));
    }
    Ok(())
}

fn check_file(manifest: &Manifest, uid: &str, file: &StateFile) -> Result<(), String> {
    let path = &file.path;
    // Also keeps a manifest from naming files outside of its run.
    let RunPath::State(state) = paths::classify(path) else {
        return Err(format!("`{path}` is no path of a state file"));
    };
    if matches!(state.origin, Origin::Lists { .. } | Origin::Broadcast) {
        return Err(format!("state file `{path}` holds operator state"));
    }
    if state.uid != uid {
        return Err(format!("state file `{path}` belongs to another operator than `{uid}`"));
    }
    if file.groups.start >= file.groups.end || file.groups.end > manifest.max_parallelism {
        return Err(format!("the key groups {} to {} of state file `{path}` don't exist", file.groups.start, file.groups.end));
    }
    if file.epochs.first > file.epochs.last || file.epochs.last > manifest.checkpoint {
        return Err(format!("the epochs {} to {} of state file `{path}` don't exist", file.epochs.first, file.epochs.last));
    }
    check_content(path, &file.checksum, file.bytes, file.inline.as_ref())
}
