//! The flights job on the real data, whose operators are swapped in the middle of it: what comes out is what an uninterrupted run gives.

use serde_json::Value;

use crate::flights;
use crate::harness::{Host, Place, assert_lines};
use crate::swap::{file, runs, swap, told, variant};

/// A host that runs the job at a rate at which there is time for swaps.
fn host(place: &Place) -> Host<'_> {
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml", "-p", "2"]).succeeds();
    host.running().wait_until("some output", || place.lines("out").len() >= 5);
    host
}

/// Has a component of another digest, which does the same, take an operator over and stay.
fn replace(host: &Host<'_>, operator: &str, component: &str, way_back: &str) {
    let report = host.json(&swap(operator, component, &["--way-back", way_back, "--probation", "200ms"]));
    assert_eq!(report["outcome"], "swapped", "{report}");
    host.wait_until("job", "the end of the probation", |details| details["swap"].is_null());
    assert_eq!(runs(host, operator), report["to"]["digest"]);
}

/// Has a component take `delays` over that fails at some flight; the one before it goes on.
fn fails(host: &Host<'_>, way_back: &str) -> Value {
    let old = runs(host, "delays");
    let report = host.json(&swap("delays", &file("fixture-delays-v2"), &["--way-back", way_back]));
    let told = told(host, "taken-back");
    let words = ["operator `delays`, subtask ", ": record 0x", " with key `", "panicked: 1500 flights are too many"];
    assert!(words.iter().all(|words| told.contains(words)), "{told}");
    host.wait_until("job", "the end of the swap", |details| details["swap"].is_null() && details["state"] == "RUNNING");
    assert_eq!(runs(host, "delays"), old);
    report
}

#[test]
fn flights_are_exact_when_their_operators_are_swapped_and_taken_back_where_they_are() {
    let place = flights::place("rate = 2000");
    let host = host(&place);
    fails(&host, "forward");
    replace(&host, "parse", &variant(&place, "flights-parse"), "forward");
    replace(&host, "delays", &variant(&place, "flights-delays"), "rewind");
    replace(&host, "delays", &file("flights-delays"), "forward");
    let details = host.wait_for("job", "FINISHED");
    assert_eq!(details["attempt"], 1, "nothing was begun again: {details}");
    assert_eq!((&details["swaps"]["done"], &details["swaps"]["taken-back"]), (&4.into(), &1.into()), "{details}");
    assert_lines(place.lines("out"), flights::oracle(), "forward");
}

#[test]
fn flights_are_exact_when_an_operator_is_taken_back_to_the_checkpoint_before_it() {
    let place = flights::place("rate = 2000");
    let host = host(&place);
    replace(&host, "delays", &variant(&place, "flights-delays"), "rewind");
    let report = fails(&host, "rewind");
    let details = host.wait_until("job", "another attempt", |details| details["attempt"] == 2);
    assert_eq!(details["restored-from"], report["checkpoint"], "{details}");
    replace(&host, "parse", &variant(&place, "flights-parse"), "rewind");
    assert_eq!(host.wait_for("job", "FINISHED")["attempt"], 2);
    assert_lines(place.lines("out"), flights::oracle(), "rewind");
}
