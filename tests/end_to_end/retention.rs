//! What stays on disk and what goes: the last three checkpoints with their state files, and everything that is not the job's own.

use std::collections::BTreeSet;
use std::fs;

use crate::flights;
use crate::harness::{Place, Random, assert_lines};
use crate::sums;

/// Checks that the checkpoint directory holds what the last three checkpoints need, and no more of the job's own.
#[track_caller]
fn only_what_is_needed(place: &Place, case: &str) {
    let manifests = place.manifests(1);
    assert_eq!(manifests.len(), 3, "checkpoints kept, {case}");
    let named: BTreeSet<String> = manifests.iter().flat_map(|manifest| manifest.state_files()).collect();
    assert!(!named.is_empty());
    assert_eq!(place.state_files(1), named, "state files, {case}");
}

#[test]
fn the_last_three_checkpoints_and_their_state_are_kept_through_kills_and_the_end() {
    let mut random = Random::new(3);
    let input = sums::input(&mut random, 0, 20_000);
    let source = "type = \"file\"\npath = \"input.txt\"\n";
    let place = Place::new(&sums::job(&format!("{source}rate = 10000")));
    place.write_lines("input.txt", &input);
    for parallelism in ["1", "3"] {
        let newest = place.newest(1);
        let mut running = place.start(&["-p", parallelism]);
        running.wait_until("more checkpoints", || place.newest(1) >= newest + 6);
        running.kill();
    }
    let newest = place.newest(1);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("more checkpoints", || place.newest(1) >= newest + 4);
    running.signal("INT");
    running.wait().ends_with(130);
    only_what_is_needed(&place, "stopped");
    place.run(&["-p", "2"]).succeeds();
    only_what_is_needed(&place, "finished");
    sums::check(&place.lines("out"), &[input]);
}

/// Checkpoints that follow each other closely: the last one is committed while older ones are still being deleted.
#[test]
fn no_more_than_three_are_left_when_checkpoints_come_as_fast_as_they_can() {
    let mut random = Random::new(4);
    let source = "type = \"file\"\npath = \"input.txt\"\nrate = 40000";
    let place = Place::new(&sums::job(source).checkpoint("interval = \"1ms\"\ndir = \"checkpoints\""));
    place.write_lines("input.txt", sums::input(&mut random, 0, 20_000));
    place.run(&["-p", "2"]).succeeds();
    only_what_is_needed(&place, "finished");
}

#[test]
fn foreign_files_are_left_alone() {
    const FOREIGN: &[&str] = &[
        "checkpoints/notes.txt",
        "checkpoints/job/notes.txt",
        "checkpoints/job/run-0001/notes.txt",
        "checkpoints/job/run-0001/log/notes.json",
        "checkpoints/job/run-0001/log/7.json",
        "checkpoints/job/run-0001/state/delays-0.state",
        "checkpoints/job/run-0001/state/1-1/notes.state",
        "checkpoints/job/run-1/log/00000000000000000001.json",
        "out/notes.txt",
        "out/.staging/notes.txt",
        "out/.staging/other-0001-0001-00000001-00000.txt",
    ];
    let place = flights::place("rate = 4000");
    let mut running = place.start(&[]);
    running.wait_until("a checkpoint", || place.newest(1) >= 1);
    running.kill();
    FOREIGN.iter().for_each(|file| place.write(file, format!("{file} is mine\n")));
    let mut running = place.start(&[]);
    running.wait_until("superseded checkpoints", || place.newest(1) >= 12);
    running.signal("INT");
    running.wait().ends_with(130);
    place.set_job(&flights::job(""));
    place.run(&[]).succeeds();
    for file in FOREIGN {
        assert_eq!(fs::read_to_string(place.path(file)).ok(), Some(format!("{file} is mine\n")), "{file}");
    }
    let lines = place.lines("out").into_iter().filter(|line| !line.ends_with(" is mine"));
    assert_lines(lines, flights::oracle(), "beside foreign files");
}

#[test]
fn a_consumer_may_take_published_files_away_while_the_job_is_down() {
    let place = flights::place("rate = 4000");
    let mut taken = Vec::new();
    for round in 1..=3 {
        let mut running = place.start(&[]);
        running.wait_until("some lines", || place.lines("out").len() >= 10);
        if round == 2 {
            running.signal("INT");
            running.wait().ends_with(130);
        } else {
            running.kill();
        }
        for (name, text) in place.visible("out") {
            taken.push(text);
            fs::remove_file(place.path("out").join(name)).unwrap();
        }
    }
    place.set_job(&flights::job(""));
    place.run(&["-p", "2"]).succeeds();
    taken.extend(place.visible("out").into_values());
    assert_lines(taken.concat().lines(), flights::oracle().iter().map(String::as_str), "taken and left");
}
