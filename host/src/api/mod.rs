//! The REST interface of a host, under `/v1`, with paths as Flink's where it has them. Requests only pass on to `service`, on threads that
//! may wait; so what a request has begun comes to its end even if whoever has asked is gone.

mod components;
mod extract;
mod guard;
mod history;
mod jobs;
mod metrics;
mod problem;
mod savepoints;
mod server;
mod swap;

pub use components::Components;
pub use guard::Guard;
pub use history::{Events, LogLines};
pub use jobs::{DeployRequest, Jobs, RescaleRequest, StopRequest, Stopping};
pub use problem::Problem;
pub use savepoints::{DisposalRequest, SavepointRequest, Triggered};
pub use server::{Listen, Serving, openapi};
pub use swap::{ERROR_FACTOR, PROBATION, SwapRequest};

use std::sync::Arc;

use crate::error::Result;
use crate::service::Host;
use crate::threads;

/// What handlers work with.
type Shared = axum::extract::State<Arc<Host>>;

/// Does `work` on a thread that may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T, Problem> {
    threads::blocking("answering the request", work).await.map_err(|error| Problem::from(&error))
}
