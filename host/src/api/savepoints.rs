//! Paths of savepoints.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Json, Path};
use super::problem::Problem;
use super::{Shared, blocking};
use crate::job::Then;
use crate::service::{DisposalView, Host, SavepointView, SavepointWanted};

/// A savepoint to take.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SavepointRequest {
    /// The directory in which it gets one of its own: an absolute path or a URL. Without it, the job file's `savepoint-dir`.
    #[serde(default)]
    pub target_directory: Option<String>,
    /// By which name it is asked for: letters and digits. Asked for again by this name, it is not taken again.
    #[serde(default)]
    pub trigger_id: Option<String>,
    /// Leave the operators' components out of it.
    #[serde(default)]
    pub without_components: bool,
}

impl SavepointRequest {
    /// The same for the host.
    pub(super) fn wanted(self, then: Then) -> SavepointWanted {
        let SavepointRequest { target_directory, trigger_id, without_components } = self;
        SavepointWanted { target: target_directory, trigger_id, with_components: !without_components, then }
    }
}

/// By which name to ask what has come of something.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Triggered {
    /// The name. If the same was under way already, it is that one's.
    pub request_id: String,
}

/// A savepoint to remove.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DisposalRequest {
    /// Its directory or its manifest: an absolute path or a URL, which the host reaches as its environment says.
    pub savepoint_path: String,
}

pub(super) fn router() -> OpenApiRouter<Arc<Host>> {
    OpenApiRouter::new().routes(routes!(take)).routes(routes!(status)).routes(routes!(dispose)).routes(routes!(disposal_status))
}

/// Has a job take a savepoint. A job that has stopped or finished has one of its last checkpoint.
#[utoipa::path(post, path = "/v1/jobs/{job}/savepoints", tag = "jobs", params(("job" = String, Path, description = "Its name")),
    request_body = SavepointRequest,
    responses((status = 202, body = Triggered), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn take(
    State(host): Shared,
    Path(job): Path<String>,
    Json(request): Json<SavepointRequest>,
) -> Result<(StatusCode, axum::Json<Triggered>), Problem> {
    let request_id = blocking(move || host.savepoint(&job, request.wanted(Then::GoOn))).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(Triggered { request_id })))
}

/// Tells what has come of a savepoint.
#[utoipa::path(get, path = "/v1/jobs/{job}/savepoints/{trigger}", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), ("trigger" = String, Path, description = "By which name it was asked for")),
    responses((status = 200, body = SavepointView), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn status(State(host): Shared, Path((job, trigger)): Path<(String, String)>) -> Result<axum::Json<SavepointView>, Problem> {
    Ok(axum::Json(blocking(move || host.savepoint_status(&job, &trigger)).await?))
}

/// Removes a savepoint, or what an interrupted one has left. One that a job has still to begin from is refused.
#[utoipa::path(post, path = "/v1/savepoint-disposal", tag = "savepoints", request_body = DisposalRequest,
    responses((status = 202, body = Triggered), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn dispose(
    State(host): Shared,
    Json(DisposalRequest { savepoint_path }): Json<DisposalRequest>,
) -> Result<(StatusCode, axum::Json<Triggered>), Problem> {
    let request_id = blocking(move || host.dispose(&savepoint_path)).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(Triggered { request_id })))
}

/// Tells what has come of the removal of a savepoint.
#[utoipa::path(get, path = "/v1/savepoint-disposal/{trigger}", tag = "savepoints",
    params(("trigger" = String, Path, description = "By which name it was asked for")),
    responses((status = 200, body = DisposalView), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn disposal_status(State(host): Shared, Path(trigger): Path<String>) -> Result<axum::Json<DisposalView>, Problem> {
    Ok(axum::Json(blocking(move || host.disposal_status(&trigger)).await?))
}
