//! Checkpoints that are given up: operators that want to know are told, each time, in order, and once the barrier has come.

use std::collections::BTreeSet;

use crate::degraded::{give_back, take_away};
use crate::harness::{JobFile, Place};
use crate::operator_state::told;

/// Lines pass through one operator and then the other: `slow`, which takes long for one of them, and `life`, which tells of its life. The
/// second one has another source besides, so that it is no part of the first one's chain: its barriers wait for all subtasks of that.
fn job(settings: &str, spins: u64, config: &str, [first, second]: [&str; 2]) -> JobFile {
    let slow = format!("config = {{ spins = {spins}, on = \"line 4000\" }}\nlimits = {{ time = \"1h\" }}");
    let life = format!("config = {{ {config} }}\nlimits = {{ log-lines = 100000 }}");
    let lines = |operator: &str| if operator == "slow" { &slow } else { &life };
    JobFile::new("20ms")
        .checkpoint(&format!("interval = \"20ms\"\nnum-retained = 10000\n{settings}\ndir = \"checkpoints\""))
        .source("lines", "type = \"file\"\npath = \"input.txt\"\nrate = 8000")
        .source("more", "type = \"file\"\npath = \"more.txt\"")
        .operator(first, &format!("fixture-{first}"), &["lines"], lines(first))
        .operator(second, &format!("fixture-{second}"), &[first, "more"], lines(second))
        .file_sink("out", &[second])
}

fn place(settings: &str, spins: u64, config: &str) -> Place {
    let place = Place::new(&job(settings, spins, config, ["slow", "life"]));
    place.write_lines("input.txt", input());
    place.write_lines("more.txt", ["more"]);
    place
}

fn input() -> Vec<String> {
    (0..12_000).map(|number| format!("line {number}")).collect()
}

/// So many rounds take some seconds, on any machine.
const LONG: u64 = 15_000_000_000;

/// Numbers that follow a word.
fn numbers(told: &[&str], word: &str) -> Vec<u64> {
    told.iter().filter_map(|text| text.strip_prefix(word)?.trim().parse().ok()).collect()
}

/// The checkpoints that the host tells to have failed.
fn failed(stderr: &str) -> BTreeSet<u64> {
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|number| number.parse().ok());
    let first = stderr.lines().filter_map(|line| number(line.split_once("degraded: checkpoint ")?.1));
    let further = stderr.lines().filter(|line| line.contains(" in_a_row="));
    first.chain(further.filter_map(|line| number(line.split_once(" checkpoint=")?.1))).collect()
}

/// Checks what each of `subtasks` was told against what the host says and has committed.
#[track_caller]
fn check(place: &Place, stderr: &str, subtasks: u16) {
    let committed: BTreeSet<u64> = place.manifests(1).iter().map(|manifest| manifest.checkpoint).collect();
    let given_up: BTreeSet<u64> = failed(stderr).difference(&committed).copied().collect();
    assert!(!given_up.is_empty(), "{stderr}");
    println!("given up: {given_up:?}");
    for subtask in 0..subtasks {
        let told = told(stderr, subtask);
        let (complete, aborted) = (numbers(&told, "complete"), numbers(&told, "aborted"));
        assert!(complete.is_sorted_by(|a, b| a < b) && aborted.is_sorted_by(|a, b| a < b), "{told:?}");
        assert_eq!(BTreeSet::from_iter(complete), committed, "of subtask {subtask}");
        assert_eq!(BTreeSet::from_iter(aborted), given_up, "of subtask {subtask}");
        for (at, text) in told.iter().enumerate() {
            let Some(number) = text.strip_prefix("aborted ") else { continue };
            assert!(told[..at].contains(&format!("barrier {number}").as_str()), "{text} before its barrier: {told:?}");
        }
        assert_eq!(told.last(), Some(&"close"));
    }
    let mut lines = input();
    lines.push("more".into());
    lines.sort_unstable();
    assert_eq!(place.lines("out"), lines);
}

#[test]
fn an_operator_is_told_of_checkpoints_that_could_not_be_stored() {
    let place = place("tolerable-failures = 1000", 0, "");
    let mut running = place.start(&["-p", "2", "--log", "info"]);
    running.wait_until("some checkpoints", || place.newest(1) >= 3);
    take_away(&place, &running);
    running.wait_for_stderr("life 0: aborted ");
    running.wait_for_stderr("life 1: aborted ");
    give_back(&place, &running);
    running.wait_for_stderr("healthy again: checkpoint ");
    check(&place, &running.wait().succeeds().stderr, 2);
}

/// Their barriers wait behind a slow record: none is told before.
#[test]
fn an_operator_is_told_of_checkpoints_that_took_too_long() {
    let place = place("tolerable-failures = 1000\ntimeout = \"300ms\"", LONG, "");
    check(&place, &place.run(&["-p", "2", "--log", "info"]).succeeds().stderr, 2);
}

#[test]
fn the_checkpoint_whose_failure_is_one_too_many_is_told_before_the_end() {
    let place = place("", 0, "");
    place.set_job(&job("timeout = \"1s\"", LONG, "", ["life", "slow"]));
    let ended = place.run(&["-p", "2", "--log", "info"]).ends_with(1);
    let before = ended.stderr.split_once(" has failed: ").expect("one has").0;
    let number = before.rsplit_once("checkpoint ").expect("which").1;
    // The worker of one subtask is busy with the slow line: perhaps its barrier has not come.
    let barrier = format!("barrier {number}");
    let passed: Vec<_> = (0..2).map(|subtask| told(&ended.stderr, subtask)).filter(|told| told.contains(&barrier.as_str())).collect();
    assert!(!passed.is_empty(), "{}", ended.stderr);
    for told in passed {
        assert_eq!(told.last_chunk(), Some(&[format!("aborted {number}").as_str(), "close"]), "{}", ended.stderr);
    }
}

#[test]
fn a_hook_that_traps_on_it_fails_the_attempt() {
    let place = place("tolerable-failures = 1000\ntimeout = \"300ms\"", LONG, "panics = \"checkpoint-aborted\"");
    place.run(&["-p", "2"]).ends_with(1).says(&["operator `life`, subtask ", "told that checkpoint ", " is given up: panicked: "]);
}
