//! `/metrics`: what jobs count, for Prometheus. The one place where metrics are named; units are base units.

use std::fmt;
use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::problem::Problem;
use super::{Shared, blocking};
use crate::clock;
use crate::error::{Error, Kind};
use crate::service::{JobDetails, NodeView};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics, made anew for each answer from what jobs tell. Counters begin at 0 with each attempt; those of
/// an operator's own also with each component that takes it over.
struct Metrics {
    registry: Registry,
    state: Gauges,
    parallelism: Gauges,
    restarts: Counters,
    swaps: Counters,
    taken_back: Counters,
    completed: Counters,
    failed: Counters,
    in_a_row: Gauges,
    age: Gauges,
    written: Counters,
    records_in: Counters,
    records_out: Counters,
    records_failed: Counters,
    hits: Counters,
    misses: Counters,
    entries_in_memory: Gauges,
    bytes_in_memory: Gauges,
    bytes_on_disk: Gauges,
    own_counters: Counters,
    own_gauges: Gauges,
}

impl Metrics {
    fn new() -> Self {
        let mut registry = Registry::with_prefix("cofferdam");
        let cpu: Family<Labels, Counter<f64, AtomicU64>> = Family::default();
        registry.register_with_unit("host_cpu", "CPU time that the host has used", Unit::Seconds, cpu.clone());
        cpu.get_or_create(&Labels::new()).inc_by(clock::cpu().as_secs_f64());
        let version: Gauges = Family::default();
        registry.register("host_version", "1, with the host's version", version.clone());
        version.get_or_create(&vec![("version", env!("CARGO_PKG_VERSION").into())]).set(1.0);
        let r = &mut registry;
        Metrics {
            state: gauges(r, "job_state", "1 for the state in which the job is", None),
            parallelism: gauges(r, "job_parallelism", "Worker threads of the job", None),
            restarts: counters(r, "job_restarts", "Attempts that failed and were followed by another", None),
            swaps: counters(r, "job_swaps", "Components that have taken an operator over", None),
            taken_back: counters(
                r,
                "job_swaps_taken_back",
                "Components that have failed on probation, or before they had taken over",
                None,
            ),
            completed: counters(r, "job_checkpoints_completed", "Checkpoints committed", None),
            failed: counters(r, "job_checkpoints_failed", "Checkpoints that failed", None),
            in_a_row: gauges(r, "job_checkpoints_failed_in_a_row", "Checkpoints that failed since the last good one", None),
            age: gauges(r, "job_checkpoint_age", "Time since the last good checkpoint was committed", Some(Unit::Seconds)),
            written: counters(r, "job_checkpoints_written", "State written by checkpoints", Some(Unit::Bytes)),
            records_in: counters(r, "node_records_in", "Records that a node took; for a source, read", None),
            records_out: counters(r, "node_records_out", "Records that a node sent on; for a sink, wrote", None),
            records_failed: counters(r, "node_records_failed", "Records that a node could not work on and that were left out", None),
            hits: counters(r, "operator_state_hits", "Entries of state on disk that were looked for and found in memory", None),
            misses: counters(r, "operator_state_misses", "Entries of state on disk that were looked for there", None),
            entries_in_memory: gauges(r, "operator_state_entries_in_memory", "Entries of state on disk that are in memory", None),
            bytes_in_memory: gauges(r, "operator_state_in_memory", "Memory that they take", Some(Unit::Bytes)),
            bytes_on_disk: gauges(r, "operator_state_on_disk", "Files of state on disk", Some(Unit::Bytes)),
            own_counters: counters(r, "operator_counter", "What an operator counts itself, by name", None),
            own_gauges: gauges(r, "operator_gauge", "What an operator has set a gauge of its own to, by name", None),
            registry,
        }
    }

    fn add(&self, job: &JobDetails) {
        let labels: Labels = vec![("job", job.overview.name.clone())];
        let with = |name, value: &str| [labels.as_slice(), &[(name, value.to_owned())]].concat();
        self.state.get_or_create(&with("state", job.overview.state.name())).set(1.0);
        self.parallelism.get_or_create(&labels).set(job.overview.parallelism.into());
        self.restarts.get_or_create(&labels).inc_by(job.overview.restarts);
        self.swaps.get_or_create(&labels).inc_by(job.swaps.done);
        self.taken_back.get_or_create(&labels).inc_by(job.swaps.taken_back);
        let checkpoints = &job.checkpoints;
        self.completed.get_or_create(&labels).inc_by(checkpoints.completed);
        self.failed.get_or_create(&labels).inc_by(checkpoints.failed);
        self.in_a_row.get_or_create(&labels).set(checkpoints.failed_in_a_row as f64);
        self.written.get_or_create(&labels).inc_by(checkpoints.bytes);
        if let Some(age) = checkpoints.last_good_age_seconds {
            self.age.get_or_create(&labels).set(age);
        }
        job.nodes.iter().for_each(|node| self.add_node(&[labels.as_slice(), &[("node", node.uid.clone())]].concat(), node));
    }

    fn add_node(&self, labels: &Labels, node: &NodeView) {
        let with = |more: &[(&'static str, String)]| [labels.as_slice(), more].concat();
        self.records_in.get_or_create(labels).inc_by(node.records_in);
        self.records_out.get_or_create(labels).inc_by(node.records_out);
        self.records_failed.get_or_create(labels).inc_by(node.records_failed);
        if let Some(state) = &node.state {
            self.hits.get_or_create(labels).inc_by(state.hits);
            self.misses.get_or_create(labels).inc_by(state.misses);
            self.entries_in_memory.get_or_create(labels).set(state.entries_in_memory as f64);
            self.bytes_in_memory.get_or_create(labels).set(state.bytes_in_memory as f64);
            self.bytes_on_disk.get_or_create(labels).set(state.bytes_on_disk as f64);
        }
        for (name, count) in &node.counters {
            self.own_counters.get_or_create(&with(&[("name", name.clone())])).inc_by(*count);
        }
        for (name, values) in &node.gauges {
            for (subtask, value) in values.iter().enumerate().filter_map(|(subtask, value)| Some((subtask, (*value)?))) {
                self.own_gauges.get_or_create(&with(&[("name", name.clone()), ("subtask", subtask.to_string())])).set(value);
            }
        }
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry).map(|()| text)
    }
}

fn counters(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> Counters {
    let family = Counters::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

fn gauges(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> Gauges {
    let family = Gauges::default();
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family.clone()),
        None => registry.register(name, help, family.clone()),
    }
    family
}

/// What all jobs count, in the text format of Prometheus and OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "host", responses((status = 200, body = String, content_type = FORMAT)))]
pub(super) async fn metrics(State(host): Shared) -> Result<impl IntoResponse, Problem> {
    let text = blocking(move || {
        let metrics = Metrics::new();
        host.all_details().iter().for_each(|job| metrics.add(job));
        metrics.text().map_err(|error| Error::new(Kind::Internal, format!("metrics can't be written: {error}")))
    });
    Ok(([(header::CONTENT_TYPE, FORMAT)], text.await?))
}
