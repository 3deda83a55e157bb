//! A small server in this process that speaks as much of S3 as a store of checkpoints needs, and misbehaves as it is told.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::http::{Head, OBSERVER, decode};
use super::page::{Entry, Page};
use super::{Bucket, azure};

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
    /// It is done a little later.
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
    pub head: Head,
}

impl Request {
    fn kind(&self) -> String {
        let about = ["log", "state", "published"].into_iter().find(|dir| self.key.contains(&format!("/{dir}")));
        match (self.method.as_str(), about) {
            ("GET", None) if self.key.is_empty() => "LIST".into(),
            (method, about) => format!("{method} {}", about.unwrap_or("objects")),
        }
    }
}

type Misbehave = dyn Fn(&Request) -> Option<Fault> + Send + Sync;

struct Shared {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Parts that have come, by upload and number.
    parts: Mutex<BTreeMap<String, BTreeMap<u32, Vec<u8>>>>,
    /// Blocks that no list has named yet, by id.
    blocks: Mutex<BTreeMap<String, Vec<u8>>>,
    misbehave: Mutex<Arc<Misbehave>>,
    faults: Mutex<Vec<String>>,
    requests: AtomicU64,
    /// How many there were of each kind.
    kinds: Mutex<BTreeMap<String, u64>>,
    waiting: Waiting,
}

/// Requests that wait for a word of the test.
#[derive(Default)]
struct Waiting {
    /// How many wait, and how many of them may go.
    count: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Waiting {
    /// Waits for the word. Whoever gives it waits in turn until what is returned here is dropped.
    fn wait(&self) -> Going<'_> {
        let mut count = lock(&self.count);
        count.0 += 1;
        count = self.changed.wait_while(count, |(_, may_go)| *may_go == 0).unwrap_or_else(PoisonError::into_inner);
        count.1 -= 1;
        Going(self)
    }
}

/// A request that has waited and is being answered.
struct Going<'a>(&'a Waiting);

impl Drop for Going<'_> {
    fn drop(&mut self) {
        lock(&self.0.count).0 -= 1;
        self.0.changed.notify_all();
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
        let bucket = Bucket { address: listener.local_addr().expect("it is bound"), name: "bucket" };
        let well: Arc<Misbehave> = Arc::new(|_| None);
        let shared = Arc::new(Shared {
            objects: Mutex::default(),
            parts: Mutex::default(),
            blocks: Mutex::default(),
            misbehave: Mutex::new(well),
            faults: Mutex::default(),
            requests: AtomicU64::default(),
            kinds: Mutex::default(),
            waiting: Waiting::default(),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || while shared.serve(&stream).is_some() {});
            }
        });
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
        lock(&self.shared.waiting.count).0
    }

    /// Lets those go, and returns when they are done and answered.
    pub fn let_go(&self) {
        let Waiting { count, changed } = &self.shared.waiting;
        let mut count = lock(count);
        count.1 = count.0;
        changed.notify_all();
        drop(changed.wait_while(count, |(waiting, _)| *waiting > 0));
    }

    /// How many uploads in parts are not ended.
    pub fn open_uploads(&self) -> usize {
        lock(&self.shared.parts).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Status, headers and body.
pub type Answer = (u16, String, Vec<u8>);

pub fn answer(status: u16) -> Answer {
    (status, String::new(), Vec::new())
}

fn error(status: u16, code: &str) -> Answer {
    // As real ones do, it repeats who has asked.
    let body = format!("<Error><Code>{code}</Code><Message>as told</Message><AWSAccessKeyId>test</AWSAccessKeyId></Error>");
    (status, "content-type: application/xml\r\n".into(), body.into_bytes())
}

impl Shared {
    /// Serves one request; none when the connection has ended.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let head = Head::read(&mut reader)?;
        let mut words = head.line.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        // Whoever takes us for a proxy names the host there, too.
        let path = path.strip_prefix("http://").map_or(path, |rest| rest.split_once('/').map_or("", |(_, path)| path));
        let path = path.trim_start_matches('/');
        let (bucket, key) = match head.header("host").and_then(|host| host.split_once('.')) {
            Some(("bucket", _)) => ("bucket", path),
            _ => path.split_once('/').unwrap_or((path, "")),
        };
        let (bucket, key) = (bucket.to_owned(), decode(key));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), decode(value))
        };
        let query = query.split('&').map(pair).collect();
        let observes = head.header(OBSERVER).is_some();
        let number = if observes { 0 } else { self.requests.fetch_add(1, Ordering::SeqCst) };
        let request = Request { method, key, query, number, head };
        if !observes {
            *lock(&self.kinds).entry(request.kind()).or_default() += 1;
        }
        let misbehave = Arc::clone(&lock(&self.misbehave));
        let fault = if observes { None } else { misbehave(&request) };
        if let Some(fault) = fault {
            lock(&self.faults).push(format!("{fault:?} {} {}", request.method, request.key));
        }
        if fault == Some(Fault::Cut) && request.method != "GET" {
            // What has not been read makes the end a reset.
            return None;
        }
        let mut body = vec![0; request.head.length().unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let is_azure = azure::is_meant(&request);
        let allowed = match is_azure {
            true => azure::is_allowed(&request),
            false => request.head.header("authorization").is_some_and(|value| value.contains("Credential=test/")),
        };
        let refusal = |status| error(status, if status == 503 { "SlowDown" } else { "Told" });
        let _held = (fault == Some(Fault::Held)).then(|| self.waiting.wait());
        let done = match fault {
            Some(Fault::Refused(status)) => refusal(status),
            _ if !allowed => error(403, "InvalidAccessKeyId"),
            _ if bucket != "bucket" => error(404, "NoSuchBucket"),
            _ if is_azure => azure::act(&mut lock(&self.objects), &mut lock(&self.blocks), &request, body),
            _ => self.act(&request, body, fault == Some(Fault::Overwrites)),
        };
        let _unanswered = (fault == Some(Fault::Unanswered)).then(|| self.waiting.wait());
        match fault {
            Some(Fault::Silence) => {
                // Until the other side loses patience.
                let _ = reader.fill_buf().map(<[u8]>::len);
                None
            }
            Some(Fault::Unheard) => None,
            Some(Fault::Denied(status)) => send(stream, &request, refusal(status), false),
            Some(Fault::Slow) => {
                std::thread::sleep(Duration::from_millis(30));
                send(stream, &request, done, false)
            }
            fault => send(stream, &request, done, fault == Some(Fault::Cut)),
        }
    }

    fn act(&self, request: &Request, body: Vec<u8>, overwrites: bool) -> Answer {
        let Request { method, key, query, head, .. } = request;
        let upload = query.get("uploadId");
        match (method.as_str(), upload) {
            ("GET", _) if key.is_empty() => list(Page::of(&lock(&self.objects), query, "continuation-token")),
            ("GET" | "HEAD", _) => match lock(&self.objects).get(key) {
                Some(object) => part_of(object, head.header("range")),
                None => error(404, "NoSuchKey"),
            },
            ("PUT", Some(upload)) => match lock(&self.parts).get_mut(upload) {
                Some(parts) => {
                    parts.insert(query["partNumber"].parse().expect("a number"), body);
                    (200, "etag: \"part\"\r\n".into(), Vec::new())
                }
                None => error(404, "NoSuchUpload"),
            },
            ("PUT", None) => {
                let mut objects = lock(&self.objects);
                // Google says it with a header of its own.
                let new = head.header("if-none-match") == Some("*") || head.header("x-goog-if-generation-match") == Some("0");
                if new && !overwrites && objects.contains_key(key) {
                    return error(412, "PreconditionFailed");
                }
                objects.insert(key.clone(), body);
                (200, "etag: \"object\"\r\nx-goog-generation: 1\r\n".into(), Vec::new())
            }
            ("POST", None) if query.contains_key("delete") => {
                let text = String::from_utf8_lossy(&body);
                let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split('<').next());
                let mut objects = lock(&self.objects);
                let delete = |key: &str| {
                    objects.remove(key);
                    format!("<Deleted><Key>{key}</Key></Deleted>")
                };
                let deleted: String = keys.map(delete).collect();
                (200, String::new(), format!("<DeleteResult>{deleted}</DeleteResult>").into_bytes())
            }
            ("POST", None) if query.contains_key("uploads") => {
                let upload = format!("upload-{}", request.number);
                lock(&self.parts).insert(upload.clone(), BTreeMap::new());
                let body = format!(
                    "<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>k</Key><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                );
                (200, String::new(), body.into_bytes())
            }
            ("POST", Some(upload)) => match lock(&self.parts).remove(upload) {
                Some(parts) => {
                    lock(&self.objects).insert(key.clone(), parts.into_values().flatten().collect());
                    let body = "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>";
                    (200, String::new(), body.as_bytes().to_vec())
                }
                None => error(404, "NoSuchUpload"),
            },
            ("DELETE", Some(upload)) => {
                lock(&self.parts).remove(upload);
                answer(204)
            }
            ("DELETE", None) => {
                lock(&self.objects).remove(key);
                answer(204)
            }
            _ => error(501, "NotImplemented"),
        }
    }
}

fn send(mut stream: &TcpStream, request: &Request, (status, headers, body): Answer, cut: bool) -> Option<()> {
    let mut sent = format!("HTTP/1.1 {status} Told\r\n{headers}content-length: {}\r\n\r\n", body.len()).into_bytes();
    let body: &[u8] = if request.method == "HEAD" { &[] } else { &body };
    sent.extend_from_slice(if cut { &body[..body.len() / 2] } else { body });
    // In one go: between two, both sides would wait for each other a while.
    stream.write_all(&sent).ok()?;
    (!cut).then_some(())
}

/// An object, or as much of it as a header `range` asks for.
pub fn part_of(object: &[u8], range: Option<&str>) -> Answer {
    const HEADERS: &str = "etag: \"object\"\r\nlast-modified: Mon, 30 Nov 2026 07:00:00 GMT\r\n";
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = range else { return (200, HEADERS.into(), object.to_vec()) };
    let first: usize = first.parse().expect("a number");
    let last = last.parse().map_or(object.len() - 1, |last: usize| last.min(object.len() - 1));
    let headers = format!("{HEADERS}content-range: bytes {first}-{last}/{}\r\n", object.len());
    (206, headers, object[first..=last].to_vec())
}

fn list(page: Page) -> Answer {
    let more = match page.next {
        Some(last) => format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"),
        None => "<IsTruncated>false</IsTruncated>".into(),
    };
    let render = |entry: Entry| match entry {
        Entry::Below(common) => format!("<CommonPrefixes><Prefix>{common}</Prefix></CommonPrefixes>"),
        Entry::Object(key, size) => format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-30T07:00:00.000Z</LastModified><ETag>\"o\"</ETag><Size>{size}</Size></Contents>"
        ),
    };
    let entries: String = page.entries.into_iter().map(render).collect();
    let body = format!("<?xml version=\"1.0\"?><ListBucketResult>{more}{entries}</ListBucketResult>");
    (200, "content-type: application/xml\r\n".into(), body.into_bytes())
}
