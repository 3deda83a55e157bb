//! State files on disk: writing them, reading them as a manifest names them, bringing them along from another run, and merging them.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::copies::Copies;
use super::known::Known;
use super::local::canonical;
use super::objects::{Objects, PART};
use super::open::objects_at;
use super::{Store, get_from, key, unreadable, unwritable};
use crate::checkpoint::decide::{Merge, Merged, RestorePoint};
use crate::checkpoint::file::{Content, StateReader, merge};
use crate::checkpoint::manifest::{Inline, OperatorStateFile, StateFile};
use crate::checkpoint::paths;
use crate::error::{Error, Kind, Result};
use crate::plan::{Access, Location, StateDescriptor};
use crate::record::AttemptId;

impl Store {
    /// Keeps a state file, durably: at `path` within the run, or, if it is small, where the manifest is to have it, which is returned
    /// then. Keeping the same again does no harm.
    ///
    /// # Errors
    /// As [`Store::put_state_file`].
    pub async fn keep(&self, run: u32, path: &str, bytes: &Bytes) -> Result<Option<Inline>> {
        self.place(run).keep(path, bytes).await
    }

    /// Writes a state file to `path` within the run, durably. Writing the same again does no harm.
    ///
    /// # Errors
    /// [`Kind::Storage`] if it can't be written; [`Kind::Internal`] if the path is taken by another content.
    pub async fn put_state_file(&self, run: u32, path: &str, bytes: Bytes) -> Result<()> {
        self.place(run).put(path, bytes).await
    }

    /// Reads a state file that `point` names, and checks it against what is said there.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it is missing or not the one that was written, naming file and manifest, with the checkpoint before it
    /// as the way out; [`Kind::Storage`] if it can't be read.
    pub async fn read_state_file(&self, point: &RestorePoint, file: &StateFile) -> Result<Bytes> {
        self.read_named(point, Named::from(file)).await
    }

    /// Reads a file of operator state that `point` names, and checks it against what is said there.
    ///
    /// # Errors
    /// As [`Store::read_state_file`].
    pub async fn read_operator_state(&self, point: &RestorePoint, file: &OperatorStateFile) -> Result<Bytes> {
        self.read_named(point, Named::from(file)).await
    }

    /// Reads all files that `point` names, and checks each against what is said there.
    ///
    /// # Errors
    /// As [`Store::read_state_file`].
    pub async fn verify(&self, point: &RestorePoint) -> Result<()> {
        for operator in &point.manifest.operators {
            for file in &operator.files {
                let checked = content_checked(&self.place_of(point)?, Named::from(file)).await;
                checked.map_err(|error| unrestorable(point, error))?;
            }
            for file in &operator.operator_state {
                self.read_operator_state(point, file).await?;
            }
        }
        Ok(())
    }

    /// Opens a state file that `point` names, all of which is checked against what is said there. If it lies on a local disk, it is read
    /// from there block by block, and never in memory as a whole.
    ///
    /// # Errors
    /// As [`Store::read_state_file`], and if it is no state file.
    pub async fn open_state_file(&self, point: &RestorePoint, file: &StateFile) -> Result<StateReader> {
        let content = content_checked(&self.place_of(point)?, Named::from(file)).await.map_err(|error| unrestorable(point, error))?;
        StateReader::open(point.run_dir.join(&file.path).to_string(), content)
    }

    async fn read_named(&self, point: &RestorePoint, file: Named<'_>) -> Result<Bytes> {
        read_checked(&self.place_of(point)?, file).await.map_err(|error| unrestorable(point, error))
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
    /// As [`Store::read_state_file`] and [`Store::put_state_file`].
    pub async fn adopt(&self, point: &RestorePoint, attempt: AttemptId) -> Result<RestorePoint> {
        let mut adopted = point.clone();
        if canonical(&point.run_dir) == canonical(&self.run_dir(attempt.run)) {
            return Ok(adopted);
        }
        let mut serial = 0;
        for operator in &mut adopted.manifest.operators {
            for file in &mut operator.files {
                let bytes = self.read_state_file(point, file).await?;
                serial += 1;
                file.path = paths::merged(attempt.attempt, file.epochs, &operator.uid, serial);
                file.inline = self.keep(attempt.run, &file.path, &bytes).await?;
            }
            for file in &mut operator.operator_state {
                let bytes = self.read_operator_state(point, file).await?;
                file.path = paths::operator_state(attempt.attempt, file.epoch, &operator.uid, file.subtask);
                file.inline = self.keep(attempt.run, &file.path, &bytes).await?;
            }
        }
        adopted.run_dir = self.run_dir(attempt.run);
        Ok(adopted)
    }

    /// Carries out a merge: reads its inputs, merges them off the asynchronous threads, and writes the result, durably. What has expired at
    /// the time `now`, in milliseconds since the Unix epoch, is left out; at the same time the same comes of it, so that it can be tried
    /// again.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if an input is missing or damaged, [`Kind::Storage`] if something can't be read or written. The inputs
    /// are as they were.
    pub async fn merge(&self, run: u32, due: &Merge, now: i64) -> Result<Merged> {
        let place = self.place(run);
        let files = carry_out(&place, &place, due, now).await?;
        let inputs = due.inputs.iter().map(|input| input.path.clone()).collect();
        Ok(Merged { operator: due.operator.clone(), inputs, files })
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

/// Why a checkpoint can't be restored of which a file is not as it should be.
fn unrestorable(point: &RestorePoint, error: Error) -> Error {
    if error.kind() != Kind::Checkpoint {
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

    /// Keeps a state file, durably: at `path`, or, if it is small, where the manifest is to have it, which is returned then. Keeping the
    /// same again does no harm.
    ///
    /// # Errors
    /// As [`Place::put`].
    pub(super) async fn keep(&self, path: &str, bytes: &Bytes) -> Result<Option<Inline>> {
        if (bytes.len() as u64) < self.memory_threshold {
            return Ok(Some(Inline(bytes.clone())));
        }
        self.put(path, bytes.clone()).await?;
        if let Some(copies) = &self.copies {
            copies.put(&key(&self.prefix, path)?, bytes).await;
        }
        Ok(None)
    }

    /// Writes a file that nobody else writes, durably. Writing the same again does no harm.
    ///
    /// # Errors
    /// [`Kind::Storage`] if it can't be written; [`Kind::Internal`] if the path is taken by another content.
    pub(super) async fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        let (key, whole) = (key(&self.prefix, path)?, self.dir.join(path));
        // Beforehand: a put that fails may have happened.
        if let Some((known, run)) = &self.known {
            known.files(*run, [path.to_owned()]);
        }
        let put = if matches!(self.dir, Location::Object(_)) && bytes.len() >= PART {
            self.objects.put_in_parts(&key, &bytes).await.map(|()| true)
        } else {
            self.objects.put_new(&key, &bytes).await
        };
        match put {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::new(Kind::Internal, format!("{whole} exists already, with another content"))),
            Err(error) => Err(unwritable(&whole, &error)),
        }
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
    fn check_facts(&self, bytes: u64, checksum: &str) -> std::result::Result<(), String> {
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

/// A state file, if it is the one that was written.
pub(super) async fn read_checked(place: &Place, file: Named<'_>) -> Result<Bytes> {
    let path = place.dir.join(file.path);
    let broken = |reason: String| Error::new(Kind::Checkpoint, format!("the file {path} {reason}"));
    if let Some(Inline(bytes)) = file.inline {
        return file.check(bytes.clone()).map_err(broken);
    }
    let key = key(&place.prefix, file.path)?;
    if let Some(copies) = &place.copies
        && let Some(copy) = copies.get(&key).await
    {
        match file.check(copy) {
            Ok(bytes) => return Ok(bytes),
            Err(reason) => tracing::warn!("the local copy {} {reason}; read from {path} instead", copies.path(&key)),
        }
    }
    let found = get_from(&place.objects, &key, &path).await?;
    let bytes = file.check(found.ok_or_else(|| broken("is missing".into()))?).map_err(broken)?;
    if let Some(copies) = &place.copies {
        tracing::info!("{path} was read, of which there was no local copy that is whole");
        copies.put(&key, &bytes).await;
    }
    Ok(bytes)
}

/// The content of a state file, if it is the one that was written: left where it is, if that is on a local disk.
async fn content_checked(place: &Place, file: Named<'_>) -> Result<Content> {
    let path = match (&place.dir, &place.copies, file.inline) {
        (Location::Path(dir), None, None) => dir.join(file.path),
        // Of what is fetched there may have to be a copy.
        _ => return read_checked(place, file).await.map(Content::from),
    };
    let broken = |reason: String| Error::new(Kind::Checkpoint, format!("the file {} {reason}", path.display()));
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => broken("is missing".into()),
        _ => Error::new(Kind::Storage, format!("{} can't be read: {error}", path.display())),
    };
    let opened = path.clone();
    let read = tokio::task::spawn_blocking(move || sum(&opened)).await;
    let read = read.map_err(|error| Error::new(Kind::Internal, format!("reading a state file has ended: {error}")))?;
    let (opened, bytes, checksum) = read.map_err(unreadable)?;
    file.check_facts(bytes, &format!("{checksum:08x}")).map_err(broken)?;
    Ok(Content::File(Arc::new(opened), bytes))
}

/// A file, how many bytes it has, and their crc32c.
fn sum(path: &Path) -> io::Result<(std::fs::File, u64, u32)> {
    let mut file = std::fs::File::open(path)?;
    let (mut piece, mut bytes, mut checksum) = (vec![0; PIECE], 0, 0);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((file, bytes, checksum)),
            read => (bytes, checksum) = (bytes + read as u64, crc32c::crc32c_append(checksum, &piece[..read])),
        }
    }
}

/// So much of a file is read at once to be checked.
const PIECE: usize = 1 << 20;

/// A checksum as manifests have it.
pub(super) fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32c::crc32c(bytes))
}

/// Merges files of one place into files of the same or another one, off the asynchronous threads.
pub(super) async fn carry_out(from: &Place, to: &Place, due: &Merge, now: i64) -> Result<Vec<StateFile>> {
    let mut readers = Vec::new();
    for input in &due.inputs {
        let content = content_checked(from, Named::from(input)).await?;
        readers.push(StateReader::open(from.dir.join(&input.path).to_string(), content)?);
    }
    let readers: Arc<[StateReader]> = readers.into();
    let states: Arc<[StateDescriptor]> = due.states.clone().into();
    let mut files = Vec::new();
    for output in &due.outputs {
        let (readers, groups, base, states) = (Arc::clone(&readers), output.groups, due.base, Arc::clone(&states));
        let merged = tokio::task::spawn_blocking(move || merge(&readers, groups, base, &states, now)).await;
        let merged = merged.map_err(|error| Error::new(Kind::Internal, format!("a merge of state files has ended: {error}")))??;
        // Everything was deleted, and nothing lies below: there is nothing left to say.
        if merged.entries == 0 && merged.base {
            continue;
        }
        let inline = to.keep(&output.path, &merged.bytes).await?;
        files.push(StateFile { inline, ..merged.at(output.path.clone()) });
    }
    Ok(files)
}
