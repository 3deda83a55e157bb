//! What checkpoints cost a job at full load: words per second, and pauses at barriers and after them.

use serde_json::Value;

use crate::jobs::{EACH_SECOND, Words, number};
use crate::{Row, median};

/// Runs of each configuration; the median counts.
const RUNS: usize = 3;

/// 1 M keys: evenly drawn, so that nearly all are written between two barriers a second apart; and drawn as words of a language are.
/// Takes two to three minutes.
pub(crate) fn pauses() -> Vec<Row> {
    let even = costs("uniform", 2, &[EACH_SECOND, "interval = \"200ms\""]);
    let uneven = [1, 2].map(|parallelism| costs("zipf", parallelism, &[EACH_SECOND]));
    even.into_iter().chain(uneven.into_iter().flatten()).collect()
}

/// Words per second without checkpoints, and with each of the settings of them.
fn costs(distribution: &'static str, parallelism: u16, settings: &[&'static str]) -> Vec<Row> {
    let lines = 3_000_000 * u64::from(parallelism);
    let words = Words { keys: 1_000_000, distribution, lines, parallelism, ..Words::default() };
    let measure = |checkpoint| {
        let runs: Vec<Value> = (0..RUNS).map(|_| Words { checkpoint, ..words }.run()).collect();
        let rate = median(runs.iter().map(|summary| lines as f64 / 1e5 / number(summary, "/seconds")).collect());
        (rate, runs)
    };
    let (base, _) = measure("");
    let what = format!("1 M keys, {distribution}, -p {parallelism}");
    let mut rows = vec![Row(format!("{what}, no checkpoints"), format!("{base:.1} M words/s"))];
    for checkpoint in settings {
        let (rate, runs) = measure(checkpoint);
        let loss = (1.0 - rate / base) * 100.0;
        let checkpoints = median(runs.iter().map(|summary| number(summary, "/checkpoints")).collect());
        let figures = format!("{rate:.1} M words/s (loss {loss:.0} %), {}, {checkpoints} checkpoints", pauses_of(&runs));
        rows.push(Row(format!("{what}, `{checkpoint}`"), figures));
    }
    rows
}

/// How long barriers kept operators from their records, in the median of several runs.
pub(crate) fn pauses_of(runs: &[Value]) -> String {
    let figure = |pointer: &str| median(runs.iter().map(|summary| number(summary, pointer)).collect());
    let [freezes, slices] = ["freezes", "slices"]
        .map(|what| ["median", "p99", "max"].map(|part| format!("{:.0}", figure(&format!("/{what}/{part}")))).join(" / "));
    format!("freeze {freezes} µs, slice {slices} µs (median / p99 / max)")
}
