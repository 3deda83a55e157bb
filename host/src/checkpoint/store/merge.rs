//! Merging state files of one place into files of the same or another one, and copying those that a merge would only repeat: block by block,
//! in memory that does not grow with them.

use std::sync::Arc;

use bytes::Bytes;

use super::files::{Named, Place, broken, opened, read_checked, unread};
use super::pace::{Pace, Paced, Share};
use super::ranged::{Fetching, Ranged};
use super::{Store, key};
use crate::checkpoint::decide::{MAX_FILES, Merge, Merged};
use crate::checkpoint::file::{Content, LocalFile, StateReader, Take, Unwanted, merge, next_piece};
use crate::checkpoint::manifest::StateFile;
use crate::error::Result;
use crate::plan::Location;
use crate::threads::blocking;

impl Store {
    /// Carries out a merge, off the asynchronous threads: the result is written durably. What has expired at the time `now`, in milliseconds
    /// since the Unix epoch, is left out; at the same time the same comes of it, so that it can be tried again.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if an input is missing or damaged, [`Kind::Storage`] if something can't be read or written. The inputs
    /// are as they were.
    pub async fn merge(&self, run: u32, due: &Merge, now: i64) -> Result<Merged> {
        self.merge_at(&Pace::unbounded(), run, due, now).await
    }

    /// The same at the rate that merges may have beside a job's work.
    ///
    /// # Errors
    /// As [`Store::merge`], and when it was told to leave off.
    pub async fn merge_slowly(&self, run: u32, due: &Merge, now: i64) -> Result<Merged> {
        tokio::select! {
            merged = self.merge_at(&self.pace, run, due, now) => merged,
            // Whoever waits for an answer of the store does not hear of it. What is on its way there is ended, or superseded once it has come.
            () = self.pace.stopped() => Err(Unwanted.into()),
        }
    }

    /// Has all that merge slowly leave off.
    pub fn stop_merging(&self) {
        self.pace.stop();
    }

    async fn merge_at(&self, pace: &Pace, run: u32, due: &Merge, now: i64) -> Result<Merged> {
        let place = self.place(run);
        let files = carry_out(&place, &place, due, now, pace).await?;
        let inputs = due.inputs.iter().map(|input| input.path.clone()).collect();
        Ok(Merged { operator: due.operator.clone(), inputs, files })
    }
}

/// Carries out a merge. When this is dropped, so is the merge.
pub(super) async fn carry_out(from: &Place, to: &Place, due: &Merge, now: i64, pace: &Pace) -> Result<Vec<StateFile>> {
    let merging = pace.begin(haste(due.inputs.len()));
    let share = merging.share();
    let (mut fetching, mut inputs) = (Fetching::of(due.inputs.len()), Vec::new());
    for input in &due.inputs {
        merging.check()?;
        inputs.push(Input::find(from, input, share.clone(), &mut fetching).await?);
    }
    let open = move || inputs.iter().map(|input| input.open(share.clone())).collect::<Result<Vec<_>>>();
    let readers: Arc<[StateReader]> = blocking("opening state files", open).await?.into();
    let mut files = Vec::new();
    for output in &due.outputs {
        let (readers, groups, base, share) = (Arc::clone(&readers), output.groups, due.base, merging.share());
        let kept = due.states.clone();
        let make = move |take: &mut Take<'_>| {
            let mut paced = |piece: Bytes| share.take(piece.len() as u64).and_then(|()| take(piece));
            let merged = merge(&readers, groups, base, &kept, now, &mut paced)?;
            // Everything was deleted, and nothing lies below: there is nothing left to say.
            Ok(Some(merged).filter(|merged| merged.entries > 0 || !merged.base))
        };
        if let Some((merged, inline)) = to.write(&output.path, make).await? {
            files.push(StateFile { inline, ..merged.at(output.path.clone()) });
        }
    }
    Ok(files)
}

/// How much faster than its rate a merge of `files` files goes: where more comes than the rate allows for, the lists would grow for ever.
fn haste(files: usize) -> f64 {
    const MANY: usize = 4 * MAX_FILES;
    (files as f64 / MANY as f64).max(1.0)
}

/// Copies a state file to `path` in another place, and returns what a manifest says of it there.
///
/// # Errors
/// [`Kind::Checkpoint`] if it is missing or not the one that was written; [`Kind::Storage`] if it can't be read or written.
pub(super) async fn copy(from: &Place, file: &StateFile, to: &Place, path: &str) -> Result<StateFile> {
    let mut fetching = Fetching::of(1);
    let merging = Pace::unbounded().begin(1.0);
    let input = Input::find(from, file, merging.share(), &mut fetching).await?;
    let make = move |take: &mut Take<'_>| {
        let (content, mut at, mut pieces, mut checksum) = (input.content()?, 0, 0, 0);
        while at < content.bytes() {
            let piece = content.read(at, next_piece(pieces) as u64).map_err(|error| unread(&input.path, &error))?;
            (at, pieces) = (at + piece.len() as u64, pieces + 1);
            checksum = crc32c::crc32c_append(checksum, &piece);
            take(piece)?;
        }
        let checked = Named::from(&input.file).check_facts(at, &format!("{checksum:08x}"));
        checked.map(Some).map_err(|reason| broken(&input.path, &reason))
    };
    let inline = to.write(path, make).await?.and_then(|((), inline)| inline);
    Ok(StateFile { path: path.into(), inline, ..file.clone() })
}

/// A state file to be read, of which as little is in memory as can be.
struct Input {
    file: StateFile,
    path: Location,
    /// Where it is read; none: at its path, which is on a local disk.
    elsewhere: Option<Arc<dyn Content>>,
}

impl Input {
    /// Finds a state file of `place`, and reads its local copy for that with what `share` gives.
    async fn find(place: &Place, file: &StateFile, share: Share, fetching: &mut Fetching) -> Result<Self> {
        let (path, key) = (place.dir.join(&file.path), key(&place.prefix, &file.path)?);
        let turn = move |bytes| share.take(bytes);
        let copy = if file.inline.is_none() { place.copy_of(&key, file.into(), turn).await? } else { None };
        let elsewhere: Option<Arc<dyn Content>> = match (&place.dir, copy) {
            (_, Some(copy)) => Some(Arc::new(copy)),
            (Location::Path(_), None) if file.inline.is_none() => None,
            (Location::Object(_), None) if !fetching.takes_whole(file.bytes) && file.inline.is_none() => {
                place.check_size(&key, file.into()).await?;
                Some(Arc::new(Ranged::new(place.objects.clone(), key, file.bytes, fetching)))
            }
            // It is small, or in memory anyway.
            (_, None) => Some(Arc::new(read_checked(place, file.into()).await?)),
        };
        Ok(Input { file: file.clone(), path, elsewhere })
    }

    /// Its content, which whoever reads it has to check, but for its size. This may wait.
    fn content(&self) -> Result<Arc<dyn Content>> {
        let content: Arc<dyn Content> = match (&self.elsewhere, &self.path) {
            (None, Location::Path(path)) => Arc::new(LocalFile::open(path).map_err(|error| unread(&self.path, &error))?),
            (None, _) => return Err(broken(&self.path, "is missing")),
            (Some(content), _) => Arc::clone(content),
        };
        match content.bytes() {
            bytes if bytes == self.file.bytes => Ok(content),
            bytes => Err(broken(&self.path, &format!("has {bytes} bytes and should have {}", self.file.bytes))),
        }
    }

    /// Opens it at a merge's pace, if it is the file that the manifest names: its blocks are checked when they are read.
    fn open(&self, share: Share) -> Result<StateReader> {
        let (content, file) = (self.content()?, &self.file);
        opened(&self.path, Paced { content, share }, file)
    }
}
