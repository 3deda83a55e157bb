//! Jobs that can't run: each is refused with its cause and its exit code, and nothing has changed on disk.

use crate::flights;
use crate::harness::{Ended, Place, guest};
use crate::runs;

/// Checks how a job is refused: the exit code, that all words are in the one-line cause and its places, and that nothing has changed.
#[track_caller]
pub fn refused(place: &Place, args: &[&str], code: i32, kind: &str, words: &[&str]) -> Ended {
    let before = place.content();
    let json = place.run(&[args, &["--output", "json"]].concat()).ends_with(code).json();
    let error = &json["error"];
    let message = error["message"].as_str().unwrap_or_else(|| panic!("no message in {json}"));
    assert!(!message.contains('\n'), "the cause is one line: {message}");
    assert_eq!(error["code"], kind, "{json}");
    let text = place.run(args).ends_with(code).says(words);
    let after = place.content();
    let changed: Vec<_> = before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(changed.is_empty(), "changed on disk: {changed:?}");
    text
}

/// A job file with a fault: what is replaced by what, in the file of the flights job, and what must be said.
const FAULTS: &[(&str, &str, &[&str])] = &[
    ("interval = ", "intervall = ", &["unknown key `intervall`", "did you mean `interval`", "job.toml:7"]),
    (
        "interval = ",
        "max-concurrent = 2\nmin-pause = \"1s\"\ninterval = ",
        &["max-concurrent = 2", "min-pause = ", "overlap", "job.toml:7", "job.toml:8"],
    ),
    ("skip-lines", "skip_lines", &["unknown key `skip_lines`", "skip-lines"]),
    ("format = 1", "format = 2", &["format"]),
    ("[\"flights\"]", "[\"delays\"]", &["cycle", "parse → delays → parse"]),
    ("[\"parse\"]", "[\"delays\"]", &["`delays` is an input of itself"]),
    ("uid = \"delays\"", "uid = \"parse\"", &["uid \"parse\" is taken"]),
    ("[\"parse\"]", "[\"prase\"]", &["its input \"prase\" does not exist", "did you mean \"parse\"?"]),
    ("[\"parse\"]", "[\"parse.late\"]", &["operator `parse` has no output `late`"]),
    ("[\"delays\"]", "[\"parse\"]", &["sink `out` writes lines", "operator `parse`"]),
    ("[\"parse\"]", "[\"flights\"]", &["operator `delays` takes records keyed by", "source `flights` gives records without keys"]),
    ("[job]", "[job", &["unclosed table"]),
];

#[test]
fn faults_of_a_job_file_are_told_and_nothing_is_touched() {
    // Both with and without checkpoints that could be harmed.
    for place in [flights::place(""), runs::stopped()] {
        let text = flights::job("").text();
        for (old, new, words) in FAULTS {
            assert!(text.contains(old), "{old} is in the job file");
            place.write("job.toml", text.replacen(old, new, 1));
            // What only the components can tell is theirs.
            let (code, kind) = match new.contains("late") || *old == "[\"delays\"]" || *new == "[\"flights\"]" {
                true => (4, "component"),
                false => (3, "config"),
            };
            println!("{old} → {new}");
            refused(&place, &[], code, kind, words);
            place.cofferdam(&["validate", "job.toml"]).ends_with(code).says(words);
        }
    }
}

#[test]
fn all_faults_of_a_job_file_are_told_at_once() {
    let place = flights::place("");
    let text = flights::job("").text().replace("interval", "intervall").replace("[\"parse\"]", "[\"prase\"]").replace("type", "tpye");
    place.write("job.toml", text);
    let words = ["unknown key `intervall`", "\"prase\" does not exist", "unknown key `tpye`", "4 problems in job.toml"];
    refused(&place, &[], 3, "config", &words);
    let json = place.run(&["--output", "json"]).json();
    let lines: Vec<_> = json["error"]["problems"].as_array().unwrap().iter().map(|problem| &problem["line"]).collect();
    assert_eq!(lines.len(), 4, "{json}");
    assert!(lines.iter().all(|line| line.as_u64() > Some(1)), "{json}");
}

#[test]
fn components_that_are_none_are_told_apart() {
    let whole = std::fs::read(guest("flights-parse")).unwrap();
    let command = r#"(component (instance $run) (export "wasi:cli/run@0.2.3" (instance $run)))"#;
    let cases: [(Option<Vec<u8>>, &str); 7] = [
        (None, "it can't be read"),
        (Some(Vec::new()), "the file is empty"),
        (Some(whole[..whole.len() / 2].to_vec()), "it is broken or cut off"),
        (Some(whole[..whole.len() - 1].to_vec()), "it is broken or cut off"),
        (Some(b"#!/bin/sh\n".to_vec()), "it is not WebAssembly"),
        (Some(wat::parse_str("(module (func (export \"run\")))").unwrap()), "it is a core WebAssembly module and not a component"),
        (Some(wat::parse_str(command).unwrap()), "it is not an operator: it exports `wasi:cli/run@0.2.3`"),
    ];
    for place in [flights::place(""), runs::stopped()] {
        let path = guest("flights-parse");
        place.write("job.toml", flights::job("").text().replace(path.to_str().unwrap(), "parse.wasm"));
        for (bytes, words) in &cases {
            if let Some(bytes) = bytes {
                place.write("parse.wasm", bytes);
            }
            refused(&place, &[], 4, "component", &["operator `parse`", "parse.wasm", words]);
            place.cofferdam(&["validate", "job.toml"]).ends_with(4).says(&[words]);
        }
    }
}

#[test]
fn a_missing_source_is_told() {
    let place = flights::place("");
    std::fs::remove_file(place.path("flights.csv")).unwrap();
    refused(&place, &[], 3, "config", &["source `flights`", "flights.csv", "can't be read"]);
    std::fs::create_dir(place.path("flights.csv")).unwrap();
    refused(&place, &[], 3, "config", &["source `flights`", "flights.csv", "has no files"]);

    let place = runs::stopped();
    std::fs::remove_file(place.path("flights.csv")).unwrap();
    refused(&place, &[], 3, "config", &["source `flights`", "flights.csv", "can't be read"]);
}

/// Tests may run as root, whom no permission stops: but even root can't make a directory below a file.
#[test]
fn directories_that_can_not_be_written_are_told() {
    let place = flights::place("");
    place.write("file", "mine\n");
    place.write("job.toml", flights::job("").text().replace("\"checkpoints\"", "\"file/checkpoints\""));
    refused(&place, &[], 6, "storage", &["the checkpoint directory", "file/checkpoints", "can't be used", "[checkpoint] dir"]);
    place.write("job.toml", flights::job("").text().replace("path = \"out\"", "path = \"file/out\""));
    place.run(&[]).ends_with(6).says(&["sink `out`", "file/out", "`path`"]);
}

#[test]
fn wrong_usage_ends_with_2() {
    let place = flights::place("");
    for args in [&["run"][..], &["run", "job.toml", "-p", "0"], &["run", "job.toml", "--fresh", "-s", "1"], &["walk"]] {
        place.cofferdam(args).ends_with(2);
    }
    place.cofferdam(&["run", "nothing.toml"]).ends_with(3).says(&["nothing.toml"]);
    refused(&place, &["-p", "200"], 3, "config", &["parallelism 200 (-p on the command line) is above max-parallelism 128"]);
}
