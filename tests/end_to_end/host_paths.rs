//! The REST interface of a host: every path, what it answers, and what it refuses, each in the same form.

use serde_json::{Value, json};

use crate::flights;
use crate::harness::{Host, JobFile, Place, guest};

/// Asks, and checks the status.
#[track_caller]
fn ask(host: &Host<'_>, method: &str, path: &str, body: &Value, expected: u16) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, answer) = host.http(method, path, &body);
    assert_eq!(status, expected, "{method} {path}: {answer}");
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

/// Asks for what is refused.
#[track_caller]
fn refused(host: &Host<'_>, method: &str, path: &str, body: &Value, status: u16, code: &str, says: &str) {
    let problem = ask(host, method, path, body, status);
    assert_eq!((&problem["status"], &problem["code"]), (&status.into(), &code.into()), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
}

#[test]
fn every_path_answers_and_refuses() {
    let place = flights::place("rate = 400");
    let mut host = place.host();
    let nothing = Value::Null;
    assert_eq!(host.http("GET", "/healthz", ""), (200, "ok\n".into()));
    assert_eq!(host.http("GET", "/readyz", ""), (200, "ok\n".into()));
    let document = ask(&host, "GET", "/v1/openapi.json", &nothing, 200);
    assert_eq!(document["paths"].as_object().unwrap().len(), 18, "a new path is to be tested here");
    assert_eq!(ask(&host, "GET", "/v1/jobs", &nothing, 200), json!({ "jobs": [] }));

    // Deploying: components as the job file names them, relative to where it says that it lies.
    let text = flights::job("rate = 400").state("backend = \"disk\"").text();
    let request = json!({ "text": text, "file": place.path("job.toml") });
    let deployed = ask(&host, "POST", "/v1/jobs", &request, 201);
    // What its thread has come to meanwhile is not known.
    assert!(deployed["name"] == "job" && ["CREATED", "RUNNING"].map(Value::from).contains(&deployed["state"]), "{deployed}");
    refused(&host, "POST", "/v1/jobs", &request, 409, "conflict", "job `job` is");
    refused(&host, "POST", "/v1/jobs", &json!({ "text": "format = 1" }), 422, "config", "problems in");
    refused(&host, "POST", "/v1/jobs", &json!({ "text": text, "file": "job.toml" }), 400, "bad-request", "relative");
    let nobody = json!({ "text": text.replace("\"job\"", "\"other\""), "file": place.path("job.toml"), "parallelism": 0 });
    refused(&host, "POST", "/v1/jobs", &nobody, 422, "config", "parallelism 0");
    let both = json!({ "text": text, "fresh": true, "fallback": true });
    refused(&host, "POST", "/v1/jobs", &both, 400, "bad-request", "`fallback`");
    refused(&host, "POST", "/v1/jobs", &json!({ "txt": text }), 422, "bad-request", "unknown field `txt`");
    let unknown = json!({ "text": text.replace("\"job\"", "\"other\""), "components": { "parse": "0".repeat(64) } });
    refused(&host, "POST", "/v1/jobs", &unknown, 404, "not-found", "operator `parse`: the host has no component");
    for (uid, digest, says) in [("parse", "../x", "`../x` is no component's digest"), ("nobody", "", "no operator `nobody`")] {
        let wrong = json!({ "text": text.replace("\"job\"", "\"other\""), "components": { uid: digest } });
        refused(&host, "POST", "/v1/jobs", &wrong, 400, "bad-request", says);
    }
    let broken = json!({ "text": text.replace("\"job\"", "\"other\"").replace("flights_parse", "flights_nothing") });
    refused(&host, "POST", "/v1/jobs", &broken, 422, "component", "can't be read");
    let (status, _) = host.http("POST", "/v1/jobs", "{");
    assert_eq!(status, 400);
    let (status, _) = host.http_with("POST", "/v1/jobs", "", text.as_bytes());
    assert_eq!(status, 415);
    let (status, _) = host.http("POST", "/v1/jobs", &json!({ "text": "#".repeat(3 << 20) }).to_string());
    assert_eq!(status, 413);

    // Asking.
    host.running().wait_until("some checkpoints", || place.newest(1) >= 3);
    let details = host.wait_until("job", "a good checkpoint", |details| !details["checkpoints"]["last-good"].is_null());
    assert_eq!(details["nodes"][0]["uid"], "flights", "{details}");
    assert!(details["checkpoints"]["last-good-age-seconds"].as_f64().is_some(), "{details}");
    refused(&host, "GET", "/v1/jobs/nobody", &nothing, 404, "not-found", "no job `nobody`");
    let listing = ask(&host, "GET", "/v1/jobs/job/checkpoints", &nothing, 200);
    assert_eq!(listing["checkpoints"][0]["state"], "completed", "{listing}");
    let events = ask(&host, "GET", "/v1/jobs/job/events?from=2&limit=1", &nothing, 200);
    assert_eq!((&events["events"][0]["number"], &events["events"][0]["event"]), (&2.into(), &"began".into()), "{events}");
    refused(&host, "GET", "/v1/jobs/job/events?from=x", &nothing, 400, "bad-request", "invalid digit");
    let log = ask(&host, "GET", "/v1/jobs/job/logs", &nothing, 200);
    assert!(log["lines"].as_array().unwrap().iter().any(|line| line["text"].as_str().unwrap().contains("starting run 1")), "{log}");
    let (_, metrics) = host.http("GET", "/metrics", "");
    for line in [
        "cofferdam_job_state{job=\"job\",state=\"RUNNING\"} 1",
        "cofferdam_node_records_in_total{job=\"job\",node=\"parse\"} ",
        "cofferdam_operator_state_hits_total{job=\"job\",node=\"delays\"} ",
        "cofferdam_operator_state_misses_total{job=\"job\",node=\"delays\"} ",
        "cofferdam_operator_state_entries_in_memory{job=\"job\",node=\"delays\"} ",
        "cofferdam_operator_state_in_memory_bytes{job=\"job\",node=\"delays\"} ",
        "cofferdam_operator_state_on_disk_bytes{job=\"job\",node=\"delays\"} ",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }

    // Components.
    let kept = ask(&host, "GET", "/v1/components", &nothing, 200);
    let parse = kept["components"].as_array().unwrap().iter().find(|kept| kept["name"] == "flights-parse").unwrap().clone();
    let digest = format!("/v1/components/{}", parse["digest"].as_str().unwrap());
    let inspected = ask(&host, "GET", "/v1/components/flights-parse@0.1.0", &nothing, 200);
    assert_eq!((&inspected["digest"], &inspected["bytes"]), (&parse["digest"], &parse["bytes"]), "{inspected}");
    refused(&host, "DELETE", &digest, &nothing, 409, "conflict", "in use by job `job`");
    refused(&host, "DELETE", "/v1/components/flights-parse@9", &nothing, 404, "not-found", "flights-parse@9");
    refused(&host, "GET", "/v1/components/..%2Fjob.json", &nothing, 404, "not-found", "no component");
    let content = std::fs::read(guest("flights-parse")).unwrap();
    let (status, answer) = host.http_with("PUT", &format!("{digest}?name=reader"), "", &content);
    assert_eq!((status, answer.contains("\"name\":\"reader\"")), (200, true), "{answer}");
    let (status, answer) = host.http_with("PUT", &digest, "", &content[..1000]);
    assert_eq!((status, answer.contains("the content has the digest")), (400, true), "{answer}");
    let half = format!("/v1/components/{}", blake3::hash(&content[..1000]).to_hex());
    let (status, answer) = host.http_with("PUT", &half, "", &content[..1000]);
    assert_eq!((status, answer.contains("broken or cut off")), (422, true), "{answer}");

    // Swapping.
    let swap = "/v1/jobs/job/operators/parse/swap";
    let report = ask(&host, "POST", swap, &json!({ "component": "reader@0.1.0" }), 200);
    assert_eq!((&report["outcome"], &report["to"]["digest"]), (&"unchanged".into(), &parse["digest"]), "{report}");
    refused(&host, "POST", swap, &json!({ "component": "nothing@0.1.0" }), 404, "not-found", "no component `nothing@0.1.0`");
    refused(&host, "POST", swap, &json!({ "component": "reader@" }), 400, "bad-request", "`component` is none");
    refused(&host, "POST", swap, &json!({ "component": "reader@0.1.0", "probation": "long" }), 400, "bad-request", "`probation`");
    refused(&host, "POST", swap, &json!({ "component": "reader@0.1.0", "error-factor": -1 }), 400, "bad-request", "`error-factor`");
    refused(&host, "POST", &swap.replace("parse", "out"), &json!({ "component": "reader@0.1.0" }), 404, "not-found", "no operator `out`");
    let other = json!({ "component": "flights-delays@0.1.0", "dry-run": true });
    refused(&host, "POST", swap, &other, 422, "component", "operator `parse`: the component that runs has the inputs");

    // Ending.
    refused(&host, "DELETE", "/v1/jobs/job", &nothing, 409, "conflict", "RUNNING");
    refused(&host, "POST", "/v1/jobs/job/rescale", &json!({ "parallelism": 129 }), 422, "config", "above max-parallelism");
    refused(&host, "POST", "/v1/jobs/job/rescale", &json!({ "parallelism": 0 }), 422, "config", "parallelism 0");
    let rescaled = ask(&host, "POST", "/v1/jobs/job/rescale", &json!({ "parallelism": 2 }), 202);
    assert!(["RESTARTING", "RUNNING"].map(Value::from).contains(&rescaled["state"]), "{rescaled}");
    host.wait_until("job", "parallelism 2", |job| job["parallelism"] == 2 && job["state"] == "RUNNING");
    let savepoints = "/v1/jobs/job/savepoints";
    refused(&host, "POST", savepoints, &json!({}), 400, "bad-request", "no directory for savepoints");
    refused(&host, "POST", savepoints, &json!({ "target-directory": "saved" }), 400, "bad-request", "it is relative");
    let saved = json!({ "target-directory": place.path("saved"), "trigger-id": "7f" });
    refused(&host, "POST", savepoints, &json!({ "trigger-id": "../x", "target-directory": "/x" }), 400, "bad-request", "`../x` can't name");
    refused(&host, "POST", "/v1/jobs/nobody/savepoints", &saved, 404, "not-found", "no job `nobody`");
    assert_eq!(ask(&host, "POST", savepoints, &saved, 202), json!({ "request-id": "7f" }));
    let completed = || Some(ask(&host, "GET", &format!("{savepoints}/7f"), &nothing, 200)).filter(|saved| !saved["operation"].is_null());
    let taken = crate::harness::until("a savepoint", completed);
    assert_eq!(taken["status"]["id"], "COMPLETED", "{taken}");
    assert!(taken["operation"]["location"].as_str().unwrap().ends_with("-7f"), "{taken}");
    refused(&host, "GET", &format!("{savepoints}/7e"), &nothing, 404, "not-found", "no savepoint `7e`");
    let disposal = "/v1/savepoint-disposal";
    for wrong in ["", "saved", "memory:"] {
        refused(&host, "POST", disposal, &json!({ "savepoint-path": wrong }), 400, "bad-request", "names no savepoint");
    }
    refused(&host, "POST", disposal, &json!({ "savepoint-path": place.path("nowhere") }), 422, "checkpoint", "is no savepoint");
    refused(&host, "GET", &format!("{disposal}/7e"), &nothing, 404, "not-found", "no removal `7e`");
    let other = json!({ "target-directory": place.path("saved"), "trigger-id": "80" });
    assert_eq!(ask(&host, "POST", savepoints, &other, 202), json!({ "request-id": "80" }));
    let completed = || Some(ask(&host, "GET", &format!("{savepoints}/80"), &nothing, 200)).filter(|saved| !saved["operation"].is_null());
    let other = crate::harness::until("another savepoint", completed)["operation"]["location"].clone();
    let asked = ask(&host, "POST", disposal, &json!({ "savepoint-path": other }), 202)["request-id"].as_str().unwrap().to_owned();
    let completed = || Some(ask(&host, "GET", &format!("{disposal}/{asked}"), &nothing, 200)).filter(|done| !done["operation"].is_null());
    let done = crate::harness::until("its removal", completed);
    assert_eq!((&done["status"]["id"], &done["operation"]["was-whole"]), (&"COMPLETED".into(), &true.into()), "{done}");
    // What was taken is no savepoint to stop with.
    let stop = |savepoint: &Value| json!({ "savepoint": savepoint });
    refused(&host, "POST", "/v1/jobs/job/stop", &stop(&saved), 409, "conflict", "savepoint `7f` was taken before");
    let stopping = ask(&host, "POST", "/v1/jobs/job/stop", &stop(&json!({ "target-directory": place.path("saved") })), 202);
    assert!(stopping["request-id"].is_string() && stopping["name"] == "job", "{stopping}");
    host.wait_for("job", "STOPPED");
    ask(&host, "POST", "/v1/jobs/job/stop", &json!({ "drain": false }), 202);
    ask(&host, "POST", "/v1/jobs", &request, 201);
    host.wait_for("job", "RUNNING");
    ask(&host, "POST", "/v1/jobs/job/stop", &json!({}), 202);
    host.wait_for("job", "STOPPED");
    ask(&host, "POST", "/v1/jobs/job/stop", &json!({ "drain": false }), 202);
    refused(&host, "POST", "/v1/jobs/job/cancel", &nothing, 409, "conflict", "STOPPED already");
    refused(&host, "PATCH", "/v1/jobs/job?mode=fly", &nothing, 400, "bad-request", "fly");
    ask(&host, "POST", "/v1/jobs", &request, 201);
    ask(&host, "PATCH", "/v1/jobs/job?mode=cancel", &nothing, 202);
    host.wait_for("job", "CANCELLED");
    ask(&host, "DELETE", "/v1/jobs/job", &nothing, 204);
    refused(&host, "POST", "/v1/jobs/job/cancel", &nothing, 404, "not-found", "no job");
    ask(&host, "DELETE", &digest, &nothing, 204);
    refused(&host, "GET", "/v1/nothing", &nothing, 404, "not-found", "/v1/nothing");
    refused(&host, "PUT", "/v1/jobs", &nothing, 405, "bad-request", "PUT");
}

#[test]
fn commands_tell_what_a_host_tells() {
    let place = Place::new(&flights::job("rate = 20000"));
    place.write_lines("flights.csv", std::iter::once("head".to_owned()).chain(crate::harness::flights()));
    let host = place.host();
    // A component by its name and version, another by its digest: nothing goes along with the job.
    let pushed = host.json(&["component", "push", guest("flights-parse").to_str().unwrap(), "--name", "reader"]);
    let delays = host.json(&["component", "push", guest("flights-delays").to_str().unwrap()]);
    let named = flights::job("rate = 20000").text();
    let named = named.replace(&format!("{:?}", guest("flights-parse")), "\"reader@0.1.0\"");
    let named = named.replace(&format!("{:?}", guest("flights-delays")), &delays["digest"].to_string());
    place.write("job.toml", &named);
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    place.run(&[]).ends_with(4).says(&["reader@0.1.0", "deploy the job"]);
    let details = host.wait_for("job", "FINISHED");
    assert_eq!(details["components"][1]["digest"], pushed["digest"], "{details}");

    let text = host.cofferdam(&["describe", "job"]).succeeds().stdout;
    assert!(text.contains("state: FINISHED") && text.contains("27004"), "{text}");
    let events = host.cofferdam(&["events", "job"]).succeeds().stdout;
    assert!(["deployed", "starting run 1", "FINISHED"].iter().all(|part| events.contains(part)), "{events}");
    let logs = host.cofferdam(&["logs", "job", "-f"]).succeeds().stdout;
    assert!(logs.lines().last().unwrap().contains("ended: FINISHED"), "{logs}");
    let last = host.json(&["logs", "job", "-n", "1"]);
    assert_eq!(last["lines"].as_array().map(Vec::len), Some(1), "{last}");
    let through = host.json(&["checkpoints", "job"]);
    assert_eq!(through, place.cofferdam(&["checkpoints", "checkpoints/job", "--output", "json"]).succeeds().json());
    assert!(host.cofferdam(&["component", "list"]).succeeds().stdout.contains("reader@0.1.0"));
    assert!(host.cofferdam(&["component", "inspect", "reader@0.1.0"]).succeeds().stdout.contains("flights-parse"));
    host.cofferdam(&["component", "push", "job.toml"]).ends_with(4).says(&["job.toml", "not WebAssembly"]);
    host.cofferdam(&["deploy", "nothing.toml"]).ends_with(3);
    host.json(&["forget", "job"]);
    host.json(&["component", "rm", "reader@0.1.0"]);
    host.cofferdam(&["component", "rm", "reader@0.1.0"]).ends_with(9);
    let error = host.cofferdam(&["describe", "job", "--output", "json"]).ends_with(9).json();
    assert_eq!(error["error"]["code"], "not-found", "{error}");
    host.end().succeeds();
    place.cofferdam(&["list", "--address", "http://127.0.0.1:1"]).ends_with(8).says(&["can't be reached", "cofferdam serve"]);
    place.cofferdam(&["list", "--address", "localhost:8081"]).ends_with(8).says(&["`localhost:8081`", "http:// or https://"]);
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.cofferdam(&["completions", shell]).succeeds().stdout.contains("deploy"), "{shell}");
    }
}

#[test]
fn what_operators_log_is_in_the_log_of_their_job_only() {
    let place = Place::new(&JobFile::new("40ms"));
    place.write_lines("input.txt", ["a"]);
    let host = place.host_with(&["--log", "off"]);
    for name in ["one", "two"] {
        let job = JobFile::new("40ms").job("parallelism = 2").source("lines", "type = \"file\"\npath = \"input.txt\"");
        let job = job.operator(name, "fixture-life", &["lines"], "").sink("out", &[name], "type = \"blackhole\"");
        place.write("job.toml", job.text().replace("name = \"job\"", &format!("name = {name:?}")));
        host.cofferdam(&["deploy", "job.toml"]).succeeds();
        host.wait_for(name, "FINISHED");
    }
    let lines = host.json(&["logs", "one", "-f"]);
    assert!(lines["text"].as_str().unwrap().contains("FINISHED"), "{lines}");
    for (name, other) in [("one", "two"), ("two", "one")] {
        let text = host.cofferdam(&["logs", name]).succeeds().stdout;
        for subtask in 0..2 {
            let line = format!(" INFO {name}/{subtask}: life {subtask}: restored false");
            assert_eq!(text.matches(&line).count(), 1, "{line} is not once in {text}");
        }
        assert!(!text.contains(&format!("{other}/")), "{text}");
    }
}

#[test]
fn what_fails_on_the_host_has_the_exit_code_of_run() {
    let place = flights::place("");
    let host = place.host();
    place.set_job(
        &JobFile::new("40ms")
            .source("lines", "type = \"file\"\npath = \"flights.csv\"")
            .operator("stuck", "fixture-misbehave", &["lines"], "config = { on = \"head of the table\", how = \"trap\" }")
            .file_sink("out", &["stuck"]),
    );
    let alone = place.run(&[]).ends_with(1);
    host.cofferdam(&["deploy", "job.toml", "--fresh", "--detach"]).succeeds();
    let details = host.wait_for("job", "FAILED");
    let message = details["ended"]["error"]["message"].as_str().unwrap();
    assert!(alone.stderr.contains(message), "{message} is not in {}", alone.stderr);
    // A checkpoint that isn't there is found out when the job begins.
    host.cofferdam(&["deploy", "job.toml", "-s", "99"]).ends_with(5);
    assert_eq!(host.describe("job")["state"], "FAILED");
    host.cofferdam(&["stop", "job"]).ends_with(10);
}
