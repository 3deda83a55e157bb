//! The sessions job on the real data, against a fold over the table: exact at any parallelism, and when it is killed again and again.

use std::collections::BTreeMap;

use crate::harness::{JobFile, Moment, Place, Random, assert_lines, flights, kill_and_resume};

fn job(rate: &str) -> JobFile {
    JobFile::new("40ms")
        .source("flights", &format!("type = \"file\"\npath = \"flights.csv\"\n{rate}"))
        .operator("legs", "sessions-legs", &["flights"], "")
        .operator("trips", "sessions-trips", &["legs"], "config = { gap_hours = 12 }")
        .file_sink("out", &["trips"])
}

fn place(rate: &str) -> Place {
    let place = Place::new(&job(rate));
    place.write_lines("flights.csv", flights());
    place
}

/// What is known of a plane.
#[derive(Default)]
struct Plane {
    /// Departures in minutes of the month by UTC, and ways.
    session: Vec<(i64, String)>,
    dests: BTreeMap<String, u64>,
}

impl Plane {
    fn close(&mut self, name: &str) -> String {
        let session = std::mem::take(&mut self.session);
        let times = || session.iter().map(|(departed, _)| *departed);
        let minutes = times().max().unwrap_or(0) - times().min().unwrap_or(0);
        let ways: Vec<&str> = session.iter().map(|(_, way)| way.as_str()).collect();
        format!("session,{name},{},{minutes},{}", session.len(), ways.join(";"))
    }
}

/// The lines of the sink.
fn oracle() -> Vec<String> {
    let mut planes: BTreeMap<String, Plane> = BTreeMap::new();
    let mut lines = Vec::new();
    for flight in flights() {
        let fields: Vec<&str> = flight.split(',').collect();
        let number = |text: &str| text.parse::<i64>().expect("a number");
        if fields[5] == "NA" || fields[11] == "NA" {
            continue;
        }
        // All of it is in one month by UTC, but for the last evening.
        let time = fields[18];
        let day = number(&time[8..10]) + if &time[5..7] == "02" { 31 } else { 0 };
        let departed = (day * 24 + number(&time[11..13])) * 60 + number(fields[17]) + number(fields[5]);
        let plane = planes.entry(fields[11].to_owned()).or_default();
        if plane.session.iter().map(|(departed, _)| *departed).max().is_some_and(|last| departed - last > 12 * 60) {
            lines.push(plane.close(fields[11]));
        }
        plane.session.push((departed, format!("{}-{}", fields[12], fields[13])));
        *plane.dests.entry(fields[13].to_owned()).or_default() += 1;
    }
    for (name, plane) in &mut planes {
        lines.push(plane.close(name));
        let dests: Vec<String> = plane.dests.iter().map(|(dest, flights)| format!("{dest}={flights}")).collect();
        lines.push(format!("dests,{name},{}", dests.join(";")));
    }
    lines
}

#[test]
fn an_uninterrupted_run_gives_the_sessions_of_the_table_at_any_parallelism() {
    for parallelism in ["1", "2", "3"] {
        let place = place("");
        place.run(&["-p", parallelism]).succeeds();
        assert_lines(place.lines("out"), oracle(), parallelism);
    }
}

#[test]
fn kills_at_random_moments_and_other_parallelisms_lose_and_double_nothing() {
    let place = place("rate = 4000");
    let mut random = Random::new(20130131);
    kill_and_resume(&place, &mut random, 8, &["1", "2", "3", "4"], |random| match random.below(3) {
        0 => Moment::Lines(1 + random.below(20)),
        _ => Moment::Checkpoints(1 + random.below(5)),
    });
    place.set_job(&job(""));
    place.run(&["-p", "2"]).succeeds();
    assert_lines(place.lines("out"), oracle(), "killed and resumed");
}
