//! The flights job on the real data: exact without interruption at any parallelism, and exact when it is killed again and again.

use std::collections::BTreeMap;

use crate::harness::{JobFile, Moment, Place, Random, Watcher, assert_lines, flights, kill_and_resume};

/// The job; `rate` is a line of its source.
pub fn job(rate: &str) -> JobFile {
    JobFile::new("40ms")
        .source("flights", &format!("type = \"file\"\npath = \"flights.csv\"\nskip-lines = 1\n{rate}"))
        .operator("parse", "flights-parse", &["flights"], "config = { by = \"carrier\" }")
        .operator("delays", "flights-delays", &["parse"], "")
        .file_sink("out", &["delays"])
}

/// A place with the job and its input.
pub fn place(rate: &str) -> Place {
    let place = Place::new(&job(rate));
    place.write_lines("flights.csv", std::iter::once("head of the table".to_owned()).chain(flights()));
    place
}

/// What the sink must hold, sorted.
pub fn oracle() -> Vec<String> {
    #[derive(Default)]
    struct Carrier {
        flights: u64,
        cancelled: u64,
        delay: i64,
    }
    let mut carriers: BTreeMap<String, Carrier> = BTreeMap::new();
    let mut lines = Vec::new();
    for flight in flights() {
        let fields: Vec<&str> = flight.split(',').collect();
        let carrier = carriers.entry(fields[9].to_owned()).or_default();
        carrier.flights += 1;
        match fields[3] {
            "NA" => carrier.cancelled += 1,
            _ => carrier.delay += fields[5].parse::<i64>().expect("a departed flight has a delay"),
        }
        if carrier.flights.is_multiple_of(50) {
            lines.push(format!("{},{}", fields[9], carrier.flights));
        }
    }
    lines.extend(carriers.iter().map(|(name, Carrier { flights, cancelled, delay })| {
        let mean = (*delay as f64 / (flights - cancelled) as f64).round();
        format!("total,{name},{flights},{cancelled},{delay},{mean}")
    }));
    lines.sort_unstable();
    lines
}

#[test]
fn an_uninterrupted_run_gives_what_the_table_says_at_any_parallelism() {
    for parallelism in ["1", "2", "3"] {
        let place = place("");
        let summary = place.run(&["-p", parallelism, "--output", "json"]).succeeds().json();
        assert_lines(place.lines("out"), oracle(), parallelism);
        assert_eq!((&summary["outcome"], &summary["parallelism"]), (&"finished".into(), &parallelism.parse::<u64>().unwrap().into()));
        assert_eq!(summary["nodes"][0]["records-out"], flights().len(), "{summary}");
        assert_eq!(summary["nodes"][3]["records-out"], oracle().len(), "{summary}");
    }
}

#[test]
fn ten_kills_at_random_moments_and_other_parallelisms_lose_and_double_nothing() {
    let place = place("rate = 2000");
    let watcher = Watcher::begin(&place.path("out"));
    let mut random = Random::new(20130101);
    kill_and_resume(&place, &mut random, 10, &["1", "2", "3", "4"], |random| match random.below(4) {
        0 => Moment::Claimed,
        1 => Moment::Unpublished,
        2 => Moment::Lines(1 + random.below(20)),
        _ => Moment::Checkpoints(1 + random.below(5)),
    });
    place.set_job(&job(""));
    let summary = place.run(&["--output", "json"]).succeeds().json();
    assert_eq!(summary["attempt"]["attempt"], 11, "{summary}");
    watcher.end();
    assert_lines(place.lines("out"), oracle(), "killed and resumed");
}
