//! State on a local disk: jobs come to what they come to with state in memory, through kills, with other parallelisms, and when they go
//! from one to the other; with little memory, however much state there is.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::disk_full::Disk;
use crate::harness::s3::{Bucket, Server};
use crate::harness::{JobFile, Moment, Place, Random, Running, assert_lines, kill_and_resume, names, until};
use crate::swap::{file, swap};
use crate::{maps, sums};

/// So little memory that nearly everything lies on disk.
const ON_DISK: &str = "backend = \"disk\"\nmemory = \"64KiB\"";
const IN_MEMORY: &str = "backend = \"memory\"";
const SOURCE: &str = "type = \"file\"\npath = \"input.txt\"\n";

/// Runs a job to its end through eight kills, after each of which its state may lie elsewhere.
fn through_kills(random: &mut Random, job: fn(&str) -> JobFile, input: &[String]) -> Place {
    let slow = || job(&format!("{SOURCE}rate = 3000"));
    let place = Place::new(&slow());
    place.write_lines("input.txt", input);
    for lies in [ON_DISK, ON_DISK, IN_MEMORY, ON_DISK, IN_MEMORY, ON_DISK, ON_DISK, ON_DISK] {
        place.set_job(&slow().state(lies));
        kill_and_resume(&place, random, 1, &["1", "2", "3", "4"], |random| match random.below(4) {
            0 => Moment::Claimed,
            _ => Moment::Checkpoints(1 + random.below(4)),
        });
        let left = names(&place.path("local-state/job"));
        assert!(left.len() <= 1, "what killed attempts have left is removed: {left:?}");
        assert!(lies == IN_MEMORY || left.len() == 1, "a killed attempt has left its state");
    }
    place.set_job(&job(SOURCE).state(ON_DISK));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_eq!(names(&place.path("local-state/job")), [""; 0], "nothing is left of an attempt that has ended");
    place
}

#[test]
fn sums_and_lists_are_exact_wherever_they_lie() {
    let mut random = Random::new(71);
    let input = sums::input(&mut random, 0, 24_000);
    let place = through_kills(&mut random, sums::job, &input);
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn maps_that_are_scanned_and_cleared_and_what_expires_are_exact_wherever_they_lie() {
    let mut random = Random::new(72);
    let input = sums::input(&mut random, 0, 24_000);
    let place = through_kills(&mut random, maps::job, &input);
    assert_lines(place.lines("out"), maps::oracle(&input), "killed and resumed");
}

/// Keys, and the bytes of each, which stands in three states.
const KEYS: usize = 80_000;
const KEY: usize = 1000;

#[test]
fn memory_stays_small_however_much_state_there_is() {
    let file = |path: &str, rate: u64| format!("type = \"file\"\npath = {path:?}\nrate = {rate}");
    let job = |lies: &str, rate: u64| {
        JobFile::new("100ms")
            .state(lies)
            .source("all", &file("all", 1_000_000))
            .source("some", &file("some", rate))
            .operator("pairs", "fixture-pairs", &["all", "some"], "")
            .operator("totals", "fixture-sum", &["pairs"], "limits = { time = \"1m\" }")
            .file_sink("out", &["totals"])
    };
    let place = Place::new(&job(IN_MEMORY, 1));
    place.write_lines("all", (0..KEYS).map(|key| format!("{key:0KEY$},{key}")));
    place.write_lines("some", (0..KEYS).step_by(100).map(|key| format!("{key:0KEY$},1")));
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("a checkpoint with all keys", || {
        place.manifests(1).pop().is_some_and(|newest| newest.json["sources"][0]["splits"][0]["records"] == KEYS)
    });
    running.kill();
    let peak = |lies: &str| {
        let place = place.copy();
        place.set_job(&job(lies, 1000));
        let mut command = place.command(&["run", "job.toml", "-p", "2"]);
        // What is freed counts as free at once, not when the allocator comes to it.
        command.env("MIMALLOC_PURGE_DELAY", "0");
        let mut running = Running::start(command);
        let peak = running.peak_until_the_end();
        running.wait().succeeds().says(&["resuming run 1 from checkpoint "]);
        let lines = place.lines("out");
        assert_eq!(lines.len(), KEYS);
        for (key, line) in lines.iter().enumerate() {
            let told = if key % 100 == 0 { format!("2,{},{key};1", key + 1) } else { format!("1,{key},{key}") };
            assert!(*line == format!("{key:0KEY$},{told}"), "key {key}: {}", &line[KEY..]);
        }
        peak >> 10
    };
    let (on_disk, in_memory) = (peak("backend = \"disk\"\nmemory = \"8MiB\""), peak(IN_MEMORY));
    println!("{on_disk} MiB with state on disk, {in_memory} MiB with state in memory");
    assert!(on_disk + 150 < in_memory, "{on_disk} MiB on disk, {in_memory} MiB in memory, of which 230 are keys");
}

#[test]
fn memory_stays_small_though_no_checkpoint_comes_before_the_last_and_when_that_is_restored() {
    let job = |lies: &str| {
        JobFile::new("1h")
            .state(lies)
            .source("lines", "type = \"file\"\npath = \"lines\"")
            .operator("pairs", "fixture-pairs", &["lines"], "")
            .operator("totals", "fixture-sum", &["pairs"], "limits = { time = \"1m\" }")
            .file_sink("out", &["totals"])
    };
    const KEYS: usize = 40_000;
    let (on_disk, in_memory) = ("backend = \"disk\"\nmemory = \"8MiB\"", IN_MEMORY);
    let place = Place::new(&job(in_memory));
    // Each key again long after it has left memory.
    place.write_lines("lines", (0..2 * KEYS).map(|line| format!("{:0KEY$},{line}", line % KEYS)));
    let expected: Vec<String> = (0..KEYS).map(|key| format!("{key:0KEY$},2,{},{key};{}", 2 * key + KEYS, key + KEYS)).collect();
    let peak = |place: &Place, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("MIMALLOC_PURGE_DELAY", "0");
        let mut running = Running::start(command);
        let peak = running.peak_until_the_end();
        running.wait().succeeds();
        peak >> 10
    };
    let other = place.copy();
    other.set_job(&job(on_disk));
    let written = peak(&other, &["run", "job.toml", "-p", "2"]);
    assert!(other.lines("out") == expected, "with state on disk");
    let last = other.manifests(1).pop().unwrap().json["checkpoint"].to_string();
    assert_eq!(last, "1");
    fs::remove_dir_all(other.path("out")).unwrap();
    let restored = peak(&other, &["run", "job.toml", "-p", "2", "-s", &last, "--allow-duplicates"]);
    assert!(other.lines("out") == expected, "restored with state on disk");
    let all = peak(&place, &["run", "job.toml", "-p", "2"]);
    assert!(place.lines("out") == expected, "with state in memory");
    println!("{written} MiB with state on disk, {restored} MiB when restored, {all} MiB with state in memory");
    assert!(written.max(restored) + 100 < all, "{written} and {restored} MiB on disk, {all} MiB in memory, of which 115 are keys");
}

#[test]
fn no_room_for_state_on_disk() {
    let job = sums::job(&format!("{SOURCE}rate = 20000"));
    let place = Place::new(&job.clone().state("backend = \"disk\"\nmemory = \"1MiB\""));
    let Some(disk) = Disk::mount(place.path("local-state"), 1 << 10) else { return };
    let input: Vec<String> = (0..60_000).map(|number| format!("{:0200},{number}", number % 30_000)).collect();
    place.write_lines("input.txt", &input);
    let ended =
        place.run(&["-p", "2"]).ends_with(6).says(&["job `job`: operator `totals`, subtask ", "local-state/job/", "make room there"]);
    println!("{}", ended.stderr);
    drop(disk);
    // Checkpoints are as they were, if there was time for one.
    let newest = place.newest(1);
    let begins = if newest > 0 { format!("resuming run 1 from checkpoint {newest}") } else { "run 1".into() };
    place.set_job(&job);
    place.run(&["-p", "2"]).succeeds().says(&[&begins]);
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn one_operator_may_keep_its_state_elsewhere_than_the_others() {
    let job = JobFile::new("40ms")
        .state(&format!("{IN_MEMORY}\ndir = \"elsewhere\""))
        .source("lines", &format!("{SOURCE}rate = 3000"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("totals", "fixture-sum", &["pairs"], "state = { backend = \"disk\", memory = \"64KiB\" }")
        .operator("others", "fixture-sum", &["pairs"], "")
        .file_sink("out", &["totals"])
        .file_sink("out-others", &["others"]);
    let place = Place::new(&job);
    let input = sums::input(&mut Random::new(73), 0, 6_000);
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2", "--output", "json"]);
    running.wait_until("a checkpoint", || place.newest(1) > 0);
    let attempts = names(&place.path("elsewhere/job"));
    let stores = names(&place.path("elsewhere/job").join(&attempts[0]));
    assert_eq!(stores, ["lock", "totals-0", "totals-1"]);
    let summary = running.wait().succeeds().json();
    let [_, _, totals, others, ..] = summary["nodes"].as_array().unwrap().as_slice() else { panic!("{summary}") };
    assert!(others.get("state").is_none(), "{summary}");
    let state = |what: &str| totals["state"][what].as_u64().unwrap();
    // Three states, each of which is looked into for each key of a batch.
    assert!(state("hits") + state("misses") > 6000 && state("hits") > 0 && state("misses") > 0, "{totals}");
    // Beside what is allowed there is the room of slots that a batch has filled and that are empty since.
    assert!(
        (1..=128 << 10).contains(&state("bytes-in-memory")) && state("entries-in-memory") > 0 && state("bytes-on-disk") > 0,
        "{totals}"
    );
    sums::check(&place.lines("out"), std::slice::from_ref(&input));
    sums::check(&place.lines("out-others"), &[input]);
    assert!(fs::read_dir(place.path("elsewhere/job")).is_ok_and(|mut left| left.next().is_none()));
}

/// Its state has been frozen, and no more of it can be handed over until a store takes what there is.
#[test]
fn a_job_is_cancelled_at_once_while_a_component_waits_for_a_snapshot_to_be_stored() {
    const LONG: usize = 8_000;
    let server = Server::start();
    let bucket = &server.bucket;
    let job = JobFile::new("1h")
        .checkpoint(&bucket.settings("1h"))
        .state(ON_DISK)
        .source("lines", &format!("{SOURCE}rate = 5000"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("tally", "fixture-tally-v1", &["pairs"], "")
        .file_sink("out", &["tally"]);
    let place = Place::new(&job);
    Bucket::give_credentials(&place);
    // Some megabytes of keys, and then more records than there is time for.
    let long = (0..LONG).map(|number| format!("{number:0KEY$},{number}"));
    place.write_lines("input.txt", long.chain((0..1_000_000).map(|number| format!("k,{number}"))));
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_until("job", "all keys", |details| details["records-in"].as_u64() > Some(LONG as u64));
    let [stored, open] = [(); 2].map(|()| Arc::<AtomicBool>::default());
    let (seen, gate) = (Arc::clone(&stored), Arc::clone(&open));
    server.misbehaves(move |request| {
        if request.method == "PUT" && request.key.contains("/state/") {
            seen.store(true, SeqCst);
            until("the gate is opened", || gate.load(SeqCst).then_some(()));
        }
        None
    });
    let component = file("fixture-tally-v3");
    let command = host.start(&swap("tally", &component, &["--probation", "0s"]));
    host.running().wait_until("a file of the snapshot", || stored.load(SeqCst));
    host.cofferdam(&["cancel", "job"]).succeeds();
    host.wait_for("job", "CANCELLED");
    command.wait().ends_with(1).says(&["the job has ended before the new component was in a checkpoint"]);
    open.store(true, SeqCst);
}
