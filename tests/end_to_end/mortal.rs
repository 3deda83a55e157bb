//! Time to live, to the value: nothing that has expired is seen by an operator that goes on with it, or is in a whole checkpoint; all else is.

use std::time::Duration;

use crate::harness::{JobFile, Place};
use crate::maps::{bases, entries};

/// How long the operator's state lives.
const TTL: Duration = Duration::from_secs(1);
/// Each key is written once, and read ever after.
const KEYS: usize = 300;
const LINES: usize = 9000;

fn job(rate: &str, checkpoint: &str, backend: &str) -> JobFile {
    JobFile::new("20ms")
        .checkpoint(&format!("interval = \"20ms\"\ndir = \"checkpoints\"\n{checkpoint}"))
        .state(&format!("backend = {backend:?}\nmemory = \"64KiB\""))
        .source("lines", &format!("type = \"file\"\npath = \"input.txt\"\n{rate}"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("mortal", "fixture-mortal", &["pairs"], "")
        .file_sink("out", &["mortal"])
}

/// The number in a line: odd where the operator is to keep it.
fn number(line: usize) -> usize {
    2 * line + usize::from(line < KEYS)
}

/// What the operator has kept of the line's key, as it tells it.
fn kept(line: usize) -> String {
    format!("[{}]", number(line % KEYS))
}

/// How many lines had been read in the newest checkpoint.
fn read(place: &Place) -> usize {
    let newest = place.manifests(1).pop();
    newest.map_or(0, |newest| newest.json["sources"][0]["splits"][0]["records"].as_u64().expect("a number") as usize)
}

fn expires(backend: &str) {
    let place = Place::new(&job("rate = 600", "", backend));
    place.write_lines("input.txt", (0..LINES).map(|line| format!("key {},{}", line % KEYS, number(line))));
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("all keys are written", || read(&place) > KEYS);
    running.signal("INT");
    running.wait().ends_with(130);
    let stopped = read(&place);
    assert!(stopped < LINES, "there is more to read");
    // Nothing else tells that it is over.
    std::thread::sleep(TTL);

    place.set_job(&job("", "incremental = false", backend));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    let told = place.lines("out");
    assert_eq!(told.len(), LINES);
    for told in told {
        let fields: Vec<&str> = told.split(',').collect();
        let line = fields[0].parse::<usize>().expect("a number") / 2;
        let kept = kept(line);
        assert_eq!(fields[4], kept, "{told}: what lives longer");
        match line {
            _ if line < KEYS => assert_eq!(fields[1..4], [&kept; 3], "{told}: what was just written"),
            _ if line >= stopped => assert_eq!(fields[1..4], ["[]"; 3], "{told}: what has expired"),
            _ => {}
        }
    }
    let bases = bases(&place, "mortal");
    let found = ["value", "list", "map", "lasting"].map(|state| entries(&place, &bases, state));
    assert_eq!(found, [0, 0, 0, KEYS as u64], "entries in the last checkpoint, {backend}");
}

#[test]
fn what_has_expired_is_neither_seen_nor_saved() {
    expires("memory");
}

#[test]
fn what_has_expired_on_disk_is_neither_seen_nor_saved() {
    expires("disk");
}
