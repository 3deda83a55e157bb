//! A server in this process that speaks S3, and what stands before it: requests go wrong as a test says.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::StreamingBlob;
use s3s::host::SingleDomain;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpRequest, HttpResponse, S3Error, S3ErrorCode, S3Result, path, s3_error};
use tokio::sync::{Semaphore, watch};

use super::http::{OBSERVER, RUNTIME, whole};
use super::objects::{Overwrites, Store};
use super::{ACCESS, Bucket, NAME, SECRET, azure, google};

/// Where buckets are part of the name of the host.
const DOMAIN: &str = "s3.example.test";

/// How a request goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused with this status.
    Refused(u16),
    /// It is done, and the answer says that it was refused with this status.
    Denied(u16),
    /// The connection breaks before all of it has come; for a GET, before all of the answer has.
    Cut,
    /// It is done, and nobody says so: the connection stays open.
    Silence,
    /// It is done, and the connection ends without an answer.
    Unheard,
    /// It is done, and answered a little later.
    Slow,
    /// It has come, and is done when the test says so.
    Held,
    /// It is done, and answered when the test says so.
    Unanswered,
    /// `If-None-Match` is ignored.
    Overwrites,
}

/// A request as far as it decides about a fault.
pub struct Request {
    pub method: String,
    /// The object's key; empty for the bucket.
    pub key: String,
    pub query: BTreeMap<String, String>,
    /// How many requests came before.
    pub number: u64,
    headers: HeaderMap,
}

impl Request {
    fn of(request: &HttpRequest, number: u64) -> Self {
        let uri = request.uri();
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let bucket = host.and_then(|host| host.strip_suffix(DOMAIN)?.strip_suffix('.'));
        let decoded = percent_encoding::percent_decode_str(uri.path()).decode_utf8_lossy();
        let path = path::parse_virtual_hosted_style(bucket, &decoded);
        let key = path.ok().and_then(|path| path.get_object_key().map(str::to_owned)).unwrap_or_default();
        let query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        Request { method: request.method().to_string(), key, query, number, headers: request.headers().clone() }
    }

    /// Whether it lists objects below a prefix that contains `part`.
    pub fn lists(&self, part: &str) -> bool {
        self.key.is_empty() && self.query.get("prefix").is_some_and(|prefix| prefix.contains(part))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn kind(&self) -> String {
        let about = ["log", "state", "published"].into_iter().find(|dir| self.key.contains(&format!("/{dir}")));
        match (self.method.as_str(), about) {
            ("GET", None) if self.key.is_empty() => "LIST".into(),
            (method, about) => format!("{method} {}", about.unwrap_or("objects")),
        }
    }
}

type Misbehave = dyn Fn(&Request) -> Option<Fault> + Send + Sync;

/// The keys that are valid: one.
struct Keys;

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == ACCESS { Ok(SECRET.into()) } else { Err(s3_error!(InvalidAccessKeyId, "there is no such key")) }
    }
}

/// S3, for whoever signs with a valid key or for everybody.
fn service(store: &Store, checks: bool) -> S3Service {
    let mut builder = S3ServiceBuilder::new(store.clone());
    builder.set_host(SingleDomain::new(DOMAIN).expect("a domain"));
    if checks {
        builder.set_auth(Keys);
    }
    builder.build()
}

struct Shared {
    store: Store,
    /// For jobs.
    checking: S3Service,
    /// For tests, and for those who have been checked already.
    open: S3Service,
    misbehave: Mutex<Arc<Misbehave>>,
    faults: Mutex<Vec<String>>,
    requests: AtomicU64,
    /// How many there were of each kind.
    kinds: Mutex<BTreeMap<String, u64>>,
    /// How many wait for a word of the test, or have waited and are being done.
    waiting: watch::Sender<usize>,
    /// How many of them may go.
    may_go: Semaphore,
}

/// A request that waits, or has waited and is being done.
struct Going<'a>(&'a watch::Sender<usize>);

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

/// A server with a bucket. It serves until the process ends.
pub struct Server {
    pub bucket: Bucket,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts one that behaves well.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let bucket = Bucket { address: listener.local_addr().expect("it is bound"), name: NAME };
        let store = Store::default();
        let well: Arc<Misbehave> = Arc::new(|_| None);
        let shared = Arc::new(Shared {
            checking: service(&store, true),
            open: service(&store, false),
            store,
            misbehave: Mutex::new(well),
            faults: Mutex::default(),
            requests: AtomicU64::default(),
            kinds: Mutex::default(),
            waiting: watch::Sender::default(),
            may_go: Semaphore::new(0),
        });
        RUNTIME.spawn(listen(listener, Arc::clone(&shared)));
        Server { bucket, shared }
    }

    /// From now on requests go wrong as `misbehave` says.
    pub fn misbehaves(&self, misbehave: impl Fn(&Request) -> Option<Fault> + Send + Sync + 'static) {
        *lock(&self.shared.misbehave) = Arc::new(misbehave);
    }

    /// What has gone wrong so far: fault, method and key.
    pub fn faults(&self) -> Vec<String> {
        lock(&self.shared.faults).clone()
    }

    /// How many requests there were of each kind: method and what it is about.
    pub fn kinds(&self) -> BTreeMap<String, u64> {
        lock(&self.shared.kinds).clone()
    }

    /// How many requests are held or unanswered.
    pub fn waiting(&self) -> usize {
        *self.shared.waiting.borrow()
    }

    /// Lets those go, and returns when they are done.
    pub fn let_go(&self) {
        self.shared.may_go.add_permits(self.waiting());
        let mut waiting = self.shared.waiting.subscribe();
        RUNTIME.block_on(waiting.wait_for(|&waiting| waiting == 0)).expect("the server is there");
    }

    /// How many uploads in parts are not ended.
    pub fn open_uploads(&self) -> usize {
        self.shared.store.content().parts.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let shared = Arc::clone(&shared);
        let serve = service_fn(move |request: hyper::Request<_>| {
            // What has come is done also if whoever has sent it is gone by then.
            let served = tokio::spawn(Arc::clone(&shared).serve(request.map(Body::from)));
            async {
                match served.await.map_err(io::Error::other)?? {
                    Some(answer) => Ok::<_, io::Error>(answer),
                    // Until the other side loses patience.
                    None => std::future::pending().await,
                }
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), serve));
    }
}

impl Shared {
    /// The answer to a request; none if nothing is to be said. After an error the connection ends.
    async fn serve(self: Arc<Self>, request: HttpRequest) -> io::Result<Option<HttpResponse>> {
        let (head, body) = request.into_parts();
        let coming = tokio::spawn(whole(body));
        let mut request = HttpRequest::from_parts(head, Body::empty());
        let observes = request.headers().contains_key(OBSERVER);
        let fault = if observes { None } else { self.fault(&request).await? };
        if fault == Some(Fault::Cut) && request.method() != "GET" {
            coming.abort();
            return Err(broken());
        }
        *request.body_mut() = coming.await.map_err(io::Error::other)?.map_err(io::Error::other)?.into();
        if fault == Some(Fault::Overwrites) {
            request.extensions_mut().insert(Overwrites);
        }
        let _held = if fault == Some(Fault::Held) { Some(self.wait().await) } else { None };
        let done = match fault {
            Some(Fault::Refused(status)) => refusal(status)?,
            _ => self.act(request, observes).await?,
        };
        let _unanswered = if fault == Some(Fault::Unanswered) { Some(self.wait().await) } else { None };
        Ok(match fault {
            Some(Fault::Silence) => None,
            Some(Fault::Unheard) => return Err(broken()),
            Some(Fault::Denied(status)) => Some(refusal(status)?),
            Some(Fault::Slow) => {
                tokio::time::sleep(Duration::from_millis(30)).await;
                Some(done)
            }
            Some(Fault::Cut) => Some(cut(done).await?),
            _ => Some(done),
        })
    }

    /// How a request goes wrong, which may be told only after a while.
    async fn fault(&self, request: &HttpRequest) -> io::Result<Option<Fault>> {
        let request = Request::of(request, self.requests.fetch_add(1, Ordering::SeqCst));
        *lock(&self.kinds).entry(request.kind()).or_default() += 1;
        let what = format!("{} {}", request.method, request.key);
        let misbehave = Arc::clone(&lock(&self.misbehave));
        let fault = tokio::task::spawn_blocking(move || misbehave(&request)).await?;
        if let Some(fault) = fault {
            lock(&self.faults).push(format!("{fault:?} {what}"));
        }
        Ok(fault)
    }

    /// Waits for a word of the test. Whoever gives it waits in turn until what is returned here is dropped.
    async fn wait(&self) -> Going<'_> {
        self.waiting.send_modify(|waiting| *waiting += 1);
        let going = Going(&self.waiting);
        self.may_go.acquire().await.expect("it is never closed").forget();
        going
    }

    async fn act(&self, mut request: HttpRequest, observes: bool) -> io::Result<HttpResponse> {
        if azure::is_meant(&request) {
            let body = request.body().bytes().unwrap_or_default();
            return azure::act(&mut self.store.content(), &Request::of(&request, 0), &body).map_err(io::Error::other);
        }
        let is_google = google::is_meant(&request);
        if is_google && !google::translate(&mut request) {
            return refusal(403);
        }
        if observes {
            request.headers_mut().remove(AUTHORIZATION);
        }
        let service = if is_google || observes { &self.open } else { &self.checking };
        let mut answer = service.call(request).await.map_err(|error| io::Error::other(s3s::StdError::from(error)))?;
        if is_google {
            google::complete(&mut answer);
        }
        Ok(answer)
    }
}

fn broken() -> io::Error {
    io::Error::other("as told")
}

fn refusal(status: u16) -> io::Result<HttpResponse> {
    let code = if status == 503 { S3ErrorCode::SlowDown } else { S3ErrorCode::Custom("Told".into()) };
    let mut error = S3Error::with_message(code, "as told");
    error.set_status_code(status.try_into().map_err(io::Error::other)?);
    error.to_http_response().map_err(io::Error::other)
}

/// An answer whose connection breaks in the midst.
async fn cut(answer: HttpResponse) -> io::Result<HttpResponse> {
    let (mut head, body) = answer.into_parts();
    let body = whole(body).await.map_err(io::Error::other)?;
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let half = body.slice(..body.len() / 2);
    let end = stream::once(async {
        // The half is sent meanwhile.
        tokio::task::yield_now().await;
        Err(broken())
    });
    let body = StreamingBlob::wrap(stream::iter([Ok(half)]).chain(end));
    Ok(HttpResponse::from_parts(head, body.into()))
}
