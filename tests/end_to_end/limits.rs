//! Every way in which an operator can misbehave, each at one record: it costs that record or the job, as the job says, and the other
//! operator of the job is not disturbed. And what operators count themselves.

use serde_json::{Value, json};

use crate::harness::{JobFile, Place, assert_lines};

const RECORDS: usize = 2000;
const BAD: usize = 777;

/// A way to misbehave: of which fixture, how, under which limits, and what is said about it.
pub type Case = (&'static str, &'static str, &'static str, &'static [&'static str]);

/// Each by another name.
pub const CASES: &[Case] = &[
    ("misbehave", "error", "{}", &["rejected a record: told to refuse"]),
    ("misbehave", "panic", "{}", &["panicked: told to panic on"]),
    ("misbehave", "trap", "{}", &["trapped: aborted without saying why"]),
    ("misbehave", "loop", "{ time = \"300ms\" }", &["ran longer than its time limit of 300ms (limits.time)", "limits = { time = "]),
    ("misbehave", "recurse", "{}", &["trapped: calls nested deeper than its stack of 1 MiB allows"]),
    ("misbehave", "allocate", "{ memory = \"16MiB\" }", &["more than its memory limit of 16 MiB (limits.memory)", "limits = { memory = "]),
    ("misuse", "offsets", "{}", &["misused the host: output.emit: `values` is no column: ends[1] lies before ends[0]"]),
    ("misuse", "port", "{}", &["misused the host: output.emit: there is no output 7; the descriptor has 1"]),
    ("misuse", "record", "{}", &["misused the host: output.reject: record 4294967295 is beyond the", "records of this call"]),
    ("misuse", "state", "{}", &["misused the host: keyed-state.get: there is no state 7; the descriptor has 2"]),
    ("misuse", "key", "{}", &["misused the host: keyed-state.get: key 4294967295 is beyond the", "keys of this call"]),
    ("misuse", "name", "{}", &["misused the host: runtime.count: `two words` is no name of a metric"]),
    ("misuse", "mix", "{}", &["misused the host: runtime.count: `subtask.last` is a gauge"]),
    ("misuse", "emit", "{ emitted = \"1MiB\" }", &["more in one call than its limit of 1 MiB (limits.emitted)", "limits = { emitted = "]),
    (
        "misuse",
        "write",
        "{ written = \"1MiB\" }",
        &["more state in one call than its limit of 1 MiB (limits.written)", "limits = { written = "],
    ),
    ("misuse", "read", "{ read = \"64KiB\" }", &["more state at once than its limit of 64 KiB (limits.read)", "limits = { read = "]),
    ("misuse", "count", "{ metrics = 10 }", &["under more names than its limit of 10 (limits.metrics)", "limits = { metrics = "]),
];

/// `bad` misbehaves at one record, and `totals` works on the same ones.
pub fn job((fixture, how, limits, _): &Case, more: &str) -> JobFile {
    let (input, on) = if *fixture == "misuse" { ("pairs", BAD.to_string()) } else { ("lines", format!("\",{BAD}\"")) };
    let settings = format!("config = {{ on = {on}, how = {how:?} }}\nlimits = {limits}\n{more}");
    JobFile::new("20ms")
        .source("lines", "type = \"file\"\npath = \"input\"")
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .operator("bad", &format!("fixture-{fixture}"), &[input], &settings)
        .file_sink("sums", &["totals"])
        .file_sink("out", &["bad"])
}

fn line(number: usize) -> String {
    format!("k{},{number}", number % 7)
}

fn place(job: &JobFile) -> Place {
    let place = Place::new(job);
    write_input(&place);
    place
}

/// Writes the records of the job in two files.
pub fn write_input(place: &Place) {
    place.write_lines("input/a", (0..RECORDS).filter(|number| number % 3 > 0).map(line));
    place.write_lines("input/b", (0..RECORDS).filter(|number| number % 3 == 0).map(line));
}

/// What `totals` says when nobody disturbs it. In which order the numbers of a key come is no matter of this test.
fn totals(place: &Place) -> Vec<String> {
    let sorted = |line: String| {
        let (head, list) = line.rsplit_once(',').expect("the list is the last part");
        let mut list: Vec<usize> = list.split(';').map(|number| number.parse().unwrap()).collect();
        list.sort_unstable();
        format!("{head},{list:?}")
    };
    place.lines("sums").into_iter().map(sorted).collect()
}

fn expected_totals() -> Vec<String> {
    let of = |key: usize| {
        let numbers: Vec<usize> = (0..RECORDS).filter(|number| number % 7 == key).collect();
        format!("k{key},{},{},{numbers:?}", numbers.len(), numbers.iter().sum::<usize>())
    };
    (0..7).map(of).collect()
}

fn node<'a>(summary: &'a Value, uid: &str) -> &'a Value {
    summary["nodes"].as_array().unwrap().iter().find(|node| node["uid"] == uid).unwrap()
}

#[test]
fn whatever_an_operator_does_costs_one_record_and_disturbs_nobody() {
    for case in CASES {
        println!("{case:?}");
        let place = place(&job(case, "on-error = \"skip\""));
        let summary = place.run(&["-p", "2", "--output", "json"]).succeeds().json();
        assert_lines(place.lines("out"), (0..RECORDS).filter(|&number| number != BAD).map(line), case.1);
        assert_eq!(totals(&place), expected_totals(), "{}", case.1);
        let bad = node(&summary, "bad");
        assert_eq!(bad["records-failed"], 1, "{bad}");
        if case.0 == "misuse" {
            assert_eq!(bad["counters"], json!({ "numbers": RECORDS - 1 }), "what failed and what was tried again does not count");
        }
    }
}

#[test]
fn whatever_an_operator_does_is_told_when_it_fails_the_job() {
    for case in CASES {
        println!("{case:?}");
        let place = place(&job(case, ""));
        place.run(&["-p", "2"]).ends_with(1).says(&["job `job`: operator `bad`, subtask ", "record "]).says(case.3);
        assert!(!place.lines("out").contains(&line(BAD)));
    }
}

#[test]
fn a_flood_of_log_lines_is_left_out_and_counted() {
    let place = place(&job(&("misuse", "log", "{ log-lines = 5 }", &[]), ""));
    let ended = place.run(&["-p", "2"]).succeeds();
    assert_lines(place.lines("out"), (0..RECORDS).map(line), "all records");
    let lines = ended.stderr.lines().filter(|text| text.contains(": line ")).count();
    // As many in each second that the flood lasts; ten thousand are a matter of milliseconds.
    assert!((5..5000).contains(&lines), "{}", ended.stderr);
    let left_out = format!("{} more lines were left out: at most 5 a second are logged (limits.log-lines)", 10_000 - lines);
    assert!(lines > 5 || ended.stderr.contains(&left_out), "{}", ended.stderr);
}

/// Counters are summed over the subtasks and gauges are told for each, in both forms of the summary.
#[test]
fn what_operators_count_is_in_the_summary() {
    let place = place(&job(&("misuse", "log", "{ metrics = 2 }", &[]), ""));
    let summary = place.run(&["-p", "3", "--output", "json"]).succeeds().json();
    let bad = node(&summary, "bad");
    assert_eq!(bad["counters"], json!({ "numbers": RECORDS }));
    assert_eq!(node(&summary, "totals")["counters"], json!({}));
    let last = bad["gauges"]["subtask.last"].as_array().unwrap();
    assert_eq!(last.len(), 3, "one for each subtask: {last:?}");
    // A subtask without keys has set none.
    assert!(last.iter().any(|value| value.as_f64().is_some_and(|number| number < RECORDS as f64)), "{last:?}");
    let text = place.run(&["-p", "1", "--fresh"]).succeeds().stderr;
    let row = |words: &[&str]| text.lines().any(|line| line.split_whitespace().eq(words.iter().copied()));
    assert!(row(&["bad", "numbers", "all", "2,000"]), "{text}");
    assert!(row(&["node", "metric", "subtask", "value"]), "{text}");
}

/// Keys of a diary, which has a text of four thousand bytes for each: together more than a megabyte. A batch has all keys.
const KEYS: usize = 300;

fn numbers() -> std::ops::Range<usize> {
    0..40 * KEYS
}

fn diary(settings: &str) -> Place {
    let job = JobFile::new("20ms")
        .source("lines", "type = \"file\"\npath = \"input\"")
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("diary", "fixture-diary", &["pairs"], settings)
        .file_sink("out", &["diary"]);
    let place = Place::new(&job);
    place.write_lines("input", numbers().map(|number| format!("key {},{number}", number % KEYS)));
    place
}

#[track_caller]
fn has_all_texts(place: &Place, case: &str) {
    let text = |key: usize| numbers().filter(|number| number % KEYS == key).map(|number| format!("{number:0100}")).collect::<String>();
    assert_lines(place.lines("out"), (0..KEYS).map(|key| format!("key {key},{}", text(key))), case);
}

#[test]
fn values_of_more_keys_than_a_read_may_return_are_read_in_parts() {
    for parallelism in ["1", "2"] {
        let place = diary("limits = { read = \"64KiB\" }");
        place.run(&["-p", parallelism]).succeeds();
        has_all_texts(&place, parallelism);
    }
}

/// No single record writes more than is allowed, and no single key has more to send in the end.
#[test]
fn what_is_only_together_too_much_for_a_limit_is_worked_on_in_parts() {
    for (limits, parallelism) in
        [("written = \"64KiB\"", "1"), ("emitted = \"64KiB\"", "1"), ("written = \"64KiB\", emitted = \"64KiB\"", "2")]
    {
        println!("{limits}");
        for state in ["", "state = { backend = \"disk\" }"] {
            let place = diary(&format!("limits = {{ {limits} }}\n{state}"));
            place.run(&["-p", parallelism]).succeeds();
            has_all_texts(&place, limits);
        }
    }
}

#[test]
fn a_key_that_alone_is_too_much_at_the_end_is_named() {
    let place = diary("limits = { emitted = \"64KiB\" }");
    place.write_lines(
        "input",
        numbers().map(|number| format!("key {},{number}", number % KEYS)).chain((0..700).map(|more| format!("key 7,{more}"))),
    );
    place.run(&["-p", "2"]).ends_with(1).says(&[
        "operator `diary`, subtask ",
        "its finish hook for key `key 7`: emitted more in one call than its limit of 64 KiB (limits.emitted)",
        "limits = { emitted = ",
    ]);
}

/// Each record emits a tenth of what a call may, and a batch has hundreds of them.
#[test]
fn what_the_parts_of_a_batch_emit_together_has_an_end() {
    for settings in ["", "on-error = \"skip\""] {
        println!("{settings}");
        let job = JobFile::new("20ms")
            .source("lines", "type = \"file\"\npath = \"input\"")
            .operator(
                "many",
                "fixture-flat-map",
                &["lines"],
                &format!("config = {{ times = 1000 }}\nlimits = {{ emitted = \"1MiB\" }}\n{settings}"),
            )
            .file_sink("out", &["many"]);
        let place = Place::new(&job);
        place.write_lines("input", (0..500).map(|number| format!("{number:0100}")));
        place.run(&["-p", "1"]).ends_with(1).says(&[
            "operator `many`, subtask 0: a batch of ",
            "emitted, worked on in parts, more than 4 times its limit of 1 MiB (limits.emitted)",
            "limits = { emitted = ",
        ]);
    }
}
