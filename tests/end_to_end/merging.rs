//! Merges of state files: in memory that does not grow with the state.

use crate::harness::s3::{Bucket, Server};
use crate::harness::{JobFile, Manifest, Place, Running};

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

/// State that would never fit into the memory that it may have, all of it in one file at the end, which others are merged into.
fn is_merged_in_little_memory(settings: &str, manifests: impl Fn(&Place) -> Vec<Manifest>) {
    let job = JobFile::new("1h")
        .checkpoint(&format!("incremental = false\ncompression = \"none\"\n{settings}"))
        .state("backend = \"disk\"\nmemory = \"8MiB\"")
        .source("lines", "type = \"file\"\npath = \"lines\"")
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("totals", "fixture-sum", &["pairs"], "limits = { time = \"1m\" }")
        .file_sink("out", &["totals"]);
    let place = Place::new(&job);
    Bucket::give_credentials(&place);
    place.write_lines("lines", (0..KEYS).map(|key| format!("{key:0KEY$},{key}")));
    let mut command = place.command(&["run", "job.toml"]);
    // What is freed counts as free at once, not when the allocator comes to it.
    command.env("MIMALLOC_PURGE_DELAY", "0");
    let mut running = Running::start(command);
    let peak = running.peak_until_the_end() >> 10;
    running.wait().succeeds();
    assert!(place.lines("out").iter().enumerate().all(|(key, line)| *line == format!("{key:0KEY$},1,{key},{key}")), "the sums are exact");
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
