//! [`Client`]: the REST interface of a host, seen from outside.

use std::path::Path;
use std::time::Duration;

use reqwest::{Certificate, Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::{HostArgs, TokenArgs};
use crate::api::Problem;
use crate::error::{Error, Kind, Result};
use crate::tls;

/// Between two looks at something that is waited for.
const POLL: Duration = Duration::from_millis(50);

/// Between two looks at how something comes along.
const LOOK: Duration = Duration::from_millis(300);

/// How long a connection may take. Answers may take longer: a component that is pushed is compiled first.
const CONNECT: Duration = Duration::from_secs(10);

/// A host, to be asked.
pub(super) struct Client {
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    address: String,
    token: Option<String>,
}

impl Client {
    pub(super) fn new(args: &HostArgs) -> Result<Self> {
        Self::at(&args.address, &args.token, args.ca_cert.as_deref())
    }

    /// The host at an address.
    pub(super) fn at(address: &str, token: &TokenArgs, ca_cert: Option<&Path>) -> Result<Self> {
        if !["http://", "https://"].iter().any(|scheme| address.starts_with(scheme)) {
            let message = format!("`{address}` is no address of a host: one begins with http:// or https://");
            return Err(Error::new(Kind::Unreachable, message).help(WHERE));
        }
        tls::choose_cryptography();
        let mut http = reqwest::Client::builder().connect_timeout(CONNECT).no_proxy();
        if let Some(file) = ca_cert {
            http = http.tls_certs_merge(certificates(file)?);
        }
        let http = http.build().map_err(|error| Error::new(Kind::Internal, format!("no HTTP client: {error}")))?;
        let address = address.trim_end_matches('/').into();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::new(Kind::Internal, format!("no asynchronous runtime: {error}")))?;
        Ok(Client { runtime, http, address, token: token.read()? })
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(self.request(Method::GET, path)).and_then(|response| self.json(response))
    }

    pub(super) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        self.ask(self.request(Method::POST, path).json(body)).and_then(|response| self.json(response))
    }

    /// The same for what may take long: meanwhile `look` gets the answers of `path` at `seen`.
    pub(super) fn post_seen<T: DeserializeOwned, S: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        seen: &str,
        look: impl Fn(S),
    ) -> Result<T> {
        let looks = async {
            loop {
                tokio::time::sleep(LOOK).await;
                // That there is nothing to be seen is no reason to fail.
                if let Ok(response) = self.answer(self.request(Method::GET, seen)).await
                    && let Ok(answer) = response.json().await
                {
                    look(answer);
                }
            }
        };
        let response = self.runtime.block_on(async {
            tokio::select! {
                response = self.answer(self.request(Method::POST, path).json(body)) => response,
                _ = looks => unreachable!("it looks without end"),
            }
        });
        self.json(response?)
    }

    pub(super) fn put<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)], body: Vec<u8>) -> Result<T> {
        self.ask(self.request(Method::PUT, path).query(query).body(body)).and_then(|response| self.json(response))
    }

    pub(super) fn delete(&self, path: &str) -> Result<()> {
        self.ask(self.request(Method::DELETE, path)).map(drop)
    }

    /// Asks for the same again and again, until the answer is one that was waited for.
    pub(super) fn wait<T: DeserializeOwned>(&self, path: &str, is_it: impl Fn(&T) -> bool) -> Result<T> {
        loop {
            let answer = self.get(path)?;
            if is_it(&answer) {
                return Ok(answer);
            }
            pause();
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.address));
        self.token.iter().fold(request, |request, token| request.bearer_auth(token))
    }

    fn ask(&self, request: RequestBuilder) -> Result<Response> {
        self.runtime.block_on(self.answer(request))
    }

    /// The answer, if it is not a problem.
    async fn answer(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        Err(serde_json::from_slice::<Problem>(&text).map_or_else(|_| self.stranger(status), Error::from))
    }

    fn json<T: DeserializeOwned>(&self, response: Response) -> Result<T> {
        let status = response.status();
        let text = self.runtime.block_on(response.bytes()).map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&text).map_err(|_| self.stranger(status))
    }

    fn unreachable(&self, error: &reqwest::Error) -> Error {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        Error::new(Kind::Unreachable, format!("the host at {} can't be reached: {cause}", self.address)).help(WHERE)
    }

    fn stranger(&self, status: StatusCode) -> Error {
        let message = format!("what is at {} does not answer as a host of this version ({status})", self.address);
        Error::new(Kind::Unreachable, message).help(WHERE)
    }
}

fn certificates(file: &Path) -> Result<Vec<Certificate>> {
    let unusable = |cause: String| {
        Error::new(Kind::Request, format!("the certificates in {} can't be used: {cause}", file.display())).help("they must be in PEM")
    };
    let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
    Certificate::from_pem_bundle(&pem).map_err(|error| unusable(error.to_string()))
}

const WHERE: &str = "start one with `cofferdam serve`, or say where it is with `--address` or COFFERDAM_ADDRESS";

/// Waits before the next look at something that is waited for.
pub(super) fn pause() {
    std::thread::sleep(POLL);
}

/// A name as a part of a path.
pub(super) fn part(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}
