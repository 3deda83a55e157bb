//! Checkpoints that are damaged: a restore says what is wrong and offers the checkpoint before it. State is never silently empty.

use std::fs;

use crate::broken_job::refused;
use crate::harness::{Manifest, Place, Random};
use crate::runs;

/// The newest checkpoint of the stopped job, and the one before it.
fn newest_two(place: &Place) -> (Manifest, Manifest) {
    let mut manifests = place.manifests(1);
    let newest = manifests.pop().unwrap();
    (newest, manifests.pop().unwrap())
}

/// Checks that a resume is refused, offering the checkpoint before, and that this one then works.
fn refused_until_the_one_before_is_taken(place: &Place, before: &Manifest, words: &[&str]) {
    let path = fs::canonicalize(&before.path).unwrap();
    // Whatever way leads to the temporary directory, the end of the path is the same.
    let offered = format!("{}`", path.strip_prefix(fs::canonicalize(place.path("")).unwrap()).unwrap().display());
    let offer = [&format!("to go back to checkpoint {} of ", before.checkpoint), "run with `-s ", &offered];
    let ended = refused(place, &[], 5, "checkpoint", &[words, &offer].concat());
    // The offer is a command to be copied.
    let wanted = ended.stderr.split("run with `-s ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    refused(place, &["-s", wanted], 5, "checkpoint", &["--allow-duplicates"]);
    let said = format!("from checkpoint {} ", before.checkpoint);
    place.run(&["-s", wanted, "--allow-duplicates", "-p", "2"]).succeeds().says(&[&said]);
    runs::complete_with_duplicates(place);
    place.run(&[]).succeeds().says(&["starting run 2"]);
}

#[test]
fn a_truncated_manifest_is_told() {
    let base = runs::stopped();
    let bytes = fs::read(newest_two(&base).0.path).unwrap();
    for (length, words) in [(0, "the file is empty"), (1, "truncated"), (bytes.len() / 2, "truncated"), (bytes.len() - 2, "truncated")] {
        let place = base.copy();
        let (newest, before) = newest_two(&place);
        fs::write(&newest.path, &bytes[..length]).unwrap();
        let file = newest.path.file_name().unwrap().to_str().unwrap();
        refused_until_the_one_before_is_taken(&place, &before, &["the newest checkpoint can't be restored", file, words]);
    }
}

#[test]
fn a_flipped_bit_in_a_manifest_is_told_wherever_it_is() {
    let base = runs::stopped();
    let (newest, before) = newest_two(&base);
    let bytes = fs::read(&newest.path).unwrap();
    let file = newest.path.file_name().unwrap().to_str().unwrap();
    let mut random = Random::new(5);
    let places = [0, 5, bytes.len() - 1, bytes.len() - 3, bytes.len() - 8, bytes.len() - 20];
    let drawn: Vec<usize> = (0..14).map(|_| random.below(bytes.len() as u64) as usize).collect();
    for at in places.into_iter().chain(drawn) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.below(8);
        println!("byte {at} is {} instead of {}", damaged[at], bytes[at]);
        fs::write(&newest.path, &damaged).unwrap();
        let offer = format!("to go back to checkpoint {} of ", before.checkpoint);
        refused(&base, &[], 5, "checkpoint", &["the newest checkpoint can't be restored", file, &offer]);
    }
    refused_until_the_one_before_is_taken(&base, &before, &["the newest checkpoint can't be restored"]);
}

#[test]
fn a_missing_manifest_is_told() {
    let place = runs::stopped();
    let (newest, before) = newest_two(&place);
    // Not the newest one, whose absence nobody could notice: the newest is a claim after it.
    let mut running = place.start(&[]);
    running.wait_until("the claim", || place.last_slot(1) > slot(&newest));
    running.kill();
    if slot(&newest_two(&place).0) > slot(&newest) {
        println!("the attempt has got as far as a checkpoint: the case does not arise");
        return;
    }
    fs::remove_file(&newest.path).unwrap();
    let offer = format!("to go back to checkpoint {} of ", before.checkpoint);
    refused(&place, &[], 5, "checkpoint", &["the newest checkpoint can't be restored", "it is missing", &offer]);
}

fn slot(manifest: &Manifest) -> u64 {
    manifest.path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).unwrap()
}

/// A state file that only the newest checkpoint needs, so that the one before it is whole.
fn newest_state_file(newest: &Manifest, before: &Manifest) -> String {
    newest.state_files().difference(&before.state_files()).next().expect("it added state").clone()
}

#[test]
fn a_missing_state_file_is_told_and_does_not_mean_empty_state() {
    let place = runs::stopped();
    let (newest, before) = newest_two(&place);
    let file = newest_state_file(&newest, &before);
    fs::remove_file(place.run_dir(1).join(&file)).unwrap();
    let broken = format!("checkpoint {} can't be restored", newest.checkpoint);
    refused_until_the_one_before_is_taken(&place, &before, &[&broken, &file, "is missing"]);
}

#[test]
fn a_flipped_bit_in_a_state_file_is_told_wherever_it_is() {
    let place = runs::stopped();
    let (newest, before) = newest_two(&place);
    let file = newest_state_file(&newest, &before);
    let path = place.run_dir(1).join(&file);
    let bytes = fs::read(&path).unwrap();
    let broken = format!("checkpoint {} can't be restored", newest.checkpoint);
    let mut random = Random::new(6);
    let drawn: Vec<usize> = (0..10).map(|_| random.below(bytes.len() as u64) as usize).collect();
    for at in [0, bytes.len() - 1].into_iter().chain(drawn) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.below(8);
        fs::write(&path, &damaged).unwrap();
        refused(&place, &[], 5, "checkpoint", &[&broken, &file, "is damaged"]);
    }
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    refused_until_the_one_before_is_taken(&place, &before, &[&broken, &file, &format!("has {} bytes", bytes.len() - 1)]);
}

#[test]
fn a_run_without_its_log_is_told() {
    let place = runs::stopped();
    fs::remove_dir_all(place.run_dir(1).join("log")).unwrap();
    refused(&place, &[], 5, "checkpoint", &["run-0001 has files but no log", "--fresh"]);
    place.run(&["--fresh"]).succeeds().says(&["starting run 2"]);
}
