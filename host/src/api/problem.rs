//! [`Problem`]: an error as an answer, `application/problem+json` (RFC 9457) with the host's own code and help.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::{Error, Kind};

/// An error as an answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The status of the answer.
    pub status: u16,
    /// What kind of error it is, by its stable name.
    pub code: String,
    /// The same in a few words.
    pub title: String,
    /// What went wrong, in one line.
    pub detail: String,
    /// What to do about it.
    #[serde(default)]
    pub help: Option<String>,
    /// Faults in the job file, if it is about those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Place>,
}

/// A fault in a job file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let kind = error.kind();
        let place =
            |problem: &crate::error::Problem| Place { line: problem.line(), message: problem.message.clone(), help: problem.help.clone() };
        Problem {
            status: status(kind).as_u16(),
            code: kind.code().into(),
            title: title(kind).into(),
            detail: error.message().into(),
            help: error.help_text().map(String::from),
            problems: error.all_problems().iter().map(place).collect(),
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let mut message = problem.detail;
        if problem.problems.len() > 1 {
            for place in &problem.problems {
                message += &format!("\n  line {}: {}", place.line, place.message);
            }
        }
        let error = Error::new(Kind::from_code(&problem.code).unwrap_or(Kind::Internal), message);
        let help = problem.help.or_else(|| problem.problems.first().and_then(|place| place.help.clone()));
        help.into_iter().fold(error, Error::help)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Request => StatusCode::BAD_REQUEST,
        Kind::Unauthorized => StatusCode::UNAUTHORIZED,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict | Kind::Fenced => StatusCode::CONFLICT,
        Kind::Config | Kind::Component | Kind::Checkpoint | Kind::Job => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::Storage | Kind::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Job => "An operator, source or sink failed",
        Kind::Config => "The job file is not acceptable",
        Kind::Component => "A component is not acceptable",
        Kind::Checkpoint => "A checkpoint is not acceptable",
        Kind::Storage => "A directory or store can't be used",
        Kind::Fenced => "A newer attempt has taken over",
        Kind::Unreachable => "The host can't be reached",
        Kind::NotFound => "There is no such thing",
        Kind::Conflict => "Not in this state",
        Kind::Unauthorized => "The host wants to know who asks",
        Kind::Request => "The request is not as it must be",
        Kind::Internal => "A bug in the host",
    }
}
