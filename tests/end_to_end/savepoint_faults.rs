//! Savepoints that are interrupted or can't be: they are whole or not there, the job goes on, and to ask again is safe.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

use crate::harness::s3::{Bucket, Fault, SECRET, Server};
use crate::harness::{Host, JobFile, Place, Random, Running, assert_lines, until};
use crate::savepoint::{deployed, job, location, published};
use crate::{flights, operator_state, sums};

/// The directories of savepoints that were asked for by a name, and whether each has its manifest.
fn asked(place: &Place, id: &str) -> Vec<(PathBuf, bool)> {
    let entries = fs::read_dir(place.path("savepoints")).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = entries.filter(|path| path.to_str().is_some_and(|path| path.ends_with(&format!("-{id}"))));
    named.map(|path| (path.clone(), path.join("manifest.json").exists())).collect()
}

/// How far a savepoint has come, as files tell.
fn progress(place: &Place, id: &str) -> u64 {
    let files = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().count() as u64;
    let of = |(path, whole): (PathBuf, bool)| {
        let state = fs::read_dir(path.join("state")).into_iter().flatten().flatten();
        1 + files(path.clone()) + files(path.join("components")) + state.map(|dir| files(dir.path())).sum::<u64>() + u64::from(whole)
    };
    asked(place, id).into_iter().map(of).sum()
}

/// Kills the host when a savepoint that was asked for has come so far, or is whole, and starts it again.
fn kill_at<'a>(mut host: Host<'a>, place: &'a Place, args: &[&str], id: &str, moment: u64) -> Host<'a> {
    let asking = host.start(&[args, &["--trigger-id", id]].concat());
    let is_whole = || asked(place, id).iter().any(|(_, whole)| *whole);
    host.running().wait_until("the moment to kill", || progress(place, id) >= moment || is_whole());
    host.kill();
    asking.wait();
    println!("{args:?} was to be killed at {moment}, and was at {}: {:?}", progress(place, id), asked(place, id));
    for (path, whole) in asked(place, id) {
        let inspected = place.cofferdam(&["inspect", path.to_str().unwrap(), "--output", "json"]);
        match whole {
            true => assert_eq!(inspected.succeeds().json()["broken"], Value::Array(vec![])),
            false => drop(inspected.ends_with(5)),
        }
    }
    place.host()
}

/// Asks again. Then there is one that is whole.
fn again(host: &Host<'_>, place: &Place, args: &[&str], id: &str) -> (PathBuf, u64) {
    let saved = location(&host.json(&[args, &["--trigger-id", id]].concat()));
    let whole: Vec<PathBuf> = asked(place, id).into_iter().filter(|(_, whole)| *whole).map(|(path, _)| path).collect();
    assert_eq!(whole, std::slice::from_ref(&saved.0));
    saved
}

#[test]
fn a_savepoint_whose_host_is_killed_is_whole_or_not_there_and_is_asked_for_again() {
    let place = flights::place("");
    place.set_job(&job("rate = 200"));
    let mut random = Random::new(91);
    let mut host = deployed(&place, "4");
    for kill in 0..8 {
        let id = format!("kill{kill}");
        host = kill_at(host, &place, &["savepoint", "job"], &id, random.below(14));
        host.wait_until("job", "an attempt", |details| details["state"] != "CREATED");
        again(&host, &place, &["savepoint", "job"], &id);
        until("what was interrupted is cleared away", || (asked(&place, &id).len() == 1).then_some(()));
    }
    host.end().succeeds();
    place.set_job(&job(""));
    place.run(&["-p", "2"]).succeeds();
    assert_lines(place.lines("out"), flights::oracle(), "nothing is lost or doubled");
}

#[test]
fn a_job_whose_host_is_killed_while_it_stops_with_a_savepoint_has_stopped_if_that_is_whole_and_runs_on_if_not() {
    let mut random = Random::new(92);
    for round in 0..6 {
        let place = flights::place("");
        place.set_job(&job("rate = 300"));
        let host = kill_at(deployed(&place, "4"), &place, &["stop", "job", "--savepoint"], "stop", random.below(16));
        let state = host.wait_until("job", "an attempt or an end", |details| details["state"] != "CREATED")["state"].clone();
        let was_whole = asked(&place, "stop").iter().any(|(_, whole)| *whole);
        assert_eq!(state, if was_whole { "STOPPED" } else { "RUNNING" }, "round {round}");
        let (path, checkpoint) = again(&host, &place, &["stop", "job", "--savepoint"], "stop");
        assert_eq!(host.describe("job")["state"], "STOPPED");
        assert_lines(place.lines("out"), published(&place, 1, checkpoint), "nothing after it");
        until("what was interrupted is cleared away", || (asked(&place, "stop").len() == 1).then_some(()));
        host.end().succeeds();
        place.set_job(&job(""));
        place.run(&["-s", path.to_str().unwrap()]).succeeds();
        assert_lines(place.lines("out"), flights::oracle(), "stopped and gone on");
    }
}

#[test]
fn where_a_savepoint_can_not_be_written_the_job_runs_on_and_the_command_says_why() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = flights::place("");
    Bucket::give_credentials(&place);
    let with_bucket = |rate: &str| {
        let settings = bucket.settings("40ms").replace("\n\n[checkpoint.s3]", "\nsavepoint-dir = \"s3://bucket/saved\"\n\n[checkpoint.s3]");
        flights::job(rate).checkpoint(&settings)
    };
    place.set_job(&with_bucket("rate = 400"));
    let host = deployed(&place, "2");
    let stop = ["stop", "job", "--savepoint"];
    for drain in [&[][..], &["--drain"]] {
        let nowhere = [&stop[..], &["job.toml/below"], drain].concat();
        host.cofferdam(&nowhere).ends_with(6).says(&["the savepoint directory", "job.toml/below can't be used"]);
    }
    host.cofferdam(&[&stop[..], &["memory:"]].concat()).ends_with(2).says(&["what is in memory ends with the process"]);
    // It can be opened, but then something goes wrong.
    server.misbehaves(|request| (request.method == "PUT" && request.key.contains("/savepoint-")).then_some(Fault::Refused(403)));
    host.cofferdam(&stop).ends_with(6).says(&["s3://bucket/saved/savepoint-job-", "can't be written", "403"]);
    let [checkpoint, read] = ["last-checkpoint", "records-in"].map(|field| host.describe("job")[field].as_u64());
    host.wait_until("job", "that it goes on", |details| {
        details["state"] == "RUNNING" && details["last-checkpoint"].as_u64() > checkpoint && details["records-in"].as_u64() > read
    });
    server.misbehaves(|_| None);
    assert!(!bucket.keys().iter().any(|key| key.starts_with("saved/")), "{:?}", bucket.keys());
    let saved = host.json(&stop);
    let checkpoint = saved["checkpoint"].as_u64().unwrap();
    assert_lines(place.lines("out"), published(&place, 1, checkpoint), "nothing after it");
    host.end().succeeds();
    // Moved to another place.
    let from = saved["location"].as_str().unwrap().strip_prefix("s3://bucket/").unwrap();
    bucket.move_all(&format!("{from}/"), "another/place/");
    place.set_job(&with_bucket(""));
    place
        .run(&["-p", "3", "-s", "s3://bucket/another/place"])
        .succeeds()
        .says(&["starting run 2 from savepoint s3://bucket/another/place"]);
    assert_lines(place.lines("out"), flights::oracle(), "stopped and gone on");
}

#[test]
fn while_a_job_stops_with_a_savepoint_it_does_not_stop_with_another() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = flights::place("");
    Bucket::give_credentials(&place);
    place.set_job(&flights::job("rate = 400").checkpoint(&bucket.settings("40ms")));
    let host = deployed(&place, "2");
    let (entered, open) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (seen, gate) = (Arc::clone(&entered), Arc::clone(&open));
    server.misbehaves(move |request| {
        if request.method == "PUT" && request.key.contains("/savepoint-") {
            seen.store(true, Ordering::SeqCst);
            until("the gate is opened", || gate.load(Ordering::SeqCst).then_some(()));
        }
        None
    });
    let first = host.start(&["stop", "job", "--savepoint", "s3://bucket/saved", "--output", "json"]);
    until("the first is being written", || entered.load(Ordering::SeqCst).then_some(()));
    for drain in [&[][..], &["--drain"]] {
        let another = [&["stop", "job", "--savepoint", "elsewhere"], drain].concat();
        host.cofferdam(&another).ends_with(10).says(&["job `job` is about to stop with savepoint"]);
    }
    let other = ["stop", "job", "--savepoint", "s3://bucket/saved", "--without-components"];
    host.cofferdam(&other).ends_with(10).says(&["job `job` is about to stop with savepoint"]);
    open.store(true, Ordering::SeqCst);
    let checkpoint = first.wait().succeeds().json()["checkpoint"].as_u64().unwrap();
    assert_eq!(host.describe("job")["state"], "STOPPED");
    assert_lines(place.lines("out"), published(&place, 1, checkpoint), "nothing after it");
}

#[test]
fn whoever_asks_for_another_savepoint_than_the_one_under_way_gets_another() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = flights::place("");
    Bucket::give_credentials(&place);
    place.set_job(&flights::job("rate = 400").checkpoint(&bucket.settings("40ms")));
    let host = deployed(&place, "2");
    let open = Arc::<AtomicBool>::default();
    let gate = Arc::clone(&open);
    server.misbehaves(move |request| {
        if request.method == "PUT" && request.key.contains("/savepoint-") {
            until("the gate is opened", || gate.load(Ordering::SeqCst).then_some(()));
        }
        None
    });
    let ask = |without: bool| {
        let body = serde_json::json!({ "target-directory": "s3://bucket/saved", "without-components": without });
        let (status, answer) = host.http("POST", "/v1/jobs/job/savepoints", &body.to_string());
        assert_eq!(status, 202, "{answer}");
        serde_json::from_str::<Value>(&answer).unwrap()["request-id"].as_str().unwrap().to_owned()
    };
    let asked = [false, true, false, true].map(ask);
    assert!(asked[0] == asked[2] && asked[1] == asked[3] && asked[0] != asked[1], "{asked:?}");
    open.store(true, Ordering::SeqCst);
    for (id, has_components) in [(&asked[0], true), (&asked[1], false)] {
        let saved = until("the savepoint", || {
            let (_, answer) = host.http("GET", &format!("/v1/jobs/job/savepoints/{id}"), "");
            Some(serde_json::from_str::<Value>(&answer).unwrap()).filter(|view| view["status"]["id"] == "COMPLETED")
        });
        let location = saved["operation"]["location"].as_str().unwrap_or_else(|| panic!("{saved}"));
        let inside = format!("{}/components/", location.strip_prefix("s3://bucket/").unwrap());
        assert_eq!(bucket.keys().iter().any(|key| key.starts_with(&inside)), has_components, "{saved}");
    }
}

#[test]
fn a_savepoint_in_a_bucket_is_removed_in_few_requests() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = flights::place("");
    Bucket::give_credentials(&place);
    place.set_job(&flights::job("rate = 4000").checkpoint(&bucket.settings("40ms")));
    let host = deployed(&place, "4");
    let saved = host.json(&["stop", "job", "--savepoint", "s3://bucket/saved"]);
    let files = bucket.keys().iter().filter(|key| key.starts_with("saved/")).count();
    let deletes = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&deletes);
    server.misbehaves(move |request| {
        let is_delete = request.method == "DELETE" || request.method == "POST" && request.query.contains_key("delete");
        counted.fetch_add(usize::from(is_delete), Ordering::SeqCst);
        None
    });
    let mut command = place.command(&["savepoint", "dispose", saved["location"].as_str().unwrap()]);
    command.env("AWS_ENDPOINT_URL", format!("http://{}", bucket.address)).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", SECRET);
    Running::start(command).wait().succeeds();
    assert!(!bucket.keys().iter().any(|key| key.starts_with("saved/")), "{:?}", bucket.keys());
    let deletes = deletes.load(Ordering::SeqCst);
    assert!(deletes <= 3 && files > 6, "{deletes} requests for {files} files");
}

/// Two hosts with one directory for savepoints: a name is asked for by both.
#[test]
fn a_savepoint_of_another_hosts_job_of_the_same_name_is_not_taken_for_its_own() {
    let shared = Place::empty();
    let target = shared.path("saved");
    let [first, second] = [(); 2].map(|()| {
        let place = flights::place("");
        place.set_job(&job("rate = 2000"));
        place
    });
    let daily = |host: &Host<'_>| {
        let body = serde_json::json!({ "target-directory": target, "trigger-id": "daily" });
        let (status, answer) = host.http("POST", "/v1/jobs/job/savepoints", &body.to_string());
        assert_eq!(status, 202, "{answer}");
        let saved = until("the savepoint", || {
            let (_, answer) = host.http("GET", "/v1/jobs/job/savepoints/daily", "");
            Some(serde_json::from_str::<Value>(&answer).unwrap()).filter(|view| view["status"]["id"] == "COMPLETED")
        });
        saved["operation"]["location"].as_str().unwrap_or_else(|| panic!("{saved}")).to_owned()
    };
    let host = deployed(&first, "1");
    let of_first = daily(&host);
    let newest = first.newest(1);
    let mut other = deployed(&second, "1");
    other.running().wait_until("later checkpoints", || second.newest(1) > newest);
    let of_second = daily(&other);
    assert_ne!(of_first, of_second);
    // Asked for again, both find their own, also after they have come back.
    for (host, place, own) in [(host, &first, of_first), (other, &second, of_second)] {
        assert_eq!(daily(&host), own);
        host.kill();
        let host = place.host();
        host.wait_for("job", "RUNNING");
        assert_eq!(daily(&host), own);
    }
}

/// The job has no checkpoints but those of savepoints, and no restarts: it goes on all the same.
#[test]
fn a_savepoint_that_an_operator_refuses_is_none_and_the_job_goes_on() {
    let job = |rate: &str, config: &str| {
        let job = operator_state::counts("fixture-local-memory", rate, config);
        job.checkpoint("dir = \"checkpoints\"\nsavepoint-dir = \"saved\"")
    };
    let config = "config = { refuses = [[1, 1], [1, 3], [3, 3]], panics = [[1, 4], [2, 3]] }";
    let place = Place::new(&job("rate = 100", config));
    let input = sums::input(&mut Random::new(93), 0, 12_000);
    place.write_lines("input/a", &input);
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    let runs_on = |attempt: u32| {
        let has_begun = |details: &Value| details["attempt"] == attempt && details["records-in"].as_u64() > Some(0);
        let read = host.wait_until("job", "the attempt", has_begun)["records-in"].as_u64();
        let details = host.wait_until("job", "that it reads", |details| details["records-in"].as_u64() > read);
        assert_eq!((&details["state"], &details["attempt"]), (&"RUNNING".into(), &attempt.into()));
    };
    runs_on(1);
    let refused = |command: &[&str], checkpoint: u32, why: &str| {
        let why = format!("operator `counts`, subtask 0: its snapshot hook, for checkpoint {checkpoint}: {why}");
        host.cofferdam(command).ends_with(1).says(&[&why, "the job goes on: ask again later"]);
    };
    refused(&["savepoint", "job"], 1, "failed: not now");
    runs_on(1);
    assert_eq!(location(&host.json(&["savepoint", "job"])).1, 2, "what the one before has brought is in it");
    refused(&["stop", "job", "--savepoint"], 3, "failed: not now");
    runs_on(1);
    // An instance that is spent has to begin again from a checkpoint.
    refused(&["savepoint", "job"], 4, "panicked: ");
    runs_on(2);
    refused(&["stop", "job", "--savepoint"], 3, "panicked: ");
    runs_on(3);
    // So has one that has finished.
    refused(&["stop", "job", "--savepoint", "--drain"], 3, "failed: not now");
    runs_on(4);
    let details = host.describe("job");
    assert_eq!((&details["restarts"], &details["last-error"]), (&0.into(), &Value::Null), "none of it was a failure of the job's");
    let (_, metrics) = host.http("GET", "/metrics", "");
    assert!(metrics.contains("job_restarts_total{job=\"job\"} 0"), "{metrics}");
    assert_eq!(fs::read_dir(place.path("saved")).unwrap().count(), 1);
    let (path, _) = location(&host.json(&["stop", "job", "--savepoint"]));
    assert_eq!(host.describe("job")["state"], "STOPPED");
    host.end().succeeds();
    place.set_job(&job("", ""));
    place.run(&["-p", "3", "-s", path.to_str().unwrap()]).succeeds();
    operator_state::check(&place.lines("out"), &input, |_| false);
}

/// The job goes on after a savepoint that an operator can't take part in, but not if it was told to end meanwhile.
#[test]
fn an_order_to_end_is_not_forgotten_over_a_savepoint_that_fails() {
    let settings = "config = { sleeps_at = 1 }\nlimits = { time = \"10s\" }";
    let job = JobFile::new("1s")
        .checkpoint("dir = \"checkpoints\"\nsavepoint-dir = \"saved\"")
        .source("lines", "type = \"file\"\npath = \"input\"\nrate = 100")
        .operator("life", "fixture-life", &["lines"], settings)
        .file_sink("out", &["life"]);
    let place = Place::new(&job);
    place.write_lines("input", (0..1_000_000).map(|number| number.to_string()));
    let mut host = place.host_with(&["--log", "info"]);
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_until("job", "records", |details| details["records-in"].as_u64() > Some(0));
    let savepoint = host.start(&["savepoint", "job"]);
    host.running().wait_for_stderr("barrier 1");
    let stop = host.start(&["stop", "job"]);
    savepoint.wait().ends_with(1).says(&["its snapshot hook, for checkpoint 1: ran longer than its time limit"]);
    stop.wait().ends_with(1).says(&["not tried again: it was to end anyway"]);
    assert_eq!(host.wait_for("job", "FAILED")["attempt"], 1);
}
