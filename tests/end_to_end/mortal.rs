//! Time to live, to the value: nothing that has expired is seen by an operator that goes on with it, or is in a whole checkpoint; all else is.

use std::time::Duration;

use crate::harness::{Host, JobFile, Place};
use crate::maps::{bases, entries};
use crate::swap::{file, swap};

/// How long the operator's state lives.
const TTL: Duration = Duration::from_secs(1);
/// Each key is written once, and read ever after.
const KEYS: usize = 300;
const LINES: usize = 9000;

fn job(rate: &str, checkpoint: &str, backend: &str) -> JobFile {
    job_of("fixture-mortal", rate, checkpoint, backend)
}

fn job_of(component: &str, rate: &str, checkpoint: &str, backend: &str) -> JobFile {
    JobFile::new("20ms")
        .checkpoint(&format!("interval = \"20ms\"\ndir = \"checkpoints\"\n{checkpoint}"))
        .state(&format!("backend = {backend:?}\nmemory = \"64KiB\""))
        .source("lines", &format!("type = \"file\"\npath = \"input.txt\"\n{rate}"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("mortal", component, &["pairs"], "")
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

/// Lines read in a second where values have to expire meanwhile, and lines by which those of all keys have: twice as much time has passed.
const RATE: usize = 600;
const EXPIRED: usize = KEYS + 2 * RATE;

/// Starts a job that goes on for hours, in which all keys were written and have expired since, as the newest checkpoint knows.
fn expired<'a>(place: &'a Place, backend: &str) -> Host<'a> {
    place.set_job(&job(&format!("rate = {RATE}"), "", backend));
    place.write_lines("input.txt", (0..1_000_000).map(|line| format!("key {},{}", line % KEYS, number(line))));
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    host.running().wait_until("all keys have expired", || read(place) > EXPIRED);
    host
}

/// Checks that of what had expired nothing was seen again, and that all else was.
#[track_caller]
fn stayed_expired(place: &Place, case: &str) {
    let told = place.lines("out");
    assert!(told.len() > EXPIRED + 2 * KEYS, "{case}");
    for told in told {
        let fields: Vec<&str> = told.split(',').collect();
        let line = fields[0].parse::<usize>().expect("a number") / 2;
        assert_eq!(fields[4], kept(line), "{case}: {told}: what lives longer");
        if line >= EXPIRED {
            assert_eq!(fields[1..4], ["[]"; 3], "{case}: {told}: what has expired");
        }
    }
}

/// Has a job go on from a line until it has read all keys again, and once more after its host was killed, and stops it: from then on what the
/// checkpoints before still hold counts.
fn outlives_its_host(place: &Place, mut host: Host<'_>, from: usize) {
    host.running().wait_until("all keys are read again", || read(place) > from + KEYS);
    host.kill();
    let mut host = place.host();
    host.running().wait_until("all keys are read once more", || read(place) > from + 3 * KEYS);
    host.cofferdam(&["stop", "job"]).succeeds();
}

/// Another component takes over, with which everything lives for a day: in the place of the one that runs, and after a stop.
fn stays_expired(backend: &str) {
    let place = Place::empty();
    let host = expired(&place, backend);
    host.cofferdam(&swap("mortal", &file("fixture-mortal-v2"), &["--probation", "0s"])).succeeds();
    outlives_its_host(&place, host, read(&place));
    stayed_expired(&place, "swapped");

    let place = Place::empty();
    let host = expired(&place, backend);
    host.cofferdam(&["stop", "job"]).succeeds();
    let stopped = read(&place);
    place.set_job(&job_of("fixture-mortal-v2", &format!("rate = {RATE}"), "", backend));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    outlives_its_host(&place, host, stopped);
    stayed_expired(&place, "begun again");
}

#[test]
fn what_has_expired_stays_so_when_values_live_longer() {
    stays_expired("memory");
}

#[test]
fn what_has_expired_on_disk_stays_so_when_values_live_longer() {
    stays_expired("disk");
}
