//! What a running dataflow counts. Counters are per subtask and written by their owner only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::lull::Lull;
use crate::state::Usage;
use crate::wasm::{GuestMetrics, Reading};

/// Records through one subtask of a node, and what its guests count themselves.
#[derive(Debug, Default)]
pub struct Counts {
    records_in: AtomicU64,
    records_out: AtomicU64,
    records_failed: AtomicU64,
    own: Arc<GuestMetrics>,
    /// Of state that may be larger than memory.
    state: Mutex<Option<Usage>>,
}

impl Counts {
    pub(super) fn add_in(&self, records: u64) {
        self.records_in.fetch_add(records, Relaxed);
    }

    pub(super) fn records_in(&self) -> u64 {
        self.records_in.load(Relaxed)
    }

    pub(super) fn records_failed(&self) -> u64 {
        self.records_failed.load(Relaxed)
    }

    pub(super) fn add_failed(&self) {
        self.records_failed.fetch_add(1, Relaxed);
    }

    pub(super) fn add_out(&self, records: u64) {
        self.records_out.fetch_add(records, Relaxed);
    }

    pub(super) fn set_state(&self, usage: Usage) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(usage);
    }

    fn state(&self) -> Option<Usage> {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn own(&self) -> &Arc<GuestMetrics> {
        &self.own
    }
}

/// Records through a node, and what its state takes, over all its subtasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeCounts {
    /// Records taken; for a source, read.
    pub records_in: u64,
    /// Records sent on; for a sink, written.
    pub records_out: u64,
    /// Records that an operator could not work on, and that were left out.
    pub records_failed: u64,
    /// Of an operator whose keyed state may be larger than memory.
    pub state: Option<Usage>,
}

/// What an operator counts itself, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OwnMetrics {
    /// Counters, over all subtasks.
    pub counters: BTreeMap<String, u64>,
    /// Gauges, for each subtask; none where it has not been set.
    pub gauges: BTreeMap<String, Vec<Option<f64>>>,
}

/// Pauses are told up to a minute, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// What a running dataflow counts.
#[derive(Debug)]
pub struct Metrics {
    nodes: Vec<Vec<Counts>>,
    freezes: Mutex<Histogram<u64>>,
    slices: Mutex<Histogram<u64>>,
    lull: Lull,
}

/// How long barriers kept operators with state from their records, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pauses {
    /// How many pauses there were.
    pub count: u64,
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Metrics {
    /// For a plan with `nodes` nodes of `parallelism` subtasks each.
    pub fn new(nodes: usize, parallelism: u16) -> Self {
        let subtasks = || {
            let own = GuestMetrics::default();
            (0..parallelism).map(|_| Counts { own: Arc::new(own.of_another_subtask()), ..Counts::default() }).collect()
        };
        let histogram = || Mutex::new(Histogram::new_with_bounds(1, LONGEST, 2).expect("these are valid bounds"));
        Metrics { nodes: (0..nodes).map(|_| subtasks()).collect(), freezes: histogram(), slices: histogram(), lull: Lull::new() }
    }

    /// Records through a node so far.
    pub fn node(&self, node: usize) -> NodeCounts {
        let sum = |counter: fn(&Counts) -> &AtomicU64| self.nodes[node].iter().map(|counts| counter(counts).load(Relaxed)).sum();
        NodeCounts {
            records_in: sum(|counts| &counts.records_in),
            records_out: sum(|counts| &counts.records_out),
            records_failed: sum(|counts| &counts.records_failed),
            state: self.nodes[node].iter().filter_map(Counts::state).reduce(Usage::and),
        }
    }

    /// What an operator has counted itself so far.
    pub fn own(&self, node: usize) -> OwnMetrics {
        let mut all = OwnMetrics::default();
        let subtasks = &self.nodes[node];
        for (subtask, counts) in subtasks.iter().enumerate() {
            for (name, reading) in counts.own.readings() {
                match reading {
                    Reading::Counter(count) => {
                        let sum = all.counters.entry(name.to_string()).or_default();
                        *sum = sum.saturating_add(count);
                    }
                    Reading::Gauge(value) => {
                        all.gauges.entry(name.to_string()).or_insert_with(|| vec![None; subtasks.len()])[subtask] = Some(value);
                    }
                }
            }
        }
        all
    }

    /// Pauses at the barriers themselves.
    pub fn freezes(&self) -> Pauses {
        pauses(&self.freezes)
    }

    /// Pauses between later batches, for slices of the frozen state.
    pub fn slices(&self) -> Pauses {
        pauses(&self.slices)
    }

    /// For how long no record has reached a sink.
    pub fn lull(&self) -> &Lull {
        &self.lull
    }

    pub(super) fn counts(&self, node: usize, subtask: u16) -> &Counts {
        &self.nodes[node][subtask as usize]
    }

    pub(super) fn froze(&self, took: Duration) {
        record(&self.freezes, took);
    }

    pub(super) fn sliced(&self, took: Duration) {
        record(&self.slices, took);
    }
}

fn record(histogram: &Mutex<Histogram<u64>>, took: Duration) {
    let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    histogram.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos);
}

fn pauses(histogram: &Mutex<Histogram<u64>>) -> Pauses {
    let histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
    let micros = |nanos: u64| nanos as f64 / 1e3;
    Pauses {
        count: histogram.len(),
        median: micros(histogram.value_at_quantile(0.5)),
        p99: micros(histogram.value_at_quantile(0.99)),
        max: micros(histogram.max()),
    }
}
