//! A swap under full load: the longest time in which the sink takes no record, and for how long a subtask has no component.

use std::path::Path;

use serde_json::Value;

use crate::host::Host;
use crate::jobs::{Words, guest};
use crate::{Row, median};

/// Swaps of which the median counts.
const SWAPS: usize = 5;

/// `word-count` with 1 M keys. Takes half a minute.
pub(crate) fn swaps() -> Vec<Row> {
    swaps_with(1)
}

/// `word-count` with 10 M keys. Takes two minutes.
pub(crate) fn large_swaps() -> Vec<Row> {
    swaps_with(10)
}

/// The operator with the state, of so many million keys, is swapped, again and again.
fn swaps_with(millions: u64) -> Vec<Row> {
    let dir = tempfile::tempdir().expect("a directory");
    let keys = millions * 1_000_000;
    let host = Host::start(dir.path());
    host.ask(&["deploy", &Words { keys, distribution: "uniform", parallelism: 2, ..Words::default() }.write(dir.path())]);
    // Nearly each key has been seen by then.
    host.wait_for_records(5 * keys);
    let (mut lulls, mut pauses) = (Vec::new(), Vec::new());
    for number in 0..SWAPS {
        let component = variant(dir.path(), number as u8);
        let swap = host.ask(&["swap", "words", "count", &component, "--probation", "0s", "--output", "json"]);
        let report: Value = serde_json::from_str(&swap).expect("a report");
        lulls.extend(report["lull-us"].as_f64().map(|micros| micros / 1e3));
        pauses.extend(report["subtasks-us"].as_array().into_iter().flatten().filter_map(Value::as_f64));
    }
    let most = lulls.iter().copied().fold(0.0, f64::max);
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    vec![
        Row(
            format!("swap with {millions} M keys, -p 2, full load: longest time without a record at the sink"),
            format!("{:.1} ms (median of {SWAPS}), {most:.1} ms at most", median(lulls)),
        ),
        Row("the same: a subtask without a component".into(), format!("{:.0} µs in the median, {longest:.0} µs at most", median(pauses))),
    ]
}

/// The same component with another digest: a custom section more.
fn variant(dir: &Path, number: u8) -> String {
    let mut bytes = std::fs::read(guest("word_count_count")).expect("the component was built");
    bytes.extend([0, 3, 1, b'n', number]);
    let path = dir.join(format!("count-{number}.wasm"));
    std::fs::write(&path, bytes).expect("a writable directory");
    path.to_string_lossy().into_owned()
}
