//! What an operator sees of the host's environment: what the job grants, and nothing else.

use crate::harness::{JobFile, Place, Running, assert_lines};

const NAMES: [&str; 5] = ["*", "PATH", "REGION", "LIMIT", "EMPTY"];

/// An operator with the given grants and one without, on the same names.
fn place(grants: &str) -> Place {
    let job = JobFile::new("20ms")
        .source("names", "type = \"file\"\npath = \"names\"")
        .operator("closed", "fixture-environment", &["names"], "")
        .operator("open", "fixture-environment", &["names"], grants)
        .file_sink("out-closed", &["closed"])
        .file_sink("out-open", &["open"]);
    let place = Place::new(&job);
    place.write_lines("names", NAMES);
    place
}

const GRANTS: &str = "[operator.grants]\nenvironment = [\"REGION=eu=1\", \"LIMIT\", \"EMPTY=\"]";

#[test]
fn an_operator_sees_what_it_is_granted_and_nothing_else() {
    let place = place(GRANTS);
    let mut command = place.command(&["run", "job.toml"]);
    command.env("REGION", "not this one").env("LIMIT", "s3cret");
    let ended = Running::start(command).wait().succeeds();
    let absent = "environment variable not found";
    let nothing = NAMES[1..].iter().map(|name| format!("{name}: {absent}")).chain(["all: ".into()]);
    assert_lines(place.lines("out-closed"), nothing, "without grants");
    let granted = ["all: EMPTY LIMIT REGION", "REGION is \"eu=1\"", "LIMIT is \"s3cret\"", "EMPTY is \"\""].map(String::from);
    assert_lines(place.lines("out-open"), granted.into_iter().chain([format!("PATH: {absent}")]), "with grants");
    let mut command = place.command(&["validate", "job.toml", "--log", "trace"]);
    command.env("LIMIT", "s3cret");
    let validated = Running::start(command).wait().succeeds();
    for said in [ended.stderr, ended.stdout, validated.stderr, validated.stdout] {
        assert!(!said.contains("s3cret") && !said.contains("eu=1"), "{said}");
    }
}

#[test]
fn what_the_host_does_not_have_is_told_before_anything_starts() {
    let place = place(GRANTS);
    let mut command = place.command(&["run", "job.toml"]);
    command.env_remove("LIMIT");
    let said = ["job `job`: operator `open`", "it is granted the host's environment variable `LIMIT`, which is not set", "LIMIT=…"];
    Running::start(command).wait().ends_with(3).says(&said);
    assert!(!place.path("checkpoints").exists() && !place.path("out-open").exists());
}

#[test]
fn grants_that_can_not_be_are_refused_without_showing_a_value() {
    for (entry, said) in [
        ("\"TWO WORDS=s3cret\"", "`TWO WORDS` is no name of a variable"),
        ("\"=s3cret\"", "`` is no name of a variable"),
        ("\"1ST=s3cret\"", "`1ST` is no name of a variable"),
        ("\"A=s3cret\", \"A\"", "`A` is granted twice"),
        ("\"A=s3cret\", 3", "`environment` must be a list of strings, found 3 in it"),
        ("\"A=s3cret\\u0000\"", "the value of `A` has a zero character"),
    ] {
        let ended = place(&format!("[operator.grants]\nenvironment = [{entry}]")).run(&[]).ends_with(3).says(&["operator `open`", said]);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    for written in [
        "grants = [\"A=s3cret\"]",
        "grant = { environment = [\"A=s3cret\"] }",
        "[operator.grants]\nenvironment = [\"A=s3cret]",
        "[operator.grants.environment]\nA = \"s3cret\"",
    ] {
        let ended = place(written).run(&[]).ends_with(3);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    for grants in ["environment = \"A=s3cret\"", "environment = { A = \"s3cret\" }", "enviroment = [\"A=s3cret\"]"] {
        let ended = place(&format!("[operator.grants]\n{grants}")).run(&[]).ends_with(3).says(&["operator `open`: grants", "nviro"]);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
}
