//! Several processes run the same job: the newest attempt goes on, the older ones end and say so, and the output is exact.

use crate::flights;
use crate::harness::{Running, Watcher, assert_lines};

/// Waits for the end of an attempt that has been overtaken.
#[track_caller]
fn is_overtaken(running: Running, by: &str) {
    running.wait().ends_with(7).says(&[by, "taken over"]);
}

#[test]
fn a_second_process_takes_over_from_one_that_runs() {
    let place = flights::place("rate = 1000");
    let watcher = Watcher::begin(&place.path("out"));
    let mut first = place.start(&["-p", "2"]);
    first.wait_until("the first lines", || place.lines("out").len() >= 4);
    place.set_job(&flights::job(""));
    place.run(&[]).succeeds().says(&["resuming run 1 from checkpoint ", "(attempt 2)"]);
    is_overtaken(first, "attempt 2 of job `job`, run 1,");
    watcher.end();
    assert_lines(place.lines("out"), flights::oracle(), "both attempts together");
}

#[test]
fn each_of_many_takes_over_from_the_one_before() {
    let place = flights::place("rate = 1000");
    let watcher = Watcher::begin(&place.path("out"));
    let mut attempts = Vec::new();
    for number in 1..=5 {
        let newest = place.newest(1);
        let mut running = place.start(&["-p", if number % 2 == 0 { "3" } else { "1" }]);
        // Commits of the one before don't count: it may be in the middle of one.
        running.wait_until("a commit of its own", || {
            place.manifests(1).iter().any(|manifest| manifest.checkpoint > newest && manifest.json["attempt"]["attempt"] == number)
        });
        attempts.push(running);
    }
    place.set_job(&flights::job(""));
    place.run(&["-p", "2"]).succeeds();
    attempts.into_iter().for_each(|running| is_overtaken(running, "of job `job`, run 1,"));
    watcher.end();
    assert_lines(place.lines("out"), flights::oracle(), "all attempts together");
}

#[test]
fn a_process_that_was_asleep_finds_out_and_changes_nothing() {
    for fresh in [false, true] {
        let place = flights::place("rate = 1000");
        let mut sleeper = place.start(&["-p", "2"]);
        sleeper.wait_until("the first lines", || place.lines("out").len() >= 4);
        sleeper.signal("STOP");
        let before = place.lines("out");
        place.set_job(&flights::job(""));
        let oracle = if fresh {
            place.run(&["--fresh"]).succeeds().says(&["starting run 2"]);
            [before, flights::oracle()].concat()
        } else {
            place.run(&["-p", "3"]).succeeds().says(&["resuming run 1"]);
            flights::oracle()
        };
        let (visible, newest) = (place.visible("out"), place.manifests(1).pop().unwrap().path);
        sleeper.signal("CONT");
        is_overtaken(sleeper, if fresh { "run 2 of job `job`" } else { "attempt 2 of job `job`, run 1," });
        assert_eq!(place.visible("out"), visible, "the sleeper has published nothing");
        assert_lines(place.lines("out"), oracle, "as if it had not been there");
        if !fresh {
            // It may have found a slot free that the newer attempt had emptied, far below the newest.
            assert_eq!(place.manifests(1).pop().unwrap().path, newest, "the sleeper has committed nothing that counts");
            place.run(&[]).succeeds().says(&["starting run 2"]);
        }
    }
}
