//! Flow control: memory stays bounded however much more comes out than goes in, and however slow the end is.

use std::io::Read;
use std::process::Stdio;

use crate::harness::{JobFile, Place, Running};

/// More than any process here may take, in KiB, and much less than what would wait in queues without flow control.
const LIMIT: u64 = 400 << 10;

#[test]
fn a_flat_map_into_a_sink_that_nobody_reads_waits_with_little_memory() {
    const LINES: usize = 2000;
    const BYTES: usize = 500;
    let job = JobFile::new("50ms")
        .source("lines", "type = \"file\"\npath = \"input.txt\"")
        .operator("many", "fixture-flat-map", &["lines"], "config = { times = 1000 }")
        .sink("out", &["many"], "type = \"stdout\"");
    let place = Place::new(&job);
    // A line feed is the last byte.
    place.write_lines("input.txt", (0..LINES).map(|number| format!("{number:0width$}", width = BYTES - 1)));
    let mut running = Running::start_with_stdout(place.command(&["run", "job.toml"]).stdout(Stdio::piped()));
    let mut stdout = running.take_stdout().unwrap();
    let mut buffer = vec![0; 1 << 20];
    stdout.read_exact(&mut buffer).unwrap();
    running.wait_for_rest();
    let (mut most, mut read) = (running.peak().unwrap(), buffer.len());
    // A gigabyte is still to come.
    loop {
        let bytes = stdout.read(&mut buffer).unwrap();
        read += bytes;
        most = most.max(running.peak().unwrap_or(0));
        if bytes == 0 {
            break;
        }
    }
    running.wait().succeeds();
    println!("{} MiB at most", most >> 10);
    assert_eq!(read, LINES * BYTES * 1000);
    assert!(most < LIMIT, "{most} KiB");
}

/// Each trap costs an instance, and none of them leaves anything. So many records trap.
fn traps(how: &str, records: u64) {
    let job = |lines: u64| {
        JobFile::new("50ms")
            .source("lines", &format!("type = \"generator\"\nkind = \"words\"\nwords-per-line = 1\nlines = {lines}"))
            .operator(
                "fragile",
                "fixture-misbehave",
                &["lines"],
                &format!("config = {{ on = \"w\", how = {how:?} }}\non-error = \"skip\"\nmax-errors = 1000000"),
            )
            .sink("out", &["fragile"], "type = \"blackhole\"")
    };
    let peak = |lines: u64| {
        let place = Place::new(&job(lines));
        let mut running = place.start(&["-p", "2", "--output", "json"]);
        let memory = running.peak_until_the_end();
        let summary = running.wait().succeeds().json();
        assert_eq!(summary["nodes"][1]["records-failed"], lines, "{summary}");
        memory
    };
    let (few, many) = (peak(1000), peak(records));
    println!("{few} KiB with 1,000 records that trap, {many} KiB with {records}");
    assert!(many < few + (48 << 10), "{many} KiB, and {few} KiB with few traps");
}

#[test]
fn a_hundred_thousand_panics_take_no_more_memory_than_a_thousand() {
    traps("panic", 100_000);
}

/// Two for each record, since those are traps too by which it is found.
#[test]
fn a_hundred_thousand_traps_that_say_nothing_take_no_more_memory_than_two_thousand() {
    traps("trap", 50_000);
}

/// Two chains feed a third one over edges, and it is far slower than they are.
#[test]
fn a_slow_operator_holds_up_what_feeds_it() {
    let source = "type = \"generator\"\nkind = \"words\"\nwords-per-line = 100\nlines = 300";
    let times = "config = { times = 1000 }";
    let job = JobFile::new("50ms")
        .source("left", source)
        .source("right", source)
        .operator("many-left", "fixture-flat-map", &["left"], times)
        .operator("many-right", "fixture-flat-map", &["right"], times)
        .operator("slow", "fixture-slow", &["many-left", "many-right"], "config = { spins = 4000 }")
        .sink("out", &["slow"], "type = \"blackhole\"");
    for parallelism in ["1", "2"] {
        let place = Place::new(&job);
        let mut running = place.start(&["-p", parallelism, "--output", "json"]);
        let memory = running.peak_until_the_end();
        let summary = running.wait().succeeds().json();
        println!("-p {parallelism}: {} MiB at most", memory >> 10);
        assert_eq!(summary["nodes"][4]["records-in"], 600_000, "{summary}");
        assert!(memory < LIMIT, "{memory} KiB");
    }
}
