//! Savepoints, asked for from outside.

use super::answer;
use super::args::{DisposeArgs, Output, SavepointArgs, SavepointCommand, StopArgs, Target};
use super::client::{Client, part};
use super::remote::{absolute, has_ended, path};
use crate::api::{DisposalRequest, SavepointRequest, StopRequest, Triggered};
use crate::error::{Error, Kind, Result};
use crate::job;
use crate::plan::Location;
use crate::service::{DisposalOperation, DisposalView, JobDetails, Operation, SavepointView, StatusId};

pub(super) fn run(args: &SavepointArgs, output: Output) -> Result<u8> {
    match (&args.command, &args.job) {
        (Some(SavepointCommand::Dispose(args)), _) => dispose(args, output),
        (None, Some(name)) => {
            let client = Client::new(&args.host)?;
            let request = request(&args.target, args.dir.as_ref())?;
            let Triggered { request_id } = client.post(&format!("{}/savepoints", path(name)), &request)?;
            answer(&wait(&client, name, &request_id)?, output)
        }
        // The command line asks for one of the two.
        (None, None) => Err(Error::new(Kind::Internal, "no job is named")),
    }
}

/// Stops a job with a savepoint.
pub(super) fn stop(args: &StopArgs, dir: Option<&Location>, output: Output) -> Result<u8> {
    let (client, name) = (Client::new(&args.job.host)?, &args.job.job);
    let request = StopRequest { drain: args.drain, savepoint: Some(request(&args.target, dir)?) };
    let Triggered { request_id } = client.post(&format!("{}/stop", path(name)), &request)?;
    let saved = wait(&client, name, &request_id)?;
    client.wait(&path(name), |job: &JobDetails| has_ended(job))?;
    answer(&saved, output)
}

/// Removes a savepoint: the host that is named does, or else this process.
fn dispose(args: &DisposeArgs, output: Output) -> Result<u8> {
    let Some(address) = &args.address else { return answer(&job::dispose(&args.path)?, output) };
    let client = Client::at(address, &args.token, args.ca_cert.as_deref())?;
    let request = DisposalRequest { savepoint_path: as_the_host_sees(&args.path)? };
    let Triggered { request_id } = client.post("/v1/savepoint-disposal", &request)?;
    let path = format!("/v1/savepoint-disposal/{}", part(&request_id));
    let asked = client.wait(&path, |asked: &DisposalView| asked.status.id == StatusId::Completed)?;
    match asked.operation {
        Some(DisposalOperation::Failed { failure_cause }) => Err(failure_cause.into_error()),
        Some(disposed) => answer(&disposed, output),
        None => Err(Error::new(Kind::Internal, format!("nothing has come of the removal `{request_id}`"))),
    }
}

/// A place, for a host that runs in another directory.
fn as_the_host_sees(place: &Location) -> Result<String> {
    match place {
        Location::Path(path) => absolute(path),
        bucket => Ok(bucket.to_string()),
    }
}

fn request(target: &Target, dir: Option<&Location>) -> Result<SavepointRequest> {
    let target_directory = dir.map(as_the_host_sees).transpose()?;
    Ok(SavepointRequest { target_directory, trigger_id: target.trigger_id.clone(), without_components: target.without_components })
}

/// What has come of a savepoint, in the end.
fn wait(client: &Client, job: &str, request_id: &str) -> Result<Operation> {
    let path = format!("{}/savepoints/{}", path(job), part(request_id));
    let asked = client.wait(&path, |asked: &SavepointView| asked.status.id == StatusId::Completed);
    let asked = asked.map_err(|error| match error.kind() {
        Kind::Unreachable => error.help(format!("ask again with `--trigger-id {request_id}`: if it was taken, it is not taken again")),
        _ => error,
    })?;
    match asked.operation {
        Some(Operation::Failed { failure_cause }) => Err(failure_cause.into_error()),
        Some(saved) => Ok(saved),
        None => Err(Error::new(Kind::Internal, format!("nothing has come of savepoint `{request_id}`"))),
    }
}
