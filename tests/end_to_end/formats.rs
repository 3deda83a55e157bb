//! Checkpoints that earlier versions have written, below `tests/formats`: each is restored exactly, or refused by name. `make formats`
//! adds those of this version; what it has written before a form changed is kept under a name of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{JobFile, Place, assert_lines};

/// All kinds of state, small ones in the manifest and others in files. This is what earlier versions have run: it stays as it is.
fn job(rate: &str) -> JobFile {
    JobFile::new("40ms")
        .checkpoint("interval = \"40ms\"\nnum-retained = 1\nmemory-threshold = \"300B\"\ndir = \"checkpoints\"")
        .source("lines", &format!("type = \"file\"\npath = \"input.txt\"\n{rate}"))
        .source("changes", &format!("type = \"file\"\npath = \"changes.txt\"\n{rate}"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .operator("maps", "fixture-maps", &["pairs"], "")
        .operator_with_ports("table", "fixture-table", &[("changes", &["changes"]), ("numbers", &["pairs"])], "config = {}")
        .operator("life", "fixture-life", &["lines"], "")
        .sink("passed", &["life"], "type = \"blackhole\"")
        .file_sink("totals-out", &["totals"])
        .file_sink("maps-out", &["maps"])
        .file_sink("table-out", &["table"])
}

const KEYS: u64 = 7;

/// Lines `key,number`. None is a number at which the operators tell of what they have before the end.
fn input() -> Vec<String> {
    let numbers = (1..1400_u64).filter(|number| !number.is_multiple_of(500));
    numbers.map(|number| format!("key-{},{number}", number * number % KEYS)).collect()
}

/// Lines `field,number` and `field,-`.
fn changes() -> Vec<String> {
    let change = |number: u64| match number % 9 {
        4 => format!("{},-", number % 31),
        _ => format!("{},{number}", number % 31),
    };
    (0..1400).map(change).collect()
}

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/formats")
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        fs::read_dir(from).unwrap().for_each(|entry| copy(&entry.as_ref().unwrap().path(), &to.join(entry.unwrap().file_name())));
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// A place with the input and the checkpoints that a version has written.
fn place(version: &Path) -> Place {
    let place = Place::new(&job(""));
    place.write_lines("input.txt", input());
    place.write_lines("changes.txt", changes());
    copy(version, &place.path("checkpoints"));
    place
}

fn versions() -> Vec<PathBuf> {
    let found = fs::read_dir(formats()).expect("there are checkpoints of earlier versions");
    let versions: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    assert!(!versions.is_empty());
    versions
}

#[test]
#[ignore = "writes below tests/formats"]
fn write_what_this_version_writes() {
    let place = Place::new(&job("rate = 600"));
    place.write_lines("input.txt", input());
    place.write_lines("changes.txt", changes());
    let mut running = place.start(&["-p", "2"]);
    // Some files have been merged by then.
    running.wait_until("many checkpoints", || place.newest(1) >= 14);
    running.signal("INT");
    running.wait().ends_with(130);
    let version = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
    let to = formats().join(version);
    if to.exists() {
        fs::remove_dir_all(&to).unwrap();
    }
    copy(&place.path("checkpoints"), &to);
}

/// The numbers of each key, in order.
fn numbers(lines: &[String]) -> BTreeMap<&str, Vec<u64>> {
    let mut numbers = BTreeMap::<&str, Vec<u64>>::new();
    for line in lines {
        let (key, number) = line.split_once(',').expect("a pair");
        numbers.entry(key).or_default().push(number.parse().expect("a number"));
    }
    numbers
}

/// What the table holds at the end, as it is told.
fn table() -> String {
    let mut table = BTreeMap::<String, u64>::new();
    for line in changes() {
        match line.split_once(',').expect("a pair") {
            (field, "-") => drop(table.remove(field)),
            (field, number) => *table.entry(field.into()).or_default() += number.parse::<u64>().expect("a number"),
        }
    }
    table.iter().map(|(field, sum)| format!("{field}={sum}")).collect::<Vec<_>>().join(";")
}

/// How many lines the source had read of all.
fn read_before(manifest: &Value) -> usize {
    let source = manifest["sources"].as_array().expect("sources").iter().find(|source| source["uid"] == "lines").expect("the source");
    usize::try_from(source["splits"][0]["records"].as_u64().expect("a number")).expect("few")
}

#[test]
fn every_kind_of_state_of_every_version_is_restored_exactly() {
    for version in versions() {
        for parallelism in ["1", "2", "3"] {
            println!("{} with -p {parallelism}", version.display());
            let place = place(&version);
            let read = read_before(&place.manifests(1).pop().expect("a checkpoint").json);
            let input = input();
            assert!(read > 300 && read < input.len() - 300, "{read} lines were read");
            let ended = place.run(&["-p", parallelism, "--log", "info"]).succeeds();
            ended.says(&["resuming run 1 from checkpoint ", "life 0: restored true with [0of2 1of2]"]);

            let numbers = numbers(&input);
            let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(";");
            let totals = numbers.iter().map(|(key, all)| format!("{key},{},{},{}", all.len(), all.iter().sum::<u64>(), list(all)));
            assert_lines(place.lines("totals-out"), totals.collect::<Vec<_>>(), "totals");
            let table = table();
            let tables = numbers.iter().map(|(key, all)| format!("{key},{},{table},{table}", all.len()));
            assert_lines(place.lines("table-out"), tables.collect::<Vec<_>>(), "tables");
            check_maps(&place.lines("maps-out"), &input, read);
        }
    }
}

/// Checks the lines `key,counts,mean,last,first`. What lives for a month may have expired since it was written, and begins anew then.
fn check_maps(lines: &[String], input: &[String], read: usize) {
    let (all, after) = (numbers(input), numbers(&input[read..]));
    let mut oracle = [Vec::new(), Vec::new()];
    for (key, all) in &all {
        let mut counts = BTreeMap::<u64, u64>::new();
        for number in all {
            if number.is_multiple_of(1009) {
                counts.clear();
            }
            if number.is_multiple_of(13) {
                counts.remove(&(number / 13 % 97));
            }
            *counts.entry(number % 97).or_default() += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(field, count)| format!("{field}={count}")).collect();
        let last = |remainder| after[key].iter().rev().find(|number| **number % 2 == remainder);
        let (Some(even), Some(odd)) = (last(0), last(1)) else { panic!("{key} has numbers of both kinds after that") };
        for (oracle, first) in oracle.iter_mut().zip([all[0], after[key][0]]) {
            oracle.push(format!("{key},{},{}/{},even={even};odd={odd},[{first}]", counts.join(";"), all.iter().sum::<u64>(), all.len()));
        }
    }
    oracle.iter_mut().for_each(|oracle| oracle.sort_unstable());
    assert!(oracle.iter().any(|oracle| oracle == lines), "{lines:#?}\nis neither of {oracle:#?}");
}

/// A manifest's text with something replaced, and a right checksum.
fn sealed(text: &str, from: &str, to: &str) -> String {
    let (body, _) = text.rsplit_once(",\n  \"crc32c\": ").expect("a manifest has its checksum at the end");
    assert_eq!(body.matches(from).count(), 1, "{from}");
    let body = body.replace(from, to);
    format!("{body},\n  \"crc32c\": \"{:08x}\"\n}}\n", crc32c::crc32c(body.as_bytes()))
}

#[test]
fn what_a_future_version_has_written_is_refused_by_name() {
    for version in versions() {
        let place = place(&version);
        let manifest = place.manifests(1).pop().expect("a checkpoint");
        let text = fs::read_to_string(&manifest.path).unwrap();
        fs::write(&manifest.path, sealed(&text, "\"format\": 1,", "\"format\": 2,")).unwrap();
        let ended = place.run(&[]).ends_with(5);
        ended.says(&["the manifest was written by a newer Cofferdam: format 2, this one reads up to 1"]);

        // A state file, told by the frame that it begins with.
        let file = manifest.json["operators"].as_array().into_iter().flatten().flat_map(|operator| operator["files"].as_array().unwrap());
        let file = file.clone().find(|file| file["inline"].is_null()).expect("a file of its own");
        let path = place.run_dir(1).join(file["path"].as_str().unwrap());
        let mut bytes = fs::read(&path).unwrap();
        // Its version, and the checksum of what it says of itself and of what it holds.
        bytes[6] = 3;
        let length = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        let seal = crc32c::crc32c_append(crc32c::crc32c(&bytes[4..16]), &bytes[20..20 + usize::try_from(length).unwrap()]);
        bytes[16..20].copy_from_slice(&seal.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let checksum = format!("{:08x}", crc32c::crc32c(&bytes));
        fs::write(&manifest.path, sealed(&text, file["checksum"].as_str().unwrap(), &checksum)).unwrap();
        let ended = place.run(&[]).ends_with(5);
        ended.says(&[path.file_name().unwrap().to_str().unwrap(), "was written by a newer Cofferdam: format 3, this one reads up to 2"]);
    }
}
