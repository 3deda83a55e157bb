//! [`Serving`]: the interface on a socket.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Method, Uri};
use axum_server::Handle;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::problem::Problem;
use super::{components, jobs};
use crate::error::{Error, Kind, Result};
use crate::service::Host;

/// How long requests under way are waited for at the end.
const GRACE: Duration = Duration::from_secs(2);

#[derive(OpenApi)]
#[openapi(info(title = "Cofferdam", description = "A host of stateful stream jobs whose operators are WebAssembly components."))]
struct Document;

fn described() -> OpenApiRouter<Arc<Host>> {
    OpenApiRouter::with_openapi(Document::openapi()).merge(jobs::router()).merge(components::router())
}

/// The interface as OpenAPI describes it.
pub fn openapi() -> utoipa::openapi::OpenApi {
    described().split_for_parts().1
}

fn router(host: Arc<Host>) -> Router {
    let (router, document) = described().split_for_parts();
    let document = axum::Json(document);
    router
        .route("/v1/openapi.json", axum::routing::get(async move || document))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .with_state(host)
}

async fn nothing(uri: Uri) -> Problem {
    let error = Error::new(Kind::NotFound, format!("there is nothing at {}", uri.path()));
    Problem::from(&error.help("/v1/openapi.json lists all paths"))
}

async fn not_so(method: Method, uri: Uri) -> Problem {
    let error = Error::new(Kind::Request, format!("{method} can't be done to {}", uri.path()));
    Problem { status: 405, ..Problem::from(&error.help("/v1/openapi.json lists all paths with their methods")) }
}

/// An interface that listens, and answers once it runs.
pub struct Serving {
    listener: TcpListener,
    handle: Handle<SocketAddr>,
}

impl Serving {
    /// Listens.
    ///
    /// # Errors
    /// Kind `Storage`: the address can't be had.
    pub fn listen(address: SocketAddr) -> Result<Self> {
        let listen = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().map_err(|error: std::io::Error| {
            Error::new(Kind::Storage, format!("can't listen on {address}: {error}"))
                .help("choose another one with `--listen`; port 0 is any")
        })?;
        Ok(Serving { listener, handle: Handle::new() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Kind `Internal` if the system does not say.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(broken)
    }

    /// Ends it, from wherever. Requests under way have a moment for their answers.
    pub fn end(&self) -> impl FnOnce() + Send + 'static {
        let handle = self.handle.clone();
        move || handle.graceful_shutdown(Some(GRACE))
    }

    /// Answers requests until it is ended.
    ///
    /// # Errors
    /// Kind `Internal` if it can't any more.
    pub async fn run(self, host: Arc<Host>) -> Result<()> {
        let server = axum_server::from_tcp(self.listener).map_err(broken)?.handle(self.handle);
        server.serve(router(host).into_make_service()).await.map_err(broken)
    }
}

fn broken(error: std::io::Error) -> Error {
    Error::new(Kind::Internal, format!("the REST interface can't go on: {error}"))
}
