//! Value, list and reducing state together, spread over workers: exact when the job is killed and resumed with other parallelisms.

use std::collections::BTreeMap;

use crate::harness::{JobFile, Moment, Place, Random, kill_and_resume};

/// In the sums' input a number tells its file and its place in it: so many fit into one file.
const PER_FILE: u64 = 1_000_000;

/// Lines `key,number` go into a line `key,count,sum,list` for each key, at the end.
pub fn job(source: &str) -> JobFile {
    JobFile::new("40ms")
        .source("lines", source)
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .file_sink("out", &["totals"])
}

/// The lines of one file of input: few keys are frequent and many are rare.
pub fn input(random: &mut Random, file: u64, lines: u64) -> Vec<String> {
    let line = |number: u64, random: &mut Random| {
        let rare = random.below(300) + 1;
        format!("key-{},{}", random.below(rare), file * PER_FILE + number)
    };
    (0..lines).map(|number| line(number, random)).collect()
}

/// Checks the sink's lines against the input, file by file. Numbers of one file must stand in their order, however files mix.
#[track_caller]
pub fn check(lines: &[String], files: &[Vec<String>]) {
    let mut oracle: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in files.iter().flatten() {
        let (key, number) = line.split_once(',').expect("a pair");
        oracle.entry(key).or_default().push(number.parse().expect("a number"));
    }
    assert_eq!(lines.len(), oracle.len(), "each key has a line");
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let numbers = &oracle[fields[0]];
        assert_eq!(fields[1], numbers.len().to_string(), "the count of {}", fields[0]);
        assert_eq!(fields[2], numbers.iter().sum::<u64>().to_string(), "the sum of {}", fields[0]);
        let mut list: Vec<u64> = fields[3].split(';').map(|number| number.parse().expect("a number")).collect();
        // Stable: within a file the order stays what it was.
        list.sort_by_key(|number| number / PER_FILE);
        assert_eq!(&list, numbers, "the list of {}", fields[0]);
    }
}

fn killed_and_resumed(seed: u64, files: u64) {
    let mut random = Random::new(seed);
    let input: Vec<Vec<String>> = (0..files).map(|file| input(&mut random, file, 24_000 / files)).collect();
    let source = "type = \"file\"\npath = \"input\"\n";
    let place = Place::new(&job(&format!("{source}rate = 3000")));
    for (number, lines) in input.iter().enumerate() {
        place.write_lines(&format!("input/{number}.txt"), lines);
    }
    kill_and_resume(&place, &mut random, 10, &["1", "2", "3", "4"], |random| match random.below(4) {
        0 => Moment::Claimed,
        _ => Moment::Checkpoints(1 + random.below(5)),
    });
    place.set_job(&job(source));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    check(&place.lines("out"), &input);
}

#[test]
fn all_kinds_of_state_survive_ten_kills_and_every_list_keeps_its_order() {
    killed_and_resumed(1, 1);
}

#[test]
fn so_they_do_when_several_files_are_read_at_once() {
    killed_and_resumed(2, 3);
}
