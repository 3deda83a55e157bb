//! The command line: arguments in, one voice out. What a command answers goes to standard output; what it says on the way, to
//! standard error. With `--output json` the answer and an error alike are one line of JSON, the last one on standard output.

mod args;
mod checkpoints;
mod client;
mod components;
mod console;
mod descriptors;
mod failure;
mod history;
mod remote;
mod savepoints;
mod serve;
mod summary;
mod text;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use serde::Serialize;

use crate::config::{self, Defaults, Overrides};
use crate::error::{Error, Kind, Result};
use crate::job::JobInside;
use crate::plan::{ComponentRef, Location, NodeKind, Plan};
use crate::{job, service, telemetry};
use args::{Args, Command, HostArgs, HostFile, JobFile, Output, RunArgs};
use console::Console;

/// Runs the program with the arguments of this process. Wrong usage and requests for help end the process in here.
pub fn main() -> ExitCode {
    let args = Args::parse();
    // Only a host keeps what is logged about its jobs.
    let (log, kept) = service::Log::new();
    let is_host = matches!(args.command, Command::Serve(_));
    telemetry::init(&args.log, console::colours(), || console::Stderr, is_host.then_some(move |line| log.take(line)));
    let done = match &args.command {
        Command::Run { job, host_file } => run(job, host_file, args.output),
        Command::Validate { job, host_file } => validate(job, host_file, args.output),
        Command::Inspect { file } => inspect(file, args.output),
        Command::Serve(command) => serve::serve(command, kept, args.output),
        Command::Deploy(command) => remote::deploy(command, args.output),
        Command::List(host) => remote::list(host, args.output),
        Command::Describe(job) => remote::describe(job, args.output),
        Command::Stop(command) => remote::stop(command, args.output),
        Command::Cancel(job) => remote::cancel(job, args.output),
        Command::Rescale(command) => remote::rescale(command, args.output),
        Command::Swap(command) => remote::swap(command, args.output),
        Command::Forget(job) => remote::forget(job, args.output),
        Command::Component(command) => components::run(command, args.output),
        Command::Events(job) => history::events(job, args.output),
        Command::Logs(command) => history::logs(command, args.output),
        Command::Savepoint(command) => savepoints::run(command, args.output),
        Command::Checkpoints { job, checkpoint, host_file, host } => checkpoints(job, *checkpoint, host_file, host, args.output),
        Command::Completions { shell } => completions(*shell),
    };
    ExitCode::from(done.unwrap_or_else(|error| failure::tell(&error, args.output)))
}

/// The exit code of a run that did not fail.
fn run(run: &RunArgs, host_file: &HostFile, output: Output) -> Result<u8> {
    let plan = plan(run, host_file.read()?)?;
    let begin = run.restore.options(run.fresh);
    descriptors::allow_all();
    let console = Arc::new(Console::begin(&plan));
    let ended = job::run(&plan, &begin, console.clone());
    console.end();
    let summary = ended?;
    match output {
        Output::Json => console::print(&json(&summary)?)?,
        // Standard output belongs to the job's records, which may be on their way into another program.
        Output::Text => console::say(&summary::render(&summary)),
    }
    // As shells do it: ended by signal n.
    Ok(summary.signal.and_then(|signal| u8::try_from(128 + signal).ok()).unwrap_or(0))
}

/// The plan of the job file that is named, or else of that in the savepoint.
fn plan(run: &RunArgs, defaults: Defaults) -> Result<Plan> {
    let overrides = Overrides { parallelism: run.parallelism, defaults };
    match &run.file {
        Some(file) => config::load(file, &overrides),
        None => plan_inside(run.restore.from.as_deref().unwrap_or_default(), &overrides),
    }
}

/// The plan of the job in a savepoint.
fn plan_inside(savepoint: &str, overrides: &Overrides) -> Result<Plan> {
    if savepoint.parse::<u64>().is_ok() {
        let message = format!("checkpoint {savepoint} is of which job? A checkpoint has no job file inside");
        return Err(Error::new(Kind::Config, message).help("name the job file, or the path or URL of a savepoint"));
    }
    let path = savepoint.parse().map_err(|reason| Error::new(Kind::Checkpoint, format!("`{savepoint}`: {reason}")))?;
    let inside = JobInside::read(&path)?;
    let mut plan = config::parse(&inside.file, inside.text.clone(), overrides)?;
    let components = inside.unpack()?;
    for node in &mut plan.nodes {
        if let (NodeKind::Operator(settings), Some(component)) = (&mut node.kind, components.get(&node.uid)) {
            settings.component = ComponentRef::File(component.clone());
        }
    }
    Ok(plan)
}

fn validate(file: &JobFile, host_file: &HostFile, output: Output) -> Result<u8> {
    let plan = config::load(&file.file, &Overrides { parallelism: file.parallelism, defaults: host_file.read()? })?;
    let report = job::validate(&plan)?;
    if output == Output::Text {
        console::print(&format!("job `{}` in {} is valid", plan.name, plan.file.display()))?;
    }
    answer(&report, output)
}

fn inspect(file: &Location, output: Output) -> Result<u8> {
    answer(&job::inspect(file)?, output)
}

/// A directory is the job's own, below that of all jobs; a name that is neither of a directory nor of a file is taken for a host's job; and
/// everything else for a job file.
fn checkpoints(job: &Location, only: Option<u64>, host_file: &HostFile, host: &HostArgs, output: Output) -> Result<u8> {
    let listing = match job {
        Location::Path(file) if file.is_dir() => job::checkpoints_in(job)?,
        Location::Path(name) if !file_is_meant(name) => history::checkpoints(&name.to_string_lossy(), host)?,
        Location::Path(file) => {
            let plan = config::load(file, &Overrides { parallelism: None, defaults: host_file.read()? })?;
            job::checkpoints(&plan.checkpoint.dir, &plan.checkpoint.access, &plan.name)?
        }
        bucket => job::checkpoints_in(bucket)?,
    };
    let listing = match only {
        Some(checkpoint) => checkpoints::only(listing, checkpoint)?,
        None => listing,
    };
    match output {
        Output::Json => console::print(&json(&listing)?)?,
        Output::Text => console::print(&checkpoints::render(&listing))?,
    }
    Ok(0)
}

fn file_is_meant(path: &Path) -> bool {
    path.exists() || path.extension().is_some_and(|extension| extension == "toml") || path.components().count() > 1
}

fn completions(shell: clap_complete::Shell) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "cofferdam", &mut script);
    console::print(String::from_utf8_lossy(&script).trim_end())?;
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
