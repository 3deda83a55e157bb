//! A host as a service: from its start to the output of a job that is deployed to it, and what it needs while it has nothing to do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::jobs::{Words, resident};
use crate::{Row, cofferdam, median, timed};

/// The start of a host with an empty data directory; its memory. Takes ten seconds.
pub(crate) fn host() -> Vec<Row> {
    first();
    let took = median((0..9).map(|_| first()).collect());
    let dir = tempfile::tempdir().expect("a directory");
    let idle = resident(&Host::start(dir.path()).child);
    vec![
        Row("start of a host and of a job on it to the first record at the sink, components cached".into(), format!("{took:.0} ms")),
        Row("memory of an idle host".into(), idle),
    ]
}

/// Milliseconds to the first record. Input goes on, since nothing is to be seen of a job that has ended.
fn first() -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    let job = Words { keys: 100, ..Words::default() }.write(dir.path());
    let (took, _host) = timed(|| {
        let host = Host::start(dir.path());
        host.ask(&["deploy", "--detach", &job]);
        host.wait_for_records(1);
        host
    });
    took.as_secs_f64() * 1e3
}

/// A running host, and a job `words` on it. Dropped, it is killed.
pub(crate) struct Host {
    child: Child,
    address: String,
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Host {
    /// Starts one with its data in `dir`, which it may have had before.
    pub(crate) fn start(dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let address = said.find_map(|line| line.split("serving on ").nth(1).map(|rest| rest.trim().to_owned())).expect("its address");
        std::thread::spawn(move || said.for_each(drop));
        Host { child, address }
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        cofferdam(&[arguments, &["--address", &self.address]].concat())
    }

    /// Waits until the sink has taken so many records.
    pub(crate) fn wait_for_records(&self, records: u64) {
        loop {
            let job = self.job();
            if taken(&job) >= records {
                return;
            }
            assert!(job["ended"].is_null(), "the job has ended: {job}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// All about the job.
    fn job(&self) -> Value {
        let authority = self.address.split("//").nth(1).expect("a URL");
        let mut stream = TcpStream::connect(authority).expect("the host listens");
        write!(stream, "GET /v1/jobs/words HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).expect("JSON")
    }
}

/// Records that the sink of a job has taken so far.
fn taken(job: &Value) -> u64 {
    let nodes = job["nodes"].as_array().expect("nodes");
    nodes.last().and_then(|sink| sink["records-in"].as_u64()).unwrap_or(0)
}
