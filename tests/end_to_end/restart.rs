//! Restart strategies: attempts that fail are followed by others in the same process, and nothing is lost or doubled by it.

use std::fs;

use crate::flights;
use crate::harness::{JobFile, Place, assert_lines};

pub fn job(component: &str, restart: &str, source: &str, operator: &str) -> JobFile {
    JobFile::new("20ms")
        .restart(restart)
        .source("lines", &format!("type = \"file\"\npath = \"input\"\n{source}"))
        .operator("relapse", component, &["lines"], operator)
        .file_sink("out", &["relapse"])
}

/// Lines of which some make attempts fail, far enough from each other that checkpoints lie between.
pub fn input() -> Vec<String> {
    let line = |number: u32| match number {
        1000 | 2000 | 3000 => format!("fail-{}", number / 1000),
        _ => format!("line {number}"),
    };
    (0..4000).map(line).collect()
}

pub fn place(job: &JobFile) -> Place {
    let place = Place::new(job);
    place.write_lines("input", input());
    place
}

#[test]
fn attempts_that_fail_are_followed_by_others_and_nothing_is_lost() {
    let place = place(&job("fixture-relapse", "strategy = \"fixed-delay\"\nattempts = 3\ndelay = \"10ms\"", "rate = 5000", ""));
    let ended = place.run(&["-p", "2", "--output", "json"]).succeeds();
    let ended = ended.says(&["attempt 1 has failed, another follows in 10ms: operator `relapse`", "attempt 3 has failed", "(attempt 4)"]);
    let summary = ended.json();
    let failures = summary["failures"].as_array().expect("failures");
    let told: Vec<_> = failures.iter().map(|failed| (failed["attempt"]["attempt"].as_u64(), failed["error"].as_str())).collect();
    assert_eq!(told.len(), 3);
    for (number, (attempt, error)) in (1..).zip(told) {
        assert_eq!(attempt, Some(number));
        assert!(error.is_some_and(|error| error.contains(&format!("this is attempt {number}"))), "{error:?}");
    }
    assert_lines(place.lines("out"), input(), "after three failures");
}

#[test]
fn attempts_come_to_an_end() {
    let place = place(&job("fixture-relapse", "strategy = \"fixed-delay\"\nattempts = 2\ndelay = \"1ms\"", "rate = 20000", ""));
    let ended = place.run(&["--output", "json"]).ends_with(1).says(&["attempt 2 has failed, another follows in 1ms"]);
    let told = ended.json();
    let error = told["error"]["message"].as_str().expect("an error");
    assert!(error.contains("panicked: this is attempt 3") && error.ends_with("(not tried again: restarted 2 time(s) already)"), "{error}");
    let failures = told["failures"].as_array().expect("those before it");
    let errors: Vec<_> = failures.iter().filter_map(|failed| failed["error"].as_str()).collect();
    assert!(errors.len() == 2 && (1..).zip(&errors).all(|(n, error)| error.contains(&format!("this is attempt {n}"))), "{errors:?}");
    assert_eq!(told["failed-attempts"], 2);
    place.set_job(&job("fixture-relapse", "strategy = \"none\"", "", ""));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), input(), "once the job is run again");
}

/// Three attempts fail. With each strategy: what it says of the pause after each, and if it ends the job, why.
#[test]
fn each_strategy_waits_as_it_is_set_to_and_ends_as_it_is_set_to() {
    let growing = "strategy = \"exponential-delay\"\ninitial-backoff = \"10ms\"\nmax-backoff = \"50ms\"\nbackoff-multiplier = 3.0\njitter-factor = 0.0";
    let rate = "strategy = \"failure-rate\"\nmax-failures-per-interval = 2\ndelay = \"5ms\"";
    let cases: [(&str, &str, &[&str], Option<&str>); 5] = [
        (growing, "reset-backoff-threshold = \"1h\"", &["10ms", "30ms", "50ms"], None),
        // Every attempt lasts longer.
        (growing, "reset-backoff-threshold = \"1ms\"", &["10ms", "10ms", "10ms"], None),
        (growing, "attempts-before-reset-backoff = 2", &["10ms", "30ms"], Some("restarted 2 time(s) already")),
        (rate, "failure-rate-interval = \"1h\"", &["5ms", "5ms"], Some("3 attempts have failed within 1h")),
        (rate, "failure-rate-interval = \"1ms\"", &["5ms", "5ms", "5ms"], None),
    ];
    for (strategy, more, delays, end) in cases {
        println!("{strategy}\n{more}");
        let place = place(&job("fixture-relapse", &format!("{strategy}\n{more}"), "", ""));
        let ended = place.run(&[]);
        let told: Vec<&str> =
            ended.stderr.split(" has failed, another follows in ").skip(1).filter_map(|rest| rest.split(':').next()).collect();
        assert_eq!(told, delays, "{}", ended.stderr);
        match end {
            None => {
                ended.succeeds();
                assert_lines(place.lines("out"), input(), more);
            }
            Some(reason) => _ = ended.ends_with(1).says(&["this is attempt 3", &format!("(not tried again: {reason})")]),
        }
    }
}

/// What is wrong with a checkpoint is wrong in every attempt, unlike what has made the first one fail.
#[test]
fn a_checkpoint_that_has_lost_a_file_is_not_tried_again() {
    let place = flights::place("");
    let job = flights::job("rate = 500").checkpoint("interval = \"200ms\"\ndir = \"checkpoints\"");
    place.set_job(&job.restart("strategy = \"fixed-delay\"\nattempts = 5\ndelay = \"100ms\""));
    let mut running = place.start(&[]);
    // Before anything is merged.
    running.wait_until("a checkpoint with state and output", || !place.state_files(1).is_empty() && !place.lines("out").is_empty());
    fs::rename(place.run_dir(1).join("state"), place.path("lost")).unwrap();
    // Nothing can be written there any more.
    fs::rename(place.path("out"), place.path("written")).unwrap();
    place.write("out", "");
    let ended = running.wait().ends_with(5);
    let ended = ended.says(&["attempt 1 has failed, another follows in 100ms: ", "can't be restored", "is missing"]);
    assert_eq!(ended.stderr.matches("another follows").count(), 1, "{}", ended.stderr);
}

/// Tried again and again, as long as it may be that something else fails.
const PATIENT: &str = "strategy = \"exponential-delay\"\ninitial-backoff = \"1ms\"\nmax-backoff = \"1ms\"";

/// Runs a job that fails on a record for good, which is found out when it has failed for the second time, in the attempt `last`.
#[track_caller]
fn ends_in_attempt(last: usize, place: &Place, parallelism: &str, record: &str) {
    let ended = place.run(&["-p", parallelism]).ends_with(1);
    let ended = ended.says(&[record, "(not tried again: the same record has failed before, and would again)"]);
    let failed = (1..).take_while(|attempt| ended.stderr.contains(&format!("attempt {attempt} has failed, another follows"))).count();
    assert_eq!(failed + 1, last, "{}", ended.stderr);
}

/// Whichever subtask reads the split that it is in, and whatever the operator says about it.
#[test]
fn a_record_that_fails_again_ends_the_job_whoever_works_on_it_and_whatever_is_said_about_it() {
    let place = place(&job("fixture-misbehave", PATIENT, "", "config = { on = \"fail-2\", how = \"anew\" }"));
    ends_in_attempt(2, &place, "1", "record `fail-2` (number 2001 of split `input`): panicked: told to panic in attempt 2");

    let config = "config = { on = \"bad\", how = \"panic\" }";
    for _ in 0..3 {
        let place = Place::new(&job("fixture-misbehave", PATIENT, "", config));
        (0..6).for_each(|split| place.write_lines(&format!("input/{split}"), (0..3000).map(|number| format!("line {number} of {split}"))));
        place.write_lines("input/6", ["good", "bad"]);
        ends_in_attempt(2, &place, "2", "record `bad` (number 2 of split `6`)");
    }
}

/// The one fails in the attempts in which the other does not.
#[test]
fn two_records_that_fail_in_turn_end_the_job() {
    let place = Place::new(&job("fixture-relapse", PATIENT, "", ""));
    place.write_lines("input", ["a", "fail-odd", "b", "fail-even", "c"]);
    ends_in_attempt(3, &place, "1", "record `fail-odd`");
}

/// Where nobody knows any more where a record was read, it is known by its content, also when checkpoints were committed in between.
#[test]
fn a_record_that_has_come_a_long_way_and_fails_again_ends_the_job() {
    let job = JobFile::new("20ms")
        .restart(PATIENT)
        .source("lines", "type = \"file\"\npath = \"input\"\nrate = 40")
        .operator("once", "fixture-flat-map", &["lines"], "config = { times = 1 }")
        .operator("fragile", "fixture-misbehave", &["once"], "config = { on = \"bad\", how = \"anew\" }")
        .file_sink("out", &["fragile"]);
    let place = Place::new(&job);
    place.write_lines("input", (0..40).map(|number| if number == 20 { "bad".into() } else { format!("line {number}") }));
    ends_in_attempt(2, &place, "1", "record `bad`: panicked: told to panic in attempt 2");
    assert!(place.newest(1) > 0, "checkpoints were committed");
}

#[test]
fn an_attempt_that_was_overtaken_while_it_waited_disturbs_nobody() {
    let place = Place::new(&job("fixture-relapse", "strategy = \"fixed-delay\"\ndelay = \"10s\"", "", ""));
    // The second attempt does not fail.
    let input = ["a", "fail-1", "b"].map(String::from);
    place.write_lines("input", &input);
    let mut waiting = place.start(&[]);
    waiting.wait_for_stderr("attempt 1 has failed, another follows in 10s");
    place.run(&[]).succeeds();
    waiting.wait().ends_with(7).says(&["attempt 2 of job `job`, run 1, has taken over"]);
    assert_lines(place.lines("out"), input.to_vec(), "by the process that has taken over");
    assert!(!place.run_dir(2).exists(), "nobody has begun anew");
}
