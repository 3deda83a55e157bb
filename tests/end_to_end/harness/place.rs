//! A directory of a test's own, with `job.toml` in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{Ended, JobFile, Running};

/// How variables begin that say how buckets are reached.
const BUCKETS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// A directory of a test's own.
pub struct Place(TempDir);

impl Place {
    /// With nothing in it.
    pub fn empty() -> Self {
        Place(TempDir::new().expect("a temporary directory can be made"))
    }

    /// With `job.toml` and nothing else.
    pub fn new(job: &JobFile) -> Self {
        let place = Place::empty();
        place.set_job(job);
        place
    }

    /// A copy with all that is in it.
    pub fn copy(&self) -> Self {
        let copy = Place::empty();
        for (path, content) in self.content() {
            let inside = path.strip_prefix(self.0.path()).expect("it is inside").to_string_lossy().into_owned();
            match content {
                Some(bytes) => copy.write(&inside, bytes),
                None => fs::create_dir_all(copy.path(&inside)).expect("a directory can be made"),
            }
        }
        copy
    }

    /// Replaces `job.toml`.
    pub fn set_job(&self, job: &JobFile) {
        self.write("job.toml", job.text());
    }

    /// A path in it.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside)
    }

    /// Writes a file, and the directories that it needs.
    pub fn write(&self, inside: &str, content: impl AsRef<[u8]>) {
        let path = self.path(inside);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, content)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Writes a file of lines.
    pub fn write_lines<T: AsRef<str>>(&self, inside: &str, lines: impl IntoIterator<Item = T>) {
        let text: String = lines.into_iter().map(|line| format!("{}\n", line.as_ref())).collect();
        self.write(inside, text);
    }

    /// The binary with arguments, to be run here, with nothing from outside that would change what it does.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam"));
        command.current_dir(self.0.path()).args(args).stdin(Stdio::null());
        // Compiled components are shared between tests.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        command.env("XDG_CACHE_HOME", cache).env_remove("COFFERDAM_LOG").env_remove("COFFERDAM_HOST_FILE");
        ["COFFERDAM_ADDRESS", "COFFERDAM_DATA_DIR", "COFFERDAM_TOKEN"].iter().for_each(|name| _ = command.env_remove(name));
        let names = std::env::vars_os().map(|(name, _)| name);
        let reaches = |name: &str| BUCKETS.iter().any(|begin| name.starts_with(begin)) || name.to_lowercase().ends_with("_proxy");
        names.filter(|name| name.to_str().is_some_and(reaches)).for_each(|name| _ = command.env_remove(name));
        command
    }

    /// Runs the binary to its end.
    pub fn cofferdam(&self, args: &[&str]) -> Ended {
        Running::start(self.command(args)).wait()
    }

    /// Starts `cofferdam run job.toml` with more arguments.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(&[&["run", "job.toml"], args].concat()))
    }

    /// Runs `cofferdam run job.toml` with more arguments to its end.
    pub fn run(&self, args: &[&str]) -> Ended {
        self.start(args).wait()
    }

    /// The files that readers of a sink's directory see, by name.
    pub fn visible(&self, sink: &str) -> BTreeMap<String, String> {
        visible(&self.path(sink))
    }

    /// All lines that readers of a sink's directory see, sorted.
    pub fn lines(&self, sink: &str) -> Vec<String> {
        let mut lines: Vec<String> = self.visible(sink).values().flat_map(|text| text.lines().map(str::to_owned)).collect();
        lines.sort_unstable();
        lines
    }

    /// All that is in it: files with their content, directories without.
    pub fn content(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut content = BTreeMap::new();
        collect(self.0.path(), &mut content);
        content
    }
}

/// The files in a directory that are not hidden, by name; none if there is no directory yet.
pub fn visible(dir: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for name in names(dir) {
        if name.starts_with('.') {
            continue;
        }
        let read = fs::read_to_string(dir.join(&name));
        files.insert(name.clone(), read.unwrap_or_else(|error| panic!("{name} in {}: {error}", dir.display())));
    }
    files
}

/// The names in a directory, sorted; none if it does not exist.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("a directory can be listed").file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort_unstable();
    names
}

fn collect(path: &Path, content: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    let is_dir = path.is_dir();
    let file = (!is_dir).then(|| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    content.insert(path.to_owned(), file);
    if is_dir {
        names(path).iter().for_each(|name| collect(&path.join(name), content));
    }
}
