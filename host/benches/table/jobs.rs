//! Whole jobs: words per second and CPU-second, start-up, size.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{Row, cofferdam, median, timed};

/// Runs of each configuration; the median counts.
const RUNS: usize = 3;

/// Has a checkpoint taken each second.
pub(crate) const EACH_SECOND: &str = "interval = \"1s\"";

/// Settings of a word-count job. Unless they say otherwise it has one worker, a checkpoint each second, and input without an end.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) keys: u64,
    pub(crate) distribution: &'static str,
    pub(crate) lines: u64,
    pub(crate) parallelism: u16,
    /// Lines of `[checkpoint]`.
    pub(crate) checkpoint: &'static str,
    /// Lines of `[state]`.
    pub(crate) state: &'static str,
    /// Lines of `[[source]]`.
    pub(crate) source: &'static str,
    /// Lines of the `[[operator]]` that counts.
    pub(crate) count: &'static str,
}

impl Default for Words {
    fn default() -> Self {
        Words {
            keys: 10_000,
            distribution: "zipf",
            lines: 1 << 40,
            parallelism: 1,
            checkpoint: EACH_SECOND,
            state: "",
            source: "",
            count: "",
        }
    }
}

impl Words {
    /// Runs it in a directory of its own; returns the summary.
    pub(crate) fn run(&self) -> Value {
        let dir = tempfile::tempdir().expect("a directory");
        let printed = cofferdam(&["run", "--output", "json", &self.write(dir.path())]);
        serde_json::from_str(&printed).expect("a summary")
    }

    /// Writes the job file into a directory; returns its path.
    pub(crate) fn write(&self, dir: &Path) -> String {
        let job = dir.join("job.toml");
        std::fs::write(&job, self.toml()).expect("a writable directory");
        job.to_string_lossy().into_owned()
    }

    fn toml(&self) -> String {
        let Words { keys, distribution, lines, parallelism, checkpoint, state, source, count } = self;
        format!(
            r#"format = 1
[job]
name = "words"
parallelism = {parallelism}
[checkpoint]
dir = "checkpoints"
{checkpoint}
[state]
{state}
[[source]]
uid = "lines"
type = "generator"
kind = "words"
keys = {keys}
words-per-line = 10
lines = {lines}
seed = 1
distribution = "{distribution}"
{source}
[[operator]]
uid = "tokenize"
component = "{}"
inputs = ["lines"]
[[operator]]
uid = "count"
component = "{}"
inputs = ["tokenize"]
{count}
[[sink]]
uid = "out"
type = "blackhole"
inputs = ["count"]
"#,
            guest("word_count_tokenize"),
            guest("word_count_count")
        )
    }
}

pub(crate) fn guest(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    root.join(format!("target/wasm32-wasip2/guest/{name}.wasm")).to_string_lossy().into_owned()
}

pub(crate) fn number(summary: &Value, pointer: &str) -> f64 {
    summary.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

/// Words per second and per CPU-second of the median run, in millions.
fn rates(words: &Words) -> (f64, f64) {
    let runs: Vec<Value> = (0..RUNS).map(|_| words.run()).collect();
    let total = (words.lines * 10) as f64 / 1e6;
    let rate = |pointer| median(runs.iter().map(|summary| total / number(summary, pointer)).collect());
    (rate("/seconds"), rate("/cpu-seconds"))
}

/// `word-count` with checkpoints every second.
pub(crate) fn words() -> Vec<Row> {
    let job = |keys, parallelism, lines| Words { keys, parallelism, lines, ..Words::default() };
    let (one, one_cpu) = rates(&job(10_000, 1, 4_000_000));
    let (two, two_cpu) = rates(&job(10_000, 2, 8_000_000));
    let (many, many_cpu) = rates(&job(1_000_000, 1, 2_000_000));
    let row = |what: &str, wall: f64, cpu: f64| Row(what.into(), format!("{wall:.1} M words/s, {cpu:.1} M words per CPU-second"));
    vec![
        row("word-count, 10 k keys, -p 1", one, one_cpu),
        row("word-count, 10 k keys, -p 2", two, two_cpu),
        Row("the second worker gives".into(), format!("{:.2} times the words/s of one", two / one)),
        row("word-count, 1 M keys, -p 1", many, many_cpu),
    ]
}

/// `word-count` with state on disk: where all of it has room in memory, and where a tenth has; and with words that nearly all are new, of
/// which there are more in a snapshot the longer the one before it takes.
pub(crate) fn disk() -> Vec<Row> {
    let job = |keys, lines, state| Words { keys, lines, state, ..Words::default() };
    let row = |what: &str, words: Words| {
        let (wall, cpu) = rates(&words);
        Row(format!("word-count on disk, {what}"), format!("{wall:.2} M words/s, {cpu:.2} M words per CPU-second"))
    };
    let new = Words { distribution: "uniform", ..job(40_000_000, 300_000, "backend = \"disk\"") }.run();
    let each = number(&new, "/seconds") / number(&new, "/checkpoints");
    vec![
        row("10 k keys", job(10_000, 4_000_000, "backend = \"disk\"")),
        row("1 M keys", job(1_000_000, 2_000_000, "backend = \"disk\"")),
        row("1 M keys with memory for a tenth", job(1_000_000, 300_000, "backend = \"disk\"\nmemory = \"20MiB\"")),
        Row("word-count on disk, 3 M words of 40 M, a checkpoint each second".into(), format!("one in {each:.1} s")),
    ]
}

/// From the start of the process to the first record out; size; memory of an idle job.
pub(crate) fn start() -> Vec<Row> {
    let dir = tempfile::tempdir().expect("a directory");
    let job = dir.path().join("job.toml");
    let words = Words { keys: 100, distribution: "uniform", lines: 1, ..Words::default() };
    // Lines pass through an operator to standard output.
    let (source, _) =
        words.toml().split_once("[[operator]]").map(|(source, rest)| (source.to_owned(), rest.to_owned())).expect("operators");
    let component = guest("fixture_flat_map");
    let rest = format!("[[operator]]\nuid = \"pass\"\ncomponent = \"{component}\"\ninputs = [\"lines\"]\nconfig = {{ times = 1 }}\n");
    let sink = "[[sink]]\nuid = \"out\"\ntype = \"stdout\"\ninputs = [\"pass\"]\n";
    std::fs::write(&job, format!("{source}{rest}{sink}")).expect("a writable directory");
    let first = || {
        let (took, mut child) = timed(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam"));
            let mut child = command.arg("run").arg(&job).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary runs");
            child.stdout.take().expect("a pipe").read_exact(&mut [0]).expect("a record");
            child
        });
        child.wait().expect("it ends");
        took.as_secs_f64() * 1e3
    };
    first();
    let took = median((0..9).map(|_| first()).collect());
    let size = std::fs::metadata(env!("CARGO_BIN_EXE_cofferdam")).expect("the binary").len() as f64 / 1e6;
    vec![
        Row("start of the process to the first record out, components cached".into(), format!("{took:.0} ms")),
        Row("size of the release binary".into(), format!("{size:.1} MB")),
        Row("memory of an idle job, -p 1".into(), idle()),
    ]
}

/// Resident memory of a job that reads one record per second.
fn idle() -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let job = Words { keys: 100, distribution: "uniform", source: "rate = 1", ..Words::default() }.write(dir.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
        .args(["run", &job])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let resident = resident(&child);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    resident
}

/// Resident memory of a process that has just been started, once it has come to rest.
pub(crate) fn resident(child: &Child) -> String {
    std::thread::sleep(Duration::from_secs(3));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    resident.map_or("unknown".into(), |kib| format!("{:.1} MB", kib * 1024.0 / 1e6))
}
