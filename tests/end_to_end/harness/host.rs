//! A host, started as users start one, with its data in the place.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::{Ended, Place, Running, until};

/// A running `cofferdam serve`. Dropped, it is killed.
pub struct Host<'a> {
    place: &'a Place,
    running: Running,
    address: String,
}

impl Place {
    /// Starts a host on a free port, with its data in `data`.
    pub fn host(&self) -> Host<'_> {
        self.host_with(&[])
    }

    /// The same with more arguments.
    pub fn host_with(&self, args: &[&str]) -> Host<'_> {
        let serve = ["serve", "--data-dir", "data", "--listen", "127.0.0.1:0"];
        let mut running = Running::start(self.command(&[&serve, args].concat()));
        running.wait_for_stderr("serving on ");
        let said = running.stderr();
        let address = said.split("serving on ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("its address").to_owned();
        Host { place: self, running, address }
    }
}

impl Host<'_> {
    /// The process.
    pub fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Where it listens, as a URL.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// `host:port`, where it listens.
    pub fn authority(&self) -> &str {
        self.address.split("//").nth(1).expect("a URL")
    }

    /// A command that asks this host, to its end.
    pub fn cofferdam(&self, args: &[&str]) -> Ended {
        self.start(args).wait()
    }

    /// Starts a command that asks this host.
    pub fn start(&self, args: &[&str]) -> Running {
        let mut command = self.place.command(args);
        command.env("COFFERDAM_ADDRESS", &self.address);
        Running::start(command)
    }

    /// The answer of a command that asks this host and must succeed.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        self.cofferdam(&[args, &["--output", "json"]].concat()).succeeds().json()
    }

    /// All about a job.
    #[track_caller]
    pub fn describe(&self, job: &str) -> Value {
        let (status, answer) = self.http("GET", &format!("/v1/jobs/{job}"), "");
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).expect("an answer is JSON")
    }

    /// Waits until a job is in a state.
    #[track_caller]
    pub fn wait_for(&self, job: &str, state: &str) -> Value {
        self.wait_until(job, state, |details| details["state"] == state)
    }

    /// Waits until there is something to be told of a job.
    #[track_caller]
    pub fn wait_until(&self, job: &str, what: &str, look: impl Fn(&Value) -> bool) -> Value {
        until(&format!("job `{job}`: {what}"), || Some(self.describe(job)).filter(|details| look(details)))
    }

    /// Status and body of the answer to a request.
    pub fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.http_with(method, path, "content-type: application/json\r\n", body.as_bytes())
    }

    /// The same with other headers.
    pub fn http_with(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
        let authority = self.authority();
        let mut stream = TcpStream::connect(authority).expect("the host listens");
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
        stream.write_all(&[head.as_bytes(), body].concat()).expect("the host takes a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the host answers");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    /// Kills it as `kill -9` does.
    pub fn kill(self) {
        self.running.kill();
    }

    /// Ends it by SIGTERM, as an operating system does.
    pub fn end(self) -> Ended {
        self.running.signal("TERM");
        self.ended()
    }

    /// Waits for its end.
    pub fn ended(self) -> Ended {
        self.running.wait()
    }
}
