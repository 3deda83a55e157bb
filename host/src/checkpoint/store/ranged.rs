//! [`Ranged`]: the content of a file in a bucket, of which only what is being read is here; and [`Fetching`], which several have in common.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use object_store::path::Path as Key;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::cause::cause;
use super::objects::Objects;
use crate::checkpoint::file::{Content, within};

/// Bytes that are fetched at once of a file that is read alone, since what follows is read next.
const LARGEST: u64 = 4 << 20;
/// Bytes in memory of all files that are read together, unless there are very many.
const TOGETHER: u64 = 32 << 20;
/// Bytes that are fetched at once of a file, at least, however many are read together. A block is seldom larger.
const LEAST: u64 = 128 << 10;

/// What is fetched of files that are read together. Nobody fetches any more once it is dropped, and whoever waits for that has an error.
#[derive(Debug)]
pub struct Fetching {
    /// How much is fetched at once of each file. One that has no more is fetched whole.
    window: u64,
    tasks: JoinSet<()>,
}

impl Fetching {
    /// Of so many files.
    pub fn of(files: usize) -> Self {
        Fetching { window: (TOGETHER / files.max(1) as u64).clamp(LEAST, LARGEST), tasks: JoinSet::new() }
    }

    /// Whether a file of so many bytes is fetched whole.
    pub(super) fn takes_whole(&self, bytes: u64) -> bool {
        bytes <= self.window
    }
}

/// Which bytes are wanted, and by whom.
type Wanted = (Range<u64>, oneshot::Sender<io::Result<Bytes>>);

/// The content of an object. It is read by threads that wait, and fetched by a task.
#[derive(Debug)]
pub(super) struct Ranged {
    bytes: u64,
    /// How much is fetched at once.
    window: u64,
    /// What was fetched last, and where it begins.
    here: Mutex<(u64, Bytes)>,
    fetch: mpsc::UnboundedSender<Wanted>,
}

impl Ranged {
    /// The object at `key`, which has so many bytes.
    pub(super) fn new(objects: Objects, key: Key, bytes: u64, fetching: &mut Fetching) -> Self {
        let (fetch, mut wanted) = mpsc::unbounded_channel::<Wanted>();
        let wanted = futures::stream::poll_fn(move |task| wanted.poll_recv(task));
        fetching.tasks.spawn(wanted.for_each_concurrent(None, move |(range, answer)| {
            let (objects, key) = (objects.clone(), key.clone());
            async move {
                let fetched = objects.get_range(&key, range).await.map_err(|error| io::Error::other(cause(&error)));
                // If nobody waits, it is not wanted any more.
                answer.send(fetched).unwrap_or(());
            }
        }));
        Ranged { bytes, window: fetching.window, here: Mutex::default(), fetch }
    }

    fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        let (answer, fetched) = oneshot::channel();
        let over = || io::Error::other("nobody fetches it any more");
        self.fetch.send((range.clone(), answer)).map_err(|_| over())?;
        let fetched = fetched.blocking_recv().map_err(|_| over())??;
        if fetched.len() as u64 == range.end - range.start { Ok(fetched) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Content for Ranged {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, at: u64, len: u64) -> io::Result<Bytes> {
        let (at, end) = within(self, at, len);
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        if at < here.0 || end > here.0 + here.1.len() as u64 {
            // Who does not go on reading may read the end of the file, and does so backwards.
            let goes_on = at >= here.0 && at <= here.0 + here.1.len() as u64;
            let from = if goes_on { at } else { at.min(self.bytes.saturating_sub(self.window)) };
            // What was here goes first.
            *here = (from, Bytes::new());
            here.1 = self.fetch(from..end.max(self.bytes.min(from + self.window)))?;
        }
        let (from, fetched) = &*here;
        // Within what is here.
        Ok(fetched.slice((at - from) as usize..(end - from) as usize))
    }

    fn beside(&self) -> Option<Arc<dyn Content>> {
        Some(Arc::new(Ranged { bytes: self.bytes, window: self.window, here: Mutex::default(), fetch: self.fetch.clone() }))
    }
}
