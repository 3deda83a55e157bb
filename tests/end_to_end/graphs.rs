//! Graphs: fan-out, fan-in and diamonds, exact at any parallelism.

use crate::harness::{JobFile, Place, Random, assert_lines};
use crate::sums;

const PASS: &str = "config = { spins = 0 }";

fn file(name: &str) -> String {
    format!("type = \"file\"\npath = \"{name}\"")
}

/// Runs a job over two files of 6,000 lines each, at some parallelisms.
fn runs(job: &JobFile, seed: u64, check: impl Fn(&Place, &[Vec<String>], &serde_json::Value)) {
    let mut random = Random::new(seed);
    let input: Vec<Vec<String>> = (0..2).map(|file| sums::input(&mut random, file, 6000)).collect();
    for parallelism in ["1", "3"] {
        let place = Place::new(job);
        place.write_lines("left", &input[0]);
        place.write_lines("right", &input[1]);
        println!("-p {parallelism}");
        let summary = place.run(&["-p", parallelism, "--output", "json"]).succeeds().json();
        check(&place, &input, &summary);
    }
}

/// How many records a node has taken, and sent on.
fn counts(summary: &serde_json::Value, uid: &str) -> (u64, u64) {
    let node = summary["nodes"].as_array().unwrap().iter().find(|node| node["uid"] == uid).unwrap();
    (node["records-in"].as_u64().unwrap(), node["records-out"].as_u64().unwrap())
}

#[test]
fn one_source_feeds_two_operators_and_a_sink() {
    let job = JobFile::new("20ms")
        .source("left", &file("left"))
        .operator("pairs", "fixture-pairs", &["left"], "")
        .operator("twice", "fixture-flat-map", &["left"], "config = { times = 2 }")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .file_sink("sums", &["totals"])
        .file_sink("doubled", &["twice"])
        .file_sink("as-it-is", &["left"]);
    runs(&job, 7, |place, input, summary| {
        sums::check(&place.lines("sums"), &input[..1]);
        assert_lines(place.lines("doubled"), [&input[0][..], &input[0]].concat(), "doubled");
        assert_lines(place.lines("as-it-is"), input[0].clone(), "as it is");
        assert_eq!(counts(summary, "left"), (6000, 6000));
        assert_eq!(counts(summary, "twice"), (6000, 12_000));
    });
}

#[test]
fn two_sources_feed_one_operator_whose_output_feeds_one_that_is_keyed() {
    let job = JobFile::new("20ms")
        .source("left", &file("left"))
        .source("right", &file("right"))
        .operator("pairs", "fixture-pairs", &["left", "right"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .file_sink("sums", &["totals"]);
    runs(&job, 8, |place, input, summary| {
        sums::check(&place.lines("sums"), input);
        assert_eq!(counts(summary, "pairs"), (12_000, 12_000));
    });
}

#[test]
fn two_operators_feed_one_that_is_keyed() {
    let job = JobFile::new("20ms")
        .source("left", &file("left"))
        .source("right", &file("right"))
        .operator("pairs-left", "fixture-pairs", &["left"], "")
        .operator("pairs-right", "fixture-pairs", &["right"], "")
        .operator("totals", "fixture-sum", &["pairs-left", "pairs-right"], "")
        .file_sink("sums", &["totals"]);
    runs(&job, 9, |place, input, _| sums::check(&place.lines("sums"), input));
}

#[test]
fn one_output_feeds_two_keyed_operators_and_sinks_that_do_not_care_for_keys() {
    let job = JobFile::new("20ms")
        .source("left", &file("left"))
        .operator("pairs", "fixture-pairs", &["left"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .operator("others", "fixture-sum", &["pairs"], "")
        .sink("counted", &["pairs"], "type = \"blackhole\"")
        .file_sink("sums", &["totals"])
        .file_sink("again", &["totals"])
        .file_sink("both", &["totals", "others"]);
    runs(&job, 10, |place, input, summary| {
        sums::check(&place.lines("sums"), &input[..1]);
        assert_lines(place.lines("again"), place.lines("sums"), "one output into two sinks");
        assert_lines(place.lines("both"), [place.lines("sums"), place.lines("sums")].concat(), "two outputs into one sink");
        assert_eq!(counts(summary, "counted"), (6000, 6000));
    });
}

/// A diamond over chains and edges, with a kill in the middle: barriers must align where its branches meet.
#[test]
fn what_a_diamond_parts_comes_together_again() {
    let job = |rate: &str| {
        JobFile::new("20ms")
            .source("left", &(file("left") + rate))
            .operator("upper", "fixture-slow", &["left"], PASS)
            .operator("lower", "fixture-flat-map", &["left"], "config = { times = 2 }")
            .operator("pairs", "fixture-pairs", &["upper", "lower"], "")
            .operator("totals", "fixture-sum", &["pairs"], "")
            .file_sink("sums", &["totals"])
            .file_sink("met", &["upper", "lower", "left"])
    };
    let check = |place: &Place, input: &[Vec<String>]| {
        let left = &input[0];
        // Each branch keeps the order, so the list of a key is its numbers three times, interleaved: told apart by sorting.
        let lines = place.lines("sums");
        let numbers = |line: &str| line.rsplit(',').next().unwrap().split(';').map(|number| number.parse::<u64>().unwrap()).collect();
        let mut all: Vec<u64> = lines.iter().flat_map(|line| -> Vec<u64> { numbers(line) }).collect();
        all.sort_unstable();
        let thrice = (0..6000).flat_map(|number| [number; 3]);
        assert!(all.into_iter().eq(thrice), "each number comes three times");
        assert_lines(place.lines("met"), [&left[..], left, left, left].concat(), "met");
    };
    runs(&job(""), 11, |place, input, summary| {
        check(place, input);
        assert_eq!(counts(summary, "pairs"), (18_000, 18_000));
    });
    let mut random = Random::new(11);
    let input = [sums::input(&mut random, 0, 6000)];
    let place = Place::new(&job("\nrate = 3000"));
    place.write_lines("left", &input[0]);
    for parallelism in ["3", "2"] {
        let newest = place.newest(1);
        let mut running = place.start(&["-p", parallelism]);
        running.wait_until("some checkpoints", || place.newest(1) >= newest + 4);
        running.kill();
    }
    place.set_job(&job(""));
    place.run(&["-p", "4"]).succeeds();
    check(&place, &input);
}
