//! The benchmark table (`make bench`): whole jobs through the release binary, the guest boundary in process, and what an operator
//! notices of barriers. Prints a Markdown table; ARCHITECTURE.md keeps the last one. Nothing here asserts a time.

mod boundary;
mod errors;
mod host;
mod jobs;
mod kinds;
mod large;
mod pauses;
mod swap;

use std::process::Command;
use std::time::{Duration, Instant};

/// Measures something and says what in rows.
type Part = fn() -> Vec<Row>;

/// A row of the table: what was measured, and the figures.
struct Row(String, String);

fn main() {
    // `cargo bench -- FILTER` runs the part of that name, or else those whose name contains it.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let parts: [(&str, Part); 12] = [
        ("words", jobs::words),
        ("disk", jobs::disk),
        ("pauses", pauses::pauses),
        ("errors", errors::errors),
        ("large", large::large),
        ("swap", swap::swaps),
        ("swap-large", swap::large_swaps),
        ("start", jobs::start),
        ("host", host::host),
        ("boundary", boundary::calls),
        ("state", boundary::state),
        ("kinds", kinds::kinds),
    ];
    let is_name = parts.iter().any(|(name, _)| *name == filter);
    println!("| what | figures |\n| --- | --- |");
    for (_, part) in parts.iter().filter(|(name, _)| if is_name { *name == filter } else { name.contains(&filter) }) {
        part().into_iter().for_each(|Row(what, figures)| println!("| {what} | {figures} |"));
    }
}

/// The median of several figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// How long something takes, and what comes of it.
fn timed<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let start = Instant::now();
    let made = run();
    (start.elapsed(), made)
}

/// The shortest of `runs` runs, in nanoseconds per unit: what the machine can do when nobody else uses it.
fn best(runs: usize, units: u64, mut run: impl FnMut()) -> f64 {
    let mut least = Duration::MAX;
    for _ in 0..runs {
        least = least.min(timed(&mut run).0);
    }
    least.as_nanos() as f64 / units as f64
}

/// Runs the binary and returns what it prints to stdout.
fn cofferdam(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cofferdam")).args(arguments).output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
