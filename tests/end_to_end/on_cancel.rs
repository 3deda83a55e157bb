//! What becomes of checkpoints when a job is cancelled, as its job file says, or else the host's file for all of its jobs.

use std::time::Duration;

use crate::flights;
use crate::harness::{Host, JobFile, Place, Random, assert_lines, until};

/// What a host's file says for jobs that say nothing else.
const DELETE: &str = "format = 1\n[checkpoint]\non-cancel = \"delete\"\n";

/// The flights job that says so itself.
fn job(on_cancel: &str) -> JobFile {
    flights::job("rate = 2000").checkpoint(&format!("interval = \"40ms\"\ndir = \"checkpoints\"\n{on_cancel}"))
}

/// Deploys the flights job, and cancels it when it has some checkpoints and output.
fn cancelled(place: &Place, host: &Host<'_>) {
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_until("job", "checkpoints with output", |_| place.newest(1) >= 3 && !place.lines("out").is_empty());
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
}

#[test]
fn they_are_deleted_and_the_job_begins_anew_beside_its_output() {
    let place = flights::place("");
    place.set_job(&job("on-cancel = \"delete\""));
    let host = place.host();
    cancelled(&place, &host);
    let left: Vec<_> = place.manifests(1).iter().map(|manifest| manifest.json["trigger"].clone()).collect();
    assert_eq!((left, place.state_files(1).len()), (vec!["cancel".into()], 0), "an entry that says so, and no state");
    let first = place.visible("out");
    assert!(!first.is_empty());
    place.set_job(&flights::job(""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "FINISHED");
    let both = place.visible("out");
    assert!(first.iter().all(|(name, text)| both.get(name) == Some(text)), "what was published is as it was");
    let second = both.iter().filter(|(name, _)| !first.contains_key(*name)).flat_map(|(_, text)| text.lines().map(str::to_owned));
    assert_lines(second, flights::oracle(), "the second run");
    assert!(place.newest(2) > 0);
}

#[test]
fn a_host_that_was_killed_before_it_could_delete_them_does_it_when_it_is_started_again() {
    let place = flights::place("rate = 2000");
    place.write("host.toml", DELETE);
    let host = place.host_with(&["--host-file", "host.toml"]);
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_until("job", "checkpoints", |_| place.newest(1) >= 3);
    host.kill();
    // All that was done of `cancel`.
    let deployed = std::fs::read_to_string(place.path("data/jobs/job/job.json")).unwrap();
    let cancelled = deployed.replace("\"wanted\": \"running\"", "\"wanted\": \"cancelled\"");
    assert_ne!(cancelled, deployed);
    place.write("data/jobs/job/job.json", cancelled);
    let host = place.host_with(&["--host-file", "host.toml"]);
    host.wait_for("job", "CANCELLED");
    let left: Vec<_> = place.manifests(1).iter().map(|manifest| manifest.json["trigger"].clone()).collect();
    assert_eq!((left, place.state_files(1).len()), (vec!["cancel".into()], 0), "an entry that says so, and no state");
}

#[test]
fn otherwise_they_stay_and_the_job_goes_on_from_them() {
    for (own, of_host) in [("", "format = 1\n"), ("on-cancel = \"retain\"", DELETE)] {
        let place = flights::place("");
        place.set_job(&job(own));
        place.write("host.toml", of_host);
        let host = place.host_with(&["--host-file", "host.toml"]);
        cancelled(&place, &host);
        assert!(!place.state_files(1).is_empty());
        place.set_job(&flights::job(""));
        host.cofferdam(&["deploy", "job.toml"]).succeeds();
        host.wait_for("job", "FINISHED");
        assert_lines(place.lines("out"), flights::oracle(), "before and after");
    }
}

#[test]
fn a_cancel_that_meets_the_last_checkpoint_of_a_stop_is_done_or_refused_whenever_the_host_is_killed() {
    let mut random = Random::new(57);
    for round in 0..8 {
        let place = flights::place("rate = 4000");
        place.write("host.toml", DELETE);
        let mut host = place.host_with(&["--host-file", "host.toml"]);
        host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
        host.wait_until("job", "checkpoints with output", |_| place.newest(1) >= 3 && !place.lines("out").is_empty());
        let stopping = host.start(&["stop", "job"]);
        std::thread::sleep(Duration::from_micros(random.below(120_000)));
        let cancelling = host.start(&["cancel", "job"]);
        let is_killed = random.below(3) > 0;
        if is_killed {
            std::thread::sleep(Duration::from_micros(random.below(120_000)));
            host.kill();
            host = place.host_with(&["--host-file", "host.toml"]);
        }
        let (stopped, cancelled) = (stopping.wait().code(), cancelling.wait().code());
        let ends = ["RUNNING", "STOPPED", "CANCELLED"];
        let state = until("a state that lasts", || {
            let state = host.describe("job")["state"].as_str().unwrap().to_owned();
            ends.contains(&state.as_str()).then_some(state)
        });
        println!("round {round}: stop {stopped:?}, cancel {cancelled:?}, killed {is_killed}: {state}");
        assert!(cancelled != Some(0) || state == "CANCELLED", "it was done");
        assert!(stopped != Some(0) || state != "RUNNING", "it was done");
        let published = place.visible("out");
        let left: Vec<_> = place.manifests(1).iter().map(|manifest| manifest.json["trigger"].clone()).collect();
        if state == "CANCELLED" {
            assert_eq!((left, place.state_files(1).len()), (vec!["cancel".into()], 0), "an entry that says so, and no state");
        }
        if state == "RUNNING" {
            host.cofferdam(&["stop", "job"]).succeeds();
        }
        place.set_job(&flights::job(""));
        host.cofferdam(&["deploy", "job.toml"]).succeeds();
        host.wait_for("job", "FINISHED");
        let again = place.visible("out");
        let is_of_run = |name: &String| state != "CANCELLED" || !published.contains_key(name);
        let lines = again.iter().filter(|(name, _)| is_of_run(name)).flat_map(|(_, text)| text.lines().map(str::to_owned));
        assert_lines(lines, flights::oracle(), "from the end of the stop, or anew");
    }
}
