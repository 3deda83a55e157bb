//! A swap under full load: the longest time in which the sink takes no record, and for how long a subtask has no component.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

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
    let (mut usual, mut over, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..SWAPS {
        let component = variant(dir.path(), number as u8);
        let mut swap = host.command(&["swap", "words", "count", &component, "--probation", "0s", "--output", "json"]);
        let child = swap.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let (gap, took, report) = host.longest_gap(child);
        over.push(gap);
        pauses.extend(report["subtasks-us"].as_array().into_iter().flatten().filter_map(Value::as_f64));
        usual.push(host.longest_gap_within(took));
    }
    let [usual, over] = [usual, over].map(median);
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    vec![
        Row(
            format!("swap with {millions} M keys, -p 2, full load: longest time without a record at the sink"),
            format!("{over:.1} ms; in as much time without a swap {usual:.1} ms (medians of {SWAPS})"),
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

impl Host {
    /// The longest time without a record until `child` has ended, in milliseconds; how long that took; and what it answers.
    fn longest_gap(&self, mut child: Child) -> (f64, Duration, Value) {
        let mut gaps = Gaps::new(self.taken());
        while child.try_wait().expect("it can be asked").is_none() {
            gaps.look(self.taken());
        }
        let output = child.wait_with_output().expect("it has ended");
        assert!(output.status.success(), "the swap is refused");
        (gaps.longest.as_secs_f64() * 1e3, gaps.since_start(), serde_json::from_slice(&output.stdout).expect("a report"))
    }

    fn longest_gap_within(&self, time: Duration) -> f64 {
        let mut gaps = Gaps::new(self.taken());
        while gaps.since_start() < time {
            gaps.look(self.taken());
        }
        gaps.longest.as_secs_f64() * 1e3
    }
}

/// Looks at a number that grows, and for how long it does not.
struct Gaps {
    start: Instant,
    seen: u64,
    at: Instant,
    longest: Duration,
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
impl Gaps {
    fn new(seen: u64) -> Self {
        let now = Instant::now();
        Gaps { start: now, seen, at: now, longest: Duration::ZERO }
    }

    fn look(&mut self, now: u64) {
        if now != self.seen {
            self.longest = self.longest.max(self.at.elapsed());
            (self.seen, self.at) = (now, Instant::now());
        }
    }

    fn since_start(&self) -> Duration {
        self.start.elapsed()
    }
}
