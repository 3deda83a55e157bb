//! Components that are pushed to a host and were built against another version of the interfaces: one line says what is wanted, and what
//! the host offers.

use std::fs;

use crate::harness::{JobFile, Place, guest};

/// A component of the tests in which a name is replaced by another of the same length, wherever it stands.
fn renamed(place: &Place, file: &str, names: &[(&str, &str)]) {
    let mut bytes = fs::read(guest("fixture-sum")).expect("it was built");
    for (name, other) in names {
        assert_eq!(name.len(), other.len(), "the file stays whole");
        let found: Vec<usize> =
            bytes.windows(name.len()).enumerate().filter(|(_, window)| *window == name.as_bytes()).map(|(at, _)| at).collect();
        assert!(!found.is_empty(), "{name}");
        found.into_iter().for_each(|at| bytes[at..at + other.len()].copy_from_slice(other.as_bytes()));
    }
    place.write(file, bytes);
}

const STATE: &str = "cofferdam:operator/keyed-state@0.1.0";

#[test]
fn a_component_for_another_version_is_told_what_it_wants_and_what_there_is() {
    let place = Place::new(&JobFile::new("1h"));
    let host = place.host();
    for (what, names, words) in [
        (
            "a newer major",
            vec![(STATE, "cofferdam:operator/keyed-state@0.2.0")],
            "it imports what the host does not offer: `cofferdam:operator/keyed-state@0.2.0` (the host offers \
             `cofferdam:operator/keyed-state@0.1.0`)",
        ),
        (
            "a newer minor, for a function that it has added",
            vec![(STATE, "cofferdam:operator/keyed-state@0.1.9"), ("list-append", "list-uppend")],
            "`cofferdam:operator/keyed-state@0.1.9` list-uppend: there is no such function in `cofferdam:operator/keyed-state@0.1.0`, which \
             the host offers",
        ),
        (
            "a newer minor, for an interface that it has added",
            vec![(STATE, "cofferdam:operator/other-state@0.1.1")],
            "`cofferdam:operator/other-state@0.1.1` (the host offers cofferdam:operator@0.1.0, which has no such interface)",
        ),
        (
            "something else",
            vec![(STATE, "other-vendor:database/tablets@1.20.3")],
            "it imports what the host does not offer: `other-vendor:database/tablets@1.20.3` (the host has nothing of that name)",
        ),
        (
            "another operator",
            vec![("cofferdam:operator/operator@0.1.0", "cofferdam:operator/operator@1.0.0")],
            "it is not an operator: it exports `cofferdam:operator/operator@1.0.0` and not `cofferdam:operator/operator@0.1.0`",
        ),
    ] {
        println!("{what}");
        renamed(&place, "other.wasm", &names);
        let refused = host.cofferdam(&["component", "push", "other.wasm"]).ends_with(4).says(&[words]);
        let line = refused.stderr.lines().find(|line| line.contains(words)).expect("one line");
        assert_eq!(line.matches("component `").count(), 1, "{line}");
        assert!(line.contains("component `other.wasm`: it "), "{line}");
    }
    // What is newer and wants nothing that is not there runs.
    renamed(&place, "newer.wasm", &[(STATE, "cofferdam:operator/keyed-state@0.1.9")]);
    host.json(&["component", "push", "newer.wasm"]);
    assert_eq!(host.json(&["component", "list"])["components"].as_array().map(Vec::len), Some(1), "nothing else was kept");
}
