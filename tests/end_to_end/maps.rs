//! Maps, aggregating state and time to live, spread over workers: exact when the job is killed and resumed with other parallelisms, and
//! what has expired is gone after a restart and from base snapshots.

use std::collections::BTreeMap;

use crate::harness::{JobFile, Moment, Place, Random, assert_lines, kill_and_resume};
use crate::sums;

const LINES: u64 = 24_000;
const REMAINDERS: u64 = 97;

/// Lines `key,number` in, what the maps hold out.
pub fn job(source: &str) -> JobFile {
    JobFile::new("40ms")
        .source("lines", source)
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("maps", "fixture-maps", &["pairs"], "")
        .file_sink("out", &["maps"])
}

/// What a key's numbers make.
#[derive(Default)]
struct Oracle {
    counts: BTreeMap<u64, u64>,
    sum: u64,
    numbers: u64,
    last: BTreeMap<&'static str, u64>,
    first: Option<u64>,
}

impl Oracle {
    /// Takes a number. Tells what it makes the operator send.
    fn take(&mut self, number: u64) -> Option<String> {
        if number.is_multiple_of(1009) {
            self.counts.clear();
        }
        if number.is_multiple_of(13) {
            self.counts.remove(&(number / 13 % REMAINDERS));
        }
        *self.counts.entry(number % REMAINDERS).or_default() += 1;
        self.sum += number;
        self.numbers += 1;
        self.last.insert(if number.is_multiple_of(2) { "even" } else { "odd" }, number);
        self.first.get_or_insert(number);
        (number.is_multiple_of(500)).then(|| format!("{number},{}", told(self.counts.range(number % REMAINDERS..))))
    }

    fn end(&self) -> String {
        let Oracle { counts, sum, numbers, last, first } = self;
        format!("{},{sum}/{numbers},{},[{}]", told(counts), told(last), first.unwrap_or_default())
    }
}

fn told<'a, F: std::fmt::Display + 'a>(entries: impl IntoIterator<Item = (&'a F, &'a u64)>) -> String {
    entries.into_iter().map(|(field, value)| format!("{field}={value}")).collect::<Vec<_>>().join(";")
}

/// The lines of the sink.
pub fn oracle(input: &[String]) -> Vec<String> {
    let mut keys: BTreeMap<&str, Oracle> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in input {
        let (key, number) = line.split_once(',').expect("a pair");
        let sent = keys.entry(key).or_default().take(number.parse().expect("a number"));
        lines.extend(sent.map(|sent| format!("{key},{sent}")));
    }
    lines.extend(keys.iter().map(|(key, oracle)| format!("{key},{}", oracle.end())));
    lines
}

/// Of the lines of the sink those that are sent at the end.
pub fn at_the_end(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|line| line.split(',').nth(1).is_some_and(|counts| counts.contains('='))).collect()
}

#[test]
fn maps_and_aggregates_survive_ten_kills_and_other_parallelisms() {
    let mut random = Random::new(31);
    let input = sums::input(&mut random, 0, LINES);
    let source = "type = \"file\"\npath = \"input.txt\"\n";
    let place = Place::new(&job(&format!("{source}rate = 3000")));
    place.write_lines("input.txt", &input);
    kill_and_resume(&place, &mut random, 10, &["1", "2", "3", "4"], |random| match random.below(4) {
        0 => Moment::Claimed,
        1 => Moment::Unpublished,
        _ => Moment::Checkpoints(1 + random.below(5)),
    });
    place.set_job(&job(source));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_lines(place.lines("out"), oracle(&input), "killed and resumed");
}

/// The base snapshots of an operator that the newest checkpoint names, by path, each with its last epoch.
pub fn bases(place: &Place, uid: &str) -> Vec<(String, u64)> {
    let Some(newest) = place.manifests(1).pop() else { return Vec::new() };
    let operators = newest.json["operators"].as_array().expect("a manifest has operators");
    let files = operators.iter().filter(|operator| operator["uid"] == uid).flat_map(|found| found["files"].as_array().expect("files"));
    let bases = files.filter(|file| file["base"] == true);
    bases.map(|file| (file["path"].as_str().expect("a path").into(), file["epochs"]["last"].as_u64().expect("an epoch"))).collect()
}

/// How many entries of a state these files hold.
pub fn entries(place: &Place, files: &[(String, u64)], state: &str) -> u64 {
    let count = |file: &str| {
        let path = place.run_dir(1).join(file);
        let described = place.cofferdam(&["inspect", path.to_str().expect("text"), "--output", "json"]).succeeds().json();
        let found = described["states"].as_array().expect("states").iter().find(|found| found["name"] == state).cloned();
        found.expect("the state")["puts"].as_u64().expect("a count")
    };
    files.iter().map(|(path, _)| count(path)).sum()
}

#[test]
fn what_has_expired_is_gone_from_base_snapshots_and_what_lives_is_there() {
    let input = sums::input(&mut Random::new(32), 0, LINES);
    let place = Place::new(&job("type = \"file\"\npath = \"input.txt\"\nrate = 3000"));
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("base snapshots of many epochs", || bases(&place, "maps").iter().filter(|(_, last)| *last >= 10).count() == 2);
    running.signal("INT");
    running.wait().ends_with(130);
    let bases = bases(&place, "maps");
    let (garbage, last) = (entries(&place, &bases, "garbage"), entries(&place, &bases, "last"));
    println!("{garbage} entries that live for a millisecond, {last} that live long");
    // Of ten epochs and more, at most what was written in the last is so young.
    assert!(garbage < last, "{garbage} entries have outlived their millisecond, and {last} live");
    place.set_job(&job("type = \"file\"\npath = \"input.txt\""));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), oracle(&input), "stopped and resumed");
}
