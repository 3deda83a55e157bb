//! What is told of a swap: what was checked, in JSON and as text, and why a component was taken back.

use serde_json::Value;

use crate::harness::{Host, JobFile, Place, Random, guest};
use crate::sums;

fn job(sink: &str) -> JobFile {
    let settings = "config = { bad = 4000, how = \"panic\" }\ngrants = { environment = [\"REGION=eu-north\"] }";
    JobFile::new("40ms")
        .source("lines", "type = \"file\"\npath = \"input.txt\"\nrate = 500")
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("tally", "fixture-tally-v1", &["pairs"], settings)
        .sink("seen", &["tally"], sink)
}

fn deployed<'a>(place: &'a Place) -> Host<'a> {
    place.write_lines("input.txt", sums::input(&mut Random::new(84), 0, 60_000));
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host
}

fn swap(host: &Host<'_>, more: &[&str]) -> crate::harness::Ended {
    let component = guest("fixture-tally-v2");
    host.cofferdam(&[&["swap", "job", "tally", component.to_str().unwrap()], more].concat()).succeeds()
}

/// What each check has found.
fn found(report: &Value) -> Vec<(&str, &str)> {
    let checks = report["checks"].as_array().expect("checks").iter();
    checks.map(|check| (check["check"].as_str().expect("a name"), check["found"].as_str().expect("a text"))).collect()
}

#[test]
fn a_report_says_what_was_checked_and_what_a_way_back_can_not_take_back() {
    let place = Place::new(&job("type = \"stdout\""));
    let host = deployed(&place);
    let report = swap(&host, &["--dry-run", "--output", "json"]).json();
    let checks = [
        ("world", "cofferdam:operator/keyed-state@0.1.0"),
        ("ports", "inputs numbers; outputs out"),
        ("limits", "268435456 bytes of memory and 5s"),
        ("grants", "the variables REGION"),
        ("states", "last stays as it is; count stays as it is"),
        ("way-back", "the old component can go on"),
    ];
    for ((check, found), (expected, words)) in found(&report).into_iter().zip(checks) {
        assert!(check == expected && found.contains(words), "{words:?} is missing in {check}: {found}");
    }
    assert_eq!((report["checks"].as_array().unwrap().len(), report.to_string().contains("eu-north")), (checks.len(), false), "{report}");
    // With this sink something can't be taken back, and the text says so too.
    let text = swap(&host, &["--dry-run", "--way-back", "rewind"]).stdout;
    let line = |begin: &str| text.lines().find(|line| line.trim_start().starts_with(begin)).unwrap_or_else(|| panic!("{begin}: {text}"));
    assert!(line("outcome: fits").ends_with("fits") && line("world").contains("cofferdam:operator/output@0.1.0"), "{text}");
    assert!(
        line("way-back").ends_with("but by `seen`, which writes to standard output as records come: its lines may come again"),
        "{text}"
    );
    let text = swap(&host, &["--dry-run", "--probation", "0s"]).stdout;
    assert!(text.lines().any(|line| line.trim_start().starts_with("way-back") && line.ends_with("none, since there is no probation")));
    let text = host.cofferdam(&["savepoint", "job", "saved"]).succeeds().stdout;
    assert!(["location: ", "/saved/savepoint-job-", "\ncheckpoint: ", "\nbytes: "].iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn a_job_tells_which_record_has_taken_a_component_back_and_why() {
    for way_back in ["forward", "rewind"] {
        let place = Place::new(&job("type = \"file\"\npath = \"seen\""));
        let host = deployed(&place);
        assert!(host.describe("job")["taken-back"].is_null());
        let report = swap(&host, &["--way-back", way_back, "--output", "json"]).json();
        assert!(found(&report).iter().all(|(_, found)| !found.contains("standard output")), "{report}");
        let details = host.wait_until("job", "that it is taken back", |details| details["taken-back"].is_object());
        let back = &details["taken-back"];
        assert_eq!((&back["operator"], &back["component"]), (&"tally".into(), &report["to"]), "{back}");
        let reason = back["reason"].as_str().expect("a reason");
        assert!(reason.contains(": record 0x") && reason.contains("panicked: "), "{reason}");
        let text = host.cofferdam(&["describe", "job"]).succeeds().stdout;
        assert!(text.contains("taken back:\n") && text.contains(&format!("reason: {reason}")), "{text}");
    }
}
