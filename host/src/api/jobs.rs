//! Paths of jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Json, Path, Query};
use super::problem::Problem;
use super::savepoints::SavepointRequest;
use super::{Shared, blocking};
use crate::job::Then;
use crate::service::{Deploy, Host, JobDetails, JobOverview};

/// A job to deploy.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DeployRequest {
    /// The job file's text.
    pub text: String,
    /// Where the job file lies, absolute: paths in it count from there. Without it, they count from the host's working directory.
    #[serde(default)]
    pub file: Option<String>,
    /// In place of the job file's `parallelism`.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 32768)]
    pub parallelism: Option<u16>,
    /// Digests of operators' components, by uid. Components of other operators are found as the job file names them.
    #[serde(default)]
    pub components: BTreeMap<String, String>,
    /// Begin without state, under a new run, even if there are checkpoints.
    #[serde(default)]
    pub fresh: bool,
    /// Begin from this savepoint, by its path or URL, or from this checkpoint, by number or by the path or URL of its manifest, instead of
    /// the newest checkpoint.
    #[serde(default)]
    pub from: Option<String>,
    /// If the newest checkpoint is damaged, begin from the newest one that is whole.
    #[serde(default)]
    pub fallback: bool,
    /// Accept that output which is published already will be published again.
    #[serde(default)]
    pub allow_duplicates: bool,
    /// Leave out state of operators and positions of sources that the job has no longer.
    #[serde(default)]
    pub allow_non_restored_state: bool,
    /// The savepoint belongs to the job from now on, which removes it once it has a checkpoint of its own.
    #[serde(default)]
    pub claim: bool,
}

/// How to stop a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StopRequest {
    /// End as if all input ended here: operators finish, and nothing is left to go on with.
    #[serde(default)]
    pub drain: bool,
    /// With a savepoint: nothing that comes after it is published. If there can be none, the job goes on, unless it has finished by then.
    #[serde(default)]
    pub savepoint: Option<SavepointRequest>,
}

/// A job that was told to stop.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Stopping {
    /// The job.
    #[serde(flatten)]
    pub job: JobDetails,
    /// By which name to ask what has come of the savepoint, if one was asked for.
    pub request_id: Option<String>,
}

/// How to rescale a job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RescaleRequest {
    /// Worker threads from now on.
    #[schema(minimum = 1, maximum = 32768)]
    pub parallelism: u16,
}

/// The jobs of a host.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// By name.
    pub jobs: Vec<JobOverview>,
}

/// How a job is changed.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Change {
    /// To what.
    #[param(inline)]
    #[serde(default)]
    mode: Mode,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    #[default]
    Cancel,
}

pub(super) fn router() -> OpenApiRouter<Arc<Host>> {
    OpenApiRouter::new()
        .routes(routes!(list, deploy))
        .routes(routes!(describe, change, forget))
        .routes(routes!(cancel))
        .routes(routes!(stop))
        .routes(routes!(rescale))
}

type Answer<T> = Result<(StatusCode, axum::Json<T>), Problem>;

/// Lists all jobs.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", responses((status = 200, body = Jobs)))]
async fn list(State(host): Shared) -> Answer<Jobs> {
    let jobs = blocking(move || Ok(host.jobs())).await?;
    Ok((StatusCode::OK, axum::Json(Jobs { jobs })))
}

/// Deploys a job: checks all of it, writes it down, and begins.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", request_body = DeployRequest,
    responses((status = 201, body = JobDetails), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn deploy(State(host): Shared, Json(request): Json<DeployRequest>) -> Answer<JobDetails> {
    let wanted = Deploy {
        text: request.text,
        file: request.file.map(Into::into),
        parallelism: request.parallelism,
        components: request.components,
        fresh: request.fresh,
        from: request.from,
        fallback: request.fallback,
        allow_duplicates: request.allow_duplicates,
        allow_non_restored_state: request.allow_non_restored_state,
        claim: request.claim,
    };
    let deployed = blocking(move || host.deploy(wanted)).await?;
    Ok((StatusCode::CREATED, axum::Json(deployed)))
}

/// Tells all about a job.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path, description = "Its name")),
    responses((status = 200, body = JobDetails), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn describe(State(host): Shared, Path(job): Path<String>) -> Answer<JobDetails> {
    let details = blocking(move || host.job(&job)).await?;
    Ok((StatusCode::OK, axum::Json(details)))
}

/// Cancels a job.
#[utoipa::path(patch, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path, description = "Its name"), Change),
    responses((status = 202, body = JobDetails), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn change(State(host): Shared, Path(job): Path<String>, Query(change): Query<Change>) -> Answer<JobDetails> {
    let Mode::Cancel = change.mode;
    let details = blocking(move || host.cancel(&job)).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(details)))
}

/// Forgets a job that has ended. Its checkpoints and output stay.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path, description = "Its name")),
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn forget(State(host): Shared, Path(job): Path<String>) -> Result<StatusCode, Problem> {
    blocking(move || host.forget(&job)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Cancels a job: it ends at once, without a last checkpoint.
#[utoipa::path(post, path = "/v1/jobs/{job}/cancel", tag = "jobs", params(("job" = String, Path, description = "Its name")),
    responses((status = 202, body = JobDetails), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn cancel(State(host): Shared, Path(job): Path<String>) -> Answer<JobDetails> {
    let details = blocking(move || host.cancel(&job)).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(details)))
}

/// Stops a job with a last checkpoint, and if asked for with a savepoint.
#[utoipa::path(post, path = "/v1/jobs/{job}/stop", tag = "jobs", params(("job" = String, Path, description = "Its name")),
    request_body = StopRequest,
    responses((status = 202, body = Stopping), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn stop(State(host): Shared, Path(job): Path<String>, Json(request): Json<StopRequest>) -> Answer<Stopping> {
    let StopRequest { drain, savepoint } = request;
    let stop = move || match savepoint {
        Some(savepoint) => {
            let request_id = host.savepoint(&job, savepoint.wanted(if drain { Then::Drain } else { Then::Stop }))?;
            Ok(Stopping { job: host.job(&job)?, request_id: Some(request_id) })
        }
        None => Ok(Stopping { job: host.stop(&job, drain)?, request_id: None }),
    };
    Ok((StatusCode::ACCEPTED, axum::Json(blocking(stop).await?)))
}

/// Stops a job with a last checkpoint, from which it goes on with another parallelism.
#[utoipa::path(post, path = "/v1/jobs/{job}/rescale", tag = "jobs", params(("job" = String, Path, description = "Its name")),
    request_body = RescaleRequest,
    responses((status = 202, body = JobDetails), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn rescale(State(host): Shared, Path(job): Path<String>, Json(request): Json<RescaleRequest>) -> Answer<JobDetails> {
    let details = blocking(move || host.rescale(&job, request.parallelism)).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(details)))
}
