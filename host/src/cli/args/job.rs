//! What names a job and says how it begins.

use std::path::PathBuf;

use clap::{ValueEnum, value_parser};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct JobFile {
    /// The job file
    #[arg(value_name = "JOB.toml")]
    pub(in crate::cli) file: PathBuf,

    /// Worker threads, in place of the job file's `parallelism`
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u16).range(1..=32_768))]
    pub(in crate::cli) parallelism: Option<u16>,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RunArgs {
    /// The job file; without one, that in the savepoint
    #[arg(value_name = "JOB.toml", required_unless_present = "from")]
    pub(in crate::cli) file: Option<PathBuf>,

    /// Worker threads, in place of the job file's `parallelism`
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u16).range(1..=32_768))]
    pub(in crate::cli) parallelism: Option<u16>,

    /// Begin without state, as a new run, even if there are checkpoints
    #[arg(long)]
    pub(in crate::cli) fresh: bool,

    #[command(flatten)]
    pub(in crate::cli) restore: Restore,
}

/// What a job begins from, and how.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Restore {
    /// Begin from this savepoint, by its path or URL, or from this checkpoint, by number or by the path or URL of its manifest, instead of
    /// the last one
    #[arg(short = 's', long = "from", value_name = "SAVEPOINT|CHECKPOINT", conflicts_with = "fresh")]
    pub(in crate::cli) from: Option<String>,

    /// If the newest checkpoint is damaged, begin from the newest one that is whole
    #[arg(long, conflicts_with_all = ["fresh", "from"])]
    pub(in crate::cli) fallback: bool,

    /// Whose the savepoint is afterwards
    #[arg(long, value_enum, value_name = "MODE", default_value = "no-claim", requires = "from")]
    pub(in crate::cli) claim_mode: ClaimMode,

    /// Accept that output which is published already will be published again
    #[arg(long)]
    pub(in crate::cli) allow_duplicates: bool,

    /// Leave out state of operators and positions of sources that the job has no longer
    #[arg(long)]
    pub(in crate::cli) allow_non_restored_state: bool,
}

/// Whose a savepoint is that a job has begun from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ClaimMode {
    /// Whose it was: the job needs it until its first checkpoint
    NoClaim,
    /// The job's, which removes it once it has a checkpoint of its own
    Claim,
}

impl Restore {
    /// The same for the job. `fresh`: without state.
    pub(in crate::cli) fn options(&self, fresh: bool) -> crate::job::Options {
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
