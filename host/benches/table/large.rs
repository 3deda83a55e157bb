//! State of 10 M keys: what a checkpoint costs after one key in a hundred has changed, and how long a restore takes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cofferdam::checkpoint::manifest::{Epochs, Manifest, StateFile, parse};
use serde_json::Value;

use crate::host::Host;
use crate::jobs::Words;
use crate::pauses::pauses_of;
use crate::{Row, median, timed};

const KEYS: u64 = 10_000_000;

/// Checkpoints after a change: two more than the files that are kept of a key group, so that some are merged meanwhile.
const CHANGES: usize = 10;

/// Restores of which the median counts.
const RESTORES: usize = 3;

/// `word-count` with 10 M keys, evenly drawn. The first checkpoint is taken at a stop and has all of them; before each of those that follow
/// a hundredth is written again, and nothing else is to be done. Then a host that runs the job is killed, again and again. Takes two minutes.
pub(crate) fn large() -> Vec<Row> {
    let dir = tempfile::tempdir().expect("a directory");
    let words = Words { keys: KEYS, distribution: "uniform", parallelism: 2, ..Words::default() };
    let host = Host::start(dir.path());
    host.ask(&["deploy", &Words { checkpoint: "", ..words }.write(dir.path())]);
    // All but seven of a thousand have come by then.
    host.wait_for_records(5 * KEYS);
    host.ask(&["stop", "words"]);
    // Lines of ten words.
    let job = Words { checkpoint: "interval = \"1s\"\nnum-retained = 100", source: "rate = 10_000", ..words }.write(dir.path());
    let summary = change(dir.path(), &job);
    let mut rows = checkpoints(&manifests(dir.path()), summary);
    host.ask(&["deploy", "--detach", &job]);
    drop(host);
    let restore = || {
        let host = Host::start(dir.path());
        host.wait_for_records(1);
        host
    };
    let took = median((0..RESTORES).map(|_| timed(restore).0.as_secs_f64()).collect());
    let what = "10 M keys, -p 2: start of a host after `kill -9` to the first record at the sink";
    rows.push(Row(what.into(), format!("{took:.2} s (median of {RESTORES})")));
    rows
}

/// Has the job go on until it has taken all checkpoints, and stops it; returns its summary.
fn change(dir: &Path, job: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam"));
    command.args(["run", "--output", "json", job]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the binary runs");
    while manifests(dir).len() <= CHANGES {
        assert!(child.try_wait().expect("it can be asked").is_none(), "the job has ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    let stopped = Command::new("sh").arg("-c").arg(format!("kill {}", child.id())).status();
    assert!(stopped.expect("there is a shell").success(), "the job can't be stopped");
    let output = child.wait_with_output().expect("it ends");
    serde_json::from_slice(&output.stdout).expect("a summary")
}

/// All manifests of the job's only run, in order.
fn manifests(dir: &Path) -> Vec<Manifest> {
    let log = std::fs::read_dir(dir.join("checkpoints/words/run-0001/log")).expect("a log");
    let mut entries: Vec<PathBuf> = log.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    // What is being written is no entry yet.
    let parsed = entries.iter().filter_map(|path| parse(&std::fs::read(path).ok()?).ok());
    parsed.filter_map(|entry| entry.manifest().cloned()).collect()
}

/// The first manifest is of all keys, those that follow are of changes.
fn checkpoints(manifests: &[Manifest], summary: Value) -> Vec<Row> {
    let (full, changes) = (&manifests[0], &manifests[1..=CHANGES]);
    let written = changes.iter().map(|manifest| Size::of(files(manifest).filter(|file| file.epochs == Epochs::only(manifest.checkpoint))));
    let (all, written) = (Size::of(files(full)), written.fold(Size::default(), Size::and));
    let merged: BTreeMap<&str, &StateFile> =
        changes.iter().flat_map(files).filter(|file| file.epochs.first < file.epochs.last).map(|file| (file.path.as_str(), file)).collect();
    let ratio = |bytes: f64| bytes / (written.entries * all.bytes / all.entries);
    let durations = figures(changes, |manifest| manifest.duration_ms);
    let aligned = figures(changes, |manifest| manifest.snapshots.iter().map(|part| part.aligned_us).max().unwrap_or(0));
    let row = |what: &str, figures| Row(format!("10 M keys, -p 2, a checkpoint after 1 % have changed: {what}"), figures);
    vec![
        row("pauses", format!("{}, alignment {aligned} µs (median / max)", pauses_of(&[summary]))),
        row(
            "bytes written",
            format!(
                "{:.1} MB for {:.0} keys: {:.2} of what they take among all {:.2} M; {:.2} with what was merged later",
                written.bytes / 1e6 / changes.len() as f64,
                written.entries / changes.len() as f64,
                ratio(written.bytes),
                all.entries / 1e6,
                ratio(written.bytes + Size::of(merged.into_values()).bytes)
            ),
        ),
        row(
            "from trigger to commit",
            format!("{durations} ms (median / max); that of all keys, {:.0} MB, {} ms", all.bytes / 1e6, full.duration_ms),
        ),
    ]
}

/// What files hold.
#[derive(Default)]
struct Size {
    entries: f64,
    bytes: f64,
}

impl Size {
    fn of<'a>(files: impl Iterator<Item = &'a StateFile>) -> Self {
        files.map(|file| Size { entries: file.entries as f64, bytes: file.bytes as f64 }).fold(Size::default(), Size::and)
    }

    fn and(self, other: Size) -> Self {
        Size { entries: self.entries + other.entries, bytes: self.bytes + other.bytes }
    }
}

fn files(manifest: &Manifest) -> impl Iterator<Item = &StateFile> {
    manifest.operators.iter().flat_map(|operator| &operator.files)
}

/// The median of something, and the most.
fn figures(manifests: &[Manifest], of: fn(&Manifest) -> u64) -> String {
    let figures: Vec<f64> = manifests.iter().map(|manifest| of(manifest) as f64).collect();
    let most = figures.iter().copied().fold(0.0, f64::max);
    format!("{:.0} / {most:.0}", median(figures))
}
