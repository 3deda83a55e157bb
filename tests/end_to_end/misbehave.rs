//! An operator that fails on one record among two thousand: the host lives to report it, and the mended job goes on exactly.

use std::fmt::Write;

use crate::harness::{Ended, JobFile, Place, assert_lines};
use crate::{flights, limits};

/// The job: two files, of which the second has the bad record, so that with `-p 2` one subtask fails and the other does not.
fn job(on: &str, how: &str, limits: &str, rate: &str) -> JobFile {
    JobFile::new("20ms")
        .source("lines", &format!("type = \"file\"\npath = \"input\"\n{rate}"))
        .operator("fragile", "fixture-misbehave", &["lines"], &format!("config = {{ on = {on:?}, how = {how:?} }}\nlimits = {limits}"))
        .file_sink("out", &["fragile"])
}

const BAD: &str = "b-0777 is the bad one";

/// The lines of the file `a` or `b`.
fn lines(file: &str) -> Vec<String> {
    (0..1000).map(|number| if (file, number) == ("b", 777) { BAD.to_owned() } else { format!("{file}-{number:04}") }).collect()
}

/// A way to misbehave, under which limits, and what is said about it.
type Kind = (&'static str, &'static str, &'static [&'static str]);

const KINDS: &[Kind] = &[
    ("panic", "{}", &["panicked: told to panic on \"b-0777 is the bad one\""]),
    ("trap", "{}", &["trapped: aborted without saying why"]),
    ("error", "{}", &["rejected a record: told to refuse \"b-0777 is the bad one\""]),
    ("loop", "{ time = \"300ms\" }", &["ran longer than its time limit of 300ms (limits.time)", "raise `limits"]),
    ("allocate", "{ memory = \"64MiB\" }", &["used more than its memory limit of 64 MiB (limits.memory)", "raise `limits"]),
    ("recurse", "{}", &["trapped: "]),
];

/// Runs a job into its bad record and mends it.
fn fails(how: &str) {
    let (how, limits, words) = *KINDS.iter().find(|kind| kind.0 == how).expect("one of the kinds");
    for (parallelism, subtasks) in [("1", &["subtask 0: "][..]), ("2", &["subtask 0: ", "subtask 1: "])] {
        let place = Place::new(&job("the bad one", how, limits, "rate = 200"));
        ["a", "b"].iter().for_each(|file| place.write_lines(&format!("input/{file}"), lines(file)));
        // Long before the bad record, so that there is a checkpoint to resume from.
        let mut running = place.start(&["-p", parallelism]);
        running.wait_until("the first lines", || !place.lines("out").is_empty());
        running.signal("INT");
        running.wait().ends_with(130);

        place.set_job(&job("the bad one", how, limits, ""));
        let record = format!("record `{BAD}`");
        let ended = place.run(&["-p", parallelism]).ends_with(1).says(&["job `job`", "operator `fragile`", &record]).says(words);
        assert!(subtasks.iter().any(|subtask| ended.stderr.contains(subtask)), "{}", ended.stderr);
        let published = place.lines("out");
        assert!(!published.contains(&BAD.to_owned()), "nothing of the failed batch is kept");
        // As often as one likes.
        let json = place.run(&["-p", parallelism, "--output", "json"]).ends_with(1).json();
        assert_eq!(json["error"]["code"], "job-failed");

        place.set_job(&job("no such text", how, limits, ""));
        place.run(&["-p", parallelism]).succeeds().says(&["resuming run 1 from checkpoint "]);
        assert_lines(place.lines("out"), [lines("a"), lines("b")].concat(), how);
    }
}

#[test]
fn a_panic() {
    fails("panic");
}

#[test]
fn a_trap() {
    fails("trap");
}

#[test]
fn an_error() {
    fails("error");
}

#[test]
fn a_loop_without_end() {
    fails("loop");
}

#[test]
fn memory_without_end() {
    fails("allocate");
}

#[test]
fn recursion_without_end() {
    fails("recurse");
}

/// All that an operator can do wrong at once on one host: each fails its own job, and says so in its own words.
#[test]
fn jobs_of_a_host_that_misbehave_leave_the_one_beside_them_alone() {
    let place = flights::place("rate = 500");
    limits::write_input(&place);
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "RUNNING");
    for case @ (_, how, ..) in limits::CASES {
        let own = limits::job(case, "").text().replace("name = \"job\"", &format!("name = {how:?}"));
        let own =
            ["out", "sums"].iter().fold(own, |text, sink| text.replace(&format!("path = {sink:?}"), &format!("path = \"{sink}-{how}\"")));
        place.write(&format!("{how}.toml"), own);
        // It waits until the job runs, and may see it fail.
        let deployed = host.cofferdam(&["deploy", &format!("{how}.toml"), "-p", "2"]);
        assert!([Some(0), Some(1)].contains(&deployed.code()), "{deployed:?}");
    }
    for (_, how, _, words) in limits::CASES {
        let failed = host.wait_for(how, "FAILED");
        let error = ["message", "help"].map(|part| failed["ended"]["error"][part].as_str().expect("a text")).join("\n");
        let said: [&str; 2] = [&format!("job `{how}`: operator `bad`, subtask "), "record "];
        said.iter().chain(*words).for_each(|word| assert!(error.contains(word), "{word:?} is missing in: {error}"));
    }
    let beside = host.describe("job");
    assert_eq!((&beside["state"], &beside["restarts"]), (&"RUNNING".into(), &0.into()), "{beside}");
    host.cofferdam(&["stop", "job"]).succeeds();
    place.set_job(&flights::job(""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "FINISHED");
    assert_lines(place.lines("out"), flights::oracle(), "beside those that misbehave");
}

/// What a record is in a message when it is long, or no text.
#[test]
fn a_long_record_is_told_by_its_beginning() {
    let place = Place::new(&job("the bad one", "panic", "{}", ""));
    let mut long = String::from("the bad one: ");
    (0..2000).for_each(|number| write!(long, "{number} ").unwrap());
    place.write_lines("input/a", ["good", &long]);
    let Ended { stderr, .. } = place.run(&[]).ends_with(1).says(&["record `the bad one: 0 1 2 ", &format!("({} bytes)", long.len())]);
    assert!(stderr.lines().all(|line| line.len() < 4000), "{stderr}");
}

#[test]
fn an_operator_that_fails_at_once_is_told_before_anything_is_written() {
    let job = JobFile::new("20ms")
        .source("lines", "type = \"generator\"\nkind = \"words\"\nlines = 10")
        .operator("fragile", "fixture-misbehave", &["lines"], "config = { no = \"such key\" }")
        .file_sink("out", &["fragile"]);
    let place = Place::new(&job);
    place.run(&[]).ends_with(1).says(&["operator `fragile`, subtask 0: opening it", "unknown field `no`"]);
    assert!(place.lines("out").is_empty());
}
