//! Just enough of HTTP to ask a server, and to be one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// What stands for a signature: nobody here checks one.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// The header with which a test asks for itself: whatever goes wrong for others, it is answered.
pub const OBSERVER: &str = "x-observer";

/// The head of a request or an answer: its first line, and the value of a header by its name in lower case.
pub struct Head {
    pub line: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// Reads one; none if the other side has nothing more to say.
    pub fn read(from: &mut impl BufRead) -> Option<Head> {
        let mut line = || {
            let mut line = String::new();
            let read = from.read_line(&mut line).ok().filter(|&read| read > 0);
            read.map(|_| line.trim_end().to_owned())
        };
        let first = line()?;
        let mut headers = Vec::new();
        loop {
            let header = line()?;
            let Some((name, value)) = header.split_once(':') else { return Some(Head { line: first, headers }) };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// How long the body is; none: until the other side ends.
    pub fn length(&self) -> Option<usize> {
        self.header("content-length")?.parse().ok()
    }
}

/// Sends a request and returns status and body of the answer.
pub fn request(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("the server takes connections");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: {AUTHORIZATION}\r\n{OBSERVER}: yes\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("the server reads");
    let mut reader = BufReader::new(stream);
    let head = Head::read(&mut reader).expect("the server answers");
    let status = head.line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut body = Vec::new();
    match head.length() {
        Some(length) => reader.take(length as u64).read_to_end(&mut body),
        None => reader.read_to_end(&mut body),
    }
    .expect("the answer comes whole");
    (status, body)
}

/// A path or query with its `%XX` undone.
pub fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = |rest: &mut std::str::Bytes<'_>| {
            let hex = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()
        };
        bytes.push(match byte {
            b'%' => digits(&mut rest).expect("two hexadecimal digits"),
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).expect("UTF-8")
}
