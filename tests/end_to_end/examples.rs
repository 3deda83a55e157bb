//! The examples, as their job files say: each is valid, and `quality` sorts out the rows that its README says.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Ended, Place, assert_lines, flights, names, target};

/// A place with all examples and their components where their job files look for them.
fn place() -> Place {
    let place = Place::empty();
    symlink(target().canonicalize().expect("the build"), place.path("target")).expect("a link can be made");
    for example in examples() {
        let dir = root().join(&example);
        place.write(&format!("examples/{example}/job.toml"), std::fs::read(dir.join("job.toml")).expect("its job file"));
        if dir.join("input").exists() {
            symlink(dir.join("input"), place.path(&format!("examples/{example}/input"))).expect("a link can be made");
        }
    }
    place
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").canonicalize().expect("the examples")
}

fn examples() -> Vec<String> {
    names(&root())
}

/// Has the binary do something with an example's job file.
fn cofferdam(place: &Place, command: &str, example: &str, args: &[&str]) -> Ended {
    let file = format!("examples/{example}/job.toml");
    place.cofferdam(&[&[command, &file], args].concat())
}

#[test]
fn every_job_file_is_valid() {
    let place = place();
    assert!(examples().len() >= 5, "{:?}", examples());
    for example in examples() {
        cofferdam(&place, "validate", &example, &[]).succeeds();
    }
}

#[test]
fn quality_sorts_out_the_flights_that_miss_a_value_with_the_reason() {
    let place = place();
    let summary = cofferdam(&place, "run", "quality", &["--output", "json"]).succeeds().json();
    let is_whole = |flight: &String| !flight.split(',').any(|field| field == "NA");
    assert_lines(place.lines("examples/quality/out/whole"), flights().into_iter().filter(is_whole), "whole flights");

    let letter = |letter: &String| {
        let letter: Value = serde_json::from_str(letter).expect("a letter");
        assert_eq!([&letter["job"], &letter["operator"], &letter["split"]], ["quality", "check", "flights-january.csv"]);
        format!("{} {}: {}", letter["record"], letter["error"].as_str().expect("a text"), letter["value"].as_str().expect("a text"))
    };
    let head = head();
    let columns: Vec<&str> = head.split(',').collect();
    let rejected = |(record, flight): (usize, &String)| {
        let missing = flight.split(',').position(|field| field == "NA")?;
        Some(format!("{record} rejected a record: {} is missing: {flight}", columns[missing]))
    };
    let expected: Vec<String> = (1..).zip(&flights()).filter_map(rejected).collect();
    assert_eq!(summary["nodes"][1]["records-failed"], expected.len(), "{summary}");
    assert!(expected.iter().any(|letter| letter.starts_with("472 rejected a record: arr_delay is missing: 2013,1,1,1525,")), "its README");
    assert_lines(place.lines("examples/quality/out/bad").iter().map(letter), expected, "flights that miss a value");
}

/// The names of the table's columns.
fn head() -> String {
    let table = std::fs::read_to_string(root().join("flights/input/flights-january.csv")).expect("the table");
    table.lines().next().expect("a head").to_owned()
}
