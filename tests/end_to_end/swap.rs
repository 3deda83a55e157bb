//! Swaps: a component takes an operator over while the job runs under load. What comes out is compared number by number, with the component
//! that has worked on it.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::evolve;
use crate::harness::{Host, JobFile, Manifest, Place, Random, Running, assert_lines, guest, until};
use crate::operator_state;
use crate::ports;
use crate::sums;

const LINES: u64 = 60_000;
/// What version 2 can exceed, and version 1 does not.
const LIMITS: &str = "{ time = \"1s\", memory = \"16MiB\", emitted = \"2MiB\" }";
const GOOD: &str = "config = { bad = 1000000000, how = \"panic\" }";

/// Lines `key,number` are told by version 1 of `tally`; version 2 does the same until it fails.
fn job(rate: &str, settings: &str) -> JobFile {
    job_in("exactly-once", rate, settings)
}

fn job_in(mode: &str, rate: &str, settings: &str) -> JobFile {
    JobFile::new("40ms")
        .checkpoint(&format!("interval = \"40ms\"\ndir = \"checkpoints\"\nnum-retained = 10000\nmode = \"{mode}\""))
        .source("lines", &format!("type = \"file\"\npath = \"input.txt\"\n{rate}"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("tally", "fixture-tally-v1", &["pairs"], settings)
        .file_sink("out", &["tally"])
}

fn place(seed: u64, job: &JobFile) -> (Place, Vec<String>) {
    let input = sums::input(&mut Random::new(seed), 0, LINES);
    let place = Place::new(job);
    place.write_lines("input.txt", &input);
    (place, input)
}

/// A host that runs the job, which has put out some lines.
fn host<'a>(place: &'a Place, parallelism: &str) -> Host<'a> {
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", parallelism]).succeeds();
    host.running().wait_until("some output", || place.lines("out").len() > 1000);
    host
}

/// The arguments of a swap.
pub fn swap<'a>(operator: &'a str, component: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["swap", "job", operator, component], more].concat()
}

pub fn file(component: &str) -> String {
    guest(component).to_string_lossy().into_owned()
}

/// What each number must be told with, without the version, which follows after the last comma.
fn oracle(input: &[String]) -> Vec<String> {
    let mut seen = BTreeMap::<String, (u64, String)>::new();
    let told = |line: &String| {
        let (key, number) = line.split_once(',').expect("a pair");
        let (count, last) = seen.entry(key.into()).or_insert((0, "-".into()));
        *count += 1;
        let last = std::mem::replace(last, number.into());
        format!("{number},{key},{count},{last}")
    };
    input.iter().map(told).collect()
}

/// Checks that each number was told once and right. Returns for each, in order, the version that has told it.
#[track_caller]
fn versions(place: &Place, input: &[String], case: &str) -> Vec<String> {
    versions_in(&place.lines("out"), input, case)
}

/// The same of lines that are not in one place.
#[track_caller]
fn versions_in(lines: &[String], input: &[String], case: &str) -> Vec<String> {
    let split: Vec<(&str, &str)> = lines.iter().map(|line| line.rsplit_once(',').expect("a version")).collect();
    assert_lines(split.iter().map(|(told, _)| (*told).to_owned()), oracle(input), case);
    let number = |told: &str| told.split(',').next().and_then(|number| number.parse::<u64>().ok()).expect("a number");
    let by_number: BTreeMap<u64, &str> = split.iter().map(|(told, version)| (number(told), *version)).collect();
    by_number.into_values().map(str::to_owned).collect()
}

fn manifest(place: &Place, checkpoint: &Value) -> Manifest {
    place.manifests(1).into_iter().find(|manifest| *checkpoint == manifest.checkpoint).expect("the checkpoint")
}

/// How many lines had been read in a checkpoint.
fn position(place: &Place, checkpoint: &Value) -> usize {
    manifest(place, checkpoint).json["sources"][0]["splits"][0]["records"].as_u64().expect("a number") as usize
}

/// The digest of an operator's component in the newest checkpoint.
fn newest_digest(place: &Place, operator: &str) -> Value {
    let newest = place.manifests(1).pop().expect("a checkpoint");
    let operators = newest.json["operators"].as_array().expect("operators").clone();
    operators.iter().find(|other| other["uid"] == operator).expect("the operator")["component"]["digest"].clone()
}

/// The digest of what the job runs in an operator, as the host tells it.
pub fn runs(host: &Host<'_>, operator: &str) -> Value {
    let components = host.describe("job")["components"].as_array().expect("components").clone();
    components.iter().find(|other| other["operator"] == operator).expect("the operator")["digest"].clone()
}

/// What an operator has counted itself, as the host tells it.
fn own_metrics(host: &Host<'_>, operator: &str) -> Value {
    let nodes = host.describe("job")["nodes"].as_array().expect("nodes").clone();
    nodes.into_iter().find(|node| node["uid"] == operator).expect("the operator")
}

/// The rest of the job, without a limit of its rate.
fn finish(host: &Host<'_>, place: &Place, job: &JobFile) {
    host.json(&["stop", "job"]);
    place.set_job(job);
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "FINISHED");
}

/// Waits until something is told of the job, and returns what.
pub fn told(host: &Host<'_>, event: &str) -> String {
    until(&format!("{event} of the job"), || {
        let (_, answer) = host.http("GET", "/v1/jobs/job/events", "");
        let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        let found = answer["events"].as_array().expect("events").iter().find(|other| other["event"] == event).cloned();
        found.map(|found| found["text"].as_str().expect("a text").to_owned())
    })
}

fn is_over(host: &Host<'_>) -> bool {
    host.describe("job")["swap"].is_null()
}

#[test]
fn a_component_takes_over_at_a_barrier_and_stays() {
    for (seed, mode, way_back) in [(61, "exactly-once", "forward"), (62, "exactly-once", "rewind"), (63, "at-least-once", "rewind")] {
        let (place, input) = place(seed, &job_in(mode, "rate = 3000", GOOD));
        let host = host(&place, "2");
        let old = runs(&host, "tally");
        let component = file("fixture-tally-v2");
        let report = host.json(&swap("tally", &component, &["--way-back", way_back, "--probation", "200ms"]));
        assert!(report["states"].as_array().unwrap().iter().all(|state| state["fate"] == "same"), "{report}");
        assert_eq!((&report["outcome"], &report["from"]["digest"]), (&"swapped".into(), &old), "{report}");
        assert_eq!(report["subtasks-us"].as_array().unwrap().len(), 2, "{report}");
        assert!(report["lull-us"].is_u64(), "{report}");
        assert_eq!(report["new-outputs"], json!(["seen"]), "{report}");
        host.wait_until("job", "the end of the probation", |details| details["swap"].is_null());
        assert_eq!(runs(&host, "tally"), report["to"]["digest"]);
        let counted = own_metrics(&host, "tally");
        assert_eq!(counted["counters"], json!({}), "version 1 had a counter: {counted}");
        assert_eq!(counted["gauges"]["numbers"].as_array().map(Vec::len), Some(2), "{counted}");
        // The same once more is nothing to do.
        assert_eq!(host.json(&swap("tally", &component, &[]))["outcome"], "unchanged");

        let first = place.manifests(1).into_iter().find(|manifest| report["checkpoint"] == manifest.checkpoint).unwrap();
        let digests = [&first.json["operators"][1]["component"]["digest"], &newest_digest(&place, "tally")].map(Clone::clone);
        assert_eq!(digests, [old, report["to"]["digest"].clone()], "the first checkpoint names the old component, later ones the new");
        assert_eq!(first.json["trigger"], "swap");
        let end = position(&place, &report["checkpoint"]);
        finish(&host, &place, &job_in(mode, "", GOOD));
        let versions = versions(&place, &input, way_back);
        let stopped = versions.iter().rposition(|version| version == "v2").expect("version 2 has worked") + 1;
        assert!(versions[..end].iter().all(|version| version == "v1") && versions[end..stopped].iter().all(|version| version == "v2"));
        assert_eq!(host.describe("job")["attempt"], 2, "one attempt until it was stopped, and one after that");
    }
}

#[test]
fn a_component_that_fails_is_taken_back_where_it_is() {
    is_taken_back_where_it_is(64, "panic", [": record 0x", "panicked: 90"]);
    is_taken_back_where_it_is(65, "trap", [": record 0x", "trapped: "]);
    is_taken_back_where_it_is(66, "error", [": record 0x", "rejected a record: 90"]);
}

#[test]
fn a_component_that_exceeds_a_limit_is_taken_back_where_it_is() {
    // Which record it was is not looked for where each try would take its time.
    is_taken_back_where_it_is(84, "loop", ["operator `tally`, subtask ", "ran longer than its time limit of 1s (limits.time)"]);
    is_taken_back_where_it_is(85, "allocate", [": record 0x", "used more than its memory limit of 16 MiB (limits.memory)"]);
    is_taken_back_where_it_is(86, "emit", [": record 0x", "emitted more in one call than its limit of 2 MiB (limits.emitted)"]);
}

fn is_taken_back_where_it_is(seed: u64, how: &str, reasons: [&str; 2]) {
    let settings = format!("config = {{ bad = 9000, how = {how:?} }}\nlimits = {LIMITS}");
    let (place, input) = place(seed, &job("rate = 1000", &settings));
    let mut host = host(&place, "2");
    let old = runs(&host, "tally");
    let report = host.json(&swap("tally", &file("fixture-tally-v2"), &[]));
    assert_eq!(report["outcome"], "swapped");
    let told = told(&host, "taken-back");
    let goes_on = "operator `tally` goes on with the component that it had instead of `tally` 0.1.0 (";
    assert!(told.starts_with(goes_on) && reasons.iter().all(|reason| told.contains(reason)), "{reasons:?} are missing in {told}");
    host.wait_until("job", "the end of the swap", |details| details["swap"].is_null() && details["swaps"]["taken-back"] == 1);
    assert_eq!(runs(&host, "tally"), old);
    let newest = place.newest(1);
    host.running().wait_until("a checkpoint", || place.newest(1) > newest + 1);
    assert_eq!(newest_digest(&place, "tally"), old);
    let details = host.describe("job");
    assert_eq!((&details["attempt"], &details["state"]), (&1.into(), &"RUNNING".into()), "nothing was begun again: {details}");
    let end = position(&place, &report["checkpoint"]);
    finish(&host, &place, &job("", &settings));
    let versions = versions(&place, &input, how);
    assert!(versions[..end].iter().all(|version| version == "v1"));
    assert!(versions[end..end + 1000].iter().all(|version| version == "v2"));
    assert!(versions[9000..].iter().all(|version| version == "v1"), "it has failed on the first of these");
}

#[test]
fn a_component_that_fails_is_taken_back_to_the_checkpoint_before_it() {
    for (seed, how, reason) in [(67, "trap", "trapped: "), (87, "loop", "ran longer than its time limit of 1s (limits.time)")] {
        let settings = format!("config = {{ bad = 9000, how = {how:?} }}\nlimits = {LIMITS}");
        let (place, input) = place(seed, &job("rate = 1500", &settings));
        let host = host(&place, "2");
        let old = runs(&host, "tally");
        let report = host.json(&swap("tally", &file("fixture-tally-v2"), &["--way-back", "rewind"]));
        let end = position(&place, &report["checkpoint"]);
        let told = told(&host, "taken-back");
        assert!(told.contains(": record 0x") && told.contains(reason), "{told}");
        host.wait_until("job", "another attempt", |details| details["attempt"] == 2 && details["state"] == "RUNNING");
        let details = host.describe("job");
        assert_eq!((&details["restored-from"], runs(&host, "tally")), (&report["checkpoint"], old), "{details}");
        assert!(is_over(&host));
        finish(&host, &place, &job("", &settings));
        assert!(end < 9000 && versions(&place, &input, how).iter().all(|version| version == "v1"), "nothing of version 2 was published");
    }
}

#[test]
fn a_component_on_probation_is_taken_back_by_a_host_that_was_killed_meanwhile() {
    let settings = "config = { bad = 12000, how = \"panic\" }";
    let (place, input) = place(74, &job("rate = 1500", settings));
    let mut host = host(&place, "2");
    let old = runs(&host, "tally");
    let report = host.json(&swap("tally", &file("fixture-tally-v2"), &["--probation", "1h"]));
    host.kill();
    let newest = place.newest(1);
    host = place.host();
    host.wait_for("job", "RUNNING");
    assert_eq!((runs(&host, "tally"), newest_digest(&place, "tally")), (report["to"]["digest"].clone(), report["to"]["digest"].clone()));
    told(&host, "taken-back");
    host.wait_until("job", "the end of the swap", |details| details["swap"].is_null());
    assert_eq!(runs(&host, "tally"), old);
    // That is told for good.
    let failed = host.describe("job")["taken-back"].clone();
    assert_eq!(failed["component"]["digest"], report["to"]["digest"], "{failed}");
    host.kill();
    host = place.host();
    host.wait_for("job", "RUNNING");
    assert_eq!(host.describe("job")["taken-back"], failed);
    let later = place.manifests(1).into_iter().filter(|manifest| manifest.checkpoint > newest);
    assert!(later.map(|manifest| manifest.json["trigger"].clone()).all(|trigger| trigger != "swap"), "nothing was swapped again");
    finish(&host, &place, &job("", settings));
    let versions = versions(&place, &input, "killed on probation");
    let end = position(&place, &report["checkpoint"]);
    assert!(versions[end..end + 1000].iter().all(|version| version == "v2") && versions[12_000..].iter().all(|version| version == "v1"));
}

#[test]
fn with_rewind_nothing_is_published_until_the_probation_is_over() {
    let (place, input) = place(68, &job("rate = 3000", GOOD));
    let host = host(&place, "1");
    let report = host.json(&swap("tally", &file("fixture-tally-v2"), &["--way-back", "rewind", "--probation", "1h"]));
    let end = position(&place, &report["checkpoint"]);
    host.wait_until("job", "many records more", |details| details["records-in"].as_u64() > Some(end as u64 + 3000));
    assert_eq!((place.lines("out").len(), &report["checkpoint"]), (end, &place.newest(1).into()));
    let component = file("fixture-tally-v1");
    host.cofferdam(&swap("pairs", &component, &[])).ends_with(10).says(&["the swap of operator `tally` is not over"]);
    assert_eq!(host.json(&swap("tally", &file("fixture-tally-v2"), &[]))["outcome"], "swapped", "as if the answer had been lost");
    // A stop is the end of the probation: what has not failed until then stays.
    finish(&host, &place, &job("", GOOD));
    let versions = versions(&place, &input, "rewind");
    assert!(versions[..end].iter().all(|version| version == "v1") && versions[end..end + 3000].iter().all(|version| version == "v2"));
}

#[test]
fn a_component_that_rejects_more_records_than_the_old_one_is_taken_back() {
    let settings = "config = { bad = 6000, how = \"error\" }\non-error = \"dead-letter\"";
    let job = |rate: &str, settings: &str| job(rate, settings).file_sink("letters", &["tally.dead-letter"]);
    for (seed, more, way_back, words, lost) in [
        (69, "", "forward", " records have failed, and 0 of ", 10..3000),
        (80, "max-errors = 2", "forward", "more than 2 records have failed within a minute", 3..3000),
        (81, "max-errors = 2", "rewind", "more than 2 records have failed within a minute", 0..1),
    ] {
        let settings = format!("{settings}\n{more}");
        let (place, input) = place(seed, &job("rate = 1000", &settings));
        let host = host(&place, "2");
        host.json(&swap("tally", &file("fixture-tally-v2"), &["--way-back", way_back]));
        let told = told(&host, "taken-back");
        assert!(told.contains(words) && told.contains("which rejected a record: "), "{words:?} is missing in {told}");
        host.wait_until("job", "the end of the swap", |details| details["swap"].is_null() && details["state"] == "RUNNING");
        finish(&host, &place, &job("", &settings));
        let failed = input.len() as u64 - place.lines("out").len() as u64;
        assert!(lost.contains(&failed), "some records are lost to the component, and not all: {failed}");
        let letters = place.lines("letters");
        assert_eq!(letters.iter().filter(|letter| letter.contains(" is not for me")).count() as u64, failed, "{letters:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_stops() {
    let (place, input) = place(70, &job("rate = 3000", ""));
    let mut host = host(&place, "2");
    let old = runs(&host, "tally");
    for (operator, component, code, words) in [
        ("tally", "fixture-pairs", 4, "the component that runs has the inputs `numbers`, the new one `lines`"),
        ("tally", "fixture-maps", 4, "state `count` is there, but the new component does not declare it"),
        ("tally", "fixture-sum", 4, "state `count` is of kind reducing in the component that runs and value in the new one"),
        // It wants a `config`, which the job file does not have.
        ("tally", "fixture-tally-v2", 4, "opening the new component: failed: "),
        ("lines", "fixture-tally-v2", 9, "the job has no operator `lines`"),
        ("nobody", "fixture-tally-v2", 9, "the job has no operator `nobody`"),
    ] {
        for more in [&["--dry-run"][..], &[]] {
            host.cofferdam(&swap(operator, &file(component), more)).ends_with(code).says(&[words]);
        }
    }
    assert!(is_over(&host) && runs(&host, "tally") == old);
    let newest = place.newest(1);
    host.running().wait_until("a checkpoint", || place.newest(1) > newest);
    assert!(place.manifests(1).iter().all(|manifest| manifest.json["trigger"] == "interval"));
    assert_eq!(host.describe("job")["attempt"], 1);
    finish(&host, &place, &job("", ""));
    assert!(versions(&place, &input, "refused").iter().all(|version| version == "v1"));
}

#[test]
fn on_disk_a_component_takes_over_what_it_reads_as_it_is() {
    let on_disk = |job: JobFile| job.state("backend = \"disk\"\nmemory = \"64KiB\"");
    let (place, input) = place(82, &on_disk(job("rate = 1500", GOOD)));
    let host = host(&place, "2");
    let report = host.json(&swap("tally", &file("fixture-tally-v2"), &["--probation", "200ms"]));
    host.wait_until("job", "the end of the probation", |details| details["swap"].is_null());
    let end = position(&place, &report["checkpoint"]);
    finish(&host, &place, &on_disk(job("", GOOD)));
    let versions = versions(&place, &input, "on disk");
    assert!(versions[..end].iter().all(|version| version == "v1") && versions[end] == "v2");
}

#[test]
fn state_goes_from_version_to_version_and_back_while_the_job_runs() {
    state_goes_from_version_to_version_and_back(71, "", "");
}

#[test]
fn state_goes_from_version_to_version_and_back_however_checkpoints_are_kept() {
    let settings = "incremental = false\nmemory-threshold = \"20KiB\"\nlocal-recovery = true\nlocal-recovery-dir = \"local\"";
    state_goes_from_version_to_version_and_back(79, settings, "");
}

#[test]
fn state_on_disk_goes_from_version_to_version_and_back_while_the_job_runs() {
    state_goes_from_version_to_version_and_back(83, "", "backend = \"disk\"\nmemory = \"64KiB\"");
}

fn state_goes_from_version_to_version_and_back(seed: u64, settings: &str, state: &str) {
    let input = sums::input(&mut Random::new(seed), 0, LINES);
    let settings = format!("interval = \"40ms\"\ndir = \"checkpoints\"\nnum-retained = 10000\n{settings}");
    let slow = evolve::job("v1", ["rate = 1000", "rate = 50"]).checkpoint(&settings).state(state);
    let place = Place::new(&slow);
    place.write_lines("input.txt", &input);
    place.write_lines("rules.txt", evolve::rules());
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    let mut ends = vec![];
    let some_more = |host: &mut Host<'_>| {
        let newest = place.newest(1);
        host.running().wait_until("checkpoints", || place.newest(1) > newest + 10);
    };
    let mut to = |host: &mut Host<'_>, from: &'static str, version: &str, more: &[&str]| {
        some_more(host);
        let report = host.json(&swap("evolve", &file(&format!("fixture-evolve-{version}")), more));
        let fates = report["states"].as_array().unwrap().iter().all(|state| state["fate"] == "migrated");
        assert!(fates && report["outcome"] == "swapped", "{report}");
        host.wait_until("job", "the end of the probation", |details| details["swap"].is_null());
        ends.push((from, evolve::position_in(&manifest(&place, &report["checkpoint"]))));
    };
    // What it makes of the state, the old one can't read.
    let words = ["the old component could not go on where the new one fails, because state `seen` is not the same", "--way-back rewind"];
    let refused = |host: &Host<'_>, version: &str, code: i32, words: &[&str]| {
        host.cofferdam(&swap("evolve", &file(&format!("fixture-evolve-{version}")), &[])).ends_with(code).says(words);
    };
    refused(&host, "v2", 4, &words);
    to(&mut host, "v1", "v2", &["--probation", "0s"]);
    to(&mut host, "v2", "v3", &["--way-back", "rewind", "--probation", "100ms"]);
    refused(&host, "v2", 4, &["(version 2) in the new one: field `sum`: i64 → u64", "has no migration for it"]);
    to(&mut host, "v3", "v2-back", &["--way-back", "rewind", "--probation", "100ms"]);
    to(&mut host, "v2-back", "v3", &["--probation", "0s"]);
    some_more(&mut host);
    assert_eq!(host.describe("job")["attempt"], 1);
    finish(&host, &place, &evolve::job("v3", evolve::FAST).checkpoint(&settings).state(state));
    ends.push(("v3", [input.len(), evolve::rules().len()]));
    evolve::check(&place.lines("out"), &input, &ends);
}

#[test]
fn how_far_a_migration_has_come_is_told() {
    const KEYS: u64 = 20_000;
    let input: Vec<String> = (0..6 * KEYS).map(|number| format!("key-{},{number}", number % KEYS)).collect();
    let place = Place::new(&job("rate = 8000", ""));
    place.write_lines("input.txt", &input);
    let mut host = host(&place, "2");
    host.running().wait_until("all keys", || place.lines("out").len() as u64 > KEYS);
    assert!(host.describe("job")["migration"].is_null());
    let component = file("fixture-tally-v3");
    let mut command = host.start(&swap("tally", &component, &["--way-back", "rewind", "--probation", "100ms", "--output", "json"]));
    let mut told_of = Value::Null;
    command.wait_until("a migration is told of", || {
        told_of = host.describe("job")["migration"].clone();
        !told_of.is_null()
    });
    let [values, of] = ["values", "of"].map(|name| told_of[name].as_u64().expect("a number"));
    assert!(values <= of && (1..=KEYS).contains(&of), "{told_of}");
    let report = command.wait().succeeds().json();
    assert_eq!((&report["outcome"], &report["migrated"]), (&"swapped".into(), &KEYS.into()), "{report}");
    assert!(told(&host, "swapped").contains("; 20000 values were migrated; on probation for 100ms"));
    host.wait_until("job", "the end of the probation", |details| details["swap"].is_null() && details["migration"].is_null());
    let end = position(&place, &report["checkpoint"]);
    host.wait_for("job", "FINISHED");
    let versions = versions(&place, &input, "migrated");
    assert!(versions[..end].iter().all(|version| version == "v1") && versions[end..].iter().all(|version| version == "v3"));
}

/// The same component with another digest: a custom section more.
pub fn variant(place: &Place, component: &str) -> String {
    let bytes = fs::read(guest(component)).expect("it was built");
    place.write("variant.wasm", [&bytes[..], &[0, 3, 1, b'n', 0]].concat());
    place.path("variant.wasm").to_string_lossy().into_owned()
}

#[test]
fn what_is_kept_in_memory_or_equal_on_all_subtasks_goes_back_by_rewind_only() {
    let input = sums::input(&mut Random::new(76), 0, LINES);
    let memory = |rate: &str| operator_state::counts("fixture-local-memory", rate, "");
    let counts = Place::new(&memory("rate = 3000"));
    counts.write_lines("input/a", &input);
    let rate = "rate = 4000";
    for (place, rest, operator, component, why) in [
        (counts, memory(""), "counts", "fixture-local-memory", "has a snapshot hook, so it keeps memory from batch to batch"),
        (ports::place_of_enrich(rate, ""), ports::enrich("", ""), "carriers", "enrich-carriers", "must be the same on all subtasks"),
    ] {
        let mut host = place.host();
        host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
        host.running().wait_until("some checkpoints", || place.newest(1) > 10);
        let component = variant(&place, component);
        host.cofferdam(&swap(operator, &component, &[])).ends_with(4).says(&[why, "--way-back rewind"]);
        let report = host.json(&swap(operator, &component, &["--way-back", "rewind", "--probation", "200ms"]));
        host.wait_until("job", "the end of the probation", |details| details["swap"].is_null());
        let newest = place.newest(1);
        host.running().wait_until("more checkpoints", || place.newest(1) > newest + 5);
        assert_eq!((newest_digest(&place, operator), host.describe("job")["attempt"].clone()), (report["to"]["digest"].clone(), 1.into()));
        finish(&host, &place, &rest);
        match operator {
            "counts" => operator_state::check(&place.lines("out"), &input, |_| false),
            _ => ports::check_enriched(&place, "swapped"),
        }
    }
}

#[test]
fn a_value_that_can_not_be_migrated_takes_the_swap_back() {
    let mut input = sums::input(&mut Random::new(75), 0, LINES);
    input.insert(100, "with one too large,3000000000000000000".into());
    let place = Place::new(&evolve::job("v2", ["rate = 3000", "rate = 50"]));
    place.write_lines("input.txt", &input);
    place.write_lines("rules.txt", evolve::rules());
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    host.running().wait_until("it is in a checkpoint", || !place.manifests(1).is_empty() && evolve::position(&place)[0] > 200);
    let words = [
        "the swap of operator `evolve` was taken back: operator `evolve`: state `numbers`: migrating the value of key `with one too large` \
         from version 2 to 3, the component failed: 3000000000000000000 is too large",
        "the job goes on with the component that it had",
    ];
    let refused = host.cofferdam(&swap("evolve", &file("fixture-evolve-v3"), &["--way-back", "rewind"]));
    refused.ends_with(1).says(&words);
    host.wait_until("job", "another attempt", |details| details["attempt"] == 2 && details["state"] == "RUNNING");
    assert!(is_over(&host));
    finish(&host, &place, &evolve::job("v2", evolve::FAST));
    evolve::check(&place.lines("out"), &input, &[("v2", [input.len(), evolve::rules().len()])]);
}

#[test]
fn a_savepoint_after_a_swap_goes_on_with_the_new_component_when_all_else_is_gone() {
    for (seed, way_back) in [(77, "forward"), (78, "rewind")] {
        let (place, input) = place(seed, &job("rate = 6000", GOOD));
        let host = host(&place, "2");
        let report = host.json(&swap("tally", &file("fixture-tally-v2"), &["--way-back", way_back, "--probation", "1h"]));
        let savepoint = &["savepoint", "job", "savepoints"];
        if way_back == "rewind" {
            let words = ["the swap of operator `tally` could not be undone once a savepoint's checkpoint is committed", "ask again"];
            host.cofferdam(savepoint).ends_with(10).says(&words);
            assert_eq!(report["checkpoint"], place.newest(1), "nothing is committed that can't be undone");
        } else {
            host.json(savepoint);
            assert!(!is_over(&host), "the probation goes on");
        }
        // This ends the probation: what has not failed until then stays.
        let saved = host.json(&["stop", "job", "--savepoint", "savepoints"]);
        assert_eq!(host.describe("job")["state"], "STOPPED");
        assert!(is_over(&host) && runs(&host, "tally") == report["to"]["digest"]);
        host.end().succeeds();
        let [first, end] = [&report["checkpoint"], &saved["checkpoint"]].map(|checkpoint| position(&place, checkpoint));
        let before = place.lines("out");
        for gone in ["checkpoints", "out", "data"] {
            fs::remove_dir_all(place.path(gone)).unwrap();
        }
        fs::remove_file(place.path("job.toml")).unwrap();
        place.cofferdam(&["run", "-s", saved["location"].as_str().unwrap()]).succeeds().says(&["starting run 1 from savepoint"]);
        let versions = versions_in(&[before, place.lines("out")].concat(), &input, way_back);
        assert!(first < end && end < input.len(), "both have worked, and something was left: {first}, {end}");
        assert!(versions[..first].iter().all(|version| version == "v1") && versions[first..].iter().all(|version| version == "v2"));
    }
}

/// When the host is killed.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// When it is written down what is intended.
    Intended,
    /// When so many checkpoints that belong to a swap are committed.
    Committed(usize),
    /// When the command is answered.
    Answered,
}

pub fn kill_at(moment: Moment, place: &Place, host: &mut Host<'_>, command: &mut Running) {
    let of_swaps = || place.manifests(1).iter().filter(|manifest| manifest.json["trigger"] == "swap").count();
    let before = of_swaps();
    let intended = || fs::read_to_string(place.path("data/jobs/job/job.json")).is_ok_and(|text| text.contains("\"probation-ms\""));
    host.running().wait_until("the moment to kill", || match moment {
        Moment::Intended => intended() || command.has_ended(),
        Moment::Committed(more) => of_swaps() >= before + more || command.has_ended(),
        Moment::Answered => command.has_ended(),
    });
}

#[test]
fn a_host_that_is_killed_in_a_swap_comes_back_with_the_old_or_the_new_component() {
    for (seed, way_back, probations) in [(72, "forward", ["0s", "200ms"]), (73, "rewind", ["100ms", "1h"])] {
        let (place, input) = place(seed, &job("rate = 2000", GOOD));
        let mut random = Random::new(seed);
        let components = [file("fixture-tally-v1"), file("fixture-tally-v2")];
        let mut host = host(&place, "2");
        let mut digests = vec![runs(&host, "tally")];
        for kill in 0..8 {
            let moment = *random.pick(&[Moment::Intended, Moment::Committed(1), Moment::Committed(2), Moment::Answered]);
            let (component, probation) = (random.pick(&components).clone(), *random.pick(&probations));
            println!("kill {kill}: {component}, probation {probation}, at {moment:?}");
            let mut command = host.start(&swap("tally", &component, &["--way-back", way_back, "--probation", probation]));
            kill_at(moment, &place, &mut host, &mut command);
            host.kill();
            drop(command);
            host = place.host();
            host.wait_for("job", "RUNNING");
            // Once more, it is safe: what is not over is the same, or comes to its end with the host.
            let again = host.cofferdam(&swap("tally", &component, &["--probation", "0s"]));
            if again.code() == Some(0) {
                digests.push(runs(&host, "tally"));
            } else {
                again.ends_with(10);
            }
            let newest = place.newest(1);
            let held = host.describe("job")["swap"]["way-back"] == "rewind";
            host.running().wait_until("a checkpoint", || held || place.newest(1) > newest);
        }
        finish(&host, &place, &job("", GOOD));
        let versions = versions(&place, &input, way_back);
        assert!(versions.iter().any(|version| version == "v2"), "version 2 was there for some time");
        digests.dedup();
        assert!(digests.len() > 1, "some swaps have happened");
        until("the last swap is over", || is_over(&host).then_some(()));
    }
}
