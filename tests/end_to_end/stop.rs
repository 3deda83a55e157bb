//! SIGINT and SIGTERM: the first stops with a last checkpoint, the second ends the process at once.

use std::io::Read;
use std::process::Stdio;

use crate::flights;
use crate::harness::{JobFile, Place, Running, assert_lines};

#[test]
fn the_first_signal_stops_with_a_last_checkpoint_and_the_job_goes_on_exactly_there() {
    for (signal, number, code) in [("INT", 2, 130), ("TERM", 15, 143)] {
        let place = flights::place("rate = 4000");
        let mut running = place.start(&["--output", "json"]);
        running.wait_until("some lines of output", || place.lines("out").len() >= 20);
        running.signal(signal);
        let stopped = running.wait().ends_with(code).says(&["stopping with a last checkpoint"]).json();
        assert_eq!((&stopped["outcome"], &stopped["signal"]), (&"stopped".into(), &number.into()), "{stopped}");
        let manifests = place.manifests(1);
        let last = manifests.last().unwrap();
        assert_eq!((&last.json["trigger"], &stopped["last-checkpoint"]), (&"stop".into(), &last.checkpoint.into()));

        place.set_job(&flights::job(""));
        let said = format!("resuming run 1 from checkpoint {} of ", last.checkpoint);
        let resumed = place.run(&["-p", "2", "--output", "json"]).succeeds().says(&[&said]).json();
        assert_eq!(resumed["restored"]["checkpoint"], last.checkpoint);
        assert_lines(place.lines("out"), flights::oracle(), signal);
        let read = |summary: &serde_json::Value| summary["nodes"][0]["records-in"].as_u64().unwrap();
        assert_eq!(read(&stopped) + read(&resumed), 27_004, "no record is read again after a stop");
    }
}

#[test]
fn a_second_signal_ends_a_process_whose_operator_is_in_a_long_call() {
    // Operators of one chain get a batch one after the other: when a line is out, its batch is with `stuck`, or about to be.
    let job = JobFile::new("20ms")
        .source("lines", "type = \"file\"\npath = \"input.txt\"")
        .operator("pass", "fixture-slow", &["lines"], "config = { spins = 0 }")
        .operator("stuck", "fixture-misbehave", &["lines"], "config = { on = \"b\", how = \"loop\" }\nlimits = { time = \"1h\" }")
        .sink("seen", &["pass"], "type = \"stdout\"")
        .sink("out", &["stuck"], "type = \"blackhole\"");
    for (first, second, code) in [("INT", "INT", 130), ("INT", "TERM", 143)] {
        let place = Place::new(&job);
        place.write_lines("input.txt", ["a", "b"]);
        let mut running = place.start(&[]);
        running.wait_for_stdout("b\n");
        running.signal(first);
        running.wait_for_stderr("stopping with a last checkpoint");
        running.signal(second);
        running.wait().ends_with(code);
    }
}

#[test]
fn a_second_signal_ends_a_process_whose_output_nobody_reads() {
    let job = JobFile::new("20ms").source("lines", "type = \"generator\"\nkind = \"words\"\nwords-per-line = 1000").sink(
        "out",
        &["lines"],
        "type = \"stdout\"",
    );
    let place = Place::new(&job);
    let mut command = place.command(&["run", "job.toml"]);
    let mut running = Running::start_with_stdout(command.stdout(Stdio::piped()));
    let mut stdout = running.take_stdout().unwrap();
    stdout.read_exact(&mut [0; 1 << 16]).unwrap();
    running.wait_for_rest();
    running.signal("INT");
    running.wait_for_stderr("stopping with a last checkpoint");
    running.signal("INT");
    running.wait().ends_with(130);
}
