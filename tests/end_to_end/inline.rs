//! State files that are so small that manifests hold them.

use serde_json::Value;

use crate::harness::{Manifest, Moment, Place, Random, kill_and_resume};
use crate::sums;

const SOURCE: &str = "type = \"file\"\npath = \"input.txt\"\n";

fn place(threshold: &str, rate: &str, input: &[String]) -> Place {
    let settings = format!("interval = \"10ms\"\nmemory-threshold = {threshold:?}\ndir = \"checkpoints\"");
    let place = Place::new(&sums::job(&format!("{SOURCE}{rate}")).checkpoint(&settings));
    place.write_lines("input.txt", input);
    place
}

/// The state files that a manifest names: path, and whether it holds them.
fn files(manifest: &Manifest) -> Vec<(String, bool)> {
    let operators = manifest.json["operators"].as_array().into_iter().flatten();
    let all = operators.flat_map(|operator| operator["files"].as_array().into_iter().flatten());
    all.map(|file| (file["path"].as_str().expect("a path").into(), !file["inline"].is_null())).collect()
}

#[test]
fn small_state_lies_in_manifests_and_survives_kills_merges_and_a_move() {
    let mut random = Random::new(51);
    let input = sums::input(&mut random, 0, 16_000);
    let place = place("1MiB", "rate = 4000", &input);
    kill_and_resume(&place, &mut random, 5, &["1", "2", "3"], |random| Moment::Checkpoints(2 + random.below(8)));
    let newest = place.manifests(1).pop().expect("a checkpoint");
    let named = files(&newest);
    assert!(!named.is_empty() && named.iter().all(|(_, inline)| *inline), "{named:?}");
    assert!(named.iter().any(|(path, _)| path.ends_with(".merged.state")), "some were merged: {named:?}");
    assert!(place.state_files(1).is_empty());

    let listed = place.cofferdam(&["checkpoints", "job.toml", "--output", "json"]).succeeds().json();
    assert_eq!((&listed["broken"], &listed["foreign"]), (&serde_json::json!([]), &serde_json::json!([])));
    let inspected = place.cofferdam(&["inspect", newest.path.to_str().unwrap(), "--output", "json"]).succeeds().json();
    let operators = inspected["operators"].as_array().expect("operators");
    assert!(operators.iter().flat_map(|operator| operator["files"].as_array().unwrap()).all(|file| file["inline"].is_null()));
    let inline = inspected["inline"].as_array().expect("what it holds");
    let told: Vec<&Value> = inline.iter().map(|file| &file["path"]).collect();
    assert_eq!(told, named.iter().map(|(path, _)| path).collect::<Vec<_>>());
    assert!(inline.iter().all(|file| file["file"] == "state-file" && file["operator"] == "totals"), "{inspected}");

    // Its manifest is all that another job needs of it.
    let other = self::place("0B", "", &input);
    other.write("elsewhere/job/run-0001/log/00000000000000000001.json", std::fs::read(&newest.path).unwrap());
    other.run(&["-s", "elsewhere/job/run-0001/log/00000000000000000001.json", "-p", "2"]).succeeds();
    sums::check(&other.lines("out"), &[input]);
    assert!(other.manifests(1).iter().flat_map(files).all(|(_, inline)| !inline), "they are files of their own there");
}

#[test]
fn what_is_not_small_is_a_file_and_both_are_restored_together() {
    let mut random = Random::new(52);
    let input = sums::input(&mut random, 0, 120_000);
    let place = place("2KiB", "rate = 6000", &input);
    for parallelism in ["2", "1", "3"] {
        let newest = place.newest(1);
        let mut running = place.start(&["-p", parallelism]);
        running.wait_until("a checkpoint with small and large state files", || {
            let manifest = place.manifests(1).pop().filter(|manifest| manifest.checkpoint > newest + 8);
            let named = manifest.map(|manifest| files(&manifest)).unwrap_or_default();
            named.iter().any(|(_, inline)| *inline) && named.iter().any(|(_, inline)| !inline)
        });
        running.kill();
    }
    place.set_job(&sums::job(SOURCE));
    place.run(&["-p", "2"]).succeeds();
    sums::check(&place.lines("out"), &[input]);
    let named: std::collections::BTreeSet<String> =
        place.manifests(1).iter().flat_map(files).filter(|(_, inline)| !inline).map(|(path, _)| path).collect();
    assert_eq!(place.state_files(1), named, "only what the kept ones need");
}

#[test]
fn a_savepoint_has_files_of_its_own_for_what_manifests_hold() {
    let input = sums::input(&mut Random::new(53), 0, 16_000);
    let place = place("1MiB", "rate = 4000", &input);
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_until("job", "checkpoints with state", |_| place.manifests(1).last().is_some_and(|manifest| !files(manifest).is_empty()));
    host.cofferdam(&["stop", "job", "--savepoint", "saved"]).succeeds();
    host.end();
    assert!(place.state_files(1).is_empty());
    let saved = std::fs::read_dir(place.path("saved")).unwrap().next().expect("a savepoint").unwrap().path();
    let saved = saved.to_str().expect("a path");
    let inspected = place.cofferdam(&["inspect", saved, "--output", "json"]).succeeds().json();
    let operators = inspected["operators"].as_array().expect("operators");
    let mut all = operators.iter().flat_map(|operator| operator["files"].as_array().unwrap());
    assert!(all.all(|file| file["inline"].is_null()) && inspected["broken"] == serde_json::json!([]), "{inspected}");
    std::fs::remove_dir_all(place.path("checkpoints")).unwrap();
    place.set_job(&sums::job(SOURCE));
    place.run(&["-s", saved, "-p", "3"]).succeeds();
    sums::check(&place.lines("out"), &[input]);
}
