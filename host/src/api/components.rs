//! Paths of components.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Content, Path, Query};
use super::problem::Problem;
use super::{Shared, blocking};
use crate::error::{Error, Kind};
use crate::plan::ComponentRef;
use crate::service::{Host, Kept};

/// The largest component that is taken, in bytes.
const LARGEST: usize = 256 << 20;

/// The components of a host.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Components {
    /// From the first pushed to the last.
    pub components: Vec<Kept>,
}

/// A component in all detail.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
struct ComponentDetails {
    /// Its name: what it was pushed as, or else what it calls itself.
    name: String,
    /// When it was pushed, RFC 3339.
    pushed: String,
    /// What it says about itself, and what it imports and exports.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    inspection: crate::job::ComponentInspection,
}

/// How a component is pushed.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Push {
    /// Its name in this host; without it, the one that it gives itself.
    name: Option<String>,
}

pub(super) fn router() -> OpenApiRouter<Arc<Host>> {
    let pushed = OpenApiRouter::new().routes(routes!(push, inspect, remove)).layer(DefaultBodyLimit::max(LARGEST));
    OpenApiRouter::new().routes(routes!(list)).merge(pushed)
}

/// Lists the components that the host keeps.
#[utoipa::path(get, path = "/v1/components", tag = "components", responses((status = 200, body = Components)))]
async fn list(State(host): Shared) -> Result<axum::Json<Components>, Problem> {
    let components = blocking(move || host.components()).await?;
    Ok(axum::Json(Components { components }))
}

/// Pushes a component: the body is its file, and the path names its digest.
#[utoipa::path(put, path = "/v1/components/{component}", tag = "components",
    params(("component" = String, Path, description = "BLAKE3 of its file, in hexadecimal"), Push),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = Kept), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn push(
    State(host): Shared,
    Path(digest): Path<String>,
    Query(push): Query<Push>,
    Content(content): Content,
) -> Result<axum::Json<Kept>, Problem> {
    let push = move || {
        let actual = blake3::hash(&content).to_hex();
        if actual.as_str() != digest {
            let message = format!("the content has the digest {actual}, and not {digest}");
            return Err(Error::new(Kind::Request, message).help("the path names the BLAKE3 of the file, in hexadecimal"));
        }
        host.push(&content, push.name)
    };
    Ok(axum::Json(blocking(push).await?))
}

/// Tells all about a component.
#[utoipa::path(get, path = "/v1/components/{component}", tag = "components",
    params(("component" = String, Path, description = "Its digest, or name@version")),
    responses((status = 200, body = ComponentDetails), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn inspect(State(host): Shared, Path(component): Path<String>) -> Result<axum::Json<ComponentDetails>, Problem> {
    let inspect = move || {
        let (kept, inspection) = host.inspect(&named(&component)?)?;
        Ok(ComponentDetails { name: kept.name, pushed: kept.pushed, inspection })
    };
    Ok(axum::Json(blocking(inspect).await?))
}

/// Removes a component that no job has, also none that has ended and is not forgotten.
#[utoipa::path(delete, path = "/v1/components/{component}", tag = "components",
    params(("component" = String, Path, description = "Its digest, or name@version")),
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn remove(State(host): Shared, Path(component): Path<String>) -> Result<StatusCode, Problem> {
    blocking(move || host.remove(&named(&component)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What a path names.
fn named(text: &str) -> crate::error::Result<ComponentRef> {
    match text.parse() {
        Ok(named @ (ComponentRef::Digest(_) | ComponentRef::Version { .. })) => Ok(named),
        _ => {
            let message = format!("the host has no component `{text}`");
            Err(Error::new(Kind::NotFound, message).help("name it by its digest, or by name@version"))
        }
    }
}
