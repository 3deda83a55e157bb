//! The sink `stdout`, whose lines share standard output with the answer of the command.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::harness::{JobFile, Place, Running, assert_lines};

fn place(lines: &[String]) -> Place {
    let job = JobFile::new("20ms")
        .source("lines", "type = \"file\"\npath = \"input\"")
        .operator("pass", "fixture-slow", &["lines"], "config = { spins = 0 }")
        .sink("out", &["pass"], "type = \"stdout\"");
    let place = Place::new(&job);
    lines.chunks(lines.len() / 3).enumerate().for_each(|(number, part)| place.write_lines(&format!("input/{number}"), part));
    place
}

#[test]
fn all_lines_arrive_whole_and_the_summary_is_the_last() {
    let lines: Vec<String> = (0..30_000).map(|number| format!("line {number} {}", "x".repeat(number % 97))).collect();
    let place = place(&lines);
    for parallelism in ["1", "3"] {
        let ended = place.run(&["-p", parallelism]).succeeds().says(&["job `job` finished"]);
        assert_lines(ended.stdout.lines(), lines.iter().map(String::as_str), parallelism);
        let ended = place.run(&["-p", parallelism, "--output", "json"]).succeeds();
        let (records, summary) = ended.stdout.trim_end().rsplit_once('\n').unwrap();
        assert_lines(records.lines(), lines.iter().map(String::as_str), parallelism);
        assert!(summary.starts_with("{\"job\":\"job\""), "{summary}");
        assert_eq!(ended.json()["nodes"][2]["records-out"], lines.len());
    }
}

#[test]
fn a_pipe_that_is_closed_is_an_error_and_no_panic() {
    let lines: Vec<String> = (0..300_000).map(|number| format!("line {number}")).collect();
    let place = place(&lines);
    for args in [&["run", "job.toml"][..], &["run", "job.toml", "-p", "2", "--output", "json"]] {
        let mut running = Running::start_with_stdout(place.command(args).stdout(Stdio::piped()));
        let mut first = String::new();
        BufReader::new(running.take_stdout().unwrap()).read_line(&mut first).unwrap();
        assert!(first.starts_with("line "));
        let ended = running.wait().ends_with(1);
        // In JSON the error has nowhere to go.
        assert!(args.len() > 2 || ended.stderr.contains("sink `out`: stdout was closed"), "{}", ended.stderr);
    }
}
