//! Google's dialect of S3: a token instead of a signature, and headers of its own.

use hyper::header::{AUTHORIZATION, HeaderValue, IF_NONE_MATCH};
use s3s::{HttpRequest, HttpResponse};

/// What a request has to bring.
pub const TOKEN: &str = "a-token-of-google";

/// Whether a request is for Google.
pub fn is_meant(request: &HttpRequest) -> bool {
    request.headers().get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"Bearer "))
}

/// Makes of it a request that needs no signature. False if it does not bring the token.
pub fn translate(request: &mut HttpRequest) -> bool {
    let headers = request.headers_mut();
    if headers.remove("x-goog-if-generation-match").is_some_and(|value| value == "0") {
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
    headers.remove(AUTHORIZATION).is_some_and(|value| value.as_bytes() == format!("Bearer {TOKEN}").as_bytes())
}

/// What an answer says more.
pub fn complete(answer: &mut HttpResponse) {
    answer.headers_mut().insert("x-goog-generation", HeaderValue::from_static("1"));
}
