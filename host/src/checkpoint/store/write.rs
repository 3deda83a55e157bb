//! Writing files as they come: whatever a file is made of, it is handed over in pieces, and is never in memory as a whole. A file of one piece
//! is put where nothing is; a larger one goes in parts, to its place and to its local copy at once, and appears in neither before its end. Nor
//! does it take the place of anything but the same.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path as Key;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;

use super::copies::Copying;
use super::files::Place;
use super::local::remove_attempted;
use super::objects::{Objects, Progress};
use super::upload::Upload;
use super::{Store, key, unwritable};
use crate::checkpoint::file::{PIECE, Take, Unwanted, Written};
use crate::checkpoint::manifest::{Inline, StateFile};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::Location;

impl Store {
    /// Keeps a file, durably: at `path` within the run, or, if it is small, where the manifest is to have it, which is returned then.
    /// Keeping the same again does no harm.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub async fn keep(&self, run: u32, path: &str, bytes: &Bytes) -> Result<Option<Inline>> {
        self.place(run).keep(path, bytes).await
    }

    /// Writes a state file while `make` makes it, off the asynchronous threads, and returns what a manifest says of it. It is made again,
    /// and has to be the very same, if what became of it is unknown. Writing the same again does no harm.
    ///
    /// # Errors
    /// What `make` says; [`Kind::Storage`] if it can't be written; [`Kind::Internal`] if the path is taken by another content.
    pub async fn write(
        &self,
        run: u32,
        path: &str,
        make: impl Fn(&mut Take<'_>) -> Result<Written> + Send + Sync + 'static,
    ) -> Result<StateFile> {
        let written = self.place(run).write(path, move |take| make(take).map(Some)).await?;
        let (written, inline) = written.ok_or_else(|| Error::new(Kind::Internal, format!("{path} was not written")))?;
        Ok(StateFile { inline, ..written.at(path.to_owned()) })
    }
}

/// A file that was written: what whoever made it says of it, and its content if a manifest is to have that.
type Kept<T> = Option<(T, Option<Inline>)>;

impl Place {
    /// Keeps a file, as [`Store::keep`] does.
    pub(super) async fn keep(&self, path: &str, bytes: &Bytes) -> Result<Option<Inline>> {
        let bytes = bytes.clone();
        let make = move |take: &mut Take<'_>| {
            let mut rest = bytes.clone();
            while !rest.is_empty() {
                take(rest.split_to(rest.len().min(PIECE)))?;
            }
            Ok(Some(()))
        };
        Ok(self.write(path, make).await?.and_then(|((), inline)| inline))
    }

    /// Writes a file while `make` makes it, off the asynchronous threads: as often as it takes, and each time it has to be the very same.
    /// None if `make` says so: then there is no file.
    ///
    /// # Errors
    /// As [`Store::write`]. Then nothing is seen of it, unless the answer to its last part was lost.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        path: &str,
        make: impl Fn(&mut Take<'_>) -> Result<Option<T>> + Send + Sync + 'static,
    ) -> Result<Kept<T>> {
        let (key, make, progress) = (key(&self.prefix, path)?, Arc::new(make), Progress::default());
        let write = || async {
            let making = Making::begin(Arc::clone(&make), self.objects.maker().await?);
            self.write_once(&key, path, making, &progress).await
        };
        let written = self.objects.again_from(&progress, write).await;
        written.map_err(|error| unwritable(&self.dir.join(path), &error))?
    }

    /// Of the two results the outer one is the store's, which is tried again.
    async fn write_once<T>(
        &self,
        key: &Key,
        path: &str,
        mut making: Making<T>,
        progress: &Progress,
    ) -> object_store::Result<Result<Kept<T>>> {
        let first = making.pieces.recv().await.unwrap_or_default();
        let second = making.pieces.recv().await;
        progress.done(1, clock::now());
        let Some(second) = second else { return self.put_whole(key, path, first, making).await };
        self.is_put(path);
        let there = There::find(&self.objects, key, self.dir.join(path)).await?;
        let mut upload = self.objects.upload(key).await?;
        let mut copy = match &self.copies {
            Some(copies) => Some(copies.begin(key).await),
            None => None,
        };
        let written = pour([first, second], making, &mut upload, copy.as_mut(), there, progress).await;
        match written {
            Ok(Ok(Some(_))) => {
                if let Some(copy) = copy {
                    copy.finish().await;
                }
            }
            _ => {
                upload.abort().await;
                remove_attempted(&self.dir.join(path)).await;
            }
        }
        written
    }

    /// What [`Place::write_once`] does with a file of one piece.
    async fn put_whole<T>(&self, key: &Key, path: &str, bytes: Bytes, making: Making<T>) -> object_store::Result<Result<Kept<T>>> {
        let made = match making.end().await {
            Ok(Some(made)) => made,
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        };
        if (bytes.len() as u64) < self.memory_threshold {
            return Ok(Ok(Some((made, Some(Inline(bytes))))));
        }
        self.is_put(path);
        if !self.objects.put_new(key, &bytes).await? {
            return Ok(Err(taken(&self.dir.join(path))));
        }
        if let Some(copies) = &self.copies {
            copies.put(key, &bytes).await;
        }
        Ok(Ok(Some((made, None))))
    }

    /// Notes that a file is put. Beforehand: a put that fails may have happened.
    fn is_put(&self, path: &str) {
        if let Some((known, run)) = &self.known {
            known.files(*run, [path.to_owned()]);
        }
    }
}

/// What lies at the place of a large file before it is written: the same, from a try whose answer was lost; else the place is taken. An upload
/// can't be completed only where nothing is, and that nobody else writes a file's path is for others to see to.
struct There {
    objects: Objects,
    key: Key,
    path: Location,
    bytes: u64,
    /// Up to this byte it is the same.
    at: u64,
}

impl There {
    async fn find(objects: &Objects, key: &Key, path: Location) -> object_store::Result<Option<Self>> {
        let bytes = objects.size(key).await?;
        Ok(bytes.map(|bytes| There { objects: objects.clone(), key: key.clone(), path, bytes, at: 0 }))
    }

    /// Whether this piece comes next in it.
    async fn goes_on_with(&mut self, piece: &Bytes) -> object_store::Result<bool> {
        let range = self.at..self.at + piece.len() as u64;
        self.at = range.end;
        Ok(range.end <= self.bytes && self.objects.get_range(&self.key, range).await? == piece)
    }
}

/// Another file is at the place of one.
fn taken(path: &Location) -> Error {
    Error::new(Kind::Internal, format!("{path} exists already, with another content"))
}

/// Has the pieces of a file go where they belong, and completes it.
async fn pour<T>(
    first: [Bytes; 2],
    mut making: Making<T>,
    upload: &mut Upload,
    mut copy: Option<&mut Copying>,
    mut there: Option<There>,
    progress: &Progress,
) -> object_store::Result<Result<Kept<T>>> {
    // To have the first two pieces is one step. From then on to have one and to hand it over are two.
    let mut steps = 1;
    let mut step = || {
        steps += 1;
        progress.done(steps, clock::now());
    };
    let mut first = first.into_iter();
    while let Some(piece) = match first.next() {
        Some(piece) => Some(piece),
        None => making.pieces.recv().await,
    } {
        step();
        if let Some(there) = &mut there
            && !there.goes_on_with(&piece).await?
        {
            return Ok(Err(taken(&there.path)));
        }
        if let Some(copy) = &mut copy {
            copy.put(&piece).await;
        }
        upload.put(piece).await?;
        step();
    }
    let made = making.end().await;
    step();
    match (made, there.filter(|there| there.at != there.bytes)) {
        (Ok(Some(_)), Some(there)) => Ok(Err(taken(&there.path))),
        (Ok(Some(made)), None) => upload.finish().await.map(|()| Ok(Some((made, None)))),
        (Ok(None), _) => Ok(Ok(None)),
        (Err(error), _) => Ok(Err(error)),
    }
}

/// A file being made, on a thread that may wait. It is left off when nobody takes its pieces any more.
struct Making<T> {
    pieces: Receiver<Bytes>,
    made: JoinHandle<Result<Option<T>>>,
}

impl<T: Send + 'static> Making<T> {
    fn begin(make: Arc<impl Fn(&mut Take<'_>) -> Result<Option<T>> + Send + Sync + 'static>, maker: OwnedSemaphorePermit) -> Self {
        let (send, pieces) = channel(1);
        let made = tokio::task::spawn_blocking(move || {
            let _maker = maker;
            make(&mut |piece| send.blocking_send(piece).map_err(|_| Unwanted))
        });
        Making { pieces, made }
    }
}

impl<T> Making<T> {
    /// What has come of it, once all pieces have.
    async fn end(self) -> Result<Option<T>> {
        self.made.await.map_err(|panic| Error::new(Kind::Internal, format!("making a file has ended: {panic}")))?
    }
}
