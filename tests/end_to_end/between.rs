//! Jobs that wait for their next attempt: what they can be told meanwhile, and where they go on.

use crate::harness::s3::{Bucket, Server};
use crate::harness::{Host, Place, assert_lines};
use crate::restart::{input, job, place};

/// An attempt that fails is followed by another the day after.
const FOR_A_DAY: &str = "strategy = \"fixed-delay\"\nattempts = 9\ndelay = \"1day\"";
const AT_ONCE: &str = "strategy = \"fixed-delay\"\nattempts = 9\ndelay = \"1ms\"";

/// A host with the job, whose first attempt has failed.
fn deployed(place: &Place) -> Host<'_> {
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "RESTARTING");
    assert!(place.newest(1) > 0, "it has something to go on from");
    host
}

#[test]
fn a_signal_stops_it_at_its_newest_checkpoint() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let place = place(&job("fixture-relapse", FOR_A_DAY, "rate = 5000", ""));
        let mut running = place.start(&[]);
        running.wait_for_stderr("attempt 1 has failed, another follows in 1day");
        running.signal(signal);
        let newest = place.newest(1);
        let stopped = format!("job `job` stopped at checkpoint {newest}, to go on when it is run again (run 1, attempt 1,");
        running.wait().ends_with(code).says(&[&stopped, "panicked: this is attempt 1"]);

        place.set_job(&job("fixture-relapse", AT_ONCE, "", ""));
        place.run(&[]).succeeds().says(&[&format!("resuming run 1 from checkpoint {newest} of "), "(attempt 2)"]);
        assert_lines(place.lines("out"), input(), signal);
    }
}

#[test]
fn a_stop_publishes_what_a_last_commit_has_left_to_publish() {
    let server = Server::start();
    let place = place(&job("fixture-relapse", FOR_A_DAY, "", "").checkpoint(&server.bucket.settings("1h")));
    Bucket::give_credentials(&place);
    let input = ["a", "b"].map(String::from);
    place.write_lines("input", &input);
    // When all is staged, and before it is committed.
    let taken = place.path("out/part-out-0001-00000001-00000.txt");
    let in_the_way = taken.clone();
    server.misbehaves(move |request| {
        if request.method == "PUT" && request.key.ends_with("/log/00000000000000000002.json") {
            std::fs::write(&in_the_way, "somebody else's\n").unwrap();
        }
        None
    });
    let mut running = place.start(&[]);
    running.wait_for_stderr("attempt 1 has failed, another follows in 1day: sink `out`");
    std::fs::remove_file(taken).unwrap();
    running.signal("INT");
    running.wait().succeeds().says(&["job `job` finished (run 1, attempt 1,"]);
    assert_lines(place.lines("out"), input.to_vec(), "published");
}

#[test]
fn on_a_host_it_stops_or_drains_and_a_savepoint_is_refused() {
    let place = place(&job("fixture-relapse", FOR_A_DAY, "rate = 5000", ""));
    let host = deployed(&place);
    let newest = place.newest(1);
    for command in [&["savepoint", "job", "saved"][..], &["stop", "job", "--savepoint", "saved"]] {
        for drain in [&[][..], &["--drain"]].iter().take(if command[0] == "stop" { 2 } else { 1 }) {
            let ended = host.cofferdam(&[command, drain].concat()).ends_with(10);
            ended.says(&["job `job` is between two attempts: there is nothing to take a savepoint of"]);
            assert_eq!(host.describe("job")["state"], "RESTARTING", "{command:?}");
        }
    }
    let stopped = host.json(&["stop", "job"]);
    assert_eq!((&stopped["state"], &stopped["ended"]["summary"]["last-checkpoint"]), (&"STOPPED".into(), &newest.into()), "{stopped}");
    host.cofferdam(&["savepoint", "job", "saved"]).succeeds();

    // The second attempt fails later, and the third is begun to drain.
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    let waiting = host.wait_for("job", "RESTARTING");
    assert_eq!((&waiting["run"], &waiting["attempt"], &waiting["restored-from"]), (&1.into(), &2.into(), &newest.into()), "{waiting}");
    let newest = place.newest(1);
    let drained = host.json(&["stop", "job", "--drain"]);
    let restored = &drained["ended"]["summary"]["restored"]["checkpoint"];
    assert_eq!((&drained["state"], &drained["attempt"], restored), (&"FINISHED".into(), &3.into(), &newest.into()), "{drained}");
    let out = place.lines("out");
    let mut begin = input()[..out.len()].to_vec();
    begin.sort_unstable();
    assert!(out.len() < input().len());
    assert_lines(out, begin, "up to where it was drained");
}

#[test]
fn rescaled_it_begins_again_at_once() {
    let place = place(&job("fixture-relapse", FOR_A_DAY, "rate = 5000", ""));
    let host = deployed(&place);
    let newest = place.newest(1);
    let rescaled = host.json(&["rescale", "job", "-p", "2"]);
    assert_eq!((&rescaled["attempt"], &rescaled["restored-from"]), (&2.into(), &newest.into()), "{rescaled}");
    host.wait_for("job", "RESTARTING");
    host.end().succeeds();
    place.set_job(&job("fixture-relapse", AT_ONCE, "", ""));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), input(), "all of it");
}
