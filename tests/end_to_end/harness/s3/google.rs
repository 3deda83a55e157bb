//! Google's dialect of S3: a token instead of a signature, and headers of its own.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::header::{AUTHORIZATION, HeaderValue, IF_NONE_MATCH};
use s3s::{HttpRequest, HttpResponse};
use serde_json::{Value, json};

use crate::harness::Place;

/// What a request has to bring, unless it is the account's.
pub const TOKEN: &str = "a-token-of-google";

/// The account whose requests bring tokens that it has signed itself.
pub const ACCOUNT: &str = "checks@example.test";

/// The name of its key. The key was made for the tests and opens nothing.
const KEY_ID: &str = "key-1";

/// Writes a file of credentials for an account, with that key.
pub fn give_credentials(place: &Place, file: &str, account: &str) {
    let key = include_str!("account.pem");
    let credentials = json!({ "type": "service_account", "client_email": account, "private_key_id": KEY_ID, "private_key": key });
    place.write(file, credentials.to_string());
}

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
    let brought = headers.remove(AUTHORIZATION);
    let token = brought.as_ref().and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    token.is_some_and(|token| token == TOKEN || is_of_account(token))
}

/// Whether the account has signed a token. The signature itself is not checked.
fn is_of_account(token: &str) -> bool {
    let parts: Vec<Vec<u8>> = token.split('.').filter_map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok()).collect();
    let [head, claims, signature] = &parts[..] else { return false };
    let json = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap_or_default();
    json(head)["kid"] == KEY_ID && json(claims)["iss"] == ACCOUNT && signature.len() == 256
}

/// What an answer says more.
pub fn complete(answer: &mut HttpResponse) {
    answer.headers_mut().insert("x-goog-generation", HeaderValue::from_static("1"));
}
