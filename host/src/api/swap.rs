//! The path of swaps.

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
use crate::error::{Error, Kind, Result};
use crate::job::{SwapReport, WayBack};
use crate::plan::ComponentRef;
use crate::service::{Host, Swap};

/// A component that is to take an operator over.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SwapRequest {
    /// A component that the host keeps: its digest, or name@version.
    pub component: String,
    /// Only find out whether it fits.
    #[serde(default)]
    pub dry_run: bool,
    /// How long the old component stays at hand, as in "60s". With "0s" there is no way back.
    #[serde(default = "probation")]
    pub probation: String,
    /// What follows if the new component fails meanwhile.
    #[serde(default)]
    pub way_back: WayBack,
    /// It fails when the share of its records that fail is more than this many times that of the old one.
    #[serde(default = "error_factor")]
    #[schema(minimum = 0)]
    pub error_factor: f64,
}

/// How long the old component stays at hand unless something else is said.
pub const PROBATION: &str = "60s";

/// How many times as often the new component may fail unless something else is said.
pub const ERROR_FACTOR: f64 = 2.0;

fn probation() -> String {
    PROBATION.into()
}

fn error_factor() -> f64 {
    ERROR_FACTOR
}

/// The longest probation, in days: what is awaited longer is not.
const LONGEST: u64 = 365;

pub(super) fn router() -> OpenApiRouter<Arc<Host>> {
    OpenApiRouter::new().routes(routes!(swap))
}

impl SwapRequest {
    fn wanted(self) -> Result<Swap> {
        let SwapRequest { component, dry_run, probation, way_back, error_factor } = self;
        let wrong = |what: &str, why: &str| Error::new(Kind::Request, format!("`{what}` {why}"));
        let longest = std::time::Duration::from_secs(LONGEST * 24 * 60 * 60);
        let probation = humantime::parse_duration(&probation).ok().filter(|probation| *probation <= longest);
        let probation = probation.ok_or_else(|| wrong("probation", "must be a duration up to 365days, as in \"60s\""))?;
        let component: ComponentRef = component.parse().map_err(|why: String| wrong("component", &format!("is none: {why}")))?;
        if !error_factor.is_finite() || error_factor < 0.0 {
            return Err(wrong("error-factor", "must be a number, and not below 0"));
        }
        Ok(Swap { component, dry_run, probation, way_back, error_factor })
    }
}

/// Has an operator run another component from a barrier on, while the job runs. Answers when the new one works, or does not fit.
#[utoipa::path(post, path = "/v1/jobs/{job}/operators/{operator}/swap", tag = "jobs",
    params(("job" = String, Path, description = "Its name"), ("operator" = String, Path, description = "Its uid")),
    request_body = SwapRequest,
    responses((status = 200, body = SwapReport), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn swap(
    State(host): Shared,
    Path((job, operator)): Path<(String, String)>,
    Json(request): Json<SwapRequest>,
) -> Result<(StatusCode, axum::Json<SwapReport>), Problem> {
    let report = blocking(move || host.swap(&job, &operator, request.wanted()?)).await?;
    Ok((StatusCode::OK, axum::Json(report)))
}
