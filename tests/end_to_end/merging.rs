//! Merges of state files: in memory that does not grow with the state, at the rate that they are given, and never in a job's way.

use crate::harness::s3::{Bucket, Server};
use crate::harness::{JobFile, Manifest, Place, Running};
use crate::sums;

/// The files of the operator with state, as a manifest names them.
fn files(manifest: &Manifest) -> Vec<(String, u64)> {
    let operators = manifest.json["operators"].as_array().expect("operators");
    let totals = operators.iter().find(|operator| operator["uid"] == "totals").expect("the operator");
    let file = |file: &serde_json::Value| (file["path"].as_str().expect("a path").to_owned(), file["bytes"].as_u64().expect("a number"));
    totals["files"].as_array().expect("files").iter().map(file).collect()
}

fn is_merged((path, _): &(String, u64)) -> bool {
    path.contains(".merged.")
}

/// Keys, and the bytes of each, which stands in three states.
const KEYS: usize = 80_000;
const KEY: usize = 1000;

/// A job with state of all of them, on disk.
fn large(settings: &str, inputs: &[&str]) -> JobFile {
    JobFile::new("1h")
        .checkpoint(&format!("compression = \"none\"\n{settings}"))
        .state("backend = \"disk\"\nmemory = \"8MiB\"")
        .source("lines", "type = \"file\"\npath = \"lines\"")
        .operator("pairs", "fixture-pairs", inputs, "")
        .operator("totals", "fixture-sum", &["pairs"], "limits = { time = \"1m\" }")
        .file_sink("out", &["totals"])
}

fn lines() -> impl Iterator<Item = String> {
    (0..KEYS).map(|key| format!("{key:0KEY$},{key}"))
}

/// Runs the job to its end, and returns how many MiB it has taken at most.
fn peak_of_a_run(place: &Place) -> u64 {
    let mut command = place.command(&["run", "job.toml"]);
    // What is freed counts as free at once, not when the allocator comes to it.
    command.env("MIMALLOC_PURGE_DELAY", "0");
    let mut running = Running::start(command);
    let peak = running.peak_until_the_end() >> 10;
    running.wait().succeeds();
    peak
}

fn assert_sums(place: &Place) {
    assert!(place.lines("out").iter().enumerate().all(|(key, line)| *line == format!("{key:0KEY$},1,{key},{key}")), "the sums are exact");
}

/// State that would never fit into the memory that it may have, all of it in one file at the end, which others are merged into.
fn is_merged_in_little_memory(settings: &str, manifests: impl Fn(&Place) -> Vec<Manifest>) {
    let place = Place::new(&large(&format!("incremental = false\n{settings}"), &["lines"]));
    Bucket::give_credentials(&place);
    place.write_lines("lines", lines());
    let peak = peak_of_a_run(&place);
    assert_sums(&place);
    let last = files(&manifests(&place).pop().expect("the last checkpoint"));
    let [file] = last.as_slice() else { panic!("{last:?}") };
    let bytes = file.1 >> 20;
    println!("a file of {bytes} MiB is merged within {peak} MiB");
    assert!(is_merged(file) && bytes >= 200, "{file:?}");
    assert!(peak < bytes, "{peak} MiB for a file of {bytes} MiB");
}

#[test]
fn a_merge_on_disk_takes_little_memory_however_much_it_merges() {
    is_merged_in_little_memory("dir = \"checkpoints\"\nlocal-recovery = true", |place| place.manifests(1));
}

#[test]
fn a_merge_in_a_bucket_takes_little_memory_however_much_it_merges() {
    let server = Server::start();
    is_merged_in_little_memory(&server.bucket.settings("1h"), |_| server.bucket.manifests(1));
    assert_eq!(server.open_uploads(), 0, "every upload is ended");
}

#[test]
fn a_restore_from_a_bucket_takes_little_memory_however_much_it_reads() {
    let server = Server::start();
    let bucket = &server.bucket;
    // What comes slowly keeps the job from its end.
    let job = |rate: &str| {
        let more = format!("type = \"file\"\npath = \"more\"\n{rate}");
        large(&bucket.settings("1s"), &["lines", "more"]).source("more", &more)
    };
    let place = Place::new(&job("rate = 1"));
    Bucket::give_credentials(&place);
    place.write_lines("lines", lines());
    place.write_lines("more", (KEYS..KEYS + 600).map(|key| format!("{key:0KEY$},{key}")));
    let bytes = || bucket.manifests(1).pop().map_or(0, |newest| files(&newest).iter().map(|file| file.1).sum::<u64>() >> 20);
    let mut running = place.start(&[]);
    running.wait_until("all of it in a checkpoint", || bytes() >= 200);
    running.signal("INT");
    running.wait().ends_with(130);
    let bytes = bytes();
    place.set_job(&job(""));
    let peak = peak_of_a_run(&place);
    println!("{bytes} MiB are restored within {peak} MiB");
    assert!(peak < bytes, "{peak} MiB for {bytes} MiB");
    assert_sums(&place);
}

#[test]
fn merges_keep_to_their_rate_and_nothing_waits_for_them() {
    let job = |merge_rate: &str, rate: &str| {
        let settings = format!("interval = \"100ms\"\ndir = \"checkpoints\"\ncompression = \"none\"\n{merge_rate}");
        sums::job(&format!("type = \"file\"\npath = \"lines\"\n{rate}")).checkpoint(&settings)
    };
    let newest = |place: &Place| place.manifests(1).pop().map(|newest| files(&newest)).unwrap_or_default();
    // A merge of as many files as make one due takes minutes: each has half a megabyte.
    let place = Place::new(&job("merge-rate = \"64KiB\"", "rate = 2000"));
    let input: Vec<String> = (0..60_000).map(|number| format!("{:0KEY$},{number}", number * 7 % 3000)).collect();
    place.write_lines("lines", &input);
    let mut running = place.start(&["-p", "1"]);
    running.wait_until("more files than are merged", || newest(&place).len() >= 20);
    running.signal("INT");
    running.wait().ends_with(130);
    let left = newest(&place);
    assert!(left.len() >= 20 && !left.iter().any(is_merged), "{left:?}");
    assert_eq!(place.state_files(1), place.manifests(1).iter().flat_map(Manifest::state_files).collect(), "nothing else is left");

    // At a rate like the usual one what has been left undone is made up for.
    place.set_job(&job("", "rate = 2000"));
    let mut running = place.start(&["-p", "1"]);
    running.wait_until("few files", || newest(&place).len() < 20 && newest(&place).iter().any(is_merged));
    running.kill();
    place.set_job(&job("", ""));
    place.run(&["-p", "2"]).succeeds();
    sums::check(&place.lines("out"), &[input]);
}
