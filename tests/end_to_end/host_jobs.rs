//! Many jobs on one host, and one host that dies at any moment.

use std::time::Duration;

use serde_json::Value;

use crate::flights;
use crate::harness::{Host, JobFile, Place, Random, assert_lines, until};

fn words(rate: u32) -> JobFile {
    let source = format!("type = \"generator\"\nkind = \"words\"\nrate = {rate}");
    JobFile::new("250ms").source("lines", &source).sink("out", &["lines"], "type = \"blackhole\"")
}

/// Deploys a job under a name of its own.
fn deploy(place: &Place, host: &Host<'_>, name: &str, job: &JobFile) {
    let file = format!("{name}.toml");
    place.write(&file, job.text().replace("name = \"job\"", &format!("name = {name:?}")));
    host.cofferdam(&["deploy", &file]).succeeds();
}

fn completed(host: &Host<'_>, name: &str) -> u64 {
    host.describe(name)["checkpoints"]["completed"].as_u64().unwrap()
}

/// How long, in the median, it took from one of a job's newest checkpoints to the next, from trigger to trigger.
fn cadence(host: &Host<'_>, name: &str) -> Duration {
    let listed = host.json(&["checkpoints", name]);
    let listed = listed["checkpoints"].as_array().expect("checkpoints").clone();
    let time = |checkpoint: &Value| humantime::parse_rfc3339_weak(checkpoint["triggered"].as_str().expect("a time")).expect("a time");
    let triggered: Vec<_> = listed.iter().rev().take(NEWEST + 1).map(time).collect();
    let mut between: Vec<Duration> = triggered.windows(2).map(|pair| pair[0].duration_since(pair[1]).unwrap_or_default()).collect();
    between.sort_unstable();
    between[between.len() / 2]
}

/// So many checkpoints are looked at.
const NEWEST: usize = 9;

/// Waits until each of the jobs has as many checkpoints more as are looked at, and tells how they have followed each other.
fn cadences(host: &Host<'_>, names: &[String]) -> Vec<Duration> {
    let before: Vec<u64> = names.iter().map(|name| completed(host, name)).collect();
    for (name, before) in names.iter().zip(before) {
        host.wait_until(name, "more checkpoints", |job| job["checkpoints"]["completed"].as_u64() > Some(before + NEWEST as u64));
    }
    names.iter().map(|name| cadence(host, name)).collect()
}

#[test]
fn neither_a_stuck_job_nor_one_that_fails_for_ever_disturbs_eighteen_others() {
    let place = Place::new(&words(100));
    place.write_lines("input.txt", ["a", "b"]);
    let host = place.host();
    let good: Vec<String> = (1..=18).map(|number| format!("good-{number}")).collect();
    good.iter().for_each(|name| deploy(&place, &host, name, &words(100)));
    let alone = cadences(&host, &good);
    let stuck = "config = { on = \"b\", how = \"loop\" }\nlimits = { time = \"1h\" }";
    let stuck = JobFile::new("250ms")
        .checkpoint("interval = \"250ms\"\ntimeout = \"500ms\"\ntolerable-failures = 1000000")
        .source("lines", "type = \"file\"\npath = \"input.txt\"")
        .operator("stuck", "fixture-misbehave", &["lines"], stuck)
        .sink("out", &["stuck"], "type = \"blackhole\"");
    deploy(&place, &host, "stuck", &stuck);
    let failing = words(100)
        .checkpoint("interval = \"250ms\"\ndir = \"broken\"")
        .restart("strategy = \"fixed-delay\"\nattempts = 1000000\ndelay = \"20ms\"");
    deploy(&place, &host, "failing", &failing);
    // From now on nothing can be stored for it.
    std::fs::remove_dir_all(place.path("broken")).unwrap();
    place.write("broken", "");
    host.wait_until("failing", "many restarts", |job| job["restarts"].as_u64() >= Some(5));
    let degraded = host.wait_for("stuck", "DEGRADED");
    assert!(degraded["checkpoints"]["reason"].as_str().unwrap().contains("`stuck`"), "{degraded}");

    // The machine has more to do by two jobs of twenty, one of which keeps a thread busy: its pace may be another, but not by much.
    let beside = cadences(&host, &good);
    println!("from checkpoint to checkpoint: alone {alone:?}, beside the others {beside:?}");
    let slowest = alone.iter().max().expect("eighteen");
    assert!(beside.iter().all(|cadence| *cadence <= *slowest * 3), "alone {alone:?}, beside the others {beside:?}");
    let jobs = host.json(&["list"]);
    let states: Vec<&str> = jobs["jobs"].as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "RUNNING").count(), 18, "{states:?}");
    assert!(host.describe("failing")["restarts"].as_u64() >= Some(6));

    // All of them come back, as they were.
    host.kill();
    let host = place.host();
    good.iter().for_each(|name| assert!(host.wait_for(name, "RUNNING")["restored-from"].is_u64(), "{name}"));
    let failing = host.wait_until("failing", "restarts of this host's", |job| job["restarts"].as_u64() >= Some(2));
    assert_ne!(failing["state"], "RUNNING", "{failing}");
}

/// A command is given, and the host killed a moment later: whether it says that it was done.
fn killed_in(host: Host<'_>, args: &[&str], random: &mut Random) -> bool {
    let command = host.start(args);
    std::thread::sleep(Duration::from_micros(random.below(250_000)));
    host.kill();
    let ended = command.wait();
    assert!([Some(0), Some(8)].contains(&ended.code()), "{args:?}: {ended:?}");
    ended.code() == Some(0)
}

fn state(host: &Host<'_>) -> String {
    let (_, answer) = host.http("GET", "/v1/jobs/job", "");
    let details: Value = serde_json::from_str(&answer).unwrap();
    details["state"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn a_host_that_is_killed_in_the_middle_of_a_command_has_done_it_or_not() {
    let place = flights::place("rate = 1500");
    let mut random = Random::new(55);
    let mut host = place.host();
    for round in 0..10 {
        // What was not done is done again; what was done is refused, and goes on.
        let deployed = killed_in(host, &["deploy", "job.toml"], &mut random);
        host = place.host();
        let found = state(&host);
        println!("round {round}: deployed {deployed}, and is {found}");
        assert!(!deployed || found != "none", "a job is lost");
        let again = host.cofferdam(&["deploy", "job.toml"]);
        assert!([Some(0), Some(10)].contains(&again.code()), "{again:?}");
        host.wait_for("job", "RUNNING");

        let parallelism = 1 + random.below(4);
        let rescaled = killed_in(host, &["rescale", "job", "-p", &parallelism.to_string()], &mut random);
        host = place.host();
        let found = host.wait_for("job", "RUNNING")["parallelism"].as_u64();
        println!("round {round}: rescaled to {parallelism} {rescaled}, and is {found:?}");
        assert!(!rescaled || found == Some(parallelism));

        let (command, end) = *random.pick(&[("stop", "STOPPED"), ("cancel", "CANCELLED")]);
        let ended = killed_in(host, &[command, "job"], &mut random);
        host = place.host();
        // What was written down before the host was killed is done now, so that the state is to be waited for.
        let found = until("a state that lasts", || Some(state(&host)).filter(|state| ["RUNNING", end].contains(&state.as_str())));
        println!("round {round}: {command} {ended}, and is {found}");
        assert!(!ended || found == end);
        host.cofferdam(&[command, "job"]).succeeds();
        assert_eq!(state(&host), end);
        host.cofferdam(&[command, "job"]).succeeds();
    }
    place.set_job(&flights::job(""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    let details = host.wait_for("job", "FINISHED");
    assert_eq!(details["run"], 1, "{details}");
    assert_lines(place.lines("out"), flights::oracle(), "killed in commands");
}

#[test]
fn a_fresh_start_is_made_once_however_often_the_host_is_killed() {
    let place = flights::place("rate = 3000");
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.running().wait_until("a checkpoint", || place.newest(1) > 0);
    host.cofferdam(&["cancel", "job"]).succeeds();
    std::fs::remove_dir_all(place.path("out")).unwrap();
    host.cofferdam(&["deploy", "job.toml", "--fresh"]).succeeds();
    for _ in 0..3 {
        let newest = place.newest(2);
        host.running().wait_until("a checkpoint", || place.newest(2) > newest);
        host.kill();
        host = place.host();
    }
    let details = host.wait_for("job", "FINISHED");
    assert_eq!(details["run"], 2, "{details}");
    let files = place.visible("out");
    assert!(files.keys().all(|name| name.contains("-0002-")), "{:?}", files.keys());
    assert_lines(place.lines("out"), flights::oracle(), "fresh");
}

#[test]
fn a_job_that_can_not_begin_any_more_fails_and_leaves_the_others_alone() {
    let place = flights::place("rate = 500");
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    deploy(&place, &host, "other", &words(100));
    deploy(&place, &host, "damaged", &words(100));
    host.kill();
    std::fs::remove_file(place.path("flights.csv")).unwrap();
    place.write("data/jobs/damaged/job.json", "{ \"format\": 1");
    place.write("data/jobs/never-deployed/log", "");
    let host = place.host();
    for (job, why) in [("job", "flights.csv"), ("damaged", "data/jobs/damaged/job.json can't be understood")] {
        let failed = host.wait_for(job, "FAILED");
        assert!(failed["ended"]["error"]["message"].as_str().unwrap().contains(why), "{failed}");
    }
    host.wait_for("other", "RUNNING");
    assert_eq!(host.json(&["list"])["jobs"].as_array().map(Vec::len), Some(3));
    let again = host.json(&["deploy", "damaged.toml"]);
    assert_eq!(again["run"], 1, "it goes on: {again}");
}
