//! Changes of the parallelism: from every number of subtasks to every other, up to eight, with barriers in mid-stream.

use std::collections::BTreeMap;

use crate::harness::{JobFile, Manifest, Place, Random, assert_lines};
use crate::sums;

const MOST: usize = 8;

/// Lines `key,number`, and rules `name=value` that go to all subtasks.
fn job(rates: [&str; 2]) -> JobFile {
    let file = |path: &str, rate: &str| format!("type = \"file\"\npath = {path:?}\n{rate}");
    JobFile::new("30ms")
        .source("lines", &file("lines", rates[0]))
        .source("rules", &file("rules", rates[1]))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator_with_ports("scale", "fixture-scale", &[("numbers", &["pairs"]), ("rules", &["rules"])], "")
        .file_sink("out", &["scale"])
}

/// A walk over the numbers 1 to `most` in which each follows each other, and itself, once: a de Bruijn sequence, closed.
fn walk(most: usize) -> Vec<usize> {
    let mut walk = Vec::new();
    for first in 1..=most {
        walk.push(first);
        (first + 1..=most).for_each(|second| walk.extend([first, second]));
    }
    walk.push(1);
    walk
}

#[test]
fn from_every_parallelism_to_every_other_all_state_is_there_once() {
    let walk = walk(MOST);
    let steps: std::collections::BTreeSet<_> = walk.windows(2).collect();
    assert_eq!((walk.len(), steps.len()), (MOST * MOST + 1, MOST * MOST), "each step once");
    let mut random = Random::new(64);
    let lines = sums::input(&mut random, 0, 60_000);
    let rules: Vec<String> = (0..2_000).map(|number| format!("r{},{number}", number % 17).replace(',', "=")).collect();
    let place = Place::new(&job(["rate = 600", "rate = 20"]));
    place.write_lines("lines", &lines);
    place.write_lines("rules", &rules);
    let mut before = None;
    for &parallelism in &walk {
        resume_and_kill(&place, before, parallelism, &lines, &rules);
        before = Some(parallelism);
    }
    place.set_job(&job(["", ""]));
    place.run(&["-p", "2"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    check(&place.lines("out"), &lines, &rules);
}

/// Goes on with the checkpoint of `before` subtasks with so many, until they have one. Each is to know which checkpoint it was, to see what
/// all of those before had in their union list, and to have its part of the list and all rules, of what was read until then.
#[track_caller]
fn resume_and_kill(place: &Place, before: Option<usize>, parallelism: usize, lines: &[String], rules: &[String]) {
    let newest = place.manifests(1).pop();
    assert_eq!(newest.as_ref().and_then(|newest| newest.json["parallelism"].as_u64()), before.map(|before| before as u64));
    let number = newest.as_ref().map(|newest| newest.checkpoint);
    let mut running = place.start(&["-p", &parallelism.to_string(), "--log", "info"]);
    running.wait_until("a checkpoint of its own", || place.newest(1) > number.unwrap_or(0));
    let ended = running.kill();
    let names: Vec<String> = (0..before.unwrap_or(0)).flat_map(|of| vec![format!("{of}of{}", before.unwrap_or(0)); 1 + of % 2]).collect();
    let from = number.map_or("nothing".into(), |number| number.to_string());
    let rules = joined(&rules[..read(newest.as_ref(), "rules")]);
    // How many elements there are, and what they come to.
    let mut elements = [0, 0];
    for subtask in 0..parallelism {
        let told = format!("scale {subtask}: restored from {from} with [{}] [", names.join(" "));
        let rest = ended.stderr.split_once(&told).unwrap_or_else(|| panic!("{told:?} is missing in: {}", ended.stderr)).1;
        let (list, rest) = rest.split_once("] [").expect("rules");
        elements.iter_mut().zip(list.split(' ')).for_each(|(sum, of_subtask)| *sum += of_subtask.parse::<u64>().expect("a number"));
        assert_eq!(rest.split(']').next(), Some(rules.as_str()), "subtask {subtask} of {parallelism}: the rules");
    }
    let hundreds = hundreds(&lines[..read(newest.as_ref(), "lines")]);
    assert_eq!(elements, [hundreds.len() as u64, hundreds.iter().sum()], "-p {parallelism}: each element of the list once");
}

/// How many records of a source were read before a checkpoint.
fn read(checkpoint: Option<&Manifest>, source: &str) -> usize {
    let sources = checkpoint.and_then(|checkpoint| checkpoint.json["sources"].as_array()).into_iter().flatten();
    let splits = sources.filter(|part| part["uid"] == source).filter_map(|part| part["splits"].as_array()).flatten();
    splits.map(|split| split["records"].as_u64().expect("a number") as usize).sum()
}

/// The numbers of these lines that go into the list.
fn hundreds(lines: &[String]) -> Vec<u64> {
    let numbers = lines.iter().filter_map(|line| line.split_once(',')?.1.parse().ok());
    numbers.filter(|number: &u64| number.is_multiple_of(100)).collect()
}

/// What comes of these rules.
fn joined(rules: &[String]) -> String {
    let rules: BTreeMap<&str, &str> = rules.iter().map(|rule| rule.split_once('=').expect("a rule")).collect();
    let rules: Vec<String> = rules.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    rules.join(";")
}

/// Every 20th number has been told with its key's count, and at the end each key with what its subtask has.
#[track_caller]
fn check(out: &[String], lines: &[String], rules: &[String]) {
    let mut counts = BTreeMap::<&str, u64>::new();
    let mut counted = Vec::new();
    for line in lines {
        let (key, number) = line.split_once(',').expect("a pair");
        let count = counts.entry(key).or_default();
        *count += 1;
        if number.parse::<u64>().is_ok_and(|number| number.is_multiple_of(20)) {
            counted.push(format!("{number},{key},{count}"));
        }
    }
    let (ends, told): (Vec<&String>, Vec<&String>) = out.iter().partition(|line| line.starts_with("key-"));
    assert_lines(told, counted.iter().collect::<Vec<_>>(), "counts on the way");
    let rules = joined(rules);
    let (mut found, mut of_subtask) = (BTreeMap::<&str, u64>::new(), BTreeMap::new());
    for line in ends {
        let fields: Vec<&str> = line.split(',').collect();
        assert!(found.insert(fields[0], fields[1].parse().expect("a count")).is_none(), "{line}: the key is there twice");
        assert_eq!(*of_subtask.entry(fields[2]).or_insert(fields[3]), fields[3], "{line}: a subtask has one list");
        assert_eq!(fields[4], "0of1", "the first run had one subtask");
        assert_eq!(fields[5], rules, "subtask {}: the rules", fields[2]);
    }
    assert_eq!(found, counts);
    let mut elements: Vec<u64> = of_subtask.values().flat_map(|list| list.split(';')).filter_map(|number| number.parse().ok()).collect();
    elements.sort_unstable();
    assert_eq!(elements, hundreds(lines), "each element of the list once");
}
