//! Who may ask a host: tokens, TLS, and where it listens.

use crate::harness::{JobFile, Place, Running, until};

fn place() -> Place {
    Place::new(&JobFile::new("40ms"))
}

#[test]
fn with_a_token_only_who_knows_it_is_answered() {
    let place = place();
    place.write("token", "a-secret\n");
    let host = place.host_with(&["--token-file", "token"]);
    host.cofferdam(&["list"]).ends_with(11).says(&["token"]);
    host.cofferdam(&["list", "--token-file", "token"]).succeeds();
    let asked = |headers: &str, path: &str| host.http_with("GET", path, headers, b"").0;
    assert_eq!(asked("authorization: Bearer a-secret\r\n", "/metrics"), 200);
    assert_eq!(asked("authorization: Bearer a-secres\r\n", "/metrics"), 401);
    assert_eq!(asked("", "/v1/openapi.json"), 401);
    assert_eq!(asked("", "/healthz"), 200);
    let (_, answer) = host.http("GET", "/v1/jobs", "");
    assert!(answer.contains("unauthorized") && !answer.contains("a-secret"), "{answer}");
}

#[test]
fn a_host_without_a_token_listens_to_this_machine_only() {
    let place = place();
    let refused = place.cofferdam(&["serve", "--data-dir", "data", "--listen", "0.0.0.0:0"]).ends_with(2);
    refused.says(&["wants a token", "--token-file"]);
    let host = place.host();
    let (status, _) = host.http_with("POST", "/v1/jobs/x/cancel", "origin: http://evil.example\r\n", b"");
    assert_eq!(status, 401, "a page in a browser can't cancel a job");
    let second = place.cofferdam(&["serve", "--data-dir", "data", "--listen", "127.0.0.1:0"]).ends_with(6);
    second.says(&["in use by another host"]);
    let taken = host.authority().to_owned();
    place.cofferdam(&["serve", "--data-dir", "other", "--listen", &taken]).ends_with(6).says(&[&taken]);
}

#[test]
fn with_a_token_of_the_environment_a_host_listens_elsewhere_too() {
    let place = place();
    let with_token = |args: &[&str], token: &str| {
        let mut command = place.command(args);
        Running::start(match token {
            "" => command,
            token => {
                command.env("COFFERDAM_TOKEN", token);
                command
            }
        })
    };
    let mut host = with_token(&["serve", "--data-dir", "data", "--listen", "0.0.0.0:0"], "a-secret");
    host.wait_for_stderr("serving on http://0.0.0.0:");
    let said = host.stderr();
    assert!(said.contains("the token goes over the network as it is") && !said.contains("a-secret"), "{said}");
    let port = said.split("serving on http://0.0.0.0:").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("its port");
    let list = ["list", "--address", &format!("http://127.0.0.1:{port}")];
    with_token(&list, "").wait().ends_with(11);
    with_token(&list, "another").wait().ends_with(11);
    with_token(&list, "a-secret").wait().succeeds();
    with_token(&list, "two words").wait().ends_with(2).says(&["the token is empty, or has other than visible ASCII characters in it"]);
    host.signal("TERM");
    host.wait().succeeds();
}

#[test]
fn tls_is_spoken_with_a_certificate() {
    let place = place();
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(place.path(""))
        .output();
    assert!(made.is_ok_and(|made| made.status.success()), "openssl makes the certificate");
    let host = place.host_with(&["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    assert!(host.address().starts_with("https://"));
    host.cofferdam(&["list"]).ends_with(8);
    host.cofferdam(&["list", "--ca-cert", "cert.pem"]).succeeds();
    place.cofferdam(&["serve", "--data-dir", "other", "--tls-cert", "cert.pem", "--tls-key", "job.toml"]).ends_with(6);
}

#[test]
fn a_second_signal_ends_a_host_at_once() {
    let job = JobFile::new("40ms")
        .source("lines", "type = \"file\"\npath = \"input.txt\"")
        .operator("pass", "fixture-slow", &["lines"], "config = { spins = 0 }")
        .operator("stuck", "fixture-misbehave", &["lines"], "config = { on = \"b\", how = \"loop\" }\nlimits = { time = \"1h\" }")
        .sink("seen", &["pass"], "type = \"stdout\"")
        .sink("out", &["stuck"], "type = \"blackhole\"");
    let place = Place::new(&job);
    place.write_lines("input.txt", ["a", "b"]);
    let mut host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.running().wait_for_stdout("b\n");
    host.running().signal("INT");
    host.running().wait_for_stderr("every job takes a last checkpoint");
    until("it takes no more jobs", || (host.http("GET", "/readyz", "").0 == 503).then_some(()));
    host.cofferdam(&["deploy", "job.toml"]).ends_with(10);
    host.running().signal("TERM");
    host.ended().ends_with(143);
}
