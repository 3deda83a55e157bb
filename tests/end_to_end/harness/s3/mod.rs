//! Buckets to keep checkpoints in: of a server in this process that misbehaves as it is told, or of moto, in a process of its own. And
//! what a test has to know of a bucket: what lies in it.

mod azure;
mod google;
mod http;
mod moto;
mod objects;
mod page;
mod server;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::Bytes;

use super::{Manifest, Place};

pub use google::{ACCOUNT as GOOGLE_ACCOUNT, TOKEN as GOOGLE_TOKEN, give_credentials as give_google_credentials};
pub use moto::Moto;
pub use server::{Fault, Request, Server};

/// The bucket that there is.
const NAME: &str = "bucket";

/// The name of the key that is valid.
const ACCESS: &str = "test";

/// That key, which is not to be told to anyone.
pub const SECRET: &str = "wJalrXUtnFEMI-this-is-secret";

/// A bucket of a server on this machine.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The server.
    pub address: SocketAddr,
    /// Its name.
    pub name: &'static str,
}

impl Bucket {
    /// The lines of `[checkpoint]` for checkpoints in this bucket, ending in the table that says how it is reached.
    pub fn settings(&self, interval: &str) -> String {
        let Bucket { address, name } = self;
        format!(
            "interval = {interval:?}\ndir = \"s3://{name}/check/points\"\n\n[checkpoint.s3]\nendpoint = \"http://{address}\"\nallow-http = true\n\
             credentials-file = \"credentials\"\n"
        )
    }

    /// The same for a bucket of `service`, `gs` or `az`, with more lines in its table.
    pub fn settings_of(&self, service: &str, lines: &str, interval: &str) -> String {
        let Bucket { address, name } = self;
        format!(
            "interval = {interval:?}\ndir = \"{service}://{name}/check/points\"\n\n[checkpoint.{service}]\nendpoint = \"http://{address}\"\n\
             allow-http = true\n{lines}"
        )
    }

    /// Writes the file of credentials that the settings name.
    pub fn give_credentials(place: &Place) {
        place.write("credentials", format!("[default]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n"));
    }

    /// Makes the bucket.
    fn create(&self) {
        let (status, body) = http::request(self.address, "PUT", &format!("/{}", self.name), "");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    }

    /// The keys of all objects.
    pub fn keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        let mut after = String::new();
        loop {
            let (status, body) = http::request(self.address, "GET", &format!("/{}?list-type=2&start-after={after}", self.name), "");
            let text = String::from_utf8_lossy(&body);
            assert_eq!(status, 200, "{text}");
            let found = text.split("<Key>").skip(1).map(|rest| rest.split('<').next().unwrap_or_default().to_owned());
            keys.extend(found);
            if !text.contains("<IsTruncated>true") {
                return keys;
            }
            after = keys.last().expect("there is a page before the next").clone();
        }
    }

    /// An object's content; none if it is not there.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        let (status, body) = http::request(self.address, "GET", &format!("/{}/{key}", self.name), "");
        assert!(matches!(status, 200 | 404), "{status}: {}", String::from_utf8_lossy(&body));
        (status == 200).then_some(body)
    }

    /// Moves all objects whose keys begin so to keys that begin in another way.
    pub fn move_all(&self, from: &str, to: &str) {
        for key in self.keys().iter().filter(|key| key.starts_with(from)) {
            let content = self.get(key).expect("it was listed");
            let moved = format!("/{}/{to}{}", self.name, &key[from.len()..]);
            for (method, path, body) in [("PUT", moved, content), ("DELETE", format!("/{}/{key}", self.name), Bytes::new())] {
                let (status, answer) = http::request(self.address, method, &path, body);
                assert!((200..300).contains(&status), "{}", String::from_utf8_lossy(&answer));
            }
        }
    }

    /// The files of a run, relative to its directory.
    pub fn files(&self, run: u32) -> BTreeSet<String> {
        let dir = run_dir(run);
        self.keys().iter().filter_map(|key| key.strip_prefix(&dir)).map(str::to_owned).collect()
    }

    /// The committed checkpoints of a run, from the oldest to the newest. While a job runs, some may just have gone.
    pub fn manifests(&self, run: u32) -> Vec<Manifest> {
        let read = |file: &String| {
            let key = format!("{}{file}", run_dir(run));
            let json: serde_json::Value = serde_json::from_slice(&self.get(&key)?).ok()?;
            let checkpoint = json["checkpoint"].as_u64().filter(|_| json["entry"] == "checkpoint")?;
            Some(Manifest { path: format!("s3://{}/{key}", self.name).into(), checkpoint, json })
        };
        self.files(run).iter().filter(|file| file.starts_with("log/")).filter_map(read).collect()
    }

    /// The number of the newest committed checkpoint of a run; 0 if there is none.
    pub fn newest(&self, run: u32) -> u64 {
        self.manifests(run).last().map_or(0, |manifest| manifest.checkpoint)
    }

    /// Checks that the last three checkpoints of the first run are there with what they name, and nothing else.
    #[track_caller]
    pub fn holds_only_what_is_needed(&self) {
        let manifests = self.manifests(1);
        assert_eq!(manifests.len(), 3, "checkpoints kept");
        let named: BTreeSet<String> = manifests.iter().flat_map(Manifest::state_files).collect();
        assert!(!named.is_empty());
        let files = self.files(1);
        assert_eq!(files.iter().filter(|file| !file.starts_with("log/") && *file != "published").cloned().collect::<BTreeSet<_>>(), named);
        assert_eq!(self.keys().len(), files.len(), "nothing beside the run: {:?}", self.keys());
    }
}

fn run_dir(run: u32) -> String {
    format!("check/points/job/run-{run:04}/")
}
