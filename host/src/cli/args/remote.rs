//! What commands take that ask a host about its jobs and components.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Subcommand, ValueEnum, value_parser};

use super::host::{HostArgs, HostFile};
use super::job::RunArgs;
use super::savepoint::{Target, lasting};
use crate::api::{ERROR_FACTOR, PROBATION};
use crate::plan::{ComponentRef, Location};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct JobArgs {
    /// The job's name
    #[arg(value_name = "JOB")]
    pub(in crate::cli) job: String,

    #[command(flatten)]
    pub(in crate::cli) host: HostArgs,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DeployArgs {
    #[command(flatten)]
    pub(in crate::cli) job: RunArgs,

    #[command(flatten)]
    pub(in crate::cli) host: HostArgs,

    /// Don't wait until the job runs
    #[arg(long)]
    pub(in crate::cli) detach: bool,

    // With this the job file is checked before the host has it; there the host's own counts.
    #[command(flatten)]
    pub(in crate::cli) host_file: HostFile,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LogsArgs {
    #[command(flatten)]
    pub(in crate::cli) job: JobArgs,

    /// Go on with what comes, until the job has ended
    #[arg(short, long)]
    pub(in crate::cli) follow: bool,

    /// How many of the last lines to begin with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u16).range(1..=10_000))]
    pub(in crate::cli) lines: u16,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct StopArgs {
    #[command(flatten)]
    pub(in crate::cli) job: JobArgs,

    /// End as if all input ended here: operators finish, and nothing is left to go on with
    #[arg(long)]
    pub(in crate::cli) drain: bool,

    /// Stop with a savepoint: nothing that comes after it is published. Without a directory, in the job file's `savepoint-dir`
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_parser = OsStringValueParser::new().try_map(|text| lasting(&text)))]
    pub(in crate::cli) savepoint: Option<Option<Location>>,

    #[command(flatten)]
    pub(in crate::cli) target: Target,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RescaleArgs {
    #[command(flatten)]
    pub(in crate::cli) job: JobArgs,

    /// Worker threads from now on
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u16).range(1..=32_768))]
    pub(in crate::cli) parallelism: u16,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SwapArgs {
    /// The job's name
    #[arg(value_name = "JOB")]
    pub(in crate::cli) job: String,

    /// The operator's uid
    #[arg(value_name = "OPERATOR")]
    pub(in crate::cli) operator: String,

    /// The new component: its file, or one that the host keeps by its digest or name@version
    #[arg(value_name = "COMPONENT")]
    pub(in crate::cli) component: ComponentRef,

    /// Only find out whether it fits
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,

    /// How long the old component stays at hand; 0s: there is no way back
    #[arg(long, default_value = PROBATION, value_name = "TIME")]
    pub(in crate::cli) probation: String,

    /// What follows if the new component fails during its probation
    #[arg(long, value_enum, default_value = "forward", value_name = "HOW")]
    pub(in crate::cli) way_back: WayBackArg,

    /// The new component has failed when the part of its records that fails is so many times that of the old one's
    #[arg(long, default_value_t = ERROR_FACTOR, value_name = "TIMES")]
    pub(in crate::cli) error_factor: f64,

    #[command(flatten)]
    pub(in crate::cli) host: HostArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum WayBackArg {
    /// The old component goes on with the state as it is: nothing is replayed
    Forward,
    /// The job goes back to the swap's checkpoint; nothing is published during the probation, except by sinks of type `stdout`
    Rewind,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ComponentCommand {
    /// Gives a host a component
    Push {
        /// The component's file
        file: PathBuf,

        /// Its name in the host, in place of the one that it gives itself
        #[arg(long)]
        name: Option<String>,

        #[command(flatten)]
        host: HostArgs,
    },
    /// Lists the components that a host keeps
    List(HostArgs),
    /// Tells all about a component that a host keeps
    Inspect(ComponentArgs),
    /// Removes a component from a host; refused while a job uses it
    Rm(ComponentArgs),
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ComponentArgs {
    /// Its digest, or name@version
    pub(in crate::cli) component: String,

    #[command(flatten)]
    pub(in crate::cli) host: HostArgs,
}
