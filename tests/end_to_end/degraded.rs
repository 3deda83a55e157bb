//! Storage that goes and comes back: the job goes on, says that it is degraded, and is exact.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{JobFile, Place, Random, Running, until};
use crate::sums;

fn place(settings: &str, restart: &str, input: &[String]) -> Place {
    let job = sums::job("type = \"file\"\npath = \"input.txt\"\nrate = 8000");
    let place = Place::new(&job.restart(restart).checkpoint(&format!("interval = \"20ms\"\n{settings}\ndir = \"checkpoints\"")));
    place.write_lines("input.txt", input);
    place
}

const NO_RESTART: &str = "strategy = \"none\"";

/// Puts a file into the place of the directory of checkpoints. The process sleeps meanwhile, lest it makes the directory anew.
pub fn take_away(place: &Place, running: &Running) {
    running.signal("STOP");
    fs::rename(place.path("checkpoints"), place.path("away")).unwrap();
    place.write("checkpoints", "");
    running.signal("CONT");
}

/// Puts the directory back.
pub fn give_back(place: &Place, running: &Running) {
    running.signal("STOP");
    fs::remove_file(place.path("checkpoints")).unwrap();
    fs::rename(place.path("away"), place.path("checkpoints")).unwrap();
    running.signal("CONT");
}

#[test]
fn a_directory_that_is_gone_for_a_while_degrades_the_job_and_costs_nothing() {
    let input = sums::input(&mut Random::new(41), 0, 24_000);
    let place = place("tolerable-failures = 1000", NO_RESTART, &input);
    let mut running = place.start(&["-p", "2", "--output", "json"]);
    running.wait_until("some checkpoints", || place.newest(1) >= 3);
    take_away(&place, &running);
    running.wait_for_stderr("degraded: checkpoint ");
    give_back(&place, &running);
    running.wait_for_stderr("healthy again: checkpoint ");
    let ended = running.wait().succeeds().says(&[" has failed (1 in a row, 1000 are tolerated): ", "can't be", "; the last good one is "]);
    println!("{}", ended.stderr);
    let summary = ended.json();
    assert_eq!((&summary["attempt"]["attempt"], &summary["failures"]), (&1.into(), &serde_json::json!([])));
    assert!(summary["failed-checkpoints"].as_u64() >= Some(1), "{summary}");
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn more_failures_in_a_row_than_are_tolerated_fail_the_attempt() {
    let input = sums::input(&mut Random::new(42), 0, 24_000);
    let place = place("tolerable-failures = 2", NO_RESTART, &input);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("some checkpoints", || place.newest(1) >= 3);
    take_away(&place, &running);
    let ended = running.wait().ends_with(6);
    let ended = ended.says(&["degraded: checkpoint ", " has failed: ", "(3 have failed in a row, and `tolerable-failures` is 2)"]);
    println!("{}", ended.stderr);
    fs::remove_file(place.path("checkpoints")).unwrap();
    fs::rename(place.path("away"), place.path("checkpoints")).unwrap();
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn a_stop_waits_for_the_storage_to_come_back() {
    let input = sums::input(&mut Random::new(43), 0, 24_000);
    let place = place("tolerable-failures = 1000", NO_RESTART, &input);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("some checkpoints", || place.newest(1) >= 3);
    take_away(&place, &running);
    running.wait_for_stderr("degraded: checkpoint ");
    running.signal("INT");
    running.wait_for_stderr("stopping with a last checkpoint");
    give_back(&place, &running);
    running.wait().ends_with(130).says(&["healthy again: checkpoint "]);
    assert_eq!(place.manifests(1).pop().unwrap().json["trigger"], "stop");
    place.run(&["-p", "1"]).succeeds();
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn without_tolerance_attempts_follow_each_other_until_the_storage_is_back_and_remember_why() {
    let input = sums::input(&mut Random::new(44), 0, 24_000);
    let place = place("num-retained = 10000", "strategy = \"fixed-delay\"\nattempts = 1000000\ndelay = \"10ms\"", &input);
    let mut running = place.start(&["-p", "2", "--output", "json"]);
    running.wait_until("some checkpoints", || place.newest(1) >= 3);
    take_away(&place, &running);
    running.wait_for_stderr("attempt 1 has failed, another follows in 10ms: checkpoint ");
    give_back(&place, &running);
    let ended = running.wait().succeeds();
    let summary = ended.json();
    assert!(summary["attempt"]["attempt"].as_u64() >= Some(2), "{summary}");
    let number =
        ended.stderr.split_once("follows in 10ms: checkpoint ").and_then(|(_, rest)| rest.split_once(" has failed")).expect("which").0;
    let number: u64 = number.parse().expect("a number");
    let manifests = place.manifests(1);
    // Its commit may have been durable, and only the answer was lost.
    let is_committed = manifests.iter().any(|manifest| manifest.checkpoint == number && manifest.json["attempt"]["attempt"] == 1);
    let histories = manifests.iter().filter_map(|manifest| manifest.json["history"].as_array());
    let is_told = histories.flatten().any(|past| {
        let reason = past["reason"].as_str().unwrap_or_default();
        past["attempt"] == 1 && past["checkpoint"] == number && past["state"] == "failed" && reason.contains("can't be")
    });
    assert!(
        is_told != is_committed,
        "a later attempt tells why checkpoint {number} has failed: {is_told}; it was committed: {is_committed}"
    );
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn a_job_that_is_to_stop_and_fails_is_not_begun_again() {
    let input = sums::input(&mut Random::new(45), 0, 24_000);
    let place = place("", "strategy = \"fixed-delay\"\ndelay = \"1day\"", &input);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("some checkpoints", || place.newest(1) >= 3);
    running.signal("STOP");
    fs::rename(place.path("checkpoints"), place.path("away")).unwrap();
    place.write("checkpoints", "");
    running.signal("INT");
    running.signal("CONT");
    let ended = running.wait().says(&["checkpoint ", " has failed: "]);
    if ended.code() == Some(130) {
        // The attempt has failed before it heard of it.
        ended.says(&["another follows in 1day", "stopped, though its newest checkpoint can't be read"]);
    } else {
        ended.ends_with(6).says(&["(not tried again: it was "]);
    }
}

/// Nothing is ever stored, since no barrier is passed.
#[test]
fn a_host_counts_failures_over_attempts_and_its_own_restarts_until_a_checkpoint_is_committed() {
    let job = |config: &str| {
        JobFile::new("20ms")
            .checkpoint("interval = \"50ms\"\ntimeout = \"200ms\"\ndir = \"checkpoints\"")
            .restart("strategy = \"fixed-delay\"\nattempts = 1000000\ndelay = \"10ms\"")
            .source("lines", "type = \"file\"\npath = \"input.txt\"\nrate = 20")
            .operator("life", "fixture-life", &["lines"], &format!("config = {{ {config} }}\nlimits = {{ time = \"1h\" }}"))
            .file_sink("out", &["life"])
    };
    let place = Place::new(&job("sleeps_at = 1"));
    place.write_lines("input.txt", (0..200).map(|number| number.to_string()));
    let in_a_row = |details: &serde_json::Value| details["checkpoints"]["failed-in-a-row"].as_u64().unwrap_or(0);
    let is_degraded = |details: &serde_json::Value| {
        let reason = details["checkpoints"]["reason"].as_str().unwrap_or_default();
        details["state"] == "DEGRADED" && reason.contains("`timeout` is over") && reason.contains("`life`")
    };
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    let before = host.wait_until("job", "degraded in its fourth attempt", |details| is_degraded(details) && in_a_row(details) >= 3);
    assert!(before["attempt"].as_u64() >= Some(in_a_row(&before)), "one fails in each attempt: {before}");
    host.kill();
    host = place.host();
    let after = host.wait_until("job", "degraded again", is_degraded);
    // The newest may not have been noted yet.
    assert!(in_a_row(&after) + 1 >= in_a_row(&before), "{after}");
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    place.set_job(&job(""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    let healthy = host.wait_until("job", "a good checkpoint", |details| details["checkpoints"]["completed"].as_u64() > Some(0));
    assert_eq!((in_a_row(&healthy), &healthy["checkpoints"]["reason"]), (0, &serde_json::Value::Null), "{healthy}");
    host.end().succeeds();
}

/// It has not failed yet, and the job does not look well all the same.
#[test]
fn a_checkpoint_that_takes_half_its_timeout_degrades_the_job_until_it_is_committed() {
    let job = JobFile::new("20ms")
        .checkpoint("interval = \"50ms\"\ntimeout = \"10s\"\ntolerable-failures = 1000\ndir = \"checkpoints\"")
        .source("lines", "type = \"file\"\npath = \"input.txt\"\nrate = 20")
        .operator("slow", "fixture-slow", &["lines"], "config = { sleep = 8000, on = \"7\" }\nlimits = { time = \"1h\" }")
        .file_sink("out", &["slow"]);
    let place = Place::new(&job);
    place.write_lines("input.txt", (0..1000).map(|number| number.to_string()));
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    let late = host.wait_until("job", "degraded by what is late", |details| !details["checkpoints"]["late"].is_null());
    assert_eq!((&late["state"], &late["checkpoints"]["failed-in-a-row"]), (&"DEGRADED".into(), &0.into()), "{late}");
    assert!(late["checkpoints"]["late-seconds"].as_f64() >= Some(5.0), "{late}");
    assert!(late["checkpoints"]["reason"].as_str().unwrap_or_default().contains("`slow` (subtask 0)"), "{late}");
    let well = host.wait_until("job", "well again", |details| details["state"] == "RUNNING" && details["checkpoints"]["late"].is_null());
    assert!(well["checkpoints"]["last-good"].as_u64() >= late["checkpoints"]["late"].as_u64(), "{well}");
    let events = host.cofferdam(&["events", "job"]).succeeds().stdout;
    let told = [" so far, and `timeout` is 10s: no acknowledgement yet from ", "`slow` (subtask 0)", "healthy again: checkpoint "];
    assert!(told.iter().all(|text| events.contains(text)), "{events}");
    host.end().succeeds();
}

/// The state files of an operator in the newest checkpoint, the oldest first.
fn files_of(place: &Place, operator: &str) -> Vec<PathBuf> {
    let Some(newest) = place.manifests(1).pop() else { return Vec::new() };
    let operators = newest.json["operators"].as_array().expect("operators");
    let found = operators.iter().find(|found| found["uid"] == operator).expect("the operator");
    let path = |file: &Value| place.run_dir(1).join(file["path"].as_str().expect("a path"));
    found["files"].as_array().expect("files").iter().map(path).collect()
}

#[test]
fn a_state_file_that_is_lost_degrades_the_job_and_keeps_no_other_operator_from_merging() {
    let input = sums::input(&mut Random::new(44), 0, 60_000);
    let job = |rate: &str| {
        JobFile::new("20ms")
            .source("lines", &format!("type = \"file\"\npath = \"input.txt\"\n{rate}"))
            .operator("pairs", "fixture-pairs", &["lines"], "")
            .operator("damaged", "fixture-sum", &["pairs"], "")
            .operator("other", "fixture-sum", &["pairs"], "")
            .file_sink("out", &["damaged"])
            .file_sink("others", &["other"])
    };
    let place = Place::new(&job("rate = 300"));
    place.write_lines("input.txt", &input);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "1"]).succeeds();
    // A merge that is under way may need the file no more: then another one is lost.
    let mut lost = BTreeSet::new();
    until("a merge that misses a file", || {
        let oldest = files_of(&place, "damaged").into_iter().next();
        lost.extend(oldest.filter(|oldest| fs::rename(oldest, oldest.with_extension("lost")).is_ok()));
        (host.describe("job")["state"] == "DEGRADED").then_some(())
    });
    let reason = host.describe("job")["checkpoints"]["reason"].clone();
    assert!(reason.as_str().is_some_and(|reason| reason.ends_with("is missing")), "{reason}");
    let words = ["degraded: the newest checkpoint can't be restored, because of operator `damaged`: ", "put the file back"];
    let events = host.cofferdam(&["events", "job"]).succeeds().stdout;
    assert!(words.iter().all(|words| events.contains(words)), "{events}");
    host.running().wait_until("many files", || files_of(&place, "damaged").len() >= 40);
    let others = files_of(&place, "other").len();
    assert!(others < 20, "the other operator has {others} files");

    lost.iter().for_each(|file| fs::rename(file.with_extension("lost"), file).unwrap());
    host.wait_until("job", "they are merged", |details| details["state"] == "RUNNING" && details["checkpoints"]["reason"].is_null());
    host.json(&["stop", "job"]);
    host.end().succeeds();
    place.set_job(&job(""));
    place.run(&["-p", "2"]).succeeds();
    ["out", "others"].iter().for_each(|sink| sums::check(&place.lines(sink), std::slice::from_ref(&input)));
}
