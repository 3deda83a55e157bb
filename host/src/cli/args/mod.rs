//! What the command line takes, and the help that it gives.

mod help;
mod host;
mod job;
mod remote;
mod savepoint;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum};

use crate::plan::Location;
use crate::telemetry::Filter;
use help::{CHECKPOINTS, COMPLETIONS, EXAMPLES, EXIT_CODES, RUN_EXAMPLES, SAVEPOINT_EXAMPLES, SWAP};

pub(super) use host::{HostArgs, HostFile, ServeArgs, TokenArgs};
pub(super) use job::{JobFile, RunArgs};
pub(super) use remote::{ComponentCommand, DeployArgs, JobArgs, LogsArgs, RescaleArgs, StopArgs, SwapArgs, WayBackArg};
pub(super) use savepoint::{DisposeArgs, SavepointArgs, SavepointCommand, Target};

/// What all commands take stands apart in the help.
const GENERAL: &str = "General options";

/// Runs stateful stream operators that are WebAssembly components, and keeps their state.
#[derive(Debug, Parser)]
#[command(name = "cofferdam", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Args {
    /// How to print answers and errors; json: one line of JSON, the last one on standard output
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT", help_heading = GENERAL)]
    pub(super) output: Output,

    /// What to log to standard error: off, error, warn, info, debug, trace, or TARGET=LEVEL,…
    #[arg(long, global = true, env = "COFFERDAM_LOG", default_value = "warn", value_name = "LEVEL", help_heading = GENERAL)]
    pub(super) log: Filter,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Runs a job until its input ends or it is stopped
    #[command(after_help = format!("{RUN_EXAMPLES}\n\n{EXIT_CODES}"))]
    Run {
        #[command(flatten)]
        job: RunArgs,

        #[command(flatten)]
        host_file: HostFile,
    },
    /// Checks a job without running it: the job file, its components, how they fit, and its paths
    #[command(after_help = EXIT_CODES)]
    Validate {
        #[command(flatten)]
        job: JobFile,

        #[command(flatten)]
        host_file: HostFile,
    },
    /// Shows what is in a component, a checkpoint's manifest, a state file or a savepoint
    #[command(after_help = EXIT_CODES)]
    Inspect {
        /// The file, or the savepoint's directory: a path or a URL
        #[arg(value_parser = OsStringValueParser::new().try_map(|text| Location::from_os(&text)))]
        file: Location,
    },
    /// Runs a host: many jobs, which are deployed to it and come back when it does
    #[command(after_help = EXIT_CODES)]
    Serve(ServeArgs),
    /// Deploys a job to a host, with its components, and waits until it runs
    #[command(after_help = EXIT_CODES)]
    Deploy(DeployArgs),
    /// Lists the jobs of a host
    #[command(after_help = EXIT_CODES)]
    List(HostArgs),
    /// Tells all about a job of a host
    #[command(after_help = EXIT_CODES)]
    Describe(JobArgs),
    /// Tells what has happened to a job of a host
    #[command(after_help = EXIT_CODES)]
    Events(JobArgs),
    /// Shows what the host and the operators have logged about a job
    #[command(after_help = EXIT_CODES)]
    Logs(LogsArgs),
    /// Stops a job of a host with a last checkpoint, from which it goes on when it is deployed again
    #[command(after_help = EXIT_CODES)]
    Stop(StopArgs),
    /// Ends a job of a host at once, without a last checkpoint; deployed again, it goes on from its newest one
    #[command(after_help = EXIT_CODES)]
    Cancel(JobArgs),
    /// Has a job of a host go on with another parallelism, from a last checkpoint
    #[command(after_help = EXIT_CODES)]
    Rescale(RescaleArgs),
    /// Has an operator of a running job run another component, and takes the old one back if that fails
    #[command(after_help = format!("{SWAP}\n\n{EXIT_CODES}"))]
    Swap(SwapArgs),
    /// Has a host forget a job that has ended; its checkpoints and output stay
    #[command(after_help = EXIT_CODES)]
    Forget(JobArgs),
    /// Pushes, lists, inspects or removes components that a host keeps
    #[command(subcommand, after_help = EXIT_CODES)]
    Component(ComponentCommand),
    /// Has a job of a host take a savepoint: all of its state, in files that depend on nothing else
    #[command(args_conflicts_with_subcommands = true, after_help = format!("{SAVEPOINT_EXAMPLES}\n\n{EXIT_CODES}"))]
    Savepoint(SavepointArgs),
    /// Lists the checkpoints of a job with what they took, and those that failed
    #[command(after_help = format!("{CHECKPOINTS}\n\n{EXIT_CODES}"))]
    Checkpoints {
        /// The job file, or the job's own directory below the one that `[checkpoint] dir` names, as a path or a URL; or the name of a job
        /// of a host
        #[arg(value_name = "JOB.toml|JOB-DIR|JOB", value_parser = OsStringValueParser::new().try_map(|text| Location::from_os(&text)))]
        job: Location,
        /// Only the checkpoint with this number, and what each of its snapshots took
        #[arg(long, value_name = "N")]
        checkpoint: Option<u64>,

        #[command(flatten)]
        host_file: HostFile,

        #[command(flatten)]
        host: HostArgs,
    },
    /// Writes a script that completes commands in a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;
    use crate::error::Kind;

    fn parse(line: &str) -> Result<Args, ErrorKind> {
        Args::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn global_flags_stand_before_or_after_the_command() {
        for line in ["cofferdam --output json validate j.toml", "cofferdam validate j.toml --output json"] {
            assert_eq!(parse(line).map(|args| args.output), Ok(Output::Json), "{line}");
        }
    }

    #[test]
    fn run_takes_its_flags() {
        let Ok(Args { command: Command::Run { job: run, .. }, .. }) = parse("cofferdam run j.toml -p 3 -s 17 --allow-duplicates") else {
            panic!()
        };
        let options = run.restore.options(run.fresh);
        assert_eq!((run.parallelism, options.from.as_deref(), options.allow_duplicates, options.fresh), (Some(3), Some("17"), true, false));
    }

    #[test]
    fn wrong_usage_is_told_apart() {
        for (line, kind) in [
            ("cofferdam", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            ("cofferdam run", ErrorKind::MissingRequiredArgument),
            ("cofferdam run j.toml --claim-mode claim", ErrorKind::MissingRequiredArgument),
            ("cofferdam run j.toml -p 0", ErrorKind::ValueValidation),
            ("cofferdam run j.toml -p 40000", ErrorKind::ValueValidation),
            ("cofferdam run j.toml --fresh -s 3", ErrorKind::ArgumentConflict),
            ("cofferdam run j.toml --fallback -s 3", ErrorKind::ArgumentConflict),
            ("cofferdam run j.toml --log loud", ErrorKind::ValueValidation),
            ("cofferdam run j.toml --output xml", ErrorKind::InvalidValue),
            ("cofferdam rescale j", ErrorKind::MissingRequiredArgument),
            ("cofferdam list --host-file h", ErrorKind::UnknownArgument),
            ("cofferdam serve --data-dir d --listen here", ErrorKind::ValueValidation),
            ("cofferdam serve --data-dir d --tls-cert c", ErrorKind::MissingRequiredArgument),
            ("cofferdam --version", ErrorKind::DisplayVersion),
        ] {
            assert_eq!(parse(line).map(|_| ()), Err(kind), "{line}");
        }
    }

    #[test]
    fn the_help_is_not_broken_in_the_middle_of_lines() {
        // As wide as clap makes it on a terminal that is wider.
        for text in [EXIT_CODES, EXAMPLES, RUN_EXAMPLES, SAVEPOINT_EXAMPLES, SWAP, CHECKPOINTS, COMPLETIONS] {
            text.lines().for_each(|line| assert!(line.chars().count() <= 100, "{line}"));
        }
    }

    #[test]
    fn the_help_lists_each_exit_code() {
        for kind in Kind::ALL {
            let code = kind.exit_code().to_string();
            assert!(EXIT_CODES.lines().any(|line| line.split_whitespace().next() == Some(&code)), "{kind:?}");
        }
    }
}
