//! The invariants of ARCHITECTURE.md that can be read off the source: who may use whom, where the big dependencies live, what must
//! stay synchronous or pure, and how long files may get.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// For each module of the host, which others it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("clock", &[]),
    ("codec", &["error"]),
    ("durable", &[]),
    ("telemetry", &["error"]),
    ("threads", &["error"]),
    ("tls", &[]),
    ("record", &[]),
    ("plan", &["error", "record"]),
    ("config", &["error", "plan"]),
    ("state", &["plan", "record"]),
    ("wasm", &["clock", "error", "plan", "record", "state"]),
    ("checkpoint", &["clock", "codec", "durable", "error", "plan", "record", "state", "threads", "tls"]),
    ("cold", &["clock", "error", "state"]),
    ("connectors", &["clock", "durable", "error", "plan", "record"]),
    ("dataflow", &["clock", "error", "plan", "record", "state", "wasm", "connectors"]),
    ("job", &["clock", "error", "plan", "record", "state", "wasm", "checkpoint", "cold", "connectors", "dataflow", "threads"]),
    ("service", &["clock", "config", "durable", "error", "job", "plan", "record", "telemetry", "wasm"]),
    ("api", &["clock", "error", "job", "plan", "service", "threads", "tls"]),
    ("cli", &["api", "clock", "config", "error", "job", "plan", "record", "service", "telemetry", "tls"]),
];

/// Each of these is named in one place only.
const HOMES: &[(&str, &str)] = &[
    ("wasmtime", "wasm/"),
    ("wasmtime_wasi", "wasm/"),
    ("timely", "dataflow/"),
    ("object_store", "checkpoint/store"),
    ("fjall", "cold/"),
    ("rustls", "tls"),
    ("axum", "api/"),
    ("axum_server", "api/"),
    ("utoipa_axum", "api/"),
    ("bincode", "codec"),
    ("clap", "cli/"),
    ("miette", "cli/"),
    ("indicatif", "cli/"),
    ("toml", "config/"),
];

/// Synchronous: a worker thread never waits for the network.
const SYNCHRONOUS: &[&str] = &["state/", "cold/", "wasm/", "dataflow/", "connectors/", "record/", "plan/"];

/// The checkpoint protocol, plans and state: facts in, decision out.
const PURE: &[&str] = &[
    "checkpoint/pending",
    "checkpoint/decide",
    "checkpoint/manifest",
    "checkpoint/paths",
    "checkpoint/listing",
    "job/cycle",
    "plan/",
    "record/",
    "state/",
];

/// Lines of a file, without its tests.
const LONGEST_FILE: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Each source file of the host by its path below host/src, without comments and without its tests.
fn sources() -> BTreeMap<String, String> {
    let base = root().join("host/src");
    let mut files = Vec::new();
    rust_files(&base, &mut files);
    let code = |path: &PathBuf| {
        let name = path.strip_prefix(&base).expect("below the base").to_string_lossy().into_owned();
        let text = fs::read_to_string(path).expect("a readable file");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        (name, code.join("\n"))
    };
    files.iter().map(code).filter(|(name, _)| !name.ends_with("tests.rs") && !name.contains("/tests/")).collect()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// What follows `crate::` in a file.
fn used_modules(code: &str) -> Vec<&str> {
    code.split("crate::").skip(1).filter_map(|rest| words(rest).next()).collect()
}

#[test]
fn each_module_uses_only_modules_above_it() {
    let rules: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    let mut faults = Vec::new();
    for (file, code) in sources() {
        let module = file.split(['/', '.']).next().unwrap_or_default().to_string();
        if module == "lib" || module == "main" {
            continue;
        }
        let Some(allowed) = rules.get(module.as_str()) else {
            faults.push(format!("{file}: module `{module}` has no place in the order"));
            continue;
        };
        for used in used_modules(&code) {
            if used != module && rules.contains_key(used) && !allowed.contains(&used) {
                faults.push(format!("{file}: `{module}` must not use `{used}`"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn each_big_dependency_is_named_in_one_module() {
    let mut faults = Vec::new();
    for (file, code) in sources() {
        for &(name, home) in HOMES {
            let named = |line: &str| line.contains(&format!("{name}::")) && words(line).any(|word| word == name);
            if code.lines().any(named) && !file.starts_with(home) {
                faults.push(format!("{file}: {name} belongs into {home}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_core_is_synchronous_and_decisions_are_pure() {
    let mut faults = Vec::new();
    for (file, code) in sources() {
        let within = |places: &[&str]| places.iter().any(|place| file.starts_with(place));
        let has = |word: &str| words(&code).any(|found| found == word);
        if within(SYNCHRONOUS) && (has("async") || has("tokio") || has("await")) {
            faults.push(format!("{file}: must be synchronous"));
        }
        if within(PURE) && (has("fs") || has("clock") || has("net") || has("thread")) {
            faults.push(format!("{file}: must not do I/O or read a clock"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_file_says_what_it_owns_and_stays_short() {
    let mut files = Vec::new();
    ["host", "guest-sdk", "examples", "tests"].iter().for_each(|dir| rust_files(&root().join(dir), &mut files));
    let mut faults = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a readable file");
        let generated = text.lines().take(5).any(|line| line.contains("@generated") || line.contains("Generated by"));
        if !text.starts_with("//!") && !generated {
            faults.push(format!("{}: does not open with what it owns (//!)", path.display()));
        }
        let lines = text.split("#[cfg(test)]").next().unwrap_or_default().lines().count();
        let is_test = path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests");
        if lines > LONGEST_FILE && !generated && !is_test {
            faults.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
