//! Moto, a server of S3 that others have written, in a process of its own. `make test` installs it.

use std::net::SocketAddr;
use std::process::Command;

use super::{Bucket, NAME};
use crate::harness::{Running, target};

/// A running server with a bucket. Dropped, it is killed.
pub struct Moto {
    pub bucket: Bucket,
    _running: Running,
}

impl Moto {
    /// Starts one.
    pub fn start() -> Self {
        let program = target().join("moto/bin/moto_server");
        assert!(program.exists(), "no {}; run `make moto` first", program.display());
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", "0"]).env("PYTHONUNBUFFERED", "1");
        let mut running = Running::start(command);
        const READY: &str = "Running on http://";
        running.wait_for_stderr("Press CTRL+C");
        let said = running.stderr();
        let address: SocketAddr =
            said.split(READY).nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect("its address");
        let bucket = Bucket { address, name: NAME };
        bucket.create();
        Moto { bucket, _running: running }
    }
}
