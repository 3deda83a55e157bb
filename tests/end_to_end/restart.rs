//! Restart strategies: attempts that fail are followed by others in the same process, and nothing is lost or doubled by it.

use crate::harness::{JobFile, Place, assert_lines};

fn job(component: &str, restart: &str, source: &str, operator: &str) -> JobFile {
    JobFile::new("20ms")
        .restart(restart)
        .source("lines", &format!("type = \"file\"\npath = \"input\"\n{source}"))
        .operator("relapse", component, &["lines"], operator)
        .file_sink("out", &["relapse"])
}

/// Lines of which some make attempts fail, far enough from each other that checkpoints lie between.
fn input() -> Vec<String> {
    let line = |number: u32| match number {
        1000 | 2000 | 3000 => format!("fail-{}", number / 1000),
        _ => format!("line {number}"),
    };
    (0..4000).map(line).collect()
}

fn place(job: &JobFile) -> Place {
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
    assert!(error.contains("panicked: this is attempt 3") && error.ends_with("(not tried again: it was begun again 2 times)"), "{error}");
    let failures = told["failures"].as_array().expect("those before it");
    let errors: Vec<_> = failures.iter().filter_map(|failed| failed["error"].as_str()).collect();
    assert!(errors.len() == 2 && (1..).zip(&errors).all(|(n, error)| error.contains(&format!("this is attempt {n}"))), "{errors:?}");
    assert_eq!(told["failed-attempts"], 2);
    place.set_job(&job("fixture-relapse", "strategy = \"none\"", "", ""));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), input(), "once the job is run again");
}

#[test]
fn a_record_that_fails_twice_in_a_row_ends_the_job() {
    let bad = "config = { on = \"fail-2\", how = \"panic\" }";
    let place = place(&job("fixture-misbehave", "strategy = \"exponential-delay\"\ninitial-backoff = \"1ms\"", "", bad));
    let ended = place.run(&[]).ends_with(1);
    let ended = ended.says(&[
        "attempt 1 has failed",
        "record `fail-2`",
        "(not tried again: the same record has failed twice in a row, and would again)",
    ]);
    assert!(!ended.stderr.contains("attempt 2 has failed, another follows"), "{}", ended.stderr);
}

#[test]
fn a_signal_ends_the_wait_for_the_next_attempt() {
    let place = place(&job("fixture-relapse", "strategy = \"fixed-delay\"\ndelay = \"1day\"", "", ""));
    let mut running = place.start(&[]);
    running.wait_for_stderr("attempt 1 has failed, another follows in 1day");
    running.signal("INT");
    running.wait().ends_with(1).says(&["panicked: this is attempt 1", "(not tried again: it was stopped before the next attempt)"]);
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
