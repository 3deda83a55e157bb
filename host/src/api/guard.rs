//! Who may ask: whoever has the token, if there is one; else whoever is on this machine, but for pages in its browsers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use crate::error::{Error, Kind};

/// What whoever asks must know.
#[derive(Clone, Default)]
pub struct Guard(Option<Arc<blake3::Hash>>);

impl Guard {
    /// Only who knows `token` may ask; without one, everyone who gets through.
    pub fn new(token: Option<&str>) -> Self {
        Guard(token.map(|token| Arc::new(blake3::hash(token.as_bytes()))))
    }

    /// Whether there is a token.
    pub fn has_token(&self) -> bool {
        self.0.is_some()
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        match &self.0 {
            Some(expected) => {
                let token = header(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
                // Digests are compared in constant time.
                token.is_some_and(|token| blake3::hash(token.as_bytes()) == **expected)
            }
            // A page from elsewhere gives itself away by its origin, or by a name that was made to lead here.
            None => header(header::ORIGIN).is_none() && header(header::HOST).is_none_or(is_an_address),
        }
    }
}

/// Whether a `Host` header names an address, or this machine.
fn is_an_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name == "localhost" || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

/// Lets a request through, or answers it with what is wrong. Whether the host lives may be asked by anyone.
pub(super) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let is_open = matches!(request.uri().path(), "/healthz" | "/readyz");
    if is_open || guard.admits(request.headers()) {
        return next.run(request).await;
    }
    let error = match guard.has_token() {
        true => Error::new(Kind::Unauthorized, "the host wants a token, and the request has none or a wrong one")
            .help("give it with `--token-file` or COFFERDAM_TOKEN, or in the header `Authorization: Bearer …`"),
        false => {
            Error::new(Kind::Unauthorized, "a host without a token answers no requests of web pages, nor by a name other than localhost")
                .help("start the host with a token: `serve --token-file`, or COFFERDAM_TOKEN")
        }
    };
    Problem::from(&error).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(header::HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_the_token_opens() {
        let guard = Guard::new(Some("secret"));
        for (value, is_right) in
            [("Bearer secret", true), ("Bearer secre", false), ("Bearer ", false), ("secret", false), ("Basic secret", false)]
        {
            assert_eq!(guard.admits(&headers(&[(header::AUTHORIZATION, value)])), is_right, "{value}");
        }
        assert!(!guard.admits(&HeaderMap::new()));
    }

    #[test]
    fn without_a_token_pages_of_browsers_stay_out() {
        let guard = Guard::new(None);
        for (host, is_right) in
            [("127.0.0.1:8081", true), ("localhost:8081", true), ("[::1]:8081", true), ("[::1]", true), ("evil.example:8081", false)]
        {
            assert_eq!(guard.admits(&headers(&[(header::HOST, host)])), is_right, "{host}");
        }
        assert!(!guard.admits(&headers(&[(header::HOST, "127.0.0.1"), (header::ORIGIN, "http://evil.example")])));
    }
}
