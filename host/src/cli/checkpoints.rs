//! A job's checkpoints as text.

use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};

use super::text::table;
use crate::error::{Error, Kind, Result};
use crate::job::{Fate, Listed, Listing};

/// The checkpoints, the snapshots of the newest of which they are known, and what is broken or foreign.
pub(super) fn render(listing: &Listing) -> String {
    let newest = listing.checkpoints.iter().rev().find(|listed| !listed.past.snapshots.is_empty());
    let broken = listing.broken.iter().map(|broken| format!("broken: {}: {}", broken.path, broken.reason));
    let foreign = listing.foreign.iter().map(|path| format!("foreign: {path}"));
    let parts = [Some(checkpoints(&listing.checkpoints)), newest.map(snapshots)];
    parts.into_iter().flatten().chain(broken).chain(foreign).collect::<Vec<_>>().join("\n")
}

/// Leaves only what there is of the checkpoint with this number, in whatever run or attempt.
///
/// # Errors
/// Kind `Checkpoint` if nothing is known of it.
pub(super) fn only(listing: Listing, checkpoint: u64) -> Result<Listing> {
    let is_it = |listed: &Listed| listed.past.checkpoint == checkpoint;
    let checkpoints: Vec<_> = listing.checkpoints.into_iter().filter(is_it).collect();
    if checkpoints.is_empty() {
        return Err(Error::new(Kind::Checkpoint, format!("nothing is known of a checkpoint {checkpoint}"))
            .help("only the newest are remembered; without `--checkpoint` all of those are listed"));
    }
    Ok(Listing { checkpoints, ..Listing::default() })
}

fn checkpoints(all: &[Listed]) -> String {
    if all.is_empty() {
        return "no checkpoint is known".into();
    }
    let mut header =
        vec!["run", "attempt", "checkpoint", "trigger", "state", "kept", "triggered", "took", "written", "total", "files", "because"];
    let mut rows: Vec<Vec<String>> = all.iter().map(row).collect();
    // Mostly none has failed, and then nobody needs the column.
    if all.iter().all(|listed| listed.past.reason.is_none()) {
        header.pop();
        rows.iter_mut().for_each(|row| drop(row.pop()));
    }
    table(&header, rows, &[0, 1, 2, 7, 8, 9, 10])
}

fn row(listed: &Listed) -> Vec<String> {
    let past = &listed.past;
    let is_good = past.state == Fate::Completed;
    let size = |bytes: u64| if is_good { HumanBytes(bytes).to_string() } else { "-".into() };
    vec![
        listed.run.to_string(),
        past.attempt.to_string(),
        past.checkpoint.to_string(),
        past.trigger.name().into(),
        if is_good { "completed".into() } else { "failed".into() },
        if listed.manifest.is_some() { "yes".into() } else { "no".into() },
        past.triggered.clone(),
        humantime::format_duration(Duration::from_millis(past.duration_ms)).to_string(),
        size(past.new_bytes),
        size(past.total_bytes),
        if is_good { HumanCount(past.files).to_string() } else { "-".into() },
        past.reason.clone().unwrap_or_default(),
    ]
}

fn snapshots(listed: &Listed) -> String {
    let rows = listed.past.snapshots.iter().map(|part| {
        let [aligned, froze] = [part.aligned_us, part.froze_us].map(|micros| format!("{:.3}ms", micros as f64 / 1e3));
        vec![
            part.operator.clone(),
            part.subtask.to_string(),
            HumanBytes(part.bytes).to_string(),
            HumanCount(part.files).to_string(),
            aligned,
            froze,
            format!("{}ms", part.upload_ms),
        ]
    });
    let header = ["operator", "subtask", "written", "files", "aligned", "froze", "upload"];
    format!("snapshots of checkpoint {}:\n{}", listed.past.checkpoint, table(&header, rows.collect(), &[1, 2, 3, 4, 5, 6]))
}
