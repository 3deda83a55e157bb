//! Records that fail, under each policy: what is left out, what is told, and that all others come through exactly once.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::{JobFile, Moment, Place, Random, assert_lines, kill_and_resume};

const RECORDS: usize = 3000;

/// Every 100th record is bad.
fn is_bad(number: usize) -> bool {
    number % 100 == 57
}

fn line(number: usize) -> String {
    if is_bad(number) { format!("record {number} is bad") } else { format!("record {number}") }
}

fn good() -> Vec<String> {
    (0..RECORDS).filter(|&number| !is_bad(number)).map(line).collect()
}

fn job(how: &str, lines: &str) -> JobFile {
    let config = format!("config = {{ on = \"bad\", how = {how:?} }}\n{lines}");
    JobFile::new("20ms")
        .source("lines", "type = \"file\"\npath = \"input\"")
        .operator("fragile", "fixture-misbehave", &["lines"], &config)
        .file_sink("out", &["fragile"])
}

fn place(job: &JobFile) -> Place {
    let place = Place::new(job);
    place.write_lines("input/a", (0..RECORDS).map(line));
    place
}

/// With `skip`, bad records are as if they had not been there, and the summary counts them.
fn skips(how: &str, limits: &str) {
    for parallelism in ["1", "2"] {
        let place = place(&job(how, &format!("on-error = \"skip\"\nlimits = {limits}")));
        let summary = place.run(&["-p", parallelism, "--output", "json"]).succeeds().json();
        assert_lines(place.lines("out"), good(), how);
        let fragile = summary["nodes"].as_array().unwrap().iter().find(|node| node["uid"] == "fragile").unwrap();
        assert_eq!(fragile["records-failed"], (0..RECORDS).filter(|&number| is_bad(number)).count());
    }
}

#[test]
fn rejected_records_are_skipped() {
    skips("error", "{}");
}

#[test]
fn panicking_records_are_skipped() {
    skips("panic", "{}");
}

#[test]
fn trapping_records_are_skipped() {
    skips("trap", "{}");
}

#[test]
fn recursing_records_are_skipped() {
    skips("recurse", "{}");
}

#[test]
fn records_that_take_too_much_memory_are_skipped() {
    skips("allocate", "{ memory = \"16MiB\" }");
}

/// A loop is only ended by the limit, so there is a single one.
#[test]
fn a_looping_record_is_skipped() {
    let place = place(&job("loop", "on-error = \"skip\"\nlimits = { time = \"50ms\" }"));
    place.write_lines("input/a", (0..RECORDS).filter(|&number| !is_bad(number) || number == 57).map(line));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), good(), "all but the loop");
}

/// A dead letter says who failed on what, where it came from, and why; bytes that are no text are there in hexadecimal.
#[test]
fn dead_letters_hold_the_record_and_the_reason() {
    for how in ["error", "panic", "trap"] {
        let job = job(how, "on-error = \"dead-letter\"").file_sink("dead", &["fragile.dead-letter"]);
        let place = place(&job);
        place.run(&["-p", "2"]).succeeds();
        assert_lines(place.lines("out"), good(), how);
        let mut told = BTreeSet::new();
        for letter in place.lines("dead") {
            let letter: Value = serde_json::from_str(&letter).unwrap();
            assert_eq!((&letter["job"], &letter["operator"], &letter["split"]), (&"job".into(), &"fragile".into(), &"a".into()));
            assert!(!letter["error"].as_str().unwrap().is_empty());
            let number = letter["record"].as_u64().unwrap() as usize - 1;
            assert_eq!(letter["value"], line(number));
            assert!(told.insert(number), "{number} is told once");
        }
        assert_eq!(told, (0..RECORDS).filter(|&number| is_bad(number)).collect());
    }
}

/// So many records in all in so many files, whose records are numbered through.
const MANY: usize = 100_000;
const FILES: usize = 5;

/// Every 100th of very many records panics, and goes where its letter can be looked at.
fn many(rate: &str) -> JobFile {
    let config = "config = { on = \"bad\", how = \"panic\" }\non-error = \"dead-letter\"";
    JobFile::new("20ms")
        .source("lines", &format!("type = \"file\"\npath = \"input\"\n{rate}"))
        .operator("fragile", "fixture-misbehave", &["lines"], config)
        .file_sink("out", &["fragile"])
        .file_sink("dead", &["fragile.dead-letter"])
}

fn place_of_many(rate: &str) -> Place {
    let place = Place::new(&many(rate));
    for file in 0..FILES {
        let first = file * (MANY / FILES);
        place.write_lines(&format!("input/{file}"), (first..first + MANY / FILES).map(line));
    }
    place
}

/// Checks that each good record has come through and each bad one is a letter, once, and that the letters say where they were read.
#[track_caller]
fn check_many(place: &Place) {
    let is_bad = |number: &usize| is_bad(*number);
    assert_lines(place.lines("out"), (0..MANY).filter(|number| !is_bad(number)).map(line), "good records");
    let told = |letter: &String| {
        let letter: Value = serde_json::from_str(letter).expect("a letter");
        let (file, record) = (letter["split"].as_str().expect("a split"), letter["record"].as_u64().expect("a number"));
        format!("{file}/{record}: {}", letter["value"].as_str().expect("a text"))
    };
    let expected = |number: usize| format!("{}/{}: {}", number / (MANY / FILES), number % (MANY / FILES) + 1, line(number));
    let letters: Vec<String> = place.lines("dead").iter().map(told).collect();
    assert_eq!(letters.len(), MANY / 100);
    assert_lines(letters, (0..MANY).filter(is_bad).map(expected), "dead letters");
}

#[test]
fn a_thousand_letters_of_a_hundred_thousand_records_are_the_right_ones() {
    let place = place_of_many("");
    place.run(&["-p", "2"]).succeeds();
    check_many(&place);
}

/// Through kill -9 and other parallelisms, the good records and the dead letters are there exactly once.
#[test]
fn dead_letters_are_exactly_once_too() {
    let mut random = Random::new(57);
    let place = place_of_many("rate = 12000");
    kill_and_resume(&place, &mut random, 6, &["1", "2", "3"], |random| match random.below(4) {
        0 => Moment::Unpublished,
        _ => Moment::Checkpoints(1 + random.below(2)),
    });
    assert!((1..MANY / 100).contains(&place.lines("dead").len()), "it was killed in the middle");
    place.set_job(&many(""));
    place.run(&["-p", "2"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    check_many(&place);
}

#[test]
fn a_flood_of_bad_records_fails_the_job() {
    for parallelism in ["1", "2"] {
        let place = Place::new(&job("error", "on-error = \"skip\"\nmax-errors = 10"));
        // Six in each, whichever subtasks read them.
        ["a", "b"].iter().for_each(|file| place.write_lines(&format!("input/{file}"), (0..600).map(line)));
        let ended = place.run(&["-p", parallelism]).ends_with(1);
        ended.says(&["operator `fragile`: more than 10 records have failed within a minute", "max-errors"]);
    }
}

#[test]
fn dead_letters_need_a_taker_and_a_policy() {
    let untaken = place(&job("error", "on-error = \"dead-letter\""));
    untaken.run(&[]).ends_with(4).says(&["nothing takes its dead letters", "fragile.dead-letter"]);
    let unset = place(&job("error", "").file_sink("dead", &["fragile.dead-letter"]));
    unset.run(&[]).ends_with(4).says(&["has no output `dead-letter`", "on-error"]);
    let misspelt = place(&job("error", "on-error = \"skipp\""));
    misspelt.run(&[]).ends_with(3).says(&["unknown on-error \"skipp\"", "did you mean \"skip\"?"]);
}
