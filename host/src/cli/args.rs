//! What the command line takes, and the help that it gives.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueEnum, value_parser};

use super::savepoint_args::{SAVEPOINT_EXAMPLES, SavepointArgs, Target, lasting};
use crate::api::{ERROR_FACTOR, PROBATION};
use crate::error::{Error, Kind, Result};
use crate::plan::{ComponentRef, Location};
use crate::telemetry::Filter;

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    an operator, source or sink failed while the job ran
  2    wrong usage of the command line
  3    the job file, or a flag that changes it, is not acceptable
  4    a component is missing, broken, or does not fit the job
  5    a checkpoint is missing, broken, or does not fit the job
  6    a directory or store can't be read or written
  7    a newer attempt of the same job has taken over
  8    the host can't be reached
  9    the host has no such job or component
  10   the job or component is not in a state in which this can be done
  11   the host wants to know who asks
  70   a bug in cofferdam
  130  stopped by SIGINT (Ctrl-C), with a last checkpoint; 143 by SIGTERM";

/// As in Flink.
const DEFAULT_LISTEN: &str = "127.0.0.1:8081";
const DEFAULT_ADDRESS: &str = "http://127.0.0.1:8081";

const EXAMPLES: &str = "\
Examples:
  cofferdam validate job.toml
  cofferdam run job.toml -p 4
  cofferdam checkpoints job.toml
  cofferdam inspect delays.wasm
  cofferdam serve --data-dir data
  cofferdam deploy job.toml";

const RUN_EXAMPLES: &str = "\
A job that was stopped or failed goes on from its last checkpoint when it is run again.
Standard output belongs to sinks of type \"stdout\"; the summary at the end goes to standard error,
or with --output json to standard output, as its last line.

Examples:
  cofferdam run job.toml                      go on from the last checkpoint, or begin
  cofferdam run job.toml --fresh              begin anew, beside what is published already
  cofferdam run job.toml -s 17 --allow-duplicates
                                              go back to checkpoint 17, though later output is out
  cofferdam run -s s3://bucket/savepoint-words-41-5f00ff
                                              begin the job in a savepoint";

const SWAP: &str = "\
The component is checked while the job runs; what does not fit is refused, and nothing has stopped. At a barrier it takes over, with the
state as it is, migrated where its versions rose. For the time of its probation the old component stays at hand. It has failed when it
traps or exceeds a limit, when a record fails that fails the job, or when too many records do. Then with `forward` the old component goes
on with the state as it is, and with `rewind`, in whose probation nothing is published, from the swap's checkpoint.

Examples:
  cofferdam swap flights delays delays-2.wasm --dry-run
  cofferdam swap flights delays delays-2.wasm
  cofferdam swap flights delays delays-3.wasm --way-back rewind --probation 5m";

const CHECKPOINTS: &str = "\
The newest ten and all that are kept, of each run. `written` is what a checkpoint added to the one before, `total` all that it needs.
Of each subtask's snapshot: how long records were held back before the barrier (aligned), how long the barrier took (froze), and how
long its files took (upload). Files that are broken or foreign are named. The job may run meanwhile.

Examples:
  cofferdam checkpoints job.toml
  cofferdam checkpoints checkpoints/word-count --output json
  cofferdam checkpoints word-count                of a host";

/// Runs stateful stream operators that are WebAssembly components, and keeps their state.
#[derive(Debug, Parser)]
#[command(name = "cofferdam", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Args {
    /// How to print answers and errors; json: one line of JSON, the last one on standard output
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(super) output: Output,

    /// What to log to standard error: off, error, warn, info, debug, trace, or TARGET=LEVEL,…
    #[arg(long, global = true, env = "COFFERDAM_LOG", default_value = "warn", value_name = "LEVEL")]
    pub(super) log: Filter,

    /// A TOML file with defaults for what job files leave out of [checkpoint] and [job.restart]
    #[arg(long, global = true, env = "COFFERDAM_HOST_FILE", value_name = "FILE")]
    pub(super) host_file: Option<PathBuf>,

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
    Run(RunArgs),
    /// Checks a job without running it: the job file, its components, how they fit, and its paths
    #[command(after_help = EXIT_CODES)]
    Validate(JobFile),
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
    /// Ends a job of a host at once
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
    /// Components that a host keeps
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
        host: HostArgs,
    },
    /// Writes a script that completes commands in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// Where the host keeps its jobs and components, for itself alone; made if it is missing
    #[arg(long, env = "COFFERDAM_DATA_DIR", value_name = "DIR")]
    pub(super) data_dir: PathBuf,

    /// Where to listen; port 0 is any that is free
    #[arg(long, default_value = DEFAULT_LISTEN, value_name = "ADDRESS:PORT")]
    pub(super) listen: SocketAddr,

    #[command(flatten)]
    pub(super) token: TokenArgs,

    #[command(flatten)]
    pub(super) tls: TlsArgs,
}

/// What whoever asks a host must know.
#[derive(Debug, clap::Args)]
pub(super) struct TokenArgs {
    /// A file with the host's token, in place of the variable COFFERDAM_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token, if one is given.
    ///
    /// # Errors
    /// Kind `Request`: it can't be read, or is empty.
    pub(super) fn read(&self) -> Result<Option<String>> {
        let token = match &self.token_file {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .map_err(|error| Error::new(Kind::Request, format!("the token file {} can't be read: {error}", file.display())))?,
            ),
            None => std::env::var("COFFERDAM_TOKEN").ok(),
        };
        let token = token.map(|token| token.trim().to_owned());
        let is_sent = |token: &String| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        match token {
            Some(token) if !is_sent(&token) => {
                Err(Error::new(Kind::Request, "the token is empty, or has other than visible ASCII characters in it"))
            }
            token => Ok(token),
        }
    }
}

/// How a host speaks TLS.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TlsArgs {
    /// The host's certificate with its chain, in PEM: TLS is spoken
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Certificate and key.
    pub(super) fn both(self) -> Option<(PathBuf, PathBuf)> {
        self.tls_cert.zip(self.tls_key)
    }
}

/// Which host is asked.
#[derive(Debug, clap::Args)]
pub(super) struct HostArgs {
    /// Where the host is
    #[arg(long, env = "COFFERDAM_ADDRESS", default_value = DEFAULT_ADDRESS, value_name = "URL")]
    pub(super) address: String,

    #[command(flatten)]
    pub(super) token: TokenArgs,

    /// A file of certificates in PEM that are trusted besides the system's, if the host speaks TLS
    #[arg(long, env = "COFFERDAM_CA_CERT", value_name = "FILE")]
    pub(super) ca_cert: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct JobArgs {
    /// The job's name
    #[arg(value_name = "JOB")]
    pub(super) job: String,

    #[command(flatten)]
    pub(super) host: HostArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct LogsArgs {
    #[command(flatten)]
    pub(super) job: JobArgs,

    /// Go on with what comes, until the job has ended
    #[arg(short, long)]
    pub(super) follow: bool,

    /// How many of the last lines to begin with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u16).range(1..=10_000))]
    pub(super) lines: u16,
}

#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    #[command(flatten)]
    pub(super) job: JobArgs,

    /// End as if all input ended here: operators finish, and nothing is left to go on with
    #[arg(long)]
    pub(super) drain: bool,

    /// Stop with a savepoint: nothing that comes after it is published. Without a directory, in the job file's `savepoint-dir`
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_parser = OsStringValueParser::new().try_map(|text| lasting(&text)))]
    pub(super) savepoint: Option<Option<Location>>,

    #[command(flatten)]
    pub(super) target: Target,
}

#[derive(Debug, clap::Args)]
pub(super) struct RescaleArgs {
    #[command(flatten)]
    pub(super) job: JobArgs,

    /// Worker threads from now on
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u16).range(1..=32_768))]
    pub(super) parallelism: u16,
}

#[derive(Debug, clap::Args)]
pub(super) struct SwapArgs {
    /// The job's name
    #[arg(value_name = "JOB")]
    pub(super) job: String,

    /// The operator's uid
    #[arg(value_name = "OPERATOR")]
    pub(super) operator: String,

    /// The new component: its file, or one that the host keeps by its digest or name@version
    #[arg(value_name = "COMPONENT")]
    pub(super) component: ComponentRef,

    /// Only find out whether it fits
    #[arg(long)]
    pub(super) dry_run: bool,

    /// How long the old component stays at hand
    #[arg(long, default_value = PROBATION, value_name = "TIME")]
    pub(super) probation: String,

    /// What follows if the new component fails meanwhile
    #[arg(long, value_enum, default_value = "forward", value_name = "HOW")]
    pub(super) way_back: WayBackArg,

    /// How many times as large a part of its records as of the old one's may fail
    #[arg(long, default_value_t = ERROR_FACTOR, value_name = "TIMES")]
    pub(super) error_factor: f64,

    #[command(flatten)]
    pub(super) host: HostArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WayBackArg {
    Forward,
    Rewind,
}

#[derive(Debug, Subcommand)]
pub(super) enum ComponentCommand {
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
pub(super) struct ComponentArgs {
    /// Its digest, or name@version
    pub(super) component: String,

    #[command(flatten)]
    pub(super) host: HostArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct DeployArgs {
    #[command(flatten)]
    pub(super) job: RunArgs,

    #[command(flatten)]
    pub(super) host: HostArgs,

    /// Don't wait until the job runs
    #[arg(long)]
    pub(super) detach: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct JobFile {
    /// The job file
    #[arg(value_name = "JOB.toml")]
    pub(super) file: PathBuf,

    /// Worker threads, in place of the job file's `parallelism`
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u16).range(1..=32_768))]
    pub(super) parallelism: Option<u16>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The job file; without one, that in the savepoint
    #[arg(value_name = "JOB.toml", required_unless_present = "from")]
    pub(super) file: Option<PathBuf>,

    /// Worker threads, in place of the job file's `parallelism`
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u16).range(1..=32_768))]
    pub(super) parallelism: Option<u16>,

    /// Begin without state, under a new run, even if there are checkpoints
    #[arg(long)]
    pub(super) fresh: bool,

    #[command(flatten)]
    pub(super) restore: Restore,
}

/// What a job begins from, and how.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Restore {
    /// Begin from this savepoint, by its path or URL, or from this checkpoint, by number or by the path or URL of its manifest, instead of
    /// the last one
    #[arg(short = 's', long = "from", value_name = "SAVEPOINT|CHECKPOINT", conflicts_with = "fresh")]
    pub(super) from: Option<String>,

    /// If the newest checkpoint is damaged, begin from the newest one that is whole
    #[arg(long, conflicts_with_all = ["fresh", "from"])]
    pub(super) fallback: bool,

    /// Whose the savepoint is afterwards
    #[arg(long, value_enum, value_name = "MODE", default_value = "no-claim", requires = "from")]
    pub(super) claim_mode: ClaimMode,

    /// Accept that output which is published already will be published again
    #[arg(long)]
    pub(super) allow_duplicates: bool,

    /// Leave out state of operators and positions of sources that the job has no longer
    #[arg(long)]
    pub(super) allow_non_restored_state: bool,
}

/// Whose a savepoint is that a job has begun from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ClaimMode {
    /// Whose it was: the job needs it until its first checkpoint
    NoClaim,
    /// The job's, which removes it once it has a checkpoint of its own
    Claim,
}

impl Restore {
    /// The same for the job. `fresh`: without state.
    pub(super) fn options(&self, fresh: bool) -> crate::job::Options {
        crate::job::Options {
            fresh,
            from: self.from.clone(),
            fallback: self.fallback,
            allow_duplicates: self.allow_duplicates,
            allow_non_restored_state: self.allow_non_restored_state,
            claim: self.claim_mode == ClaimMode::Claim,
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

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
        let Ok(Args { command: Command::Run(run), .. }) = parse("cofferdam run j.toml -p 3 -s 17 --allow-duplicates") else { panic!() };
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
            ("cofferdam serve --data-dir d --listen here", ErrorKind::ValueValidation),
            ("cofferdam serve --data-dir d --tls-cert c", ErrorKind::MissingRequiredArgument),
            ("cofferdam --version", ErrorKind::DisplayVersion),
        ] {
            assert_eq!(parse(line).map(|_| ()), Err(kind), "{line}");
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
