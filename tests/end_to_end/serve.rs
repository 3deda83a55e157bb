//! `serve`: jobs that are deployed to a host, what can be asked of them, and that they survive the host.

use crate::flights;
use crate::harness::{JobFile, Random, assert_lines};

#[test]
fn a_deployed_job_runs_to_its_end_and_is_told_of() {
    let place = flights::place("");
    let host = place.host();
    assert_eq!(host.cofferdam(&["list"]).succeeds().stdout, "the host has no jobs\n");
    let deployed = host.json(&["deploy", "job.toml", "-p", "2"]);
    assert_eq!((&deployed["name"], &deployed["parallelism"]), (&"job".into(), &2.into()), "{deployed}");
    let details = host.wait_for("job", "FINISHED");
    assert_eq!(details["ended"]["summary"]["nodes"][0]["records-in"], 27_004, "{details}");
    assert_lines(place.lines("out"), flights::oracle(), "deployed");
    assert!(host.cofferdam(&["list"]).succeeds().stdout.contains("FINISHED"));
    assert_eq!(host.json(&["list"])["jobs"][0]["name"], "job");
    let kept = host.json(&["component", "list"]);
    let digests: Vec<_> = kept["components"].as_array().unwrap().iter().map(|kept| &kept["digest"]).collect();
    assert_eq!(digests.len(), 2);
    assert!(details["components"].as_array().unwrap().iter().all(|used| digests.contains(&&used["digest"])), "{details}");
    // It survives as what it is: finished, not begun anew.
    host.end().succeeds();
    let host = place.host();
    assert_eq!(host.describe("job")["state"], "FINISHED");
    let events = host.json(&["events", "job"]);
    let events: Vec<_> = events["events"].as_array().unwrap().iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["deployed", "began", "ended"]);
    assert_lines(place.lines("out"), flights::oracle(), "after the host was started again");
}

#[test]
fn jobs_come_back_when_the_host_is_killed_again_and_again() {
    let place = flights::place("rate = 3000");
    let mut random = Random::new(51);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    for _ in 0..6 {
        let newest = place.newest(1) + 1 + random.below(6);
        host.running().wait_until("some checkpoints", || place.newest(1) >= newest);
        host.kill();
        host = place.host();
    }
    // The last time it ends as it should.
    host.running().wait_until("another attempt", || place.last_slot(1) > 0);
    host.end().succeeds();
    let host = place.host();
    let details = host.wait_for("job", "FINISHED");
    assert_eq!(details["run"], 1, "{details}");
    assert_lines(place.lines("out"), flights::oracle(), "killed");
}

#[test]
fn a_job_is_stopped_rescaled_and_cancelled() {
    let place = flights::place("rate = 4000");
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.running().wait_until("some output", || place.lines("out").len() >= 5);
    host.cofferdam(&["deploy", "job.toml"]).ends_with(10).says(&["job `job` is RUNNING already", "cofferdam stop job"]);
    let rescaled = host.json(&["rescale", "job", "-p", "3"]);
    assert_eq!((&rescaled["parallelism"], &rescaled["state"]), (&3.into(), &"RUNNING".into()), "{rescaled}");
    let stopped = host.json(&["stop", "job"]);
    assert_eq!(stopped["state"], "STOPPED", "{stopped}");
    let last = place.manifests(1).pop().unwrap();
    assert_eq!(last.json["trigger"], "stop");
    host.json(&["stop", "job"]);
    host.cofferdam(&["rescale", "job", "-p", "2"]).ends_with(10);
    host.kill();

    let mut host = place.host();
    assert_eq!(host.describe("job")["state"], "STOPPED");
    let again = host.json(&["deploy", "job.toml", "-p", "2"]);
    assert_eq!(again["restored-from"], last.checkpoint, "{again}");
    host.running().wait_until("a checkpoint", || place.newest(1) > last.checkpoint);
    assert_eq!(host.json(&["cancel", "job"])["state"], "CANCELLED");
    place.set_job(&flights::job(""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "FINISHED");
    assert_lines(place.lines("out"), flights::oracle(), "with all that");
}

#[test]
fn a_drained_job_has_finished() {
    let job = JobFile::new("40ms").source("lines", "type = \"generator\"\nkind = \"words\"\nrate = 1000").sink(
        "out",
        &["lines"],
        "type = \"blackhole\"",
    );
    let place = crate::harness::Place::new(&job);
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    assert_eq!(host.json(&["stop", "job", "--drain"])["state"], "FINISHED");
    assert_eq!(place.manifests(1).pop().unwrap().json["trigger"], "end-of-input");
    host.json(&["forget", "job"]);
    host.cofferdam(&["describe", "job"]).ends_with(9);
}

#[test]
fn logs_are_followed_while_the_job_runs_and_until_it_has_ended() {
    let place = flights::place("rate = 1000");
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    let mut follower = host.start(&["logs", "job", "-f"]);
    follower.wait_for_stdout("starting run 1");
    // What comes only now is shown too, and after the end nothing is waited for.
    host.json(&["rescale", "job", "-p", "2"]);
    follower.wait_for_stdout("to go on with parallelism 2");
    assert!(!follower.has_ended());
    host.json(&["stop", "job"]);
    let followed = follower.wait().succeeds().stdout;
    assert!(followed.lines().last().unwrap_or_default().contains("ended: STOPPED"), "{followed}");
    let all = host.cofferdam(&["logs", "job"]).succeeds().stdout;
    assert_eq!(followed, all, "each line once");
}
