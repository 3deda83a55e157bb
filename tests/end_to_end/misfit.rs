//! A checkpoint and a job that no longer fit each other: refused before anything is touched, naming both sides.

use std::fs;

use crate::broken_job::refused;
use crate::harness::{JobFile, Manifest, Place, Random};
use crate::sums;

const SOURCE: &str = "type = \"file\"\npath = \"input.txt\"\n";

/// The sums job, stopped with state; from now on without a limit of its rate.
fn stopped() -> (Place, Vec<String>) {
    let input = sums::input(&mut Random::new(12), 0, 5000);
    let place = Place::new(&sums::job(&format!("{SOURCE}rate = 3000")));
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("a checkpoint with state", || place.manifests(1).iter().any(|manifest| !manifest.state_files().is_empty()));
    running.signal("INT");
    running.wait().ends_with(130);
    place.set_job(&sums::job(SOURCE));
    (place, input)
}

/// Writes a manifest with something replaced, sealed anew as its writer would.
pub fn rewrite(manifest: &Manifest, old: &str, new: &str) {
    let text = fs::read_to_string(&manifest.path).unwrap();
    let (body, _) = text.rsplit_once(",\n  \"crc32c\"").unwrap();
    assert!(body.contains(old), "{old:?} is not in {body}");
    let body = body.replacen(old, new, 1);
    let checksum = crc32c::crc32c(body.as_bytes());
    fs::write(&manifest.path, format!("{body},\n  \"crc32c\": \"{checksum:08x}\"\n}}\n")).unwrap();
}

#[test]
fn a_component_that_declares_other_state_is_refused() {
    let (place, input) = stopped();
    let other = JobFile::new("40ms")
        .source("lines", SOURCE)
        .operator("pairs", "word-count-tokenize", &["lines"], "")
        .operator("totals", "word-count-count", &["pairs"], "")
        .sink("out", &["totals"], "type = \"blackhole\"");
    place.set_job(&other);
    let words = ["operator `totals`: state `count` is in the checkpoint", "no longer declares it", "--fresh"];
    refused(&place, &[], 5, "checkpoint", &words);
    place.set_job(&sums::job(SOURCE));
    place.run(&[]).succeeds();
    sums::check(&place.lines("out"), &[input]);
}

/// As if the component that wrote the checkpoint had declared something else: then the one of the job is the one that differs.
#[test]
fn state_of_another_kind_or_schema_or_version_is_refused() {
    let state = "\"name\": \"sum\",\n          \"kind\": \"reducing\",\n          \"schema\": \"postcard:u64\",\n          \"version\": 1";
    for (old, new, words) in [
        ("reducing", "list", ["state `sum` is of kind list in the checkpoint and reducing", "--fresh"]),
        ("postcard:u64", "postcard:i64", ["has schema postcard:i64 (version 1) in the checkpoint and postcard:u64 (version 1)", "--fresh"]),
        (
            "\"version\": 1",
            "\"version\": 1,\n          \"ttl\": { \"ms\": 5, \"from\": \"write\" }",
            ["state `sum` has a time to live in the checkpoint and no time to live in the component", "--fresh"],
        ),
        ("\"version\": 1", "\"version\": 2", ["has schema postcard:u64 (version 2) in the checkpoint", "and postcard:u64 (version 1)"]),
    ] {
        let (place, _) = stopped();
        let newest = place.manifests(1).pop().unwrap();
        rewrite(&newest, state, &state.replace(old, new));
        refused(&place, &[], 5, "checkpoint", &["operator `totals`", words[0], words[1]]);
    }
}

#[test]
fn a_manifest_of_a_newer_version_is_refused() {
    let (place, _) = stopped();
    rewrite(&place.manifests(1).pop().unwrap(), "\"format\": 1", "\"format\": 9");
    refused(&place, &[], 5, "checkpoint", &["written by a newer Cofferdam: format 9"]);
}

#[test]
fn what_the_job_no_longer_has_is_named() {
    let (place, _) = stopped();
    let text = sums::job(SOURCE).text();
    for (old, new, words) in [
        ("\"totals\"", "\"sums\"", "what belongs to operator `totals`, which the job no longer has"),
        ("\"lines\"", "\"rows\"", "what belongs to source `lines`, which the job no longer has"),
    ] {
        place.write("job.toml", text.replace(old, new));
        refused(&place, &[], 5, "checkpoint", &[words, "--allow-non-restored-state"]);
    }
}

#[test]
fn a_source_that_has_lost_a_file_is_refused() {
    let (place, input) = stopped();
    fs::rename(place.path("input.txt"), place.path("renamed.txt")).unwrap();
    place.set_job(&sums::job(&SOURCE.replace("input.txt", "renamed.txt")));
    refused(&place, &[], 5, "checkpoint", &["source `lines`: split `input.txt` was read up to record ", " and is gone"]);
    // Shorter than what was read of it: it is not the same file any more.
    place.set_job(&sums::job(SOURCE));
    place.write("input.txt", "key-1,1\n");
    let newest = place.newest(1);
    place.run(&[]).ends_with(5).says(&["source `lines`", "input.txt"]);
    assert_eq!(place.newest(1), newest, "nothing was committed");
    fs::rename(place.path("renamed.txt"), place.path("input.txt")).unwrap();
    place.run(&[]).succeeds();
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn another_max_parallelism_is_refused() {
    let (place, input) = stopped();
    place.set_job(&sums::job(SOURCE).job("max-parallelism = 64"));
    refused(&place, &[], 5, "checkpoint", &["was taken with max-parallelism 128, the job has 64", "--fresh"]);
    place.set_job(&sums::job(SOURCE));
    // The highest parallelism that the key groups allow.
    place.run(&["-p", "128"]).succeeds();
    sums::check(&place.lines("out"), &[input]);
}
