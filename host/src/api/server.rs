//! [`Serving`]: the interface on a socket.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, Uri, header};
use axum::middleware::from_fn_with_state;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::guard::{self, Guard};
use super::problem::Problem;
use super::{components, history, jobs, metrics, savepoints, swap};
use crate::error::{Error, Kind, Result};
use crate::service::Host;
use crate::tls;

/// How long requests under way are waited for at the end.
const GRACE: Duration = Duration::from_secs(2);

#[derive(OpenApi)]
#[openapi(
    info(title = "Cofferdam", description = "A host of stateful stream jobs whose operators are WebAssembly components."),
    modifiers(&Token),
    security((), ("token" = []))
)]
struct Document;

/// What whoever asks has to know, where the host has a token.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", bearer);
    }
}

fn described() -> OpenApiRouter<Arc<Host>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(jobs::router())
        .merge(savepoints::router())
        .merge(swap::router())
        .merge(history::router())
        .merge(components::router())
        .routes(routes!(metrics::metrics))
        .routes(routes!(healthz))
        .routes(routes!(readyz))
}

/// The interface as OpenAPI describes it.
pub fn openapi() -> utoipa::openapi::OpenApi {
    described().split_for_parts().1
}

fn router(host: Arc<Host>, guard: Guard) -> Result<Router> {
    let (router, document) = described().split_for_parts();
    let document = document.to_json().map_err(|error| Error::new(Kind::Internal, format!("OpenAPI can't be written: {error}")))?;
    let document = ([(header::CONTENT_TYPE, "application/json")], Bytes::from(document));
    let router = router
        .route("/v1/openapi.json", axum::routing::get(async move || document))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(guard, guard::check))
        .with_state(host);
    Ok(router)
}

/// Whether the host lives.
#[utoipa::path(get, path = "/healthz", tag = "host", responses((status = 200, body = String)))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the host takes jobs.
#[utoipa::path(get, path = "/readyz", tag = "host",
    responses((status = 200, body = String), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn readyz(axum::extract::State(host): super::Shared) -> Result<&'static str, Problem> {
    host.require_open().map(|()| "ok\n").map_err(|error| Problem { status: 503, ..Problem::from(&error) })
}

async fn nothing(uri: Uri) -> Problem {
    let error = Error::new(Kind::NotFound, format!("there is nothing at {}", uri.path()));
    Problem::from(&error.help("/v1/openapi.json lists all paths"))
}

async fn not_so(method: Method, uri: Uri) -> Problem {
    let error = Error::new(Kind::Request, format!("{method} can't be done to {}", uri.path()));
    Problem { status: 405, ..Problem::from(&error.help("/v1/openapi.json lists all paths with their methods")) }
}

/// Where to listen, and for whom.
pub struct Listen {
    /// The address; port 0 is any that is free.
    pub address: SocketAddr,
    /// Who may ask.
    pub guard: Guard,
    /// Files of the certificate and its key, in PEM; none: TLS is not spoken.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// An interface that listens, and answers once it runs.
pub struct Serving {
    listener: TcpListener,
    handle: Handle<SocketAddr>,
    guard: Guard,
    tls: Option<RustlsConfig>,
}

impl Serving {
    /// Listens.
    ///
    /// # Errors
    /// Kind `Request`: elsewhere than on this machine there must be a token; `Storage`: the address can't be had, or the certificate
    /// not be read.
    pub async fn listen(listen: Listen) -> Result<Self> {
        let Listen { address, guard, tls } = listen;
        if !address.ip().is_loopback() && !guard.has_token() {
            let message = format!("whoever reaches {address} could run code here: a host that listens there wants a token");
            return Err(
                Error::new(Kind::Request, message).help("give it one with `--token-file` or COFFERDAM_TOKEN, or listen on 127.0.0.1")
            );
        }
        if !address.ip().is_loopback() && tls.is_none() {
            tracing::warn!(
                "the token goes over the network as it is: use `--tls-cert` and `--tls-key`, unless something in front speaks TLS"
            );
        }
        let tls = match tls {
            Some(files) => Some(certificate(files).await?),
            None => None,
        };
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = bind().map_err(|error: std::io::Error| {
            Error::new(Kind::Storage, format!("can't listen on {address}: {error}"))
                .help("choose another one with `--listen`; port 0 is any")
        })?;
        Ok(Serving { listener, handle: Handle::new(), guard, tls })
    }

    /// Where it listens, as a URL.
    ///
    /// # Errors
    /// Kind `Internal` if the system does not say.
    pub fn address(&self) -> Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.listener.local_addr().map_err(broken)?))
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
        let Serving { listener, handle, guard, tls } = self;
        let service = router(host, guard)?.into_make_service();
        let served = match tls {
            Some(tls) => axum_server::from_tcp_rustls(listener, tls).map_err(broken)?.handle(handle).serve(service).await,
            None => axum_server::from_tcp(listener).map_err(broken)?.handle(handle).serve(service).await,
        };
        served.map_err(broken)
    }
}

async fn certificate((certificate, key): (PathBuf, PathBuf)) -> Result<RustlsConfig> {
    tls::choose_cryptography();
    let config = RustlsConfig::from_pem_file(&certificate, &key).await;
    config.map_err(|error| {
        let message = format!("the certificate {} with the key {} can't be used: {error}", certificate.display(), key.display());
        Error::new(Kind::Storage, message).help("both are PEM files: `--tls-cert` with the whole chain, `--tls-key` with its private key")
    })
}

fn broken(error: std::io::Error) -> Error {
    Error::new(Kind::Internal, format!("the REST interface can't go on: {error}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_document_in_the_repository_is_the_one_that_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        let document = super::openapi().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(path, &document).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == document, "openapi.json is not what is served: run this test once with UPDATE_OPENAPI=1, and look at what changes");
    }
}
