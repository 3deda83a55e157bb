//! What records that fail cost: the throughput of an operator that needs about a microsecond per record, of which every hundredth
//! fails, beside that without failures; and what the readiness for it costs where none fails.

use serde_json::Value;

use crate::jobs::{Words, guest, number};
use crate::{Row, cofferdam, median};

const LINES: u64 = 1_000_000;
const RUNS: usize = 3;

/// Records per second, in millions. A line is one of a hundred words, evenly drawn; the operator counts to `spins` for each.
fn rate(on: &str, how: &str, policy: &str, spins: u64) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    let job = dir.path().join("job.toml");
    let component = guest("fixture_misbehave");
    let letters = match policy {
        "dead-letter" => "[[sink]]\nuid = \"letters\"\ntype = \"file\"\npath = \"letters\"\ninputs = [\"fragile.dead-letter\"]\n",
        _ => "",
    };
    let text = format!(
        r#"format = 1
[job]
name = "errors"
parallelism = 2
[checkpoint]
interval = "1s"
dir = "checkpoints"
[[source]]
uid = "lines"
type = "generator"
kind = "words"
keys = 100
words-per-line = 1
lines = {LINES}
distribution = "uniform"
[[operator]]
uid = "fragile"
component = "{component}"
inputs = ["lines"]
config = {{ on = "{on}", how = "{how}", spins = {spins} }}
on-error = "{policy}"
max-errors = 1000000000
[[sink]]
uid = "out"
type = "blackhole"
inputs = ["fragile"]
{letters}"#
    );
    std::fs::write(&job, text).expect("a writable directory");
    let seconds = (0..RUNS).map(|_| {
        let summary: Value =
            serde_json::from_str(&cofferdam(&["run", "--fresh", "--output", "json", &job.to_string_lossy()])).expect("a summary");
        number(&summary, "/seconds")
    });
    LINES as f64 / 1e6 / median(seconds.collect())
}

/// All figures in one run of the machine.
pub(crate) fn errors() -> Vec<Row> {
    const BAD: &str = "w0000042";
    // So that the operator takes about a microsecond per record on this machine: it counts, and does a little besides.
    let mut spins = 2000;
    for _ in 0..2 {
        spins = (spins as f64 * rate("none", "error", "skip", spins) / 2.0) as u64;
    }
    let (without, ready) = (rate("none", "error", "fail", spins), rate("none", "error", "skip", spins));
    let figures = |how: &str| {
        let rate = rate(BAD, how, "dead-letter", spins);
        format!("{rate:.2} M records/s: {:.2} of that without", rate / ready)
    };
    let cost = 2000.0 / ready;
    vec![
        Row(
            "an operator without failures, -p 2, policy `skip`".into(),
            format!("{ready:.2} M records/s, {cost:.0} ns per record and worker"),
        ),
        Row("the same with policy `fail`".into(), format!("{without:.2} M records/s: {:.2} of that with `skip`", without / ready)),
        Row("every 100th record is rejected, policy `dead-letter`".into(), figures("error")),
        Row("every 100th record panics, policy `dead-letter`".into(), figures("panic")),
        policies(),
    ]
}

/// What readiness for failures costs an operator that writes state for each record: every call can be undone, whatever the policy.
fn policies() -> Row {
    let rate = |policy| {
        let words = Words { lines: 2_000_000, count: policy, ..Words::default() };
        let seconds = (0..RUNS).map(|_| number(&words.run(), "/cpu-seconds"));
        (words.lines * 10) as f64 / 1e6 / median(seconds.collect())
    };
    let (skip, fail) = (rate("on-error = \"skip\""), rate("on-error = \"fail\""));
    Row(
        "word-count, 10 k keys, with policy `skip`".into(),
        format!("{skip:.1} M words per CPU-second: {:.2} of that with `fail`", skip / fail),
    )
}
