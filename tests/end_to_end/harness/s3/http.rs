//! The runtime on which requests are served and made, and the requests that a test makes itself.

use std::net::SocketAddr;
use std::sync::LazyLock;

use bytes::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper_util::rt::TokioIo;
use s3s::{Body, HttpRequest};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// The header with which a test asks for itself: whatever goes wrong for others, it is answered.
pub const OBSERVER: &str = "x-observer";

/// Moto shows objects only to whoever signs, and does not look how.
const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// Threads that outlive the tests, like the servers.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads can be started"));

/// Sends a request and returns status and body of the answer.
pub fn request(address: SocketAddr, method: &str, path: &str, body: impl Into<Bytes>) -> (u16, Bytes) {
    let head = HttpRequest::builder().method(method).uri(path).header(HOST, address.to_string());
    let request = head.header(OBSERVER, "yes").header(AUTHORIZATION, SIGNED).body(Body::from(body.into())).expect("a request");
    RUNTIME.block_on(async {
        let stream = TcpStream::connect(address).await.expect("the server takes connections");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.expect("the server answers");
        (answer.status().as_u16(), whole(answer.into_body().into()).await.expect("the answer comes whole"))
    })
}

/// All of a body.
pub async fn whole(mut body: Body) -> Result<Bytes, s3s::StdError> {
    body.store_all_limited(usize::MAX).await
}
