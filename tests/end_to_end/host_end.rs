//! The end of a host by SIGTERM: every job takes a last checkpoint, and one that can't is not waited for for ever.

use crate::harness::{JobFile, Place};

/// Lines pass through to standard output as they come: what is read twice is seen twice.
fn passing(rate: &str) -> JobFile {
    JobFile::new("1h").source("lines", &format!("type = \"file\"\npath = \"input.txt\"\n{rate}")).sink(
        "seen",
        &["lines"],
        "type = \"stdout\"",
    )
}

fn place_of_lines(job: &JobFile) -> Place {
    let place = Place::new(job);
    place.write_lines("input.txt", lines(100_000));
    place
}

fn lines(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("line {number}"))
}

#[test]
fn after_a_host_was_ended_its_jobs_go_on_where_they_were() {
    let place = place_of_lines(&passing("rate = 500"));
    let mut seen = String::new();
    for round in 0..3 {
        let mut host = place.host();
        if round == 0 {
            host.cofferdam(&["deploy", "job.toml"]).succeeds();
        }
        host.running().wait_for_stdout_beyond(2000);
        seen += &host.end().succeeds().stdout;
        let newest = place.manifests(1).pop().expect("a last checkpoint");
        assert_eq!(newest.json["trigger"], "stop");
        let read = newest.json["sources"][0]["splits"][0]["records"].as_u64();
        assert_eq!(read, Some(seen.lines().count() as u64), "all that was seen is in it");
    }
    assert!(seen.lines().eq(lines(seen.lines().count()).collect::<Vec<_>>().iter().map(String::as_str)), "each line once: {seen}");
}

#[test]
fn a_job_that_takes_no_last_checkpoint_is_not_waited_for_for_ever() {
    let place = place_of_lines(&passing("rate = 500"));
    let stuck = JobFile::new("20ms")
        .source("lines", "type = \"file\"\npath = \"few.txt\"\nrate = 20")
        .operator("stuck", "fixture-misbehave", &["lines"], "config = { on = \"b\", how = \"loop\" }\nlimits = { time = \"1h\" }")
        .file_sink("out", &["stuck"]);
    place.write("stuck.toml", stuck.text().replace("name = \"job\"", "name = \"stuck\""));
    place.write_lines("few.txt", std::iter::repeat_n("a", 40).chain(["b"]));
    let mut host = place.host_with(&["--stop-timeout", "2s"]);
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.cofferdam(&["deploy", "stuck.toml"]).succeeds();
    host.running().wait_for_stdout_beyond(2000);
    host.wait_until("stuck", "the record", |details| details["nodes"][0]["records-in"] == 41);
    let words = ["no last checkpoint of job `stuck` within 2s", "it goes on from its newest checkpoint", "--stop-timeout"];
    host.end().ends_with(1).says(&words);
    assert_eq!(place.manifests(1).pop().expect("the other's last checkpoint").json["trigger"], "stop");
    let before = place.lines("out").len();
    // It goes on as after `kill -9`, and so does the other.
    let host = place.host_with(&["--stop-timeout", "0s"]);
    let details = host.wait_for("stuck", "RUNNING");
    assert!(details["restored-from"].is_u64(), "{details}");
    host.wait_until("stuck", "the record, once more", |details| details["nodes"][0]["records-in"].as_u64() > Some(0));
    assert!(host.wait_for("job", "RUNNING")["restored-from"].is_u64());
    host.end().ends_with(1);
    assert!((before..=40).contains(&place.lines("out").len()) && before > 0, "nothing is lost or doubled: {before}");
}
