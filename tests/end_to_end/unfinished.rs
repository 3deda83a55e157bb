//! Savepoints that do not come to their end: nothing is left of them, and nobody else's is touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::flights;
use crate::harness::s3::{Bucket, Fault, Server};
use crate::harness::{Host, Place, until};
use crate::savepoint::deployed;

/// A server that holds up the first put of a savepoint's file.
struct Gate {
    server: Server,
    entered: Arc<AtomicBool>,
    open: Arc<AtomicBool>,
}

impl Gate {
    /// At files whose names end so. What is held up is then done, or refused, if the host that has asked is gone by then.
    fn at(file: &'static str, then: Option<u16>) -> Self {
        let (server, entered, open) = (Server::start(), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (seen, gate) = (Arc::clone(&entered), Arc::clone(&open));
        server.misbehaves(move |request| {
            if request.method != "PUT" || !request.key.contains("/savepoint-") || !request.key.ends_with(file) {
                return None;
            }
            let is_first = !seen.swap(true, Ordering::SeqCst);
            until("the gate is opened", || gate.load(Ordering::SeqCst).then_some(()));
            then.filter(|_| is_first).map(Fault::Refused)
        });
        Gate { server, entered, open }
    }

    fn place(&self, rate: &str) -> Place {
        let place = flights::place("");
        Bucket::give_credentials(&place);
        place.set_job(&flights::job(rate).checkpoint(&self.server.bucket.settings("40ms")));
        place
    }

    fn wait(&self) {
        until("a savepoint is being written", || self.entered.load(Ordering::SeqCst).then_some(()));
    }

    fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }

    /// What lies where savepoints are kept.
    fn saved(&self) -> Vec<String> {
        self.server.bucket.keys().into_iter().filter(|key| key.starts_with("saved/")).collect()
    }
}

const SAVE: [&str; 5] = ["savepoint", "job", "s3://bucket/saved", "--trigger-id", "x"];

#[test]
fn of_one_that_is_written_when_its_job_is_cancelled_nothing_is_left() {
    let gate = Gate::at("job.toml", None);
    let place = gate.place("rate = 400");
    let host = deployed(&place, "2");
    let saving = host.start(&SAVE);
    gate.wait();
    let cancelling = host.start(&["cancel", "job"]);
    host.wait_for("job", "CANCELLING");
    assert!(gate.saved().iter().any(|key| key.ends_with(".state")), "{:?}", gate.saved());
    gate.open();
    cancelling.wait().succeeds();
    saving.wait().ends_with(10).says(&["job `job` has ended before a savepoint was taken"]);
    assert_eq!(gate.saved(), [""; 0]);
}

#[test]
fn one_of_a_stopped_job_whose_host_was_killed_is_cleared_away_and_asked_for_again() {
    let gate = Gate::at("manifest.json", Some(403));
    let place = gate.place("rate = 400");
    let host = deployed(&place, "2");
    host.cofferdam(&["stop", "job"]).succeeds();
    let saving = host.start(&SAVE);
    gate.wait();
    host.kill();
    saving.wait().ends_with(8);
    assert!(gate.saved().len() > 3, "{:?}", gate.saved());
    gate.open();
    let host = place.host();
    until("it is cleared away", || gate.saved().is_empty().then_some(()));
    host.cofferdam(&SAVE).succeeds();
    let left = gate.saved();
    assert!(left.iter().any(|key| key.ends_with("/manifest.json")) && !left.iter().any(|key| key.ends_with("/writer")), "{left:?}");
}

#[test]
fn of_two_hosts_that_write_the_same_one_the_second_is_refused_and_changes_nothing() {
    let gate = Gate::at("job.toml", None);
    let ended = |name: &str| {
        let place = gate.place("");
        // Each has its own checkpoints, and both have ended with the first.
        let settings = gate.server.bucket.settings("1h").replace("check/points", name);
        place.set_job(&flights::job("").checkpoint(&settings));
        place
    };
    let (one, other) = (ended("one"), ended("other"));
    let finished = |host: &Host<'_>| {
        host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
        host.wait_for("job", "FINISHED");
    };
    let (one, other) = (one.host(), other.host());
    finished(&one);
    finished(&other);
    let first = one.start(&SAVE);
    gate.wait();
    let before = gate.saved();
    other.cofferdam(&SAVE).ends_with(6).says(&["saved/savepoint-job-1-x is being written by somebody else"]);
    assert_eq!(gate.saved(), before);
    gate.open();
    first.wait().succeeds();
    other.cofferdam(&SAVE).ends_with(6).says(&["saved/savepoint-job-1-x/manifest.json exists already"]);
    let manifest = gate.server.bucket.get("saved/savepoint-job-1-x/manifest.json").expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert!(manifest["savepoint"]["from"].as_str().unwrap().contains("/one/"), "it is the first's: {manifest}");
}
