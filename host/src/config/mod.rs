//! The job file: from its text to a [`Plan`], or to all its faults at once, each with its place in the text.
//!
//! A job file is TOML. [`load`] looks at nothing but this file: whether components, sources and directories are there, and whether
//! components fit each other, is found out later.

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
use std::path::Path;

use crate::error::{Error, Kind, Result};
use crate::plan::Plan;
use faults::Faults;

/// What flags of the command line change in a job file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `-p`: takes the place of `parallelism`.
    pub parallelism: Option<u16>,
}

/// Job files are written by people. What is larger was named by mistake, and is not read into memory.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the job file at `path`. Paths in it count from the directory that it lies in.
///
/// # Errors
/// Of kind [`Kind::Config`]: the file can't be read, or its faults, all of them, in the order in which they stand in the file.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Plan> {
    let text = read(path)?;
    let absolute = std::path::absolute(path).map_err(|error| unreadable(path, &error))?;
    // The root directory can't be read as a file, so there is a parent.
    let base = absolute.parent().unwrap_or(Path::new("/"));
    let faults = Faults::new(path, text);
    let plan = file::read(&faults, base, overrides);
    faults.into_result(plan)
}

fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("{} is no job file: it has more than {MAX_BYTES} bytes", path.display());
        return Err(Error::new(Kind::Config, message).help("give the path of the job's TOML file"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let message = format!("{} is no job file: byte {place} is not UTF-8 text", path.display());
        Error::new(Kind::Config, message).help("give the path of the job's TOML file, saved as UTF-8")
    })
}

fn unreadable(path: &Path, cause: &io::Error) -> Error {
    let message = format!("can't read the job file {}: {cause}", path.display());
    Error::new(Kind::Config, message).help("give the path of the job's TOML file")
}

#[cfg(test)]
mod tests;
