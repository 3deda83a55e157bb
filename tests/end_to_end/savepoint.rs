//! Savepoints: taken while a job runs or stops, restored elsewhere, by a job that has changed, and removed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::flights;
use crate::harness::s3::{Bucket, Server};
use crate::harness::{Host, JobFile, Place, Random, assert_lines};
use crate::{operator_state, ports, sums};

/// The flights job, with a directory for savepoints.
pub fn job(rate: &str) -> JobFile {
    flights::job(rate).checkpoint("interval = \"40ms\"\ndir = \"checkpoints\"\nsavepoint-dir = \"savepoints\"")
}

/// The job, deployed to a host, once it has some output.
pub fn deployed<'a>(place: &'a Place, parallelism: &str) -> Host<'a> {
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", parallelism]).succeeds();
    host.running().wait_until("some output", || place.lines("out").len() >= 5);
    host
}

/// Where an answer says that a savepoint lies, and the checkpoint whose state it has.
pub fn location(saved: &Value) -> (PathBuf, u64) {
    (saved["location"].as_str().expect("a location").into(), saved["checkpoint"].as_u64().expect("a number"))
}

/// The lines that a run has published up to a checkpoint.
pub fn published(place: &Place, run: u32, checkpoint: u64) -> Vec<String> {
    let within = |name: &str| {
        let mut fields = name.trim_end_matches(".txt").rsplit('-').skip(1).map(|field| field.parse::<u64>().expect("a number"));
        let epoch = fields.next().expect("an epoch");
        epoch <= checkpoint && fields.next() == Some(u64::from(run))
    };
    let visible: BTreeMap<String, String> = place.visible("out");
    visible.iter().filter(|(name, _)| within(name)).flat_map(|(_, text)| text.lines().map(str::to_owned)).collect()
}

/// Moves a directory, as another tool would.
fn moved(from: &Path, to: &Path) -> String {
    fs::rename(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    to.to_str().expect("a path of the test's").to_owned()
}

#[test]
fn a_savepoint_of_a_running_job_restores_elsewhere_when_all_else_is_gone() {
    let origin = flights::place("");
    origin.set_job(&job("rate = 4000"));
    let host = deployed(&origin, "2");
    let (path, checkpoint) = location(&host.json(&["savepoint", "job"]));
    assert!(path.starts_with(origin.path("savepoints")), "{}", path.display());
    // It goes on, and what it needs no more is collected.
    host.wait_until("job", "later checkpoints", |details| details["last-checkpoint"].as_u64() > Some(checkpoint + 5));
    host.kill();
    let published = published(&origin, 1, checkpoint);
    assert!(!published.is_empty() && published.len() < flights::oracle().len(), "in mid-stream: {}", published.len());

    let place = flights::place("");
    let savepoint = moved(&path, &place.path("brought"));
    for gone in ["checkpoints", "out", "data", "job.toml"] {
        let path = origin.path(gone);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
    let inspected = place.cofferdam(&["inspect", &savepoint, "--output", "json"]).succeeds().json();
    assert_eq!(
        (&inspected["file"], &inspected["broken"], &inspected["foreign"]),
        (&"savepoint".into(), &Value::Array(vec![]), &Value::Array(vec![]))
    );
    let said = format!("starting run 1 from savepoint {savepoint}");
    let summary = place.run(&["-p", "3", "-s", &savepoint, "--output", "json"]).succeeds().says(&[&said]).json();
    assert_eq!((&summary["restored"]["savepoint"], &summary["restored"]["checkpoint"]), (&true.into(), &checkpoint.into()));
    assert_lines([published, place.lines("out")].concat(), flights::oracle(), "there and here");
}

#[test]
fn a_job_that_stops_with_a_savepoint_publishes_all_that_is_in_it_and_nothing_else() {
    let place = flights::place("");
    place.set_job(&job("rate = 8000"));
    let host = deployed(&place, "2");
    // Asked for twice at once there is one, and both are told.
    let stops = [(); 2].map(|()| host.start(&["stop", "job", "--savepoint", "--output", "json"]));
    let saved = stops.map(|stop| stop.wait().succeeds().json());
    assert_eq!(saved[0], saved[1]);
    let (path, checkpoint) = location(&saved[0]);
    assert_eq!(fs::read_dir(place.path("savepoints")).unwrap().count(), 1);
    assert_eq!(host.describe("job")["state"], "STOPPED");
    assert_lines(place.lines("out"), published(&place, 1, checkpoint), "nothing after it");
    assert_eq!(place.newest(1), checkpoint, "nor any checkpoint");
    let listed = place.cofferdam(&["checkpoints", "job.toml", "--output", "json"]).succeeds().json();
    assert_eq!(listed["checkpoints"].as_array().unwrap().last().unwrap()["trigger"], "savepoint");
    // Asked for again when it has stopped, there is one of its last checkpoint.
    let again = location(&host.json(&["stop", "job", "--savepoint", "elsewhere"]));
    assert_eq!((again.1, again.0.starts_with(place.path("elsewhere"))), (checkpoint, true));
    host.end().succeeds();
    // The job inside goes on where it was.
    fs::remove_file(place.path("job.toml")).unwrap();
    place.cofferdam(&["run", "-s", path.to_str().unwrap()]).succeeds().says(&["starting run 2 from savepoint"]);
    assert_lines(place.lines("out"), flights::oracle(), "stopped and gone on");
}

#[test]
fn a_drained_job_leaves_a_savepoint_of_its_end() {
    let place = flights::place("");
    place.set_job(&job("rate = 8000"));
    let host = deployed(&place, "2");
    let (path, checkpoint) = location(&host.json(&["stop", "job", "--drain", "--savepoint"]));
    assert_eq!((host.describe("job")["state"].as_str(), place.newest(1)), (Some("FINISHED"), checkpoint));
    let totals = place.lines("out").into_iter().filter(|line| line.starts_with("total,")).count();
    assert!(totals > 0, "operators have finished");
    let path = path.to_str().unwrap();
    place.run(&["-s", path]).ends_with(5).says(&["nothing is left to resume", "--allow-duplicates"]);
}

/// The sums job, and the savepoint with which it was stopped in mid-stream.
fn stopped(seed: u64) -> (Place, Vec<String>, String) {
    let input = sums::input(&mut Random::new(seed), 0, 20_000);
    let place = Place::new(&sums::job("type = \"file\"\npath = \"input.txt\"\nrate = 4000"));
    place.write_lines("input.txt", &input);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    host.running().wait_until("some checkpoints", || place.newest(1) >= 12);
    let (path, _) = location(&host.json(&["stop", "job", "--savepoint", "savepoints"]));
    (place, input, path.to_str().unwrap().to_owned())
}

const SOURCE: &str = "type = \"file\"\npath = \"input.txt\"";

#[test]
fn the_job_inside_is_deployed_with_its_components_and_the_state_of_all_its_subtasks() {
    let input = sums::input(&mut Random::new(75), 0, 16_000);
    let job = operator_state::counts("fixture-local-count", "rate = 4000", "on-error = \"skip\"\nmax-errors = 1000000");
    let place = Place::new(&job);
    place.write_lines("input/a", &input);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "1"]).succeeds();
    // Files of two parallelisms, of which some are in parts only what a subtask has now.
    for parallelism in ["3", "2"] {
        let newest = place.newest(1);
        host.running().wait_until("more checkpoints", || place.newest(1) >= newest + 4);
        host.json(&["rescale", "job", "-p", parallelism]);
    }
    let (path, _) = location(&host.json(&["stop", "job", "--savepoint", "savepoints"]));
    host.json(&["forget", "job"]);
    for kept in host.json(&["component", "list"])["components"].as_array().unwrap() {
        host.json(&["component", "rm", kept["digest"].as_str().unwrap()]);
    }
    fs::remove_dir_all(place.path("checkpoints")).unwrap();
    fs::remove_file(place.path("job.toml")).unwrap();
    let relative = path.strip_prefix(place.path("")).unwrap();
    host.cofferdam(&["deploy", "-s", relative.to_str().unwrap(), "-p", "3"]).succeeds();
    host.wait_for("job", "FINISHED");
    operator_state::check(&place.lines("out"), &input, |number| number % 100 == 57);
}

#[test]
fn broadcast_state_and_several_inputs_are_in_a_savepoint_which_may_leave_components_out() {
    let place = ports::place_of_enrich("rate = 8000", "");
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    host.running().wait_until("some output", || place.lines("out").len() >= 1000);
    let (path, _) = location(&host.json(&["stop", "job", "--savepoint", "savepoints", "--without-components"]));
    host.end().succeeds();
    let path = path.to_str().unwrap();
    place.cofferdam(&["run", "-s", path]).ends_with(5).says(&["was taken without components", "give a job file"]);
    place.cofferdam(&["run", "-s", "17"]).ends_with(3).says(&["checkpoint 17 is of which job?"]);
    place.set_job(&ports::enrich("", ""));
    place.run(&["-s", path, "-p", "3"]).succeeds();
    ports::check_enriched(&place, "stopped and gone on");
}

#[test]
fn a_changed_job_takes_over_what_is_renamed_and_leaves_out_what_it_is_told_to() {
    let (place, input, savepoint) = stopped(71);
    let renamed = |old: &str| format!("renamed-from = {old:?}");
    let job = |rate: &str| {
        JobFile::new("40ms")
            .source("rows", &format!("{SOURCE}\n{rate}\n{}", renamed("lines")))
            .operator("cut", "fixture-pairs", &["rows"], &renamed("pairs"))
            .operator("sums", "fixture-sum", &["cut"], &renamed("totals"))
            .operator("more", "fixture-sum", &["cut"], "")
            .sink("out", &["sums"], &format!("type = \"file\"\npath = \"out\"\n{}", renamed("result")))
            .sink("nothing", &["more"], "type = \"blackhole\"")
    };
    place.set_job(&job("rate = 3000"));
    let mut running = place.start(&["-s", &savepoint, "-p", "3"]);
    running.wait_for_stderr("without state in it, and so beginning empty: more");
    running.wait_until("checkpoints of its own", || place.newest(2) > 0 && place.manifests(2).len() >= 2);
    running.kill();
    place.set_job(&job(""));
    place.run(&["-p", "2"]).succeeds().says(&["resuming run 2 from checkpoint"]);
    sums::check(&place.lines("out"), &[input]);

    // Without the operator that had state, and with another source; beside the job that has begun from it.
    let job = JobFile::new("40ms").checkpoint("dir = \"others\"").source("rows", SOURCE).operator("pairs", "fixture-pairs", &["rows"], "");
    place.set_job(&job.sink("rest", &["pairs"], "type = \"blackhole\""));
    let refused = "the checkpoint holds what belongs to operator `totals`, source `lines`, which the job no longer has";
    place.run(&["-s", &savepoint]).ends_with(5).says(&[refused, "renamed-from", "--allow-non-restored-state"]);
    let summary = place.run(&["-s", &savepoint, "--allow-non-restored-state", "--output", "json"]).succeeds();
    let summary = summary.says(&["left out for good: totals, lines", "beginning empty: rows"]).json();
    assert_eq!(summary["restored"]["left-out"], serde_json::json!(["totals", "lines"]));
    assert_eq!(summary["nodes"][2]["records-in"], 20_000, "read from its beginning: {summary}");
}

/// On a host: to another backend, and to a bucket.
#[test]
fn a_claimed_savepoint_is_gone_on_from_on_disk_and_with_checkpoints_in_a_bucket() {
    let (place, input, savepoint) = stopped(76);
    let server = Server::start();
    Bucket::give_credentials(&place);
    let job = |rate: &str| {
        let job = sums::job(&format!("{SOURCE}\n{rate}")).checkpoint(&server.bucket.settings("40ms"));
        job.state("backend = \"disk\"\nmemory = \"64KiB\"")
    };
    place.set_job(&job("rate = 2000"));
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-s", &savepoint, "--claim-mode", "claim", "-p", "3"]).succeeds();
    host.running().wait_until("the savepoint's end", || !Path::new(&savepoint).exists());
    host.json(&["stop", "job"]);
    // Back to memory, and to another place on disk.
    let (saved, _) = location(&host.json(&["savepoint", "job", "moved"]));
    place.set_job(&sums::job(SOURCE).checkpoint("interval = \"40ms\"\ndir = \"elsewhere\""));
    host.cofferdam(&["deploy", "job.toml", "-s", saved.to_str().unwrap(), "-p", "2"]).succeeds();
    host.wait_for("job", "FINISHED");
    assert!(saved.exists(), "nobody has claimed it");
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn a_deployed_job_leaves_out_state_of_a_savepoint_if_it_is_told_to() {
    let (place, input, savepoint) = stopped(77);
    let manifest: Value = serde_json::from_slice(&fs::read(Path::new(&savepoint).join("manifest.json")).unwrap()).unwrap();
    let position = manifest["sources"][0]["splits"][0]["records"].as_u64().expect("a number") as usize;
    let job = JobFile::new("40ms").source("lines", SOURCE).operator("pairs", "fixture-pairs", &["lines"], "");
    place.set_job(&job.operator("others", "fixture-sum", &["pairs"], "").file_sink("rest", &["others"]));
    let host = place.host();
    let deploy = ["deploy", "job.toml", "-p", "2", "-s", &savepoint];
    host.cofferdam(&deploy).ends_with(5).says(&["the checkpoint holds what belongs to operator `totals`", "--allow-non-restored-state"]);
    host.cofferdam(&[&deploy[..], &["--allow-non-restored-state"]].concat()).succeeds();
    host.wait_for("job", "FINISHED");
    let events = host.cofferdam(&["events", "job"]).succeeds().stdout;
    assert!(events.contains("beginning empty: others") && events.contains("left out for good: totals"), "{events}");
    sums::check(&place.lines("rest"), &[input[position..].to_vec()]);
}

#[test]
fn what_another_max_parallelism_does_to_a_checkpoint_it_does_to_a_savepoint() {
    let (place, _, savepoint) = stopped(72);
    place.set_job(&sums::job(SOURCE).job("max-parallelism = 64"));
    place.run(&["-s", &savepoint]).ends_with(5).says(&["max-parallelism 128, the job has 64"]);
}

#[test]
fn a_savepoint_is_needed_until_the_first_checkpoint_and_claimed_it_is_gone_after_it() {
    for claim in [false, true] {
        let (place, input, savepoint) = stopped(73);
        place.set_job(&sums::job(&format!("{SOURCE}\nrate = 3000")).checkpoint("interval = \"40ms\"\ndir = \"own\"\nnum-retained = 1"));
        let mode = if claim { "claim" } else { "no-claim" };
        let mut running = place.start(&["-s", &savepoint, "--claim-mode", mode]);
        let manifest = |place: &Place| fs::read_dir(place.path("own/job/run-0001/log")).into_iter().flatten().flatten().count();
        let slots = |place: &Place| {
            let names = fs::read_dir(place.path("own/job/run-0001/log")).into_iter().flatten().flatten();
            names.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json")?.parse::<u64>().ok()).max().unwrap_or(0)
        };
        running.wait_until("ten checkpoints", || slots(&place) > 11 && manifest(&place) > 0);
        if claim {
            running.wait_until("the savepoint's end", || !Path::new(&savepoint).exists());
        }
        running.kill();
        if !claim {
            // It still restores, beside the job that has begun from it, and the job does not miss it.
            let other = Place::new(&sums::job(SOURCE));
            other.write_lines("input.txt", &input);
            other.run(&["-s", &savepoint]).succeeds();
            sums::check(&other.lines("out"), std::slice::from_ref(&input));
            place.cofferdam(&["savepoint", "dispose", &savepoint]).succeeds();
            assert!(!Path::new(&savepoint).exists());
        }
        place.set_job(&sums::job(SOURCE).checkpoint("interval = \"40ms\"\ndir = \"own\""));
        place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint"]);
        sums::check(&place.lines("out"), &[input]);
    }
}

#[test]
fn what_the_job_has_published_since_is_not_published_again_without_a_word() {
    let place = flights::place("");
    place.set_job(&job("rate = 8000"));
    let host = deployed(&place, "1");
    let (path, checkpoint) = location(&host.json(&["savepoint", "job"]));
    host.wait_until("job", "later checkpoints", |details| details["last-checkpoint"].as_u64() > Some(checkpoint + 1));
    host.end().succeeds();
    let path = path.to_str().unwrap();
    place.run(&["-s", path]).ends_with(5).says(&["is not the newest of its run", "--allow-duplicates"]);
    place.set_job(&job(""));
    place.run(&["-s", path, "--allow-duplicates"]).succeeds().says(&["starting run 2 from savepoint"]);
    assert_lines([published(&place, 1, checkpoint), published(&place, 2, u64::MAX)].concat(), flights::oracle(), "from the savepoint on");
}

#[test]
fn garbage_and_missing_files_are_named_and_only_savepoints_are_disposed_of() {
    let (place, _, savepoint) = stopped(74);
    let path = Path::new(&savepoint);
    let state = fs::read_dir(path.join("state")).unwrap().next().unwrap().unwrap().path();
    let file = fs::read_dir(state).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    let name = file.strip_prefix(path).unwrap().to_str().unwrap();
    let refused = |words: &[&str]| place.run(&["-s", &savepoint]).ends_with(5).says(words);
    fs::write(&file, b"garbage").unwrap();
    refused(&[name, "has 7 bytes and should have", "manifest.json names it"]);
    fs::remove_file(&file).unwrap();
    refused(&[name, "is missing"]);
    let inspected = place.cofferdam(&["inspect", &savepoint, "--output", "json"]).succeeds().json();
    assert_eq!(inspected["broken"][0]["path"], name);
    fs::write(&file, whole).unwrap();
    let manifest = path.join("manifest.json");
    let text = fs::read(&manifest).unwrap();
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    refused(&["manifest.json: the file is truncated"]);
    fs::remove_file(&manifest).unwrap();
    refused(&["is no savepoint: it has no manifest.json"]);
    for other in ["", "checkpoints", "checkpoints/job/run-0001", "savepoints"] {
        place.cofferdam(&["savepoint", "dispose", place.path(other).to_str().unwrap()]).ends_with(5).says(&["is no savepoint"]);
    }
    // What an interrupted one has left.
    place.cofferdam(&["savepoint", "dispose", &savepoint]).succeeds();
    assert!(!path.exists());
}
