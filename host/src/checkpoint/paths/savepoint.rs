//! Where everything lies in a savepoint, and what a path found there is.
//!
//! ```text
//! <target>/savepoint-<job>-<checkpoint>-<trigger id>/
//!     state/3-41/count.1-41.2.merged.state     state, with the paths that it has within a run
//!     components/<digest>.wasm                 an operator's component
//!     job.toml                                 the job file
//!     writer                                   who writes it, until it is whole
//!     manifest.json                            the manifest, which comes last: without it this is no savepoint
//! ```
//!
//! Paths within a savepoint are relative to its directory, so that it can be moved as a whole.

use super::{RunPath, escape};

/// The manifest, within a savepoint.
pub const MANIFEST: &str = "manifest.json";

/// The job file, within a savepoint.
pub const JOB_FILE: &str = "job.toml";

/// What says who writes it, within a savepoint that is not whole.
pub const WRITER: &str = "writer";

/// What a path within a savepoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavepointPath {
    /// Its manifest.
    Manifest,
    /// The job file.
    JobFile,
    /// A component.
    Component,
    /// A state file.
    State,
    /// What says who writes it.
    Writer,
    /// Nothing of ours: to be named, and left alone.
    Foreign,
}

/// The name of a savepoint's directory.
pub fn dir(job: &str, checkpoint: u64, trigger_id: &str) -> String {
    format!("savepoint-{}-{checkpoint}-{trigger_id}", escape(job))
}

/// Whether a savepoint of `job` that was asked for as `trigger_id` would lie in a directory of this name.
pub fn is_dir_of(name: &str, job: &str, trigger_id: &str) -> bool {
    let rest = name.strip_prefix("savepoint-").and_then(|rest| rest.strip_prefix(&escape(job)));
    let checkpoint = rest.and_then(|rest| rest.strip_prefix('-')?.strip_suffix(trigger_id)?.strip_suffix('-')?.parse().ok());
    checkpoint.is_some_and(|checkpoint| dir(job, checkpoint, trigger_id) == name)
}

/// Whether the name of a directory is one that a savepoint could have.
pub fn is_dir(name: &str) -> bool {
    name.starts_with("savepoint-")
}

/// Whether a savepoint may be asked for by this name.
pub fn is_trigger_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The path of a component, within a savepoint.
pub fn component(digest: &str) -> String {
    format!("components/{digest}.wasm")
}

/// What a path, relative to a savepoint's directory, is.
pub fn classify(path: &str) -> SavepointPath {
    match path {
        MANIFEST => SavepointPath::Manifest,
        JOB_FILE => SavepointPath::JobFile,
        WRITER => SavepointPath::Writer,
        _ if is_component(path) => SavepointPath::Component,
        _ if matches!(super::classify(path), RunPath::State(_)) => SavepointPath::State,
        _ => SavepointPath::Foreign,
    }
}

fn is_component(path: &str) -> bool {
    let digest = path.strip_prefix("components/").and_then(|name| name.strip_suffix(".wasm"));
    digest.is_some_and(|digest| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_says_whose_savepoint_it_is() {
        assert_eq!(dir("words", 41, "5f"), "savepoint-words-41-5f");
        assert!(is_dir_of("savepoint-words-41-5f", "words", "5f") && is_dir_of(&dir("a/b-3", 7, "x"), "a/b-3", "x"));
        for (name, job, id) in [
            ("savepoint-words-41-5f", "word", "5f"),
            ("savepoint-words-41-5f", "words", "f"),
            ("savepoint-words-041-5f", "words", "5f"),
            ("savepoint-words-3-41-5f", "words", "5f"),
            ("words-41-5f", "words", "5f"),
        ] {
            assert!(!is_dir_of(name, job, id), "{name} {job} {id}");
        }
        assert!(is_trigger_id("00ff") && !is_trigger_id("") && !is_trigger_id("a-b") && !is_trigger_id("../x"));
    }

    #[test]
    fn only_what_a_savepoint_holds_is_its_own() {
        let digest = "0123456789abcdef".repeat(4);
        assert_eq!(classify(&component(&digest)), SavepointPath::Component);
        assert_eq!(classify("state/3-41/count.1-41.2.merged.state"), SavepointPath::State);
        assert_eq!((classify(MANIFEST), classify(JOB_FILE)), (SavepointPath::Manifest, SavepointPath::JobFile));
        for path in ["", "log/00000000000000000001.json", "published", "components/x.wasm", "state/x", "x/manifest.json", "job.toml.bak"] {
            assert_eq!(classify(path), SavepointPath::Foreign, "{path}");
        }
    }
}
