//! Savepoints that a host is asked to remove, and the components that it is not to remove.

use std::path::Path;

use serde_json::json;

use crate::flights;
use crate::harness::assert_lines;
use crate::savepoint::{deployed, job, location};

/// The job without checkpoints but those that are asked for.
fn unchecked(rate: &str) -> crate::harness::JobFile {
    job(rate).checkpoint("dir = \"checkpoints\"\nsavepoint-dir = \"savepoints\"")
}

#[test]
fn a_host_removes_no_savepoint_that_a_job_has_still_to_begin_from() {
    let place = flights::place("");
    place.set_job(&job("rate = 8000"));
    let host = deployed(&place, "2");
    let (path, _) = location(&host.json(&["stop", "job", "--savepoint"]));
    let path = path.to_str().unwrap();
    place.set_job(&unchecked("rate = 200"));
    host.cofferdam(&["deploy", "job.toml", "-s", path]).succeeds();
    let dispose = ["savepoint", "dispose", path];
    let words = [&*format!("savepoint {path} is what job `job` begins from, and it has no checkpoint of its own yet")];
    host.cofferdam(&dispose).ends_with(10).says(&words);
    // A host that is started again knows it too, and whoever names the manifest means the same.
    host.kill();
    let host = place.host();
    host.wait_until("job", "records", |details| details["records-in"].as_u64() > Some(0));
    let manifest = format!("{path}/manifest.json");
    host.cofferdam(&["savepoint", "dispose", &manifest]).ends_with(10).says(&words);
    assert!(Path::new(&manifest).exists());

    // With a checkpoint of its own it has no need of it.
    let (other, _) = location(&host.json(&["savepoint", "job"]));
    let disposed = host.json(&dispose);
    assert_eq!((&disposed["path"], &disposed["was-whole"], &disposed["foreign"]), (&path.into(), &true.into(), &json!([])));
    assert!(!Path::new(path).exists());
    host.cofferdam(&dispose).ends_with(5).says(&["is no savepoint"]);
    assert!(other.exists());

    host.json(&["stop", "job"]);
    place.set_job(&unchecked(""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "FINISHED");
    assert_lines(place.lines("out"), flights::oracle(), "without the savepoint");
}

#[test]
fn a_component_is_in_use_until_its_job_is_forgotten_or_has_another() {
    let place = flights::place("");
    place.set_job(&job("rate = 8000"));
    let host = deployed(&place, "1");
    let components = host.describe("job")["components"].as_array().unwrap().clone();
    let digests: Vec<&str> = components.iter().map(|component| component["digest"].as_str().unwrap()).collect();
    let refused = |state: &str| {
        let words = [&*format!("is in use by job `job`, which is {state}"), "cofferdam forget job"];
        digests.iter().for_each(|digest| drop(host.cofferdam(&["component", "rm", digest]).ends_with(10).says(&words)));
    };
    refused("RUNNING");
    host.json(&["stop", "job"]);
    refused("STOPPED");
    // So that this is still possible, and to go on.
    let (path, _) = location(&host.json(&["savepoint", "job"]));
    assert!(path.join("components").exists());
    place.set_job(&job(""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "FINISHED");
    refused("FINISHED");
    host.json(&["forget", "job"]);
    digests.iter().for_each(|digest| drop(host.json(&["component", "rm", digest])));
    assert_eq!(host.json(&["component", "list"])["components"], json!([]));
    assert_lines(place.lines("out"), flights::oracle(), "with the same components");
}
