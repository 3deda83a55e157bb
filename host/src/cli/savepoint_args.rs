//! What commands about savepoints take.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::args::{HostArgs, TokenArgs};
use crate::plan::Location;

pub(super) const SAVEPOINT_EXAMPLES: &str = "\
Examples:
  cofferdam savepoint words s3://bucket/savepoints
  cofferdam stop words --savepoint savepoints --drain
  cofferdam run -s savepoints/savepoint-words-41-5f00ff
  cofferdam savepoint dispose savepoints/savepoint-words-41-5f00ff";

#[derive(Debug, clap::Args)]
pub(super) struct SavepointArgs {
    #[command(subcommand)]
    pub(super) command: Option<SavepointCommand>,

    /// The job's name
    #[arg(value_name = "JOB", required = true)]
    pub(super) job: Option<String>,

    /// The directory in which it gets one of its own, a path or a URL; without it, the job file's `savepoint-dir`
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().try_map(|text| lasting(&text)))]
    pub(super) dir: Option<Location>,

    #[command(flatten)]
    pub(super) target: Target,

    #[command(flatten)]
    pub(super) host: HostArgs,
}

/// A place where things stay when processes end.
pub(super) fn lasting(text: &OsStr) -> Result<Location, String> {
    text.to_str().map_or_else(|| Ok(Location::Path(text.into())), Location::lasting)
}

/// What a savepoint is to be.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// By which name to ask for it, letters and digits: asked for again by this name, it is not taken again
    #[arg(long, value_name = "ID")]
    pub(super) trigger_id: Option<String>,

    /// Leave the operators' components out of it
    #[arg(long)]
    pub(super) without_components: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum SavepointCommand {
    /// Removes a savepoint, or what an interrupted one has left; nothing else
    ///
    /// With `--address` or COFFERDAM_ADDRESS the host does it, unless a job of it has still to begin from the savepoint; otherwise it is done
    /// from here, and nobody is asked.
    Dispose(DisposeArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct DisposeArgs {
    /// Its directory or its manifest: a path or a URL
    #[arg(value_parser = OsStringValueParser::new().try_map(|text| Location::from_os(&text)))]
    pub(super) path: Location,

    /// Where the host is that removes it
    #[arg(long, env = "COFFERDAM_ADDRESS", value_name = "URL")]
    pub(super) address: Option<String>,

    #[command(flatten)]
    pub(super) token: TokenArgs,

    /// A file of certificates in PEM that are trusted besides the system's, if the host speaks TLS
    #[arg(long, env = "COFFERDAM_CA_CERT", value_name = "FILE")]
    pub(super) ca_cert: Option<PathBuf>,
}
