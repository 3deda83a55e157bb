//! The job file: from its text to a [`Plan`], or to all its faults at once, each with its place in the text.
//!
//! A job file is TOML. [`load`] looks at nothing but this file: whether components, sources and directories are there, and whether
//! components fit each other, is found out later. A host file has defaults for all jobs of a host.

mod bucket;
mod checkpoint;
mod faults;
mod file;
mod grants;
mod json;
mod limits;
mod links;
mod locations;
mod nodes;
mod restart;
mod secrets;
mod section;
mod setting;
mod state;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::plan::Plan;
use faults::Faults;

pub use file::Defaults;

/// What a job is besides its file: by flags of the command line, and by its host.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `-p`: takes the place of `parallelism`.
    pub parallelism: Option<u16>,
    /// For what the job file leaves out.
    pub defaults: Defaults,
}

/// Job files are written by people. What is larger was named by mistake, and is not read into memory.
const MAX_BYTES: u64 = 1 << 20;

/// What a file is to be.
#[derive(Clone, Copy)]
struct Expected {
    name: &'static str,
    help: &'static str,
}

const JOB: Expected = Expected { name: "job file", help: "give the path of the job's TOML file, saved as UTF-8" };
const HOST: Expected = Expected { name: "host file", help: "give the path of the host's TOML file with `--host-file`, or none" };

/// Reads the job file at `path`. Paths in it count from the directory that it lies in.
///
/// # Errors
/// Of kind [`Kind::Config`]: the file can't be read, or its faults, all of them, in the order in which they stand in it.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Plan> {
    parse(path, text(path)?, overrides)
}

/// Reads the text of a job file which lies, or might lie, at `path`. Paths in it count from the directory above.
///
/// # Errors
/// As [`load`].
pub fn parse(path: &Path, text: String, overrides: &Overrides) -> Result<Plan> {
    let (faults, base) = (Faults::new(path, text), base(path, JOB)?);
    let plan = file::read(&faults, &base, overrides);
    faults.into_result(plan)
}

/// Reads the host file at `path`, if there is one. Paths in it count from the directory that it lies in.
///
/// # Errors
/// As [`load`].
pub fn load_host(path: Option<&Path>) -> Result<Defaults> {
    let Some(path) = path else { return Ok(Defaults::default()) };
    let (faults, base) = (Faults::new(path, read(path, HOST)?), base(path, HOST)?);
    let defaults = file::read_host(&faults, &base);
    faults.into_result(defaults)
}

/// The text of the job file at `path`.
///
/// # Errors
/// Of kind [`Kind::Config`]: it can't be read.
pub fn text(path: &Path) -> Result<String> {
    read(path, JOB)
}

/// The directory that paths in a file count from.
fn base(path: &Path, expected: Expected) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|error| unreadable(path, expected, &error))?;
    // The root directory can't be read as a file, so there is a parent.
    Ok(absolute.parent().unwrap_or(Path::new("/")).into())
}

fn read(path: &Path, expected: Expected) -> Result<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(path, expected, &error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, expected, &error))?;
    let is_none = |why: String| Error::new(Kind::Config, format!("{} is no {}: {why}", path.display(), expected.name)).help(expected.help);
    if bytes.len() as u64 > MAX_BYTES {
        return Err(is_none(format!("it has more than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| is_none(format!("byte {} is not UTF-8 text", error.utf8_error().valid_up_to())))
}

fn unreadable(path: &Path, expected: Expected, cause: &io::Error) -> Error {
    let message = format!("can't read the {} {}: {cause}", expected.name, path.display());
    Error::new(Kind::Config, message).help(expected.help)
}

#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;
