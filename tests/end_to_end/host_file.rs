//! The host file: defaults for all jobs, from a flag or the environment.

use crate::flights;
use crate::harness::{Host, Running, assert_lines};

#[test]
fn a_host_file_says_what_job_files_leave_out() {
    let place = flights::place("");
    place.set_job(&flights::job("").checkpoint(""));
    place.write("etc/host.toml", "format = 1\n[checkpoint]\ninterval = \"1ms\"\nnum-retained = 2\ndir = \"../elsewhere\"\n");
    let host = ["--host-file", "etc/host.toml"];
    let validated = place.cofferdam(&[&["validate", "job.toml", "--output", "json"], &host[..]].concat()).succeeds().json();
    assert!(validated["checkpoint-dir"].as_str().is_some_and(|dir| dir.ends_with("elsewhere")), "{validated}");
    place.run(&host).succeeds();
    assert_lines(place.lines("out"), flights::oracle(), "with a host file");
    assert!(!place.path("checkpoints").exists());
    // By the environment as well.
    let mut command = place.command(&["checkpoints", "job.toml", "--output", "json"]);
    command.env("COFFERDAM_HOST_FILE", "etc/host.toml");
    let listed = Running::start(command).wait().succeeds().json();
    let kept = listed["checkpoints"].as_array().unwrap().iter().filter(|one| !one["manifest"].is_null());
    assert_eq!(kept.count(), 2);
}

#[test]
fn a_fault_of_the_host_file_is_shown_there() {
    let place = flights::place("");
    place.write("host.toml", "format = 1\n\n[checkpoint]\ninterval = \"soon\"\n");
    let ended = place.run(&["--host-file", "host.toml"]).ends_with(3);
    ended.says(&["host.toml:4:12", "interval = \"soon\"", "`interval` must be a duration"]);
    let serve = ["serve", "--data-dir", "data", "--listen", "127.0.0.1:0", "--host-file", "host.toml"];
    place.cofferdam(&serve).ends_with(3).says(&["host.toml:4:12"]);
    assert!(!place.path("data").exists());
    place.run(&["--host-file", "none.toml"]).ends_with(3).says(&["can't read the host file none.toml"]);
}

#[test]
fn a_host_keeps_to_its_file_as_it_was_when_the_host_began() {
    let place = flights::place("rate = 2000");
    place.set_job(&flights::job("rate = 2000").checkpoint(""));
    place.write("host.toml", "format = 1\n[checkpoint]\ninterval = \"20ms\"\ndir = \"elsewhere\"\n");
    let host = place.host_with(&["--host-file", "host.toml"]);
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    let listed = |host: &Host<'_>| host.json(&["checkpoints", "job"])["checkpoints"].as_array().unwrap().len();
    host.wait_until("job", "checkpoints", |_| listed(&host) > 0);
    // In the middle of a change, and then with another one.
    for (parallelism, line) in [("2", "interval = \"soon\""), ("1", "dir = \"a-third\"")] {
        place.write("host.toml", format!("format = 1\n[checkpoint]\n{line}\n"));
        host.cofferdam(&["rescale", "job", "-p", parallelism]).succeeds();
        assert_eq!(host.wait_for("job", "RUNNING")["run"], 1);
    }
    host.cofferdam(&["stop", "job"]).succeeds();
    place.set_job(&flights::job("").checkpoint(""));
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "FINISHED");
    assert_lines(place.lines("out"), flights::oracle(), "one run");
    assert!(!place.path("a-third").exists());
    // Begun again, it has the other settings.
    host.end().succeeds();
    std::fs::remove_dir_all(place.path("out")).unwrap();
    place.host_with(&["--host-file", "host.toml"]).cofferdam(&["deploy", "job.toml"]).succeeds();
    assert!(place.path("a-third").exists());
}
