//! Paths that tell what a job has gone through: its events, its log, its checkpoints.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Path, Query};
use super::problem::Problem;
use super::{Shared, blocking};
use crate::job::Listing;
use crate::service::{Entry, Event, Host, LogLine};

/// Which entries are wanted.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Range {
    /// The number of the first one; without it, the last ones are told.
    from: Option<u64>,
    /// How many at most.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

impl Range {
    const DEFAULT: usize = 1000;
    const MOST: usize = 10_000;

    fn limit(self) -> usize {
        self.limit.unwrap_or(Self::DEFAULT).clamp(1, Self::MOST)
    }
}

/// What has happened to a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// In order.
    pub events: Vec<Entry<Event>>,
}

/// What was logged about a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LogLines {
    /// In order.
    pub lines: Vec<Entry<LogLine>>,
}

pub(super) fn router() -> OpenApiRouter<Arc<Host>> {
    OpenApiRouter::new().routes(routes!(events)).routes(routes!(logs)).routes(routes!(checkpoints))
}

/// Tells what has happened to a job.
#[utoipa::path(get, path = "/v1/jobs/{job}/events", tag = "jobs", params(("job" = String, Path, description = "Its name"), Range),
    responses((status = 200, body = Events), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn events(State(host): Shared, Path(job): Path<String>, Query(range): Query<Range>) -> Result<axum::Json<Events>, Problem> {
    let events = blocking(move || host.events(&job, range.from, range.limit())).await?;
    Ok(axum::Json(Events { events }))
}

/// Tells what was logged about a job, by the host and by its operators.
#[utoipa::path(get, path = "/v1/jobs/{job}/logs", tag = "jobs", params(("job" = String, Path, description = "Its name"), Range),
    responses((status = 200, body = LogLines), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn logs(State(host): Shared, Path(job): Path<String>, Query(range): Query<Range>) -> Result<axum::Json<LogLines>, Problem> {
    let lines = blocking(move || host.log(&job, range.from, range.limit())).await?;
    Ok(axum::Json(LogLines { lines }))
}

/// Lists the checkpoints of a job with what they took, and those that failed.
#[utoipa::path(get, path = "/v1/jobs/{job}/checkpoints", tag = "jobs", params(("job" = String, Path, description = "Its name")),
    responses((status = 200, body = Object), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn checkpoints(State(host): Shared, Path(job): Path<String>) -> Result<axum::Json<Listing>, Problem> {
    Ok(axum::Json(blocking(move || host.checkpoints(&job)).await?))
}
