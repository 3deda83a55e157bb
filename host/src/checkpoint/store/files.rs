//! State files as a manifest names them: reading and checking them, and bringing them along from another run.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use object_store::path::Path as Key;

use super::cause::cause;
use super::copies::{Copies, Copying};
use super::known::Known;
use super::local::canonical;
use super::merge::copy;
use super::objects::Objects;
use super::open::objects_at;
use super::ranged::{Fetching, Ranged};
use super::{Store, get_from, key, list_below, unreadable};
use crate::checkpoint::decide::RestorePoint;
use crate::checkpoint::file::{Content, LocalFile, StateReader, Unwanted};
use crate::checkpoint::manifest::{Inline, OperatorStateFile, StateFile};
use crate::checkpoint::paths;
use crate::error::{Error, Kind, Result};
use crate::plan::{Access, Location};
use crate::record::AttemptId;
use crate::threads::blocking;

impl Store {
    /// Reads a file of operator state that `point` names, and checks it against what is said there.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it is missing or not the one that was written, naming file and manifest, with the checkpoint before it
    /// as the way out; [`Kind::Storage`] if it can't be read.
    pub async fn read_operator_state(&self, point: &RestorePoint, file: &OperatorStateFile) -> Result<Bytes> {
        read_checked(&self.place_of(point)?, file.into()).await.map_err(|error| unrestorable(point, error))
    }

    /// Reads all files that `point` names, and checks each against what is said there.
    ///
    /// # Errors
    /// As [`Store::read_operator_state`].
    pub async fn verify(&self, point: &RestorePoint) -> Result<()> {
        for operator in &point.manifest.operators {
            for file in &operator.files {
                self.place_of(point)?.check(file.into()).await.map_err(|error| unrestorable(point, error))?;
            }
            for file in &operator.operator_state {
                self.read_operator_state(point, file).await?;
            }
        }
        Ok(())
    }

    /// Looks whether the files that `point` names are all in its run, without reading them.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if one is missing, naming it; [`Kind::Storage`] if that can't be found out.
    pub async fn check_listed(&self, point: &RestorePoint) -> Result<()> {
        let place = self.place_of(point)?;
        let listed: BTreeSet<String> = list_below(&place.prefix, &place.dir, &place.objects).await?.into_iter().collect();
        match point.manifest.state_files().find(|path| !listed.contains(*path)) {
            Some(path) => Err(unrestorable(point, broken(&place.dir.join(path), "is missing"))),
            None => Ok(()),
        }
    }

    /// Opens a state file that `point` names. On a local disk all of it is checked at once against what is said there; of one in a bucket that
    /// is read in ranges, among `fetching`, its blocks are checked as they are read. It is never in memory as a whole, unless it is small.
    ///
    /// # Errors
    /// As [`Store::read_operator_state`], and if it is no state file.
    pub async fn open_state_file(&self, point: &RestorePoint, file: &StateFile, fetching: &mut Fetching) -> Result<StateReader> {
        let place = self.place_of(point)?;
        let open = async {
            let content = content_checked(&place, file.into(), fetching).await?;
            let (path, file) = (place.dir.join(&file.path), file.clone());
            // This may wait for the bucket. Of what was fetched with the head nothing stays, since nobody reads on there.
            blocking("opening a state file", move || opened(&path, content, &file).map(|reader| reader.beside())).await
        };
        open.await.map_err(|error| unrestorable(point, error))
    }

    /// Where the files are that `point` names.
    fn place_of(&self, point: &RestorePoint) -> Result<Place> {
        let (objects, prefix) = self.objects_of(&point.run_dir)?;
        // Of other jobs' files there are no copies.
        let copies = self.copies.clone().filter(|_| !prefix.is_empty());
        Ok(Place { objects, prefix, dir: point.run_dir.clone(), memory_threshold: 0, copies, known: None })
    }

    /// Makes the files of a checkpoint part of the run of `attempt`: copies them there if they belong to another run, so that a run
    /// never depends on another. Returns the restore point as it is then.
    ///
    /// # Errors
    /// As [`Store::read_operator_state`] and [`Store::keep`].
    pub async fn adopt(&self, point: &RestorePoint, attempt: AttemptId) -> Result<RestorePoint> {
        let mut adopted = point.clone();
        if canonical(&point.run_dir) == canonical(&self.run_dir(attempt.run)) {
            return Ok(adopted);
        }
        let (from, to) = (self.place_of(point)?, self.place(attempt.run));
        let mut serial = 0;
        for operator in &mut adopted.manifest.operators {
            for file in &mut operator.files {
                serial += 1;
                let path = paths::merged(attempt.attempt, file.epochs, &operator.uid, serial);
                *file = copy(&from, file, &to, &path).await.map_err(|error| unrestorable(point, error))?;
            }
            for file in &mut operator.operator_state {
                let bytes = self.read_operator_state(point, file).await?;
                file.path = paths::operator_state(attempt.attempt, file.epoch, &operator.uid, file.subtask);
                file.inline = to.keep(&file.path, &bytes).await?;
            }
        }
        adopted.run_dir = self.run_dir(attempt.run);
        Ok(adopted)
    }

    /// Where a run's files are.
    pub(super) fn place(&self, run: u32) -> Place {
        Place {
            objects: self.objects.clone(),
            prefix: paths::run_dir(run),
            dir: self.run_dir(run),
            memory_threshold: self.memory_threshold,
            copies: self.copies.clone(),
            known: Some((self.known.clone(), run)),
        }
    }

    /// How a place is reached: as the job's own if it is in the same kind of store, else as the environment says.
    pub(super) fn access_to(&self, location: &Location) -> Access {
        match (location, &self.dir) {
            (Location::Object(path), Location::Object(own)) if path.service != own.service => Access::default(),
            // Where checkpoints are on disk, what is said of a bucket is said of that of savepoints.
            _ => self.access.clone(),
        }
    }

    /// Where the files of the run in `run_dir` are read: the objects, and the run's prefix there.
    pub(super) fn objects_of(&self, run_dir: &Location) -> Result<(Objects, String)> {
        match run_dir.name().filter(|name| paths::parse_run_dir(name).is_some()) {
            Some(name) if canonical(run_dir) == canonical(&self.dir.join(name)) => Ok((self.objects.clone(), name.into())),
            _ => Ok((objects_at(run_dir, &self.access_to(run_dir)).map_err(|error| unreadable(run_dir, &error))?, String::new())),
        }
    }
}

/// Why a checkpoint can't be restored of which a file is not as it should be. What fails for another reason is told as it is, and so is what
/// says already what to do.
pub fn unrestorable(point: &RestorePoint, error: Error) -> Error {
    if error.kind() != Kind::Checkpoint || error.help_text().is_some() {
        return error;
    }
    let message = format!("{} can't be restored: {error}; {} names it", point.name(), point.path);
    Error::new(Kind::Checkpoint, message).help(point.way_out())
}

/// Files that belong together: a run's, or a savepoint's.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) objects: Objects,
    /// Where they lie there.
    pub(super) prefix: String,
    /// The same as a directory.
    pub(super) dir: Location,
    /// State files with fewer bytes are kept in the manifest.
    pub(super) memory_threshold: u64,
    pub(super) copies: Option<Copies>,
    /// What is to know of files that are put there, as files of this run.
    pub(super) known: Option<(Known, u32)>,
}

impl Place {
    /// Of files that all lie there, and nowhere else.
    pub(super) fn new(objects: Objects, prefix: String, dir: Location) -> Self {
        Place { objects, prefix, dir, memory_threshold: 0, copies: None, known: None }
    }

    /// The local copy of a file, if there is one that is what was written. All of it is read for that, at the pace that `turn` gives.
    ///
    /// # Errors
    /// When `turn` says that it is to be left off.
    pub(super) async fn copy_of(&self, key: &Key, file: Named<'_>, turn: impl Turn) -> Result<Option<LocalFile>> {
        let Some(copies) = &self.copies else { return Ok(None) };
        let copy = copies.path(key);
        let Location::Path(path) = &copy else { return Ok(None) };
        match summed(path.clone(), turn).await? {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Ok(self.do_without(&copy, file, &format!("can't be read: {error}"))),
            Ok((found, checksum)) => match file.check_facts(found.bytes(), &checksum) {
                Ok(()) => Ok(Some(found)),
                Err(reason) => Ok(self.do_without(&copy, file, &reason)),
            },
        }
    }

    /// What the local copy of a file holds, if there is one that is what was written.
    async fn read_copy(&self, key: &Key, file: Named<'_>) -> Option<Bytes> {
        let copies = self.copies.as_ref()?;
        let read = copies.get(key).await.map_err(|error| format!("can't be read: {}", cause(&error))).transpose()?;
        match read.and_then(|bytes| file.check(bytes)) {
            Ok(bytes) => Some(bytes),
            Err(reason) => self.do_without(&copies.path(key), file, &reason),
        }
    }

    /// There is nothing to be had from a copy.
    fn do_without<T>(&self, copy: &Location, file: Named<'_>, reason: &str) -> Option<T> {
        tracing::warn!("the local copy {copy} {reason}; read from {} instead", self.dir.join(file.path));
        None
    }

    /// Looks whether a file has as many bytes as it should have.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if not; [`Kind::Storage`] if that can't be found out.
    pub(super) async fn check_size(&self, key: &Key, file: Named<'_>) -> Result<()> {
        let path = self.dir.join(file.path);
        let size = self.objects.size(key).await.map_err(|error| unreadable(&path, &error))?;
        match size.ok_or_else(|| broken(&path, "is missing"))? {
            bytes if bytes == file.bytes => Ok(()),
            bytes => Err(broken(&path, &format!("has {bytes} bytes and should have {}", file.bytes))),
        }
    }

    /// Reads a file and checks it, in little memory.
    ///
    /// # Errors
    /// As [`Place::check_size`], and if it is damaged.
    pub(super) async fn check(&self, file: Named<'_>) -> Result<()> {
        if file.inline.is_some() {
            return read_checked(self, file).await.map(drop);
        }
        let key = key(&self.prefix, file.path)?;
        match self.copy_of(&key, file, at_once).await? {
            Some(_) => Ok(()),
            None => self.fetch(&key, file, None).await,
        }
    }

    /// Makes a local copy of a file that has none that is whole. None if there are to be no copies, or it can't be made.
    async fn make_copy(&self, key: &Key, file: Named<'_>) -> Result<Option<LocalFile>> {
        let Some(copies) = &self.copies else { return Ok(None) };
        let mut copying = copies.begin(key).await;
        if !copying.goes_on() {
            return Ok(None);
        }
        self.fetch(key, file, Some(&mut copying)).await?;
        let (true, Location::Path(path)) = (copying.finish().await, copies.path(key)) else { return Ok(None) };
        tracing::info!("{} was read, of which there was no local copy that is whole", self.dir.join(file.path));
        // Whoever can't read it does without.
        Ok(tokio::task::spawn_blocking(move || LocalFile::open(&path).ok()).await.ok().flatten())
    }

    /// Fetches a file piece by piece and checks it. If a copy of it is `copying`, it is fetched for that: no further and not checked once there can
    /// be none.
    async fn fetch(&self, key: &Key, file: Named<'_>, mut copying: Option<&mut Copying>) -> Result<()> {
        self.check_size(key, file).await?;
        let path = self.dir.join(file.path);
        let starts = (0..file.bytes).step_by(FETCHED_AT_ONCE as usize);
        let fetch = |at: u64| {
            let (objects, key, range) = (self.objects.clone(), key.clone(), at..file.bytes.min(at + FETCHED_AT_ONCE));
            async move { objects.get_range(&key, range).await }
        };
        let mut pieces = futures::stream::iter(starts.map(fetch).collect::<Vec<_>>()).buffered(FETCHES_AT_ONCE);
        let mut checksum = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| unreadable(&path, &error))?;
            checksum = crc32c::crc32c_append(checksum, &piece);
            if let Some(copying) = &mut copying {
                copying.put(&piece).await;
                if !copying.goes_on() {
                    return Ok(());
                }
            }
        }
        file.check_facts(file.bytes, &format!("{checksum:08x}")).map_err(|reason| broken(&path, &reason))
    }

    /// The content of a file; none if it is not there.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        get_from(&self.objects, &key(&self.prefix, path)?, &self.dir.join(path)).await
    }
}

/// What a manifest says about a file, whatever it holds.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) path: &'a str,
    pub(super) bytes: u64,
    pub(super) checksum: &'a str,
    pub(super) inline: Option<&'a Inline>,
}

impl Named<'_> {
    /// A file's content, if it is what was written; else what is wrong with it.
    fn check(&self, bytes: Bytes) -> std::result::Result<Bytes, String> {
        self.check_facts(bytes.len() as u64, &checksum(&bytes)).map(|()| bytes)
    }

    /// Checks how many bytes a file has, and their checksum.
    pub(super) fn check_facts(&self, bytes: u64, checksum: &str) -> std::result::Result<(), String> {
        if bytes != self.bytes {
            return Err(format!("has {bytes} bytes and should have {}", self.bytes));
        }
        if checksum != self.checksum {
            return Err(format!("is damaged: its checksum is {checksum} and should be {}", self.checksum));
        }
        Ok(())
    }
}

impl<'a> From<&'a StateFile> for Named<'a> {
    fn from(file: &'a StateFile) -> Self {
        Named { path: &file.path, bytes: file.bytes, checksum: &file.checksum, inline: file.inline.as_ref() }
    }
}

impl<'a> From<&'a OperatorStateFile> for Named<'a> {
    fn from(file: &'a OperatorStateFile) -> Self {
        Named { path: &file.path, bytes: file.bytes, checksum: &file.checksum, inline: file.inline.as_ref() }
    }
}

/// A file's content as a whole, if it is the one that was written.
pub(super) async fn read_checked(place: &Place, file: Named<'_>) -> Result<Bytes> {
    let path = place.dir.join(file.path);
    if let Some(Inline(bytes)) = file.inline {
        return file.check(bytes.clone()).map_err(|reason| broken(&path, &reason));
    }
    let key = key(&place.prefix, file.path)?;
    if let Some(bytes) = place.read_copy(&key, file).await {
        return Ok(bytes);
    }
    fetch_checked(place, &key, file).await
}

/// The same of a file of which there is no copy that is whole: one is made now.
async fn fetch_checked(place: &Place, key: &Key, file: Named<'_>) -> Result<Bytes> {
    let path = place.dir.join(file.path);
    let found = get_from(&place.objects, key, &path).await?.ok_or_else(|| broken(&path, "is missing"))?;
    let bytes = file.check(found).map_err(|reason| broken(&path, &reason))?;
    if let Some(copies) = &place.copies {
        tracing::info!("{path} was read, of which there was no local copy that is whole");
        copies.put(key, &bytes).await;
    }
    Ok(bytes)
}

/// The content of a state file, if it is the one that was written: left where it is, if that is on a local disk or it is large. What is read of it in a
/// bucket is still to be checked.
pub(super) async fn content_checked(place: &Place, file: Named<'_>, fetching: &mut Fetching) -> Result<Arc<dyn Content>> {
    let path = place.dir.join(file.path);
    if file.inline.is_some() {
        return Ok(Arc::new(read_checked(place, file).await?));
    }
    let key = key(&place.prefix, file.path)?;
    if let Some(copy) = place.copy_of(&key, file, at_once).await? {
        return Ok(Arc::new(copy));
    }
    let is_on_disk = matches!(place.dir, Location::Path(_)) && place.copies.is_none();
    if !is_on_disk && (fetching.takes_whole(file.bytes) || matches!(place.dir, Location::Memory(_))) {
        return Ok(Arc::new(fetch_checked(place, &key, file).await?));
    }
    if let Some(copy) = place.make_copy(&key, file).await? {
        return Ok(Arc::new(copy));
    }
    match &place.dir {
        Location::Path(dir) => {
            let (found, checksum) = summed(dir.join(file.path), at_once).await?.map_err(|error| unread(&path, &error))?;
            file.check_facts(found.bytes(), &checksum).map_err(|reason| broken(&path, &reason))?;
            Ok(Arc::new(found))
        }
        _ => {
            place.check_size(&key, file).await?;
            Ok(Arc::new(Ranged::new(place.objects.clone(), key, file.bytes, fetching)))
        }
    }
}

/// Opens a state file with this content, if what it says of itself is what a manifest says of it.
///
/// # Errors
/// [`Kind::Checkpoint`] if it is another one or none; [`Kind::Storage`] if it can't be read.
pub(super) fn opened(path: &Location, content: impl Content + 'static, file: &StateFile) -> Result<StateReader> {
    let reader = StateReader::open(path.to_string(), content)?;
    let head = reader.head();
    if (head.groups, head.epochs, head.base, head.entries()) != (file.groups, file.epochs, file.base, file.entries) {
        return Err(broken(path, "is another one than the manifest names"));
    }
    Ok(reader)
}

/// A file is not the one that a manifest names.
pub(super) fn broken(path: &Location, reason: &str) -> Error {
    Error::new(Kind::Checkpoint, format!("the file {path} {reason}"))
}

/// A file on a local disk can't be read.
pub(super) fn unread(path: &Location, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => broken(path, "is missing"),
        _ => Error::new(Kind::Storage, format!("{path} can't be read: {error}")),
    }
}

/// Is asked with the size of each piece of a file when it has been read, and may wait before more is.
pub(super) trait Turn: FnMut(u64) -> std::result::Result<(), Unwanted> + Send + 'static {}

impl<F: FnMut(u64) -> std::result::Result<(), Unwanted> + Send + 'static> Turn for F {}

/// As fast as it goes.
pub(super) fn at_once(_: u64) -> std::result::Result<(), Unwanted> {
    Ok(())
}

/// A file on a local disk, and its checksum as manifests have it.
async fn summed(path: PathBuf, turn: impl Turn) -> Result<io::Result<(LocalFile, String)>> {
    let read = move || match sum(&path, turn) {
        Err(error) if error.get_ref().is_some_and(|cause| cause.is::<Unwanted>()) => Err(Unwanted.into()),
        read => Ok(read),
    };
    blocking("reading a state file", read).await
}

fn sum(path: &Path, mut turn: impl Turn) -> io::Result<(LocalFile, String)> {
    let file = LocalFile::open(path)?;
    let (mut at, mut checksum) = (0, 0);
    while at < file.bytes() {
        let piece = file.read(at, AT_ONCE)?;
        (at, checksum) = (at + piece.len() as u64, crc32c::crc32c_append(checksum, &piece));
        turn(piece.len() as u64).map_err(io::Error::other)?;
    }
    Ok((file, format!("{checksum:08x}")))
}

/// Bytes of a file that are read at once to be checked.
const AT_ONCE: u64 = 1 << 20;
/// Bytes of a file that are fetched by one request.
const FETCHED_AT_ONCE: u64 = 4 << 20;
/// Requests for parts of a file that are under way at the same time, at most.
const FETCHES_AT_ONCE: usize = 4;

/// A checksum as manifests have it.
pub(super) fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32c::crc32c(bytes))
}
