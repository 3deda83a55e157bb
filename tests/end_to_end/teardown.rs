//! Attempts that end while a guest is in a call that does not: the call is interrupted, however long it may take.

use crate::harness::s3::{Bucket, Fault, Server};
use crate::harness::{Host, JobFile, Place, Running};
use crate::swap::{file, swap};
use crate::{flights, restart, sums};

/// One subtask is stuck at the file `stuck` while the other reads `bad`, whose last record fails.
fn job(restart: &str, limits: &str) -> JobFile {
    JobFile::new("20ms")
        .restart(restart)
        .source("lines", "type = \"file\"\npath = \"input\"\nrate = 100")
        .operator("stuck", "fixture-misbehave", &["lines"], &format!("config = {{ on = \"stuck\", how = \"loop\" }}\n{limits}"))
        .operator("fails", "fixture-misbehave", &["stuck"], "config = { on = \"bad\", how = \"panic\" }")
        .sink("out", &["fails"], "type = \"stdout\"")
}

fn place(restart: &str) -> Place {
    let place = Place::new(&job(restart, "limits = { time = \"1h\" }"));
    place.write_lines("input/0.txt", ["stuck"]);
    place.write_lines("input/1.txt", (0..50).map(|number| format!("line {number}")).chain(["bad".into()]));
    place
}

#[test]
fn an_attempt_that_fails_waits_for_no_call_of_another_subtask() {
    let ended = place("strategy = \"none\"").run(&["-p", "2"]).ends_with(1).says(&["operator `fails`", "record `bad`"]);
    assert!(!ended.stderr.contains("interrupted"), "{}", ended.stderr);
    let ended = place("strategy = \"fixed-delay\"\ndelay = \"1ms\"").run(&["-p", "2"]).ends_with(1);
    ended.says(&["attempt 1 has failed, another follows in 1ms: operator `fails`", "(not tried again: "]);
}

#[test]
fn a_record_on_which_a_call_is_interrupted_is_not_taken_for_one_that_fails() {
    let place = place("strategy = \"none\"");
    // With a policy for records that fail, the record would be left out, and looked for on fresh instances.
    place.set_job(&job("strategy = \"none\"", "limits = { time = \"1h\" }\non-error = \"skip\""));
    place.run(&["-p", "2"]).ends_with(1).says(&["operator `fails`", "record `bad`"]);
}

#[test]
fn a_job_with_a_call_that_never_ends_is_cancelled_at_once() {
    let place = place("strategy = \"none\"");
    place.write_lines("input/1.txt", ["good"]);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    host.running().wait_for_stdout("good\n");
    let mut stop = host.start(&["stop", "job"]);
    host.wait_for("job", "STOPPING");
    assert!(!stop.has_ended(), "it waits for the call");
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    host.end().succeeds();
}

#[test]
fn a_second_signal_ends_a_job_with_a_call_that_never_ends() {
    let place = place("strategy = \"none\"");
    place.write_lines("input/1.txt", ["good"]);
    let mut running = place.start(&["-p", "2"]);
    running.wait_for_stdout("good\n");
    running.signal("INT");
    running.wait_for_stderr("stopping with a last checkpoint");
    running.signal("INT");
    running.wait().ends_with(130);
}

/// A job that goes on for hours, with a component of `tally` that may take an hour for a call.
fn tally(component: &str, stuck: &str) -> Place {
    let place = Place::new(&tally_job(component, stuck));
    place.write_lines("input", (0..1_000_000).map(|number| format!("key {},{number}", number % 10)));
    place
}

fn tally_job(component: &str, stuck: &str) -> JobFile {
    let settings = format!("config = {{ stuck = {stuck:?} }}\nlimits = {{ time = \"1h\" }}");
    JobFile::new("20ms")
        .source("lines", "type = \"file\"\npath = \"input\"\nrate = 100")
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("tally", component, &["pairs"], &settings)
        .file_sink("out", &["tally"])
}

fn running(place: &Place) -> Host<'_> {
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    host.running().wait_until("output", || !place.lines("out").is_empty());
    host
}

/// Has the operator run a component that is stuck in all that it is told to be, and in its migration.
fn swap_to_stuck(host: &Host<'_>) -> Running {
    host.start(&swap("tally", &file("fixture-tally-stuck"), &["--probation", "0s"]))
}

#[test]
fn nobody_waits_for_a_component_that_is_stuck_while_it_is_checked() {
    for (end, state) in [("stop", "STOPPED"), ("cancel", "CANCELLED")] {
        println!("{end}");
        let place = tally("fixture-tally-v1", "open");
        let mut host = running(&place);
        let command = swap_to_stuck(&host);
        host.running().wait_for_stderr("stuck in open");
        host.cofferdam(&[end, "job"]).succeeds();
        host.wait_for("job", state);
        command.wait().ends_with(10).says(&["the job"]);
        // Nor does it go on.
        host.running().wait_for_rest();
        host.end().succeeds();
    }
}

#[test]
fn a_job_is_cancelled_at_once_while_a_component_is_stuck_in_a_migration() {
    let place = tally("fixture-tally-v1", "");
    let mut host = running(&place);
    let command = swap_to_stuck(&host);
    host.wait_until("job", "it migrates", |details| !details["migration"].is_null());
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    command.wait().ends_with(1).says(&["the job has ended before the new component was in a checkpoint"]);
    host.running().wait_for_rest();
    host.end().succeeds();
}

/// Begins a job whose state has to be migrated, in which it is stuck. The command waits for it.
fn deploy_stuck(place: &Place, host: &mut Host<'_>) -> Running {
    place.set_job(&tally_job("fixture-tally-stuck", ""));
    let command = host.start(&["deploy", "job.toml"]);
    host.running().wait_for_stderr("stuck in the migration");
    command
}

#[test]
fn a_job_is_cancelled_at_once_while_a_restore_is_stuck_in_a_migration() {
    let place = tally("fixture-tally-v1", "");
    let mut host = running(&place);
    host.cofferdam(&["stop", "job"]).succeeds();
    let run = place.run_dir(1);
    let state = || place.content().into_iter().filter(|(path, _)| path.starts_with(&run)).collect::<Vec<_>>();
    let left = state();
    let command = deploy_stuck(&place, &mut host);
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    command.wait();
    host.running().wait_for_rest();
    host.end().succeeds();

    // Where the host has begun it on its own, other attempts would follow.
    let mut host = place.host();
    let command = deploy_stuck(&place, &mut host);
    host.kill();
    drop(command);
    let mut host = place.host();
    host.running().wait_for_stderr("stuck in the migration");
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    host.running().wait_for_rest();
    assert!(state() == left, "nothing of the job was touched");
    place.set_job(&tally_job("fixture-tally-v1", ""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "RUNNING");
    assert!(host.describe("job")["restored-from"].is_u64(), "it goes on from there");
    host.end().succeeds();
}

#[test]
fn a_job_is_cancelled_at_once_while_a_restore_waits_for_a_bucket() {
    let server = Server::start();
    let settings = server.bucket.settings("20ms").replace("\n\n[checkpoint.s3]", "\nmemory-threshold = \"0B\"\n\n[checkpoint.s3]");
    let place = tally("fixture-tally-v1", "");
    place.set_job(&tally_job("fixture-tally-v1", "").checkpoint(&settings));
    Bucket::give_credentials(&place);
    let mut host = running(&place);
    host.cofferdam(&["stop", "job"]).succeeds();
    let left = server.bucket.keys();
    server.misbehaves(|request| (request.method == "GET" && request.key.ends_with(".state")).then_some(Fault::Held));
    let command = host.start(&["deploy", "job.toml", "-p", "2"]);
    host.running().wait_until("the restore waits", || server.waiting() > 0);
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    command.wait();
    server.misbehaves(|_| None);
    server.let_go();
    assert!(server.bucket.keys() == left, "nothing of the job was touched");
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    let running = host.wait_for("job", "RUNNING");
    assert!(running["restored-from"].is_u64(), "it goes on from there: {running}");
    host.end().succeeds();
}

#[test]
fn a_job_that_is_cancelled_while_an_attempt_that_has_failed_is_torn_down_is_not_begun_again() {
    let server = Server::start();
    let bucket = &server.bucket;
    let settings = bucket.settings("20ms").replace("\n\n[checkpoint.s3]", "\non-cancel = \"delete\"\n\n[checkpoint.s3]");
    let job = restart::job("fixture-relapse", "strategy = \"fixed-delay\"\ndelay = \"1day\"", "rate = 500", "").checkpoint(&settings);
    let place = restart::place(&job);
    Bucket::give_credentials(&place);
    // The commit that is under way when the attempt fails comes to its end when it may.
    server
        .misbehaves(|request| (request.method == "PUT" && request.key.ends_with("/log/00000000000000000002.json")).then_some(Fault::Held));
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_until("job", "the attempt has failed", |details| !details["last-error"].is_null());
    assert_eq!(server.waiting(), 1, "{:?}", server.faults());
    let mut cancel = host.start(&["cancel", "job"]);
    host.wait_for("job", "CANCELLING");
    assert!(!cancel.has_ended(), "the commit may still happen");
    server.let_go();
    cancel.wait().succeeds();
    let cancelled = host.wait_for("job", "CANCELLED");
    assert_eq!((&cancelled["attempt"], &cancelled["restarts"]), (&1.into(), &0.into()), "{cancelled}");
    let left: Vec<_> = bucket.manifests(1).iter().map(|manifest| manifest.json["trigger"].clone()).collect();
    assert_eq!(left, ["cancel"], "and of the commit nothing but its output stays");
    host.end().succeeds();
}

#[test]
fn a_job_is_cancelled_at_once_whose_operator_is_stuck_in_its_close_hook() {
    let place = tally("fixture-tally-stuck", "close");
    let mut host = running(&place);
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");

    host.running().wait_for_rest();
    host.end().succeeds();

    let place = tally("fixture-tally-stuck", "close");
    let mut host = running(&place);
    let mut stop = host.start(&["stop", "job"]);
    host.running().wait_for_stderr("stuck in close");
    assert!(!stop.has_ended(), "a stop leaves the hook its time");
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    host.end().succeeds();
}

#[test]
fn a_job_that_has_stopped_is_cancelled_at_once_while_a_savepoint_is_still_being_written() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = flights::place("");
    place.set_job(&flights::job("rate = 400").checkpoint(&bucket.settings("40ms")));
    Bucket::give_credentials(&place);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    host.running().wait_until("a checkpoint", || bucket.newest(1) > 0);
    server.misbehaves(|request| (request.method == "PUT" && request.key.contains("/savepoint-")).then_some(Fault::Held));
    let savepoint = host.start(&["savepoint", "job", "s3://bucket/saved"]);
    host.running().wait_until("the savepoint waits", || server.waiting() > 0);
    let mut stop = host.start(&["stop", "job"]);
    let is_stopped = || bucket.manifests(1).pop().is_some_and(|newest| newest.json["trigger"] == "stop");
    host.running().wait_until("the last checkpoint", is_stopped);
    assert!(!stop.has_ended(), "it waits for the savepoint");
    let stopped_at = bucket.newest(1);
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    savepoint.wait().ends_with(10).says(&["job `job` has ended before a savepoint was taken"]);
    server.misbehaves(|_| None);
    server.let_go();
    assert!(!bucket.keys().iter().any(|key| key.ends_with("/manifest.json")), "there is no savepoint: {:?}", bucket.keys());
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    assert_eq!(host.wait_for("job", "RUNNING")["restored-from"], stopped_at, "what was committed is");
    host.end().succeeds();
}

#[test]
fn a_job_is_cancelled_at_once_while_a_full_checkpoint_is_merged() {
    let server = Server::start();
    let bucket = &server.bucket;
    let settings = bucket.settings("20ms").replace("\n\n[checkpoint.s3]", "\nincremental = false\n\n[checkpoint.s3]");
    let place = Place::new(&sums::job("type = \"file\"\npath = \"input\"\nrate = 100").checkpoint(&settings));
    place.write_lines("input", (0..100_000).map(|number| format!("key,{number}")));
    Bucket::give_credentials(&place);
    server.misbehaves(|request| (request.method == "PUT" && request.key.contains(".merged.")).then_some(Fault::Held));
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.running().wait_until("the merge waits", || server.waiting() > 0);
    let last = bucket.newest(1);
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    server.misbehaves(|_| None);
    server.let_go();
    assert_eq!(bucket.newest(1), last, "nothing was committed after that");
    host.end().succeeds();
}
