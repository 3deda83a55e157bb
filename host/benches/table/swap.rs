//! A swap under full load: the longest time in which the sink takes no record, and for how long a subtask has no component.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::jobs::{Words, guest};
use crate::{Row, cofferdam, median};

/// Swaps of which the median counts.
const SWAPS: usize = 5;

/// Words that have been counted before, so that nearly each key has been seen.
const BEFORE: u64 = 5_000_000;

/// `word-count` with 1 M keys: the operator with the state is swapped, again and again.
pub(crate) fn swaps() -> Vec<Row> {
    let dir = tempfile::tempdir().expect("a directory");
    let job = dir.path().join("job.toml");
    let words = Words { keys: 1_000_000, distribution: "uniform", lines: 1 << 40, parallelism: 2, interval: Some("1s"), state: "" };
    std::fs::write(&job, words.toml()).expect("a writable directory");
    let host = Host::start(dir.path());
    host.ask(&["deploy", &job.to_string_lossy()]);
    while host.taken() < BEFORE {
        std::thread::sleep(Duration::from_millis(10));
    }
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
            "swap with 1 M keys, -p 2, full load: longest time without a record at the sink".into(),
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

/// A running host. Dropped, it is killed.
struct Host {
    child: Child,
    address: String,
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Host {
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let address = said.find_map(|line| line.split("serving on ").nth(1).map(|rest| rest.trim().to_owned())).expect("its address");
        std::thread::spawn(move || said.for_each(drop));
        Host { child, address }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam"));
        command.args(arguments).env("COFFERDAM_ADDRESS", &self.address);
        command
    }

    fn ask(&self, arguments: &[&str]) {
        cofferdam(&[arguments, &["--address", &self.address]].concat());
    }

    /// Records that the sink has taken so far.
    fn taken(&self) -> u64 {
        let authority = self.address.split("//").nth(1).expect("a URL");
        let mut stream = TcpStream::connect(authority).expect("the host listens");
        write!(stream, "GET /v1/jobs/words HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let job: Value = answer.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).expect("JSON");
        let nodes = job["nodes"].as_array().expect("nodes");
        nodes.last().and_then(|sink| sink["records-in"].as_u64()).unwrap_or(0)
    }

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
