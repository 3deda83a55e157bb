//! Records that fail, under each policy: what is left out, what is told, and that all others come through exactly once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::{JobFile, Moment, Place, Random, assert_lines, kill_and_resume};
use crate::limits;

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

/// What a letter says of the failure, but for the line in the operator's source where a panic was.
fn error(letter: &Value) -> &str {
    letter["error"].as_str().and_then(|text| text.split(" (tests/guests/").next()).expect("a text")
}

/// Why a record fails, as its dead letter has it.
fn why(how: &str, line: &str) -> String {
    match how {
        "error" => format!("rejected a record: told to refuse {line:?}"),
        "panic" => format!("panicked: told to panic on {line:?}"),
        _ => "trapped: aborted without saying why (what it wrote to standard error is in the log)".into(),
    }
}

/// A dead letter says who failed on what, where it came from, and why.
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
            let number = letter["record"].as_u64().unwrap() as usize - 1;
            assert_eq!(letter["value"], line(number));
            assert_eq!(error(&letter), why(how, &line(number)));
            assert!(told.insert(number), "{number} is told once");
        }
        assert_eq!(told, (0..RECORDS).filter(|&number| is_bad(number)).collect());
    }
}

/// Behind an exchange nobody knows any more where a record was read. The number 777 is no text.
#[test]
fn a_dead_letter_has_bytes_that_are_no_text_in_hexadecimal() {
    let misuse = ("misuse", "port", "{}", &[][..]);
    let place = Place::new(&limits::job(&misuse, "on-error = \"dead-letter\"").file_sink("dead", &["bad.dead-letter"]));
    limits::write_input(&place);
    place.run(&[]).succeeds();
    let letters: Vec<Value> = place.lines("dead").iter().map(|letter| serde_json::from_str(letter).unwrap()).collect();
    let why = "misused the host: output.emit: there is no output 7; the descriptor has 1";
    let expected = json!({ "job": "job", "operator": "bad", "subtask": 0, "error": why, "key": "k0", "value-hex": "8906" });
    assert_eq!(letters, [expected]);
}

/// So many records in all in so many files, whose records are numbered through.
const MANY: usize = 100_000;
const FILES: usize = 5;

/// Every 100th of very many records fails, and goes where its letter can be looked at.
fn many(how: &str, rate: &str) -> JobFile {
    let config = format!("config = {{ on = \"bad\", how = {how:?} }}\non-error = \"dead-letter\"");
    JobFile::new("20ms")
        .source("lines", &format!("type = \"file\"\npath = \"input\"\n{rate}"))
        .operator("fragile", "fixture-misbehave", &["lines"], &config)
        .file_sink("out", &["fragile"])
        .file_sink("dead", &["fragile.dead-letter"])
}

fn place_of_many(how: &str, rate: &str) -> Place {
    let place = Place::new(&many(how, rate));
    for file in 0..FILES {
        let first = file * (MANY / FILES);
        place.write_lines(&format!("input/{file}"), (first..first + MANY / FILES).map(line));
    }
    place
}

/// Checks that each good record has come through and each bad one is a letter, once, and that the letters say where they were read.
#[track_caller]
fn check_many(place: &Place) -> Vec<Value> {
    let is_bad = |number: &usize| is_bad(*number);
    assert_lines(place.lines("out"), (0..MANY).filter(|number| !is_bad(number)).map(line), "good records");
    let letters: Vec<Value> = place.lines("dead").iter().map(|letter| serde_json::from_str(letter).expect("a letter")).collect();
    let told = |letter: &Value| {
        let (file, record) = (letter["split"].as_str().expect("a split"), letter["record"].as_u64().expect("a number"));
        format!("{file}/{record}: {}", letter["value"].as_str().expect("a text"))
    };
    let expected = |number: usize| format!("{}/{}: {}", number / (MANY / FILES), number % (MANY / FILES) + 1, line(number));
    assert_eq!(letters.len(), MANY / 100);
    assert_lines(letters.iter().map(told), (0..MANY).filter(is_bad).map(expected), "dead letters");
    letters
}

/// By attempt and parallelism, which subtasks have written letters of operators that say who they are. That must be what the letter says.
#[track_caller]
fn writers(letters: &[Value]) -> BTreeMap<(u64, u64), BTreeSet<u64>> {
    let mut writers = BTreeMap::<_, BTreeSet<u64>>::new();
    for letter in letters {
        let error = error(letter);
        let numbers: Vec<u64> = error.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
        let &[attempt, run, subtask, parallelism] = &numbers[..] else { panic!("{error}") };
        let whoami = format!("attempt {attempt} of run {run}, subtask {subtask} of {parallelism} of `fragile` of `job`");
        assert_eq!(error, format!("panicked: told to panic in {whoami}"));
        assert_eq!((run, &letter["subtask"]), (1, &subtask.into()), "{letter}");
        writers.entry((attempt, parallelism)).or_default().insert(subtask);
    }
    writers
}

#[test]
fn a_thousand_letters_of_a_hundred_thousand_records_are_the_right_ones() {
    let place = place_of_many("anew", "");
    place.run(&["-p", "2"]).succeeds();
    assert_eq!(writers(&check_many(&place)), [((1, 2), [0, 1].into())].into());

    let place = place_of_many("error", "");
    place.run(&["-p", "2"]).succeeds();
    let of_other = check_many(&place).into_iter().find(|letter| error(letter) != why("error", letter["value"].as_str().unwrap()));
    assert_eq!(of_other, None);
}

/// Through kill -9 and other parallelisms, the good records and the dead letters are there exactly once.
#[test]
fn dead_letters_are_exactly_once_too() {
    let mut random = Random::new(57);
    let place = place_of_many("anew", "rate = 12000");
    kill_and_resume(&place, &mut random, 6, &["1", "2", "3"], |random| match random.below(4) {
        0 => Moment::Unpublished,
        _ => Moment::Checkpoints(1 + random.below(2)),
    });
    assert!((1..MANY / 100).contains(&place.lines("dead").len()), "it was killed in the middle");
    place.set_job(&many("anew", ""));
    place.run(&["-p", "2"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    let writers = writers(&check_many(&place));
    println!("{writers:?}");
    assert!(writers.len() > 1 && writers.keys().next_back() == Some(&(7, 2)), "the last attempt is the seventh");
    assert!(writers.iter().all(|((_, parallelism), subtasks)| subtasks.last() < Some(parallelism)));
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
