//! As much of Azure's blob service as a store of checkpoints needs, over the objects of the same server.

use hyper::http::Result;
use hyper::http::response::Builder;
use percent_encoding::percent_decode_str;
use s3s::dto::Range;
use s3s::{Body, HttpRequest, HttpResponse};

use super::objects::{Content, Objects};
use super::page::{Entry, Page};
use super::server::Request;

/// The account whose key a request has to be signed with.
const SIGNED: &str = "SharedKey test:";

/// Whether a request is for Azure.
pub fn is_meant(request: &HttpRequest) -> bool {
    request.headers().contains_key("x-ms-version")
}

/// Does what a request asks for.
pub fn act(content: &mut Content, request: &Request, body: &[u8]) -> Result<HttpResponse> {
    let Content { objects, blocks, .. } = content;
    let Request { method, key, query, .. } = request;
    if !request.header("authorization").is_some_and(|value| value.starts_with(SIGNED)) {
        return error(403, "AuthenticationFailed");
    }
    match (method.as_str(), query.get("comp").map(String::as_str)) {
        ("GET", Some("list")) => {
            let text = |name: &str| query.get(name).cloned().unwrap_or_default();
            // That one included.
            let objects = objects.range(text("startFrom")..).map(|(key, object)| (key.clone(), object.clone())).collect();
            list(Page::of(&objects, &text("prefix"), &text("delimiter"), text("marker")))
        }
        ("POST", Some("batch")) => delete_all(objects, &String::from_utf8_lossy(body)),
        ("GET" | "HEAD", None) => match objects.get(key) {
            Some(object) => part_of(object, request),
            None => error(404, "BlobNotFound"),
        },
        ("PUT", None) if request.header("x-ms-blob-type") != Some("BlockBlob") => error(400, "InvalidHeaderValue"),
        ("PUT", None) if request.header("if-none-match") == Some("*") && objects.contains_key(key) => error(409, "BlobAlreadyExists"),
        ("PUT", None) => {
            objects.insert(key.clone(), body.to_vec().into());
            answer(201).header("etag", "\"object\"").body(Body::empty())
        }
        ("PUT", Some("block")) => {
            blocks.insert(query["blockid"].clone(), body.to_vec().into());
            answer(201).body(Body::empty())
        }
        ("PUT", Some("blocklist")) => {
            let text = String::from_utf8_lossy(body);
            let named = text.split("<Uncommitted>").skip(1).filter_map(|rest| rest.split('<').next());
            match named.map(|id| blocks.remove(id)).collect::<Option<Vec<_>>>() {
                Some(parts) => {
                    objects.insert(key.clone(), parts.concat().into());
                    answer(201).header("etag", "\"whole\"").body(Body::empty())
                }
                None => error(400, "InvalidBlockList"),
            }
        }
        _ => error(501, "NotImplemented"),
    }
}

fn answer(status: u16) -> Builder {
    hyper::Response::builder().status(status)
}

fn error(status: u16, code: &str) -> Result<HttpResponse> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as told</Message></Error>");
    answer(status).header("content-type", "application/xml").header("x-ms-error-code", code).body(body.into())
}

/// An object, or as much of it as is asked for.
fn part_of(object: &bytes::Bytes, request: &Request) -> Result<HttpResponse> {
    const MODIFIED: &str = "Mon, 30 Nov 2026 07:00:00 GMT";
    let length = object.len();
    let part =
        request.header("x-ms-range").or(request.header("range")).and_then(|range| Range::parse(range).ok()?.check(length as u64).ok());
    let (status, body) = match &part {
        Some(part) => (206, object.slice(part.start as usize..part.end as usize)),
        None => (200, object.clone()),
    };
    let mut answer = answer(status).header("etag", "\"object\"").header("last-modified", MODIFIED).header("content-length", body.len());
    if let Some(part) = part {
        answer = answer.header("content-range", format!("bytes {}-{}/{length}", part.start, part.end - 1));
    }
    answer.body(body.into())
}

fn list(page: Page) -> Result<HttpResponse> {
    let render = |entry: Entry| match entry {
        Entry::Below(prefix) => format!("<BlobPrefix><Name>{prefix}</Name></BlobPrefix>"),
        Entry::Object(key, size) => format!(
            "<Blob><Name>{key}</Name><Properties><Last-Modified>Mon, 30 Nov 2026 07:00:00 GMT</Last-Modified><Etag>o</Etag>\
             <Content-Length>{size}</Content-Length><Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
        ),
    };
    let next = page.next.unwrap_or_default();
    let blobs: String = page.entries.into_iter().map(render).collect();
    let body =
        format!("<?xml version=\"1.0\"?><EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>");
    answer(200).header("content-type", "application/xml").body(body.into())
}

/// A request of requests, each with a signature of its own.
fn delete_all(objects: &mut Objects, body: &str) -> Result<HttpResponse> {
    let mut answers = String::new();
    for (number, request) in body.split("\r\nDELETE /bucket/").skip(1).enumerate() {
        let key = percent_decode_str(request.split(' ').next().unwrap_or_default()).decode_utf8_lossy();
        let status = match objects.remove(&*key) {
            _ if !request.contains(&format!("Authorization: {SIGNED}")) => "403 Forbidden",
            Some(_) => "202 Accepted",
            None => "404 Not Found",
        };
        answers += &format!("--answers\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n\r\n");
    }
    answer(202).header("content-type", "multipart/mixed; boundary=answers").body(format!("{answers}--answers--").into())
}
