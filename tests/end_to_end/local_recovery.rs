//! Copies of state files on the local disk: read first, checked, and no more than the newest checkpoint needs.

use std::collections::BTreeSet;
use std::fs;

use crate::harness::s3::{Bucket, Server};
use crate::harness::{JobFile, Place, Random};
use crate::sums;

fn job(checkpoint: &str, rate: &str) -> JobFile {
    let source = format!("type = \"file\"\npath = \"input.txt\"\n{rate}");
    sums::job(&source).checkpoint(&format!("local-recovery = true\nlocal-recovery-dir = \"local\"\n{checkpoint}"))
}

/// All copies of the first run, by the paths that the files have there.
fn copies(place: &Place) -> BTreeSet<String> {
    let dir = place.path("local/job/copies/run-0001");
    let found = place.content().into_iter().filter(|(_, content)| content.is_some());
    found.filter_map(|(path, _)| Some(path.strip_prefix(&dir).ok()?.to_str()?.to_owned())).collect()
}

/// Runs the job until it has some checkpoints more, and stops it.
fn stop_after_some(place: &Place, newest: impl Fn() -> u64) {
    let before = newest();
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("some checkpoints", || newest() >= before + 12);
    running.signal("INT");
    running.wait().ends_with(130);
}

#[test]
fn copies_are_read_first_and_what_is_wrong_with_one_is_told_and_does_no_harm() {
    let input = sums::input(&mut Random::new(71), 0, 24_000);
    const DIR: &str = "interval = \"10ms\"\ndir = \"checkpoints\"";
    let place = Place::new(&job(DIR, "rate = 600"));
    place.write_lines("input.txt", &input);
    stop_after_some(&place, || place.newest(1));
    let needed = place.manifests(1).pop().expect("a checkpoint").state_files();
    assert_eq!(copies(&place), needed, "no more than the newest checkpoint needs");

    // With the files away the copies are all that there is.
    let (state, away) = (place.run_dir(1).join("state"), place.path("away"));
    fs::rename(&state, &away).unwrap();
    let mut running = place.start(&["-p", "3"]);
    running.wait_for_stderr("resuming run 1 from checkpoint ");
    running.kill();
    // What that attempt has written stays beside what was there.
    for entry in fs::read_dir(&away).unwrap() {
        let entry = entry.unwrap();
        fs::create_dir_all(&state).unwrap();
        fs::rename(entry.path(), state.join(entry.file_name())).unwrap();
    }

    stop_after_some(&place, || place.newest(1));
    let all: Vec<String> = copies(&place).into_iter().collect();
    let (damaged, cut, gone) = (&all[0], &all[1], &all[all.len() - 1]);
    let path = |copy: &str| place.path("local/job/copies/run-0001").join(copy);
    let mut bytes = fs::read(path(damaged)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(path(damaged), &bytes).unwrap();
    let bytes = fs::read(path(cut)).unwrap();
    fs::write(path(cut), &bytes[..bytes.len() - 1]).unwrap();
    if gone != cut {
        fs::remove_file(path(gone)).unwrap();
    }
    place.set_job(&job(DIR, ""));
    let ended = place.run(&["-p", "2", "--log", "info"]).succeeds();
    ended.says(&[
        &format!("{damaged} is damaged: its checksum is "),
        &format!("{cut} has {} bytes and should have {}; read from ", bytes.len() - 1, bytes.len()),
        &format!("{gone} was read, of which there was no local copy that is whole"),
    ]);
    sums::check(&place.lines("out"), &[input]);
    assert_eq!(copies(&place), place.manifests(1).pop().unwrap().state_files());
}

#[test]
fn where_copies_cannot_be_written_the_job_runs_without_them() {
    let input = sums::input(&mut Random::new(72), 0, 2000);
    let place = Place::new(&job("interval = \"10ms\"\ndir = \"checkpoints\"", ""));
    place.write_lines("input.txt", &input);
    // A file where a directory is to be.
    place.write("local/job/copies/run-0001", "");
    place.run(&["-p", "2"]).succeeds().says(&["no local copy of a state file: ", "can't be written"]);
    sums::check(&place.lines("out"), &[input]);
    place.write("file", "");
    place.set_job(&job("local-recovery-dir = \"file\"", "").checkpoint("local-recovery = true\nlocal-recovery-dir = \"file\""));
    place.run(&["--fresh"]).ends_with(6).says(&["for copies of state files can't be used", "local-recovery-dir"]);
}

#[test]
fn a_job_goes_on_from_copies_of_what_is_in_a_bucket() {
    let input = sums::input(&mut Random::new(73), 0, 12_000);
    let server = Server::start();
    let bucket = &server.bucket;
    let place = Place::new(&job(&bucket.settings("20ms"), "rate = 400"));
    place.write_lines("input.txt", &input);
    Bucket::give_credentials(&place);
    stop_after_some(&place, || bucket.newest(1));
    assert_eq!(copies(&place), bucket.manifests(1).pop().expect("a checkpoint").state_files());
    place.set_job(&job(&bucket.settings("20ms"), ""));
    // Nothing was fetched.
    let ended = place.run(&["-p", "3", "--log", "info"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert!(!ended.stderr.contains("no local copy that is whole"), "{}", ended.stderr);
    sums::check(&place.lines("out"), &[input]);
}
