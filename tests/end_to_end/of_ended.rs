//! Savepoints of jobs that have stopped between two attempts, after they were deployed with something that keeps them from a checkpoint.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::{Host, JobFile, Place};
use crate::savepoint::location;

fn job(component: &str, config: &str, interval: &str) -> JobFile {
    JobFile::new(interval)
        .restart("strategy = \"fixed-delay\"\ndelay = \"1day\"")
        .source("lines", "type = \"file\"\npath = \"input\"\nrate = 100")
        .operator("passes", component, &["lines"], config)
        .file_sink("out", &["passes"])
}

/// A job that has stopped with checkpoints, and the digest of the component that they name.
fn stopped(place: &Place) -> (Host<'_>, String) {
    place.write_lines("input", vec!["line"; 100_000]);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.running().wait_until("some checkpoints", || place.newest(1) >= 3);
    host.json(&["stop", "job"]);
    let digest = host.describe("job")["components"][0]["digest"].as_str().expect("a digest").to_owned();
    (host, digest)
}

fn place() -> Place {
    Place::new(&job("fixture-flat-map", "config = { times = 1 }", "20ms"))
}

/// Deploys it with a component that fails on the first record, long before a checkpoint, and stops it before the next attempt.
fn stopped_before_a_checkpoint(place: &Place, host: &Host<'_>, args: &[&str]) {
    place.set_job(&job("fixture-misbehave", "config = { on = \"line\", how = \"panic\" }", "1h"));
    host.cofferdam(&[&["deploy", "job.toml"], args].concat()).succeeds();
    host.wait_until("job", "its attempt has failed", |details| !details["last-error"].is_null());
    host.json(&["stop", "job"]);
    assert_eq!(host.describe("job")["state"], "STOPPED");
}

#[test]
fn it_has_the_components_that_its_checkpoint_names_and_not_those_deployed_since() {
    let place = place();
    let (host, digest) = stopped(&place);
    stopped_before_a_checkpoint(&place, &host, &[]);
    let components = |saved: &Path| fs::read_dir(saved.join("components")).unwrap().flatten().map(|entry| entry.file_name());
    let (saved, checkpoint) = location(&host.json(&["savepoint", "job", "savepoints"]));
    assert_eq!(checkpoint, place.newest(1));
    assert_eq!(components(&saved).collect::<Vec<_>>(), [&*format!("{digest}.wasm")]);
    let inspected = place.cofferdam(&["inspect", saved.to_str().unwrap(), "--output", "json"]).succeeds().json();
    assert_eq!((&inspected["broken"], &inspected["foreign"]), (&json!([]), &json!([])));

    host.json(&["component", "rm", &digest]);
    let words = [&*format!("names component {digest} "), "of operator `passes`, which is missing", "--without-components"];
    host.cofferdam(&["savepoint", "job", "savepoints"]).ends_with(4).says(&words);
    host.json(&["savepoint", "job", "savepoints", "--without-components"]);
}

#[test]
fn there_is_none_of_a_checkpoint_that_the_job_was_told_to_pass_over() {
    let place = place();
    let (host, _) = stopped(&place);
    let older = place.manifests(1)[0].path.to_str().unwrap().to_owned();
    stopped_before_a_checkpoint(&place, &host, &["-s", &older, "--allow-duplicates"]);
    host.cofferdam(&["savepoint", "job", "savepoints"])
        .ends_with(10)
        .says(&["job `job` goes on from ", "has no checkpoint of its own since"]);
}

#[test]
fn one_that_a_stopped_job_has_still_to_begin_from_is_not_removed() {
    let place = place();
    let (host, _) = stopped(&place);
    let (saved, _) = location(&host.json(&["savepoint", "job", "savepoints"]));
    let saved = saved.to_str().unwrap();
    stopped_before_a_checkpoint(&place, &host, &["-s", saved]);
    let words = [&*format!("savepoint {saved} is what job `job` begins from"), "or forget the job first"];
    host.cofferdam(&["savepoint", "dispose", saved]).ends_with(10).says(&words);
    host.json(&["forget", "job"]);
    host.json(&["savepoint", "dispose", saved]);
    assert!(!Path::new(saved).exists());
}
