//! Checkpoints that are not incremental: each holds all keyed state in files of its own.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::degraded::{give_back, take_away};
use crate::harness::{JobFile, Manifest, Place, Random, Running, assert_lines, until};
use crate::{maps, sums};

fn job(incremental: bool, rate: &str) -> JobFile {
    let source = format!("type = \"file\"\npath = \"input.txt\"\n{rate}");
    sums::job(&source).checkpoint(&format!("interval = \"10ms\"\nincremental = {incremental}\ndir = \"checkpoints\""))
}

/// Checks that a checkpoint has a file for each subtask of an operator, and each a part of the keys to itself.
#[track_caller]
fn is_whole(manifest: &Manifest) {
    for operator in manifest.json["operators"].as_array().expect("operators") {
        let files = operator["files"].as_array().expect("files");
        assert!(files.iter().all(|file| file["base"] == true), "{operator}");
        let range = |file: &Value| (file["groups"]["start"].as_u64(), file["groups"]["end"].as_u64());
        assert!(files.array_windows().all(|[one, next]| range(one).1 <= range(next).0), "{operator}");
        assert!(files.len() as u64 <= manifest.json["parallelism"].as_u64().expect("a number"), "{operator}");
    }
}

#[test]
fn each_holds_all_state_and_shares_no_file_with_another() {
    let input = sums::input(&mut Random::new(61), 0, 96_000);
    let place = Place::new(&job(false, "rate = 6000"));
    place.write_lines("input.txt", &input);
    for parallelism in ["2", "3", "1"] {
        let newest = place.newest(1);
        let mut running = place.start(&["-p", parallelism]);
        running.wait_until("some checkpoints with state", || {
            let manifests = place.manifests(1);
            let with_state = manifests.iter().filter(|manifest| manifest.checkpoint > newest && !manifest.state_files().is_empty());
            with_state.count() >= 3
        });
        running.kill();
        let manifests = place.manifests(1);
        manifests.iter().for_each(is_whole);
        let named: Vec<BTreeSet<String>> = manifests.iter().map(Manifest::state_files).collect();
        assert!(named.iter().any(|files| !files.is_empty()));
        assert!(named.array_windows().all(|[one, next]| one.is_disjoint(next)), "{named:?}");
    }
    // From incremental ones to full ones and back.
    place.set_job(&job(true, "rate = 6000"));
    let newest = place.newest(1);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("incremental checkpoints", || place.newest(1) >= newest + 4);
    running.kill();
    place.set_job(&job(false, ""));
    place.run(&["-p", "2"]).succeeds();
    sums::check(&place.lines("out"), &[input]);
    let manifests = place.manifests(1);
    is_whole(manifests.last().expect("the last checkpoint"));
    assert_eq!(place.state_files(1), manifests.iter().flat_map(Manifest::state_files).collect(), "nothing else is left");
}

#[test]
fn what_could_not_be_merged_is_merged_when_the_storage_is_back() {
    let input = sums::input(&mut Random::new(62), 0, 60_000);
    let settings = "interval = \"10ms\"\nincremental = false\ntolerable-failures = 1000\ndir = \"checkpoints\"";
    let job = |rate: &str| maps::job(&format!("type = \"file\"\npath = \"input.txt\"\n{rate}")).checkpoint(settings);
    let place = Place::new(&job("rate = 500"));
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2"]);
    let told = |running: &Running, what: &str| running.stderr().matches(what).count();
    for _ in 0..3 {
        let newest = place.newest(1);
        running.wait_until("some checkpoints", || place.newest(1) >= newest + 3);
        let [degraded, healthy] = ["degraded: checkpoint ", "healthy again: checkpoint "].map(|what| (what, told(&running, what)));
        take_away(&place, &running);
        // There may be several before anybody looks.
        until("a failure", || (told(&running, degraded.0) > degraded.1).then_some(()));
        give_back(&place, &running);
        until("a checkpoint after it", || (told(&running, healthy.0) > healthy.1).then_some(()));
    }
    running.signal("INT");
    running.wait().ends_with(130);
    place.set_job(&job(""));
    place.run(&["-p", "2"]).succeeds();
    assert_lines(place.lines("out"), maps::oracle(&input), "through failures");
    is_whole(place.manifests(1).last().expect("the last checkpoint"));
}
