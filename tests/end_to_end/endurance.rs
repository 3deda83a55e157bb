//! Many checkpoints, many kills, and checkpoints that were taken under adverse conditions: each of them holds its own cut, none is lost,
//! and nothing piles up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::harness::s3::{Bucket, Fault, Server};
use crate::harness::{JobFile, Manifest, Phase, Place, Random, assert_lines};
use crate::{maps, sums};

#[test]
fn a_thousand_checkpoints_are_complete_and_neither_grow_nor_leave_anything() {
    let source = "type = \"generator\"\nkind = \"words\"\nkeys = 200\nwords-per-line = 10\nrate = 4000";
    let job = JobFile::new("5ms")
        .checkpoint("interval = \"5ms\"\ndir = \"checkpoints\"")
        .source("words", source)
        .operator("tokenize", "word-count-tokenize", &["words"], "")
        .operator("count", "word-count-count", &["tokenize"], "")
        .sink("out", &["count"], "type = \"blackhole\"");
    let place = Place::new(&job);
    let mut running = place.start(&["-p", "2", "--output", "json"]);
    // Of each subtask, by the first of its key groups, and of each checkpoint that is seen: bytes of its base, and how many files it has.
    let mut sizes = BTreeMap::<u64, BTreeMap<u64, [u64; 2]>>::new();
    for hundred in 1..=10 {
        running.wait_until("a hundred checkpoints more", || {
            let manifests = place.manifests(1);
            for manifest in &manifests {
                for (start, size) in sizes_by_subtask(manifest) {
                    sizes.entry(start).or_default().insert(manifest.checkpoint, size);
                }
            }
            manifests.last().is_some_and(|manifest| manifest.checkpoint >= hundred * 100)
        });
        // What lies there and is not named has just been superseded, or is to be named next: neither may take long.
        let unnamed: BTreeSet<String> = place.state_files(1).difference(&named(&place)).cloned().collect();
        running.wait_until("each file is named or gone", || {
            let left: BTreeSet<String> = unnamed.intersection(&place.state_files(1)).cloned().collect();
            left.is_subset(&named(&place))
        });
    }
    running.signal("INT");
    let summary = running.wait().ends_with(130).json();
    assert_eq!(summary["failed-checkpoints"], 0, "{summary}");
    assert!(summary["checkpoints"].as_u64() >= Some(1000), "{summary}");
    assert_eq!(summary["checkpoints"], summary["last-checkpoint"], "all numbers are taken");

    // How much lies above a base depends on how fast merges are; the base is what the state takes. By the 300th checkpoint numbers have as
    // many bytes as they will have at the end.
    assert_eq!(sizes.len(), 2, "two subtasks have state");
    for (start, sizes) in sizes {
        let least = |of: usize, from: u64, to: u64| sizes.range(from..to).map(|(_, size)| size[of]).min().expect("some were seen");
        let (early, late, files) = (least(0, 300, 600), least(0, 700, 1000), least(1, 700, 1000));
        println!("from group {start} on: {} were seen; the smallest base had {early} bytes early and {late} late", sizes.len());
        assert!(early > 0 && late <= early + early / 4, "{late} bytes after {early}");
        assert!(files <= 8, "never fewer than {files} files, though more than 8 are merged");
    }
    let manifests = place.manifests(1);
    assert_eq!(manifests.len(), 3);
    for manifest in &manifests {
        let bytes = |file: &String| fs::metadata(place.run_dir(1).join(file)).expect("it is there").len();
        assert_eq!(manifest.json["total-bytes"], manifest.state_files().iter().map(bytes).sum::<u64>());
    }
    assert_eq!(everything(&place), needed(&place), "nothing else is left, nor half a file");
}

/// All files of the first run, relative to its directory, but for the note of what is published.
fn everything(place: &Place) -> BTreeSet<String> {
    let dir = place.run_dir(1);
    let inside = |path: PathBuf| path.strip_prefix(&dir).ok()?.to_str().filter(|path| *path != "published").map(str::to_owned);
    place.content().into_iter().filter(|(_, content)| content.is_some()).filter_map(|(path, _)| inside(path)).collect()
}

/// Those which are needed: the kept checkpoints of the first run with what they name.
fn needed(place: &Place) -> BTreeSet<String> {
    let name = |manifest: &Manifest| manifest.path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    place.manifests(1).iter().map(|manifest| format!("log/{}", name(manifest))).chain(named(place)).collect()
}

/// By the first of its key groups: bytes of the base of each subtask with state, and how many files it has.
fn sizes_by_subtask(manifest: &Manifest) -> BTreeMap<u64, [u64; 2]> {
    let operators = manifest.json["operators"].as_array().expect("operators");
    let mut sizes = BTreeMap::<u64, [u64; 2]>::new();
    for file in operators.iter().flat_map(|operator| operator["files"].as_array().expect("files")) {
        let [start, bytes] = [&file["groups"]["start"], &file["bytes"]].map(|number| number.as_u64().expect("a number"));
        let [base, files] = sizes.entry(start).or_default();
        *base += if file["base"] == true { bytes } else { 0 };
        *files += 1;
    }
    sizes
}

/// The state files that the kept checkpoints of the first run name.
fn named(place: &Place) -> BTreeSet<String> {
    place.manifests(1).iter().flat_map(Manifest::state_files).collect()
}

/// How often a job is killed: a number in `TEST_KILLS`, for whoever wants to try more or has less time.
fn kills() -> u64 {
    std::env::var("TEST_KILLS").map_or(200, |kills| kills.parse().expect("TEST_KILLS is a number"))
}

/// Checkpoints as fast as they can be, of which two are kept. Of five kills one comes at any time, and the others in the midst of an
/// upload, a commit, a merge and a deletion, each in turn.
#[test]
fn wherever_it_is_killed_the_newest_checkpoint_is_whole() {
    const RETAINED: usize = 2;
    let mut random = Random::new(91);
    let kills = kills();
    // More than is read until the last kill, however slow the machine is.
    let input = sums::input(&mut random, 0, 20_000 + kills * 10_000);
    let job = |rate: &str, threshold: &str| {
        let settings = format!(
            "interval = \"1ms\"\nnum-retained = {RETAINED}\nmemory-threshold = \"{threshold}\"\nmax-concurrent = 2\ndir = \"checkpoints\""
        );
        sums::job(&format!("type = \"file\"\npath = \"input.txt\"\n{rate}")).checkpoint(&settings)
    };
    let place = Place::new(&job("rate = 1000", "500B"));
    place.write_lines("input.txt", &input);
    let moments = Phase::ALL.map(Some).into_iter().chain([None]).cycle();
    for (kill, phase) in (1..=kills).zip(moments) {
        // The faster the machine, the less there is in a snapshot: where files are waited for, each is one.
        let needs_files = matches!(phase, Some(Phase::Upload | Phase::Merge | Phase::Deletion));
        place.set_job(&job("rate = 1000", if needs_files { "0B" } else { "500B" }));
        let newest = newest(&place);
        let mut running = place.start(&["-p", *random.pick(&["1", "2", "3"])]);
        running.wait_until("a checkpoint of its own", || place.newest(1) > newest);
        // Any moment, or the next one.
        let micros = random.below(20_000);
        std::thread::sleep(Duration::from_micros(micros));
        println!("kill {kill}: {phase:?}, {micros} us after a checkpoint or later");
        let ended = match phase {
            Some(phase) => running.kill_while(&format!("{phase:?}"), || place.is_under_way(phase, RETAINED)),
            None => running.kill(),
        };
        if kill > 1 {
            ended.says(&[&format!("resuming run 1 from checkpoint {newest} ")]);
        }
    }
    place.set_job(&job("", "500B"));
    let resuming = format!("resuming run 1 from checkpoint {} ", newest(&place));
    place.run(&["-p", "2"]).succeeds().says(&[&resuming]);
    sums::check(&place.lines("out"), &[input]);
    assert_eq!(everything(&place), needed(&place), "nothing else is left, nor half a file");
}

/// The newest checkpoint that is complete, as it is listed for people; 0 if there is none.
#[track_caller]
fn newest(place: &Place) -> u64 {
    if place.last_slot(1) == 0 {
        return 0;
    }
    let listed = place.cofferdam(&["checkpoints", "job.toml", "--output", "json"]).succeeds().json();
    assert_eq!(listed["broken"], serde_json::json!([]));
    let complete = listed["checkpoints"].as_array().expect("checkpoints").iter().filter(|one| one["state"] == "completed");
    complete.filter_map(|one| one["checkpoint"].as_u64()).max().unwrap_or(0)
}

/// Values, lists, maps and time to live; puts, appends and deletes.
fn job(checkpoint: &str, rate: &str) -> JobFile {
    JobFile::new("20ms")
        .checkpoint(checkpoint)
        .source("lines", &format!("type = \"file\"\npath = \"input.txt\"\n{rate}"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .operator("maps", "fixture-maps", &["pairs"], "")
        .file_sink("out", &["totals"])
        .file_sink("maps-out", &["maps"])
}

/// Runs the job in a bucket, stops it, and begins from each checkpoint that is kept in a place of its own: what comes out at the end has
/// to be the same from all of them.
fn each_restores(server: &Server, settings: &str, input: &[String]) -> Vec<Manifest> {
    let bucket = &server.bucket;
    let in_bucket = |prefix: &str| format!("{settings}\n{}", bucket.settings("20ms").replace("check/points", prefix));
    let place = Place::new(&job(&in_bucket("check/points"), "rate = 1000"));
    Bucket::give_credentials(&place);
    place.write_lines("input.txt", input);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("as many checkpoints as are kept", || bucket.manifests(1).len() >= 6);
    running.signal("INT");
    running.wait().ends_with(130);
    server.misbehaves(|_| None);
    let manifests = bucket.manifests(1);
    assert_eq!(manifests.len(), 6);
    for (manifest, parallelism) in manifests.iter().zip(["1", "2", "3"].into_iter().cycle()) {
        println!("from checkpoint {} with -p {parallelism}", manifest.checkpoint);
        let there = Place::new(&job(&in_bucket(&format!("from-{}", manifest.checkpoint)), ""));
        Bucket::give_credentials(&there);
        there.write_lines("input.txt", input);
        there.run(&["-s", manifest.path.to_str().expect("a URL"), "--allow-duplicates", "-p", parallelism]).succeeds();
        sums::check(&there.lines("out"), &[input.to_vec()]);
        assert_lines(maps::at_the_end(there.lines("maps-out")), maps::at_the_end(maps::oracle(input)), "maps");
    }
    manifests
}

#[test]
fn each_checkpoint_that_is_kept_restores_although_every_third_upload_was_made_to_fail() {
    const FAULTS: [Fault; 3] = [Fault::Refused(500), Fault::Cut, Fault::Refused(403)];
    let server = Server::start();
    let puts = AtomicUsize::new(0);
    server.misbehaves(move |request| {
        let number = (request.method == "PUT" && request.key.contains("/state/")).then(|| puts.fetch_add(1, SeqCst))?;
        (number % 3 == 2).then(|| FAULTS[number / 3 % FAULTS.len()])
    });
    let input = sums::input(&mut Random::new(92), 0, 12_000);
    let manifests = each_restores(&server, "num-retained = 6\ntolerable-failures = 1000000", &input);
    for fault in FAULTS {
        let count = server.faults().iter().filter(|told| told.starts_with(&format!("{fault:?} "))).count();
        assert!(count >= 2, "{fault:?} {count} times");
    }
    // The last one is not tried again by itself.
    let past = manifests.iter().filter_map(|manifest| manifest.json["history"].as_array()).flatten();
    let mut failed = past.filter(|past| past["state"] == "failed");
    assert!(failed.any(|past| past["reason"].as_str().is_some_and(|reason| reason.contains("403"))));
}

#[test]
fn checkpoints_that_overlap_restore_to_their_own_cuts() {
    let server = Server::start();
    server.misbehaves(|request| (request.method == "PUT").then_some(Fault::Slow));
    let input = sums::input(&mut Random::new(93), 0, 12_000);
    let manifests = each_restores(&server, "num-retained = 6\nmax-concurrent = 3", &input);
    let time = |manifest: &Manifest, field: &str| manifest.json[field].as_str().expect("a time").to_owned();
    let overlap = manifests.array_windows().filter(|[one, next]| time(next, "triggered") < time(one, "created")).count();
    assert!(overlap > 0);
}
