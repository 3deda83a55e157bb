//! Schemathesis, which others have written, makes requests of what OpenAPI says: none may be answered by a bug.

use std::process::{Command, Stdio};

use crate::harness::{JobFile, Place, Running, target};

#[test]
fn no_request_that_can_be_made_up_is_answered_by_a_bug() {
    let job = JobFile::new("100ms").source("lines", "type = \"generator\"\nkind = \"words\"\nrate = 100").sink(
        "out",
        &["lines"],
        "type = \"blackhole\"",
    );
    let place = Place::new(&job);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    // Otherwise hardly any name would be one that the host knows.
    place.write("schemathesis.toml", "[parameters]\n\"path.job\" = \"job\"\n");
    let program = target().join("moto/bin/schemathesis");
    assert!(program.exists(), "no {}; run `make moto` first", program.display());
    let mut command = Command::new(program);
    command
        .args(["run", "--no-color", "--seed", "5", "--max-examples", "25", "--generation-database", "none"])
        .args(["--checks", "not_a_server_error,content_type_conformance,response_schema_conformance,status_code_conformance"])
        .arg(format!("{}/v1/openapi.json", host.address()))
        .current_dir(place.path(""))
        .stdin(Stdio::null());
    let ended = Running::start(command).wait();
    assert_eq!(ended.code(), Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(!host.running().has_ended());
    host.json(&["list"]);
}
