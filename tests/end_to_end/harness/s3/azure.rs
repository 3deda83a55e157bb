//! As much of Azure's blob service as a store of checkpoints needs, over the objects of the same server.

use std::collections::BTreeMap;

use super::http::decode;
use super::page::{Entry, Page};
use super::server::{Answer, Request, answer, part_of};

/// The account whose key a request has to be signed with.
const SIGNED: &str = "SharedKey test:";

/// Objects by key, and blocks that no list has named yet by id.
pub type Objects = BTreeMap<String, Vec<u8>>;

/// Whether a request is for Azure.
pub fn is_meant(request: &Request) -> bool {
    request.head.header("x-ms-version").is_some()
}

pub fn is_allowed(request: &Request) -> bool {
    request.head.header("authorization").is_some_and(|value| value.starts_with(SIGNED))
}

/// Does what a request asks for.
pub fn act(objects: &mut Objects, blocks: &mut Objects, request: &Request, body: Vec<u8>) -> Answer {
    let Request { method, key, query, head, .. } = request;
    match (method.as_str(), query.get("comp").map(String::as_str)) {
        ("GET", Some("list")) => {
            // That one included.
            let from = query.get("startFrom").cloned().unwrap_or_default();
            let objects = objects.range(from..).map(|(key, object)| (key.clone(), object.clone())).collect();
            list(Page::of(&objects, query, "marker"))
        }
        ("POST", Some("batch")) => delete_all(objects, &String::from_utf8_lossy(&body)),
        ("GET" | "HEAD", None) => match objects.get(key) {
            Some(object) => part_of(object, head.header("x-ms-range").or(head.header("range"))),
            None => error(404, "BlobNotFound"),
        },
        ("PUT", None) if head.header("x-ms-blob-type") != Some("BlockBlob") => error(400, "InvalidHeaderValue"),
        ("PUT", None) if head.header("if-none-match") == Some("*") && objects.contains_key(key) => error(409, "BlobAlreadyExists"),
        ("PUT", None) => {
            objects.insert(key.clone(), body);
            (201, "etag: \"object\"\r\n".into(), Vec::new())
        }
        ("PUT", Some("block")) => {
            blocks.insert(query["blockid"].clone(), body);
            answer(201)
        }
        ("PUT", Some("blocklist")) => {
            let text = String::from_utf8_lossy(&body);
            let named = text.split("<Uncommitted>").skip(1).filter_map(|rest| rest.split('<').next());
            match named.map(|id| blocks.remove(id)).collect::<Option<Vec<_>>>() {
                Some(parts) => {
                    objects.insert(key.clone(), parts.concat());
                    (201, "etag: \"whole\"\r\n".into(), Vec::new())
                }
                None => error(400, "InvalidBlockList"),
            }
        }
        _ => error(501, "NotImplemented"),
    }
}

fn error(status: u16, code: &str) -> Answer {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as told</Message></Error>");
    (status, format!("content-type: application/xml\r\nx-ms-error-code: {code}\r\n"), body.into_bytes())
}

fn list(page: Page) -> Answer {
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
    (200, "content-type: application/xml\r\n".into(), body.into_bytes())
}

/// A request of requests, each with a signature of its own.
fn delete_all(objects: &mut Objects, body: &str) -> Answer {
    let mut answers = String::new();
    for (number, request) in body.split("\r\nDELETE /bucket/").skip(1).enumerate() {
        let key = decode(request.split(' ').next().unwrap_or_default());
        let status = match objects.remove(&key) {
            _ if !request.contains(&format!("Authorization: {SIGNED}")) => "403 Forbidden",
            Some(_) => "202 Accepted",
            None => "404 Not Found",
        };
        answers += &format!("--answers\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n\r\n");
    }
    (202, "content-type: multipart/mixed; boundary=answers\r\n".into(), format!("{answers}--answers--").into_bytes())
}
