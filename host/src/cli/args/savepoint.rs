//! What commands about savepoints take.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::host::{HostArgs, TokenArgs};
use crate::plan::Location;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SavepointArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<SavepointCommand>,

    /// The job's name
    #[arg(value_name = "JOB", required = true)]
    pub(in crate::cli) job: Option<String>,

    /// The directory in which it gets one of its own, a path or a URL; without it, the job file's `savepoint-dir`
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().try_map(|text| lasting(&text)))]
    pub(in crate::cli) dir: Option<Location>,

    #[command(flatten)]
    pub(in crate::cli) target: Target,

    #[command(flatten)]
    pub(in crate::cli) host: HostArgs,
}

/// A place where things stay when processes end.
pub(in crate::cli) fn lasting(text: &OsStr) -> Result<Location, String> {
    text.to_str().map_or_else(|| Ok(Location::Path(text.into())), Location::lasting)
}

/// What a savepoint is to be.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Target {
    /// Ask for the savepoint by this name, of letters and digits: asked for again by the same name, it is not taken twice
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) trigger_id: Option<String>,

    /// Leave the operators' components out of the savepoint
    #[arg(long)]
    pub(in crate::cli) without_components: bool,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SavepointCommand {
    /// Removes a savepoint, or what is left of one that was not written to its end; nothing else
    ///
    /// With `--address` or COFFERDAM_ADDRESS the host does it, unless a job of it has still to begin from the savepoint; otherwise it is done
    /// from here, and nobody is asked.
    Dispose(DisposeArgs),
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DisposeArgs {
    /// Its directory or its manifest: a path or a URL
    #[arg(value_parser = OsStringValueParser::new().try_map(|text| Location::from_os(&text)))]
    pub(in crate::cli) path: Location,

    /// Where the host is that removes it
    #[arg(long, env = "COFFERDAM_ADDRESS", value_name = "URL")]
    pub(in crate::cli) address: Option<String>,

    #[command(flatten)]
    pub(in crate::cli) token: TokenArgs,

    /// A file of certificates in PEM that are trusted besides the system's, if the host speaks TLS
    #[arg(long, env = "COFFERDAM_CA_CERT", value_name = "FILE")]
    pub(in crate::cli) ca_cert: Option<PathBuf>,
}
