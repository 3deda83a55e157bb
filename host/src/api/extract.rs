//! What is taken from a request, with a [`Problem`] where it is not as it must be.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::error::{Error, Kind};

/// The body, as JSON.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let taken = axum::Json::from_request(request, state).await;
        taken.map(|axum::Json(value)| Json(value)).map_err(|rejection| refused(rejection.status(), rejection.body_text()))
    }
}

/// The body as it is.
pub(super) struct Content(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for Content {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let taken = Bytes::from_request(request, state).await;
        taken.map(Content).map_err(|rejection| refused(rejection.status(), rejection.body_text()))
    }
}

/// Parts of the path.
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let taken = axum::extract::Path::from_request_parts(parts, state).await;
        taken.map(|axum::extract::Path(value)| Path(value)).map_err(|rejection| refused(rejection.status(), rejection.body_text()))
    }
}

/// The query.
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let taken = axum::extract::Query::from_request_parts(parts, state).await;
        taken.map(|axum::extract::Query(value)| Query(value)).map_err(|rejection| refused(rejection.status(), rejection.body_text()))
    }
}

fn refused(status: StatusCode, why: String) -> Problem {
    // A status of its own where it says more, such as that the body is too large.
    let problem = Problem::from(&Error::new(Kind::Request, why).help("/v1/openapi.json says what requests look like"));
    Problem { status: status.as_u16(), ..problem }
}
