//! Commands that ask a host.

use std::path::Path;

use indicatif::HumanCount;

use super::args::{DeployArgs, HostArgs, JobArgs, Output, RescaleArgs, StopArgs, SwapArgs, WayBackArg};
use super::client::{Client, part};
use super::text::table;
use super::{answer, components, console, json, plan, savepoints};
use crate::api::{DeployRequest, Jobs, RescaleRequest, StopRequest, SwapRequest};
use crate::error::{Error, Kind, Result};
use crate::job::{MigrationProgress, SwapReport, WayBack};
use crate::plan::{ComponentRef, Location};
use crate::service::{JobDetails, JobOverview, JobState};

/// Pushes what the host does not have, and has the job begin.
pub(super) fn deploy(args: &DeployArgs, output: Output) -> Result<u8> {
    // Faults in the job file are found here, where it lies.
    let plan = plan(&args.job, args.host_file.read()?)?;
    let client = Client::new(&args.host)?;
    let begin = args.job.restore.options(args.job.fresh);
    let request = DeployRequest {
        text: plan.text.to_string(),
        file: Some(absolute(&plan.file)?),
        parallelism: args.job.parallelism,
        components: components::push_all(&client, &plan)?,
        fresh: begin.fresh,
        from: begin.from.as_deref().map(from_here).transpose()?,
        fallback: begin.fallback,
        allow_duplicates: begin.allow_duplicates,
        allow_non_restored_state: begin.allow_non_restored_state,
        claim: begin.claim,
    };
    let deployed: JobDetails = client.post("/v1/jobs", &request)?;
    if args.detach {
        return told(deployed, output);
    }
    begun(client.wait(&path(&plan.name), |job: &JobDetails| job.overview.state != JobState::Created)?, output)
}

/// A path as the host understands it, which runs in another directory.
pub(super) fn absolute(path: &Path) -> Result<String> {
    let absolute = std::path::absolute(path);
    let named = |error| Error::new(Kind::Config, format!("can't tell where {} is: {error}", path.display()));
    absolute.map(|path| path.display().to_string()).map_err(named)
}

/// What a job is to begin from, as the host understands it: numbers and URLs stay as they are.
fn from_here(from: &str) -> Result<String> {
    match from.parse() {
        Ok(Location::Path(path)) if from.parse::<u64>().is_err() => absolute(&path),
        _ => Ok(from.into()),
    }
}

pub(super) fn list(args: &HostArgs, output: Output) -> Result<u8> {
    let jobs: Jobs = Client::new(args)?.get("/v1/jobs")?;
    match output {
        Output::Json => console::print(&json(&jobs)?)?,
        Output::Text if jobs.jobs.is_empty() => console::print("the host has no jobs")?,
        Output::Text => console::print(&overview(&jobs.jobs))?,
    }
    Ok(0)
}

fn overview(jobs: &[JobOverview]) -> String {
    let row = |job: &JobOverview| {
        vec![
            job.name.clone(),
            job.state.name().into(),
            job.since.clone(),
            job.parallelism.to_string(),
            job.restarts.to_string(),
            job.last_checkpoint.map_or_else(|| "-".into(), |number| number.to_string()),
            job.records_in.to_string(),
            job.records_out.to_string(),
        ]
    };
    let head = ["job", "state", "since", "parallelism", "restarts", "checkpoint", "records in", "records out"];
    table(&head, jobs.iter().map(row).collect(), &[3, 4, 5, 6, 7])
}

pub(super) fn describe(args: &JobArgs, output: Output) -> Result<u8> {
    told(Client::new(&args.host)?.get(&path(&args.job))?, output)
}

pub(super) fn cancel(args: &JobArgs, output: Output) -> Result<u8> {
    let client = Client::new(&args.host)?;
    let _: JobDetails = client.post(&format!("{}/cancel", path(&args.job)), &serde_json::json!({}))?;
    begun(client.wait(&path(&args.job), has_ended)?, output)
}

pub(super) fn stop(args: &StopArgs, output: Output) -> Result<u8> {
    if let Some(dir) = &args.savepoint {
        return savepoints::stop(args, dir.as_ref(), output);
    }
    if args.target.trigger_id.is_some() || args.target.without_components {
        let error = Error::new(Kind::Request, "`--trigger-id` and `--without-components` are about a savepoint, and none is asked for");
        return Err(error.help("add `--savepoint`"));
    }
    let client = Client::new(&args.job.host)?;
    let _: JobDetails = client.post(&format!("{}/stop", path(&args.job.job)), &StopRequest { drain: args.drain, savepoint: None })?;
    begun(client.wait(&path(&args.job.job), has_ended)?, output)
}

pub(super) fn rescale(args: &RescaleArgs, output: Output) -> Result<u8> {
    let client = Client::new(&args.job.host)?;
    let path = path(&args.job.job);
    let _: JobDetails = client.post(&format!("{path}/rescale"), &RescaleRequest { parallelism: args.parallelism })?;
    let is_there = |job: &JobDetails| has_ended(job) || (job.overview.parallelism == args.parallelism && is_under_way(job));
    begun(client.wait(&path, is_there)?, output)
}

/// Pushes the component if the host does not have it, and has it take the operator over.
pub(super) fn swap(args: &SwapArgs, output: Output) -> Result<u8> {
    let client = Client::new(&args.host)?;
    let component = match &args.component {
        ComponentRef::File(file) => components::push_file(&client, file)?.digest,
        kept => kept.to_string(),
    };
    let request = SwapRequest {
        component,
        dry_run: args.dry_run,
        probation: args.probation.clone(),
        way_back: match args.way_back {
            WayBackArg::Forward => WayBack::Forward,
            WayBackArg::Rewind => WayBack::Rewind,
        },
        error_factor: args.error_factor,
    };
    let (job, operator) = (path(&args.job), part(&args.operator));
    let report: SwapReport = console::with_line(|say| {
        let look = |job: JobDetails| job.migration.iter().for_each(|migration| say(migrating(migration)));
        client.post_seen(&format!("{job}/operators/{operator}/swap"), &request, &job, look)
    })?;
    answer(&report, output)
}

fn migrating(MigrationProgress { values, of }: &MigrationProgress) -> String {
    format!("migrating state: {} of {} values", HumanCount(*values), HumanCount(*of))
}

pub(super) fn forget(args: &JobArgs, output: Output) -> Result<u8> {
    Client::new(&args.host)?.delete(&path(&args.job))?;
    answer(&serde_json::json!({ "forgotten": args.job }), output)
}

/// Whether it has come as far as its first attempt, and on.
fn is_under_way(job: &JobDetails) -> bool {
    !matches!(job.overview.state, JobState::Created | JobState::Restarting)
}

pub(super) fn has_ended(job: &JobDetails) -> bool {
    job.overview.state.is_end()
}

/// The path of a job.
pub(super) fn path(job: &str) -> String {
    format!("/v1/jobs/{}", part(job))
}

fn told(job: JobDetails, output: Output) -> Result<u8> {
    answer(&job, output)
}

/// What a job has come to; if it has failed, so has the command.
fn begun(job: JobDetails, output: Output) -> Result<u8> {
    match job.ended.as_ref().and_then(|ended| ended.error.clone()) {
        Some(fault) => Err(fault.into_error()),
        None => told(job, output),
    }
}
