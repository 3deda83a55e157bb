//! The command line: arguments in, one voice out. What a command answers goes to standard output; what it says on the way, to
//! standard error. With `--output json` the answer and an error alike are one line of JSON, the last one on standard output.

mod args;
mod checkpoints;
mod console;
mod failure;
mod summary;
mod text;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use serde::Serialize;

use crate::config::{self, Overrides};
use crate::error::{Error, Kind, Result};
use crate::plan::{Location, Plan};
use crate::{job, telemetry};
use args::{Args, Command, JobFile, Output, RunArgs};
use console::Console;

/// Runs the program with the arguments of this process. Wrong usage and requests for help end the process in here.
pub fn main() -> ExitCode {
    let args = Args::parse();
    telemetry::init(&args.log, console::colours(), || console::Stderr);
    let done = match &args.command {
        Command::Run(command) => run(command, &args),
        Command::Validate(job) => validate(job, &args),
        Command::Inspect { file } => inspect(file, args.output),
        Command::Checkpoints { job } => checkpoints(job, &args),
    };
    ExitCode::from(done.unwrap_or_else(|error| failure::tell(&error, args.output)))
}

/// The exit code of a run that did not fail.
fn run(run: &RunArgs, args: &Args) -> Result<u8> {
    let plan = load(&run.job, args)?;
    let options = job::Options { fresh: run.fresh, from: run.from.clone(), fallback: run.fallback, allow_duplicates: run.allow_duplicates };
    let console = Arc::new(Console::begin(&plan));
    let ended = job::run(&plan, &options, console.clone());
    console.end();
    let summary = ended?;
    match args.output {
        Output::Json => console::print(&json(&summary)?)?,
        // Standard output belongs to the job's records, which may be on their way into another program.
        Output::Text => console::say(&summary::render(&summary)),
    }
    // As shells do it: ended by signal n.
    Ok(summary.signal.and_then(|signal| u8::try_from(128 + signal).ok()).unwrap_or(0))
}

/// The job that a command is about.
fn load(job: &JobFile, args: &Args) -> Result<Plan> {
    config::load(&job.file, &Overrides { parallelism: job.parallelism, host_file: args.host_file.clone() })
}

fn validate(file: &JobFile, args: &Args) -> Result<u8> {
    let plan = load(file, args)?;
    let report = job::validate(&plan)?;
    if args.output == Output::Text {
        console::print(&format!("job `{}` in {} is valid", plan.name, plan.file.display()))?;
    }
    answer(&report, args.output)
}

fn inspect(file: &Location, output: Output) -> Result<u8> {
    answer(&job::inspect(file)?, output)
}

/// A directory is the job's own, below that of all jobs; everything else is taken for a job file.
fn checkpoints(job: &Location, args: &Args) -> Result<u8> {
    let listing = match job {
        Location::Path(file) if !file.is_dir() => {
            let plan = load(&JobFile { file: file.clone(), parallelism: None }, args)?;
            job::checkpoints(&plan.checkpoint.dir, &plan.checkpoint.access, &plan.name)?
        }
        own => job::checkpoints_in(own)?,
    };
    match args.output {
        Output::Json => console::print(&json(&listing)?)?,
        Output::Text => console::print(&checkpoints::render(&listing))?,
    }
    Ok(0)
}

/// What a command was asked for.
fn answer<T: Serialize>(answer: &T, output: Output) -> Result<u8> {
    match output {
        Output::Json => console::print(&json(answer)?)?,
        Output::Text => console::print(&text::render(&serde_json::to_value(answer).map_err(not_json)?))?,
    }
    Ok(0)
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> Error {
    Error::new(Kind::Internal, format!("the answer can't be written as JSON: {error}"))
}
