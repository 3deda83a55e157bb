//! Every kind of state against a model of plain maps and lists: a random script of commands, some of which fail when all is done for them,
//! through kills and other parallelisms.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::harness::{JobFile, Moment, Place, Random, assert_lines, kill_and_resume};

/// As the operator has them.
const COMMANDS: u64 = 17;
const FIELDS: u64 = 40;

/// Commands as often as they are to come, so that states grow before they are cleared.
const SCRIPT: &[u64] =
    &[0, 0, 1, 2, 2, 2, 2, 2, 2, 3, 4, 5, 5, 5, 5, 6, 7, 7, 7, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 10, 10, 10, 11, 12, 13, 14, 14, 15, 15, 16];

fn job(rates: [&str; 2]) -> JobFile {
    let file = |path: &str, rate: &str| format!("type = \"file\"\npath = {path:?}\n{rate}");
    let ports: [(&str, &[&str]); 2] = [("commands", &["pairs"]), ("changes", &["changes"])];
    JobFile::new("30ms")
        .source("commands", &file("commands.txt", rates[0]))
        .source("changes", &file("changes.txt", rates[1]))
        .operator("pairs", "fixture-pairs", &["commands"], "")
        .operator_with_ports("model", "fixture-model", &ports, "on-error = \"skip\"\nmax-errors = 1000000")
        .file_sink("out", &["model"])
}

/// What there is of a key.
#[derive(Default)]
struct OfKey {
    value: Option<u64>,
    list: Vec<u64>,
    sum: Option<u64>,
    mean: Option<(u64, u64)>,
    map: BTreeMap<u64, u64>,
}

impl OfKey {
    fn write(&mut self, command: u64, field: u64, value: u64) {
        match command {
            0 => self.value = Some(value),
            1 => self.value = None,
            2 => self.list.push(value),
            3 => self.list = vec![value, field],
            4 => self.list.clear(),
            5 => *self.sum.get_or_insert(0) += value,
            6 => self.sum = None,
            7 => {
                let (sum, count) = self.mean.unwrap_or_default();
                self.mean = Some((sum + value, count + 1));
            }
            8 => self.mean = None,
            9 => drop(self.map.insert(field, value)),
            10 => drop(self.map.remove(&field)),
            _ => self.map.clear(),
        }
    }

    /// What lives for ever and what lives long is the same.
    fn told(&self) -> String {
        let text = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
        let mean = self.mean.map_or("-".into(), |(sum, count)| format!("{sum}/{count}"));
        let parts = [text(self.value), joined(&self.list), text(self.sum), mean, fields(&self.map)];
        twice(&parts.join("|"))
    }
}

fn twice(text: &str) -> String {
    format!("{text},{text}")
}

fn joined(things: impl IntoIterator<Item = impl Display>) -> String {
    let texts: Vec<String> = things.into_iter().map(|thing| thing.to_string()).collect();
    if texts.is_empty() { "-".into() } else { texts.join(";") }
}

fn fields<'a>(map: impl IntoIterator<Item = (&'a u64, &'a u64)>) -> String {
    joined(map.into_iter().map(|(field, value)| format!("{field}={value}")))
}

/// What comes of all commands.
#[derive(Default)]
struct Model {
    keys: BTreeMap<String, OfKey>,
    pushed: Vec<u64>,
    united: Vec<u64>,
    table: BTreeMap<u64, u64>,
    lines: Vec<String>,
}

impl Model {
    fn command(&mut self, line: &str) {
        let (key, number) = line.split_once(',').expect("a pair");
        let number: u64 = number.parse().expect("a number");
        let (command, field, value) = (number % COMMANDS, number / COMMANDS % FIELDS, number / COMMANDS / FIELDS);
        let of_key = self.keys.entry(key.into()).or_default();
        match command {
            0..=11 => of_key.write(command, field, value),
            12 => self.pushed.push(value),
            13 => self.united.push(value),
            14 => self.lines.push(format!("tell,{line},{}", of_key.told())),
            15 => self.lines.push(format!("scan,{line},{}", twice(&fields(of_key.map.range(field..))))),
            _ => {}
        }
    }

    fn change(&mut self, line: &str) {
        let (field, value) = line.split_once(',').expect("a pair");
        let field = field.parse().expect("a number");
        match value.parse() {
            Ok(value) => drop(self.table.insert(field, value)),
            Err(_) => drop(self.table.remove(&field)),
        }
    }

    /// Compares all lines of the operator with what they must be.
    #[track_caller]
    fn check(mut self, found: &[String]) {
        let (mut pushed, mut united) = (BTreeMap::new(), BTreeMap::new());
        let mut lines = Vec::new();
        for line in found {
            // An end tells behind its key's state what the subtask has.
            let [key @ .., subtask, ours, seen, table] = &line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
            if !line.starts_with("end,") {
                lines.push(line.clone());
                continue;
            }
            lines.push(key.join(","));
            assert_eq!(*pushed.entry(*subtask).or_insert(*ours), *ours, "{line}: a subtask has one list");
            assert_eq!(*united.entry(*subtask).or_insert(*seen), *seen, "{line}: a subtask has one part of what is united");
            assert_eq!(*table, fields(&self.table), "{line}: the table");
        }
        for (of_subtasks, expected) in [(pushed, &mut self.pushed), (united, &mut self.united)] {
            let mut all: Vec<u64> =
                of_subtasks.values().flat_map(|list| list.split(';')).filter_map(|number| number.parse().ok()).collect();
            all.sort_unstable();
            expected.sort_unstable();
            assert_eq!(&all, expected, "each once, on {} subtasks", of_subtasks.len());
        }
        let ends = self.keys.iter().filter(|(_, of_key)| of_key.told() != OfKey::default().told());
        self.lines.extend(ends.map(|(key, of_key)| format!("end,{key},{}", of_key.told())));
        self.lines.sort_unstable();
        assert_lines(lines, self.lines, "the script");
    }
}

fn script(random: &mut Random, length: u64) -> Vec<String> {
    let command = |value: u64, random: &mut Random| {
        let (key, command) = (random.below(60), random.pick(SCRIPT));
        let number = (value * FIELDS + random.below(FIELDS)) * COMMANDS + command;
        format!("key-{key},{number}")
    };
    (0..length).map(|value| command(value, random)).collect()
}

fn changes(random: &mut Random, length: u64) -> Vec<String> {
    let change = |value: u64, random: &mut Random| match random.below(4) {
        0 => format!("{},-", random.below(FIELDS)),
        _ => format!("{},{value}", random.below(FIELDS)),
    };
    (0..length).map(|value| change(value, random)).collect()
}

/// A job that carries out a script.
struct Case {
    seed: u64,
    /// How often it is killed and stopped: three times and once in each.
    rounds: usize,
    /// How many commands there are, and a tenth as many changes.
    commands: u64,
    /// So many are read in a second, and a tenth as many.
    rate: u64,
    /// Where state lies.
    state: &'static str,
}

/// Killed, stopped and resumed on other numbers of subtasks, and ended on three.
fn agrees(Case { seed, rounds, commands, rate, state }: Case) {
    let mut random = Random::new(seed);
    let (script, changes) = (script(&mut random, commands), changes(&mut random, commands / 10));
    let place = Place::new(&job([&format!("rate = {rate}"), &format!("rate = {}", rate / 10)]).state(state));
    place.write_lines("commands.txt", &script);
    place.write_lines("changes.txt", &changes);
    for _ in 0..rounds {
        kill_and_resume(&place, &mut random, 3, &["1", "2", "3", "4", "5"], |random| match random.below(5) {
            0 => Moment::Claimed,
            1 => Moment::Unpublished,
            _ => Moment::Checkpoints(1 + random.below(6)),
        });
        let newest = place.newest(1);
        let mut running = place.start(&["-p", *random.pick(&["1", "2", "3", "4"])]);
        running.wait_until("a checkpoint before the stop", || place.newest(1) > newest);
        running.signal("INT");
        running.wait().ends_with(130);
    }
    place.set_job(&job(["", ""]).state(state));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    let mut model = Model::default();
    script.iter().for_each(|line| model.command(line));
    changes.iter().for_each(|line| model.change(line));
    let failed =
        script.iter().filter_map(|line| line.split_once(',')?.1.parse::<u64>().ok()).filter(|number| number % COMMANDS == 16).count();
    let used: BTreeSet<&u64> = SCRIPT.iter().collect();
    assert!(failed > 100 && used.len() as u64 == COMMANDS, "every command comes, and {failed} fail");
    model.check(&place.lines("out"));
}

const IN_MEMORY: Case = Case { seed: 0, rounds: 4, commands: 24_000, rate: 2000, state: "" };

#[test]
fn all_kinds_of_state_agree_with_the_model() {
    agrees(Case { seed: 71, ..IN_MEMORY });
}

#[test]
fn and_so_they_do_with_another_script() {
    agrees(Case { seed: 72, ..IN_MEMORY });
}

/// With so little memory that most of it is moved to the disk again and again, which takes its time.
#[test]
fn and_so_they_do_where_state_lies_on_disk() {
    agrees(Case { seed: 73, rounds: 1, commands: 12_000, rate: 400, state: "backend = \"disk\"\nmemory = \"64KiB\"" });
}
