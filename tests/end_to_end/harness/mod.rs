//! What the tests have in common: a directory with a job in it, the processes that run it, and what they leave on disk.

mod checkpoints;
mod host;
mod job_file;
mod kills;
mod phases;
mod place;
mod process;
mod random;
pub mod s3;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use checkpoints::Manifest;
pub use host::Host;
pub use job_file::JobFile;
pub use kills::{Moment, kill_and_resume};
pub use phases::Phase;
pub use place::{Place, names};
pub use process::{Ended, Running};
pub use random::Random;
pub use watch::Watcher;

/// Between two looks at something that is waited for.
const POLL: Duration = Duration::from_millis(2);
/// How often it is looked at before the test is taken to hang: some minutes, since the machine may be busy.
const POLLS: usize = 100_000;

/// Waits until `look` finds something. Only a test that has failed sees the end of its patience.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..POLLS {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(POLL);
    }
    panic!("this never happened: {what}");
}

/// Compares sorted lines with those that must be there, and tells only what differs.
#[track_caller]
pub fn assert_lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>, oracle: impl IntoIterator<Item = T>, case: &str) {
    let mut counts = BTreeMap::<String, i64>::new();
    lines.into_iter().for_each(|line| *counts.entry(line.as_ref().to_owned()).or_default() += 1);
    oracle.into_iter().for_each(|line| *counts.entry(line.as_ref().to_owned()).or_default() -= 1);
    let differ = |more: bool| counts.iter().filter(move |(_, count)| if more { **count > 0 } else { **count < 0 }).map(|(line, _)| line);
    let (more, missing): (Vec<_>, Vec<_>) = (differ(true).take(20).collect(), differ(false).take(20).collect());
    assert!(more.is_empty() && missing.is_empty(), "{case}: too many: {more:?}\nmissing: {missing:?}");
}

/// The directory of this build: where the binary's components are, too.
pub fn target() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("..")
}

/// The path of a component, by the name of its crate.
pub fn guest(name: &str) -> PathBuf {
    let path = target().join("wasm32-wasip2/guest").join(format!("{}.wasm", name.replace('-', "_")));
    let found = path.canonicalize();
    found.unwrap_or_else(|error| panic!("no component {}: {error}; run `make fixtures` first", path.display()))
}

/// The real flights, line by line, without the head of the table.
pub fn flights() -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/flights/input/flights-january.csv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().skip(1).map(str::to_owned).collect()
}
