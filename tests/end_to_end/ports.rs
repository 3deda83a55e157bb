//! Several inputs and outputs: flights that get the names of their airlines from a broadcast input, a join of two inputs, and a table that
//! changes all the time and is the same on every subtask. Each is exact when the job is killed and resumed with other parallelisms.

use std::collections::BTreeMap;

use crate::harness::{JobFile, Moment, Place, Random, assert_lines, flights, kill_and_resume};

/// Carriers that are left out of the table: a frequent one and a rare one.
const NAMELESS: [&str; 2] = ["UA", "YV"];

/// `rate` and `airlines_rate` are lines of the sources.
pub fn enrich(rate: &str, airlines_rate: &str) -> JobFile {
    JobFile::new("40ms")
        .source("flights", &format!("type = \"file\"\npath = \"flights.csv\"\n{rate}"))
        .source("airlines", &format!("type = \"file\"\npath = \"airlines.csv\"\n{airlines_rate}"))
        .operator("parse", "flights-parse", &["flights"], "config = { by = \"carrier\" }")
        .operator_with_ports("carriers", "enrich-carriers", &[("flights", &["parse"]), ("airlines", &["airlines"])], "")
        .file_sink("out", &["carriers"])
        .file_sink("unknown", &["carriers.unknown"])
}

/// The table, but for the nameless, by carrier.
fn airlines() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("../../examples/enrich/input/airlines.csv").lines().skip(1);
    lines.filter_map(|line| line.split_once(',')).filter(|(carrier, _)| !NAMELESS.contains(carrier)).collect()
}

pub fn place_of_enrich(rate: &str, airlines_rate: &str) -> Place {
    let place = Place::new(&enrich(rate, airlines_rate));
    place.write_lines("flights.csv", flights());
    place.write_lines("airlines.csv", airlines().iter().map(|(carrier, name)| format!("{carrier},{name}")));
    place
}

/// What the sinks must hold.
pub fn check_enriched(place: &Place, case: &str) {
    let airlines = airlines();
    let mut counts = BTreeMap::<String, u64>::new();
    let (mut named, mut unknown) = (Vec::new(), Vec::new());
    for flight in flights() {
        let fields: Vec<&str> = flight.split(',').collect();
        let count = counts.entry(fields[9].to_owned()).or_default();
        *count += 1;
        let delay = if fields[3] == "NA" { "NA" } else { fields[5] };
        match airlines.get(fields[9]) {
            Some(name) => named.push(format!("{name},{count},{delay}")),
            None => unknown.push(format!("{},{count},{delay}", fields[9])),
        }
    }
    assert!(!unknown.is_empty());
    assert_lines(place.lines("out"), named, case);
    assert_lines(place.lines("unknown"), unknown, case);
}

#[test]
fn flights_get_their_airlines_names_also_when_the_job_is_killed_in_the_middle() {
    for parallelism in ["1", "2"] {
        let place = place_of_enrich("", "");
        place.run(&["-p", parallelism]).succeeds();
        check_enriched(&place, parallelism);

        let place = place_of_enrich("rate = 9000", "");
        let mut running = place.start(&["-p", parallelism]);
        running.wait_until("half of the lines", || place.lines("out").len() > 10_000);
        running.kill();
        place.set_job(&enrich("", ""));
        place.run(&["-p", parallelism]).succeeds().says(&["resuming run 1 from checkpoint "]);
        check_enriched(&place, &format!("{parallelism}, killed"));
    }
}

/// The table takes more than a second to come, and the flights are there at once.
#[test]
fn no_flight_comes_before_the_last_airline_whenever_the_job_is_killed() {
    let place = place_of_enrich("rate = 6000", "rate = 30");
    let mut random = Random::new(41);
    kill_and_resume(&place, &mut random, 10, &["1", "2", "3", "4"], |random| match random.below(4) {
        0 => Moment::Claimed,
        _ => Moment::Checkpoints(1 + random.below(6)),
    });
    place.set_job(&enrich("", "rate = 30"));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    check_enriched(&place, "killed ten times");
}

/// Lines `key,number` of two files are joined by key.
fn join(source: &str) -> JobFile {
    let source = |path: &str| format!("type = \"file\"\npath = \"{path}.txt\"\n{source}");
    JobFile::new("40ms")
        .source("left-lines", &source("left"))
        .source("right-lines", &source("right"))
        .operator("left-pairs", "fixture-pairs", &["left-lines"], "")
        .operator("right-pairs", "fixture-pairs", &["right-lines"], "")
        .operator_with_ports(
            "join",
            "fixture-join",
            &[("right", &["right-pairs"]), ("left", &["left-pairs"])],
            "on-error = \"skip\"\nmax-errors = 1000000",
        )
        .file_sink("out", &["join"])
        .file_sink("odd", &["join.odd"])
        .file_sink("lonely", &["join.lonely"])
}

/// One side's numbers by key, without those that are refused; and the lines that the side makes on `odd`.
fn side(name: &str, lines: &[String]) -> (BTreeMap<String, Vec<u64>>, Vec<String>) {
    let (mut numbers, mut odd) = (BTreeMap::<String, Vec<u64>>::new(), Vec::new());
    for line in lines {
        let (key, number) = line.split_once(',').expect("a pair");
        let number: u64 = number.parse().expect("a number");
        if number.is_multiple_of(100) {
            continue;
        }
        numbers.entry(key.to_owned()).or_default().push(number);
        if number.is_multiple_of(50) || !number.is_multiple_of(2) {
            odd.push(format!("{name},{line}"));
        }
    }
    (numbers, odd)
}

#[test]
fn two_inputs_share_their_keys_state_and_every_output_is_exact() {
    let mut random = Random::new(42);
    let mut lines =
        |from: u64| -> Vec<String> { (from..from + 6000).map(|number| format!("key-{},{number}", random.below(1000))).collect() };
    let (left, right) = (lines(0), lines(50_000));
    let place = Place::new(&join("rate = 1500"));
    place.write_lines("left.txt", &left);
    place.write_lines("right.txt", &right);
    kill_and_resume(&place, &mut random, 8, &["1", "2", "3", "4"], |random| match random.below(4) {
        0 => Moment::Claimed,
        1 => Moment::Unpublished,
        _ => Moment::Checkpoints(1 + random.below(4)),
    });
    place.set_job(&join(""));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);

    let ((left, mut odd), (right, odd_right)) = (side("left", &left), side("right", &right));
    odd.extend(odd_right);
    let pairs = left.iter().flat_map(|(key, numbers)| {
        let others = right.get(key).into_iter().flatten();
        others.flat_map(move |right| numbers.iter().map(move |left| format!("{key},{left},{right}")))
    });
    assert_lines(place.lines("out"), pairs.collect::<Vec<_>>(), "pairs");
    assert_lines(place.lines("odd"), odd, "odd numbers");
    let lonely = |one: &BTreeMap<String, Vec<u64>>, other: &BTreeMap<String, Vec<u64>>| -> Vec<(String, usize)> {
        one.iter().filter(|(key, _)| !other.contains_key(*key)).map(|(key, numbers)| (key.clone(), numbers.len())).collect()
    };
    let on_left = lonely(&left, &right).into_iter().map(|(key, count)| format!("{key},{count},0"));
    let on_right = lonely(&right, &left).into_iter().map(|(key, count)| format!("{key},0,{count}"));
    assert_lines(place.lines("lonely"), on_left.chain(on_right).collect::<Vec<_>>(), "lonely keys");
}

/// Fields of the table, half of them changed by each of two files.
const FIELDS: u64 = 50;

/// `lines` are the operator's.
fn table(changes: &str, numbers: &str, lines: &str) -> JobFile {
    JobFile::new("40ms")
        .source("changes", &format!("type = \"file\"\npath = \"changes\"\n{changes}"))
        .source("lines", &format!("type = \"file\"\npath = \"numbers\"\n{numbers}"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator_with_ports("table", "fixture-table", &[("changes", &["changes"]), ("numbers", &["pairs"])], lines)
        .file_sink("out", &["table"])
}

/// Lines `field,number` and `field,-`.
fn changes(random: &mut Random, file: u64, count: u64) -> Vec<String> {
    let change = |random: &mut Random| {
        let field = file * FIELDS / 2 + random.below(FIELDS / 2);
        if random.below(10) == 0 { format!("{field},-") } else { format!("{field},{}", random.below(1000)) }
    };
    (0..count).map(|_| change(random)).collect()
}

#[test]
fn a_table_that_changes_all_the_time_is_the_same_on_every_subtask() {
    let mut random = Random::new(43);
    let changes = [changes(&mut random, 0, 4000), changes(&mut random, 1, 4000)];
    let numbers: Vec<String> = (0..12_000).map(|_| format!("key-{},{}", random.below(200), random.below(FIELDS + 10))).collect();
    let place = Place::new(&table("rate = 400", "rate = 600", ""));
    (0..).zip(&changes).for_each(|(file, lines): (u32, _)| place.write_lines(&format!("changes/{file}.txt"), lines));
    place.write_lines("numbers/0.txt", &numbers);
    kill_and_resume(&place, &mut random, 10, &["1", "2", "3", "4"], |random| match random.below(4) {
        0 => Moment::Claimed,
        _ => Moment::Checkpoints(1 + random.below(4)),
    });
    place.set_job(&table("", "", ""));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);

    let mut table = BTreeMap::<&str, u64>::new();
    for line in changes.iter().flatten() {
        match line.split_once(',').expect("a change") {
            (field, "-") => drop(table.remove(field)),
            (field, number) => *table.entry(field).or_default() += number.parse::<u64>().expect("a number"),
        }
    }
    let table: Vec<String> = table.iter().map(|(field, sum)| format!("{field}={sum}")).collect();
    let table = table.join(";");
    let mut counts = BTreeMap::<&str, u64>::new();
    numbers.iter().for_each(|line| *counts.entry(line.split_once(',').expect("a pair").0).or_default() += 1);
    let oracle = counts.iter().map(|(key, count)| format!("{key},{count},{table},{table}"));
    assert_lines(place.lines("out"), oracle.collect::<Vec<_>>(), "killed and resumed");
}

fn place_of_table(lines: &str, changes: &[&str]) -> Place {
    let place = Place::new(&table("", "", lines));
    place.write_lines("changes/0.txt", changes);
    place.write_lines("numbers/0.txt", ["a,1", "b,2"]);
    place
}

#[test]
fn an_error_on_a_broadcast_record_fails_the_job_whatever_its_settings_say() {
    let place = place_of_table("on-error = \"skip\"", &["1,1", "oops"]);
    place.run(&["-p", "2"]).ends_with(1).says(&["operator `table`", "no comma in \"oops\""]);
}

#[test]
fn copies_of_a_table_that_differ_are_never_committed() {
    let place = place_of_table("config = { differ = true }", &["1,1"]);
    let ended = place.run(&["-p", "2"]);
    ended.ends_with(1).says(&["operator `table`", "state `table`"]);
    assert!(place.lines("out").is_empty(), "what nobody may rely on is not published");
}
