//! [`Components`]: the components that a host keeps, by the digest of their content. Each is checked before it is kept, and its name and
//! version are written last: a file without them is left from a push that did not come to its end. The other way round the file is lost: then
//! the host lacks the component until it is pushed again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::data_dir::{names, unusable};
use crate::clock;
use crate::durable;
use crate::error::{Error, Kind, Result};
use crate::job::ComponentInspection;
use crate::plan::{ComponentRef, Limits, is_digest};
use crate::wasm::{Component, Engine, Interrupt};

/// A component that a host keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Kept {
    /// BLAKE3 of its file, in hexadecimal.
    pub digest: String,
    /// Its name: what it was pushed as, or else what it calls itself.
    pub name: String,
    /// Its version, as it says itself.
    pub version: String,
    /// The size of its file.
    pub bytes: u64,
    /// When it was pushed, RFC 3339.
    pub pushed: String,
}

/// The components that a host keeps.
#[derive(Debug)]
pub(super) struct Components {
    dir: PathBuf,
    /// Held by whoever writes or removes files, which one at a time may do.
    writing: Mutex<()>,
}

impl Components {
    pub(super) fn new(dir: PathBuf) -> Self {
        Components { dir, writing: Mutex::default() }
    }

    /// Where the component with this digest lies, or would.
    pub(super) fn path(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}.wasm"))
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn facts(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}.json"))
    }

    /// Keeps a component. One that is there already takes the new name, if one is given, and counts as pushed now.
    ///
    /// # Errors
    /// Kind `Component` if this host can't run it, without a name for it; `Storage` if it can't be written.
    pub(super) fn push(&self, engine: &Engine, content: &[u8], name: Option<String>) -> Result<Kept> {
        let digest = blake3::hash(content).to_hex().to_string();
        let path = self.path(&digest);
        let component = Component::new(engine, Path::new(&digest), content, Limits::default(), &Interrupt::default())?;
        let descriptor = component.descriptor();
        let kept = Kept {
            digest: digest.clone(),
            name: name.unwrap_or_else(|| descriptor.name.clone()),
            version: descriptor.version.clone(),
            bytes: content.len() as u64,
            pushed: clock::wall_text(),
        };
        let facts = serde_json::to_vec_pretty(&kept).map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        let _writing = self.writing();
        if self.noted(&digest)?.is_none_or(|noted| !self.has_file(&noted)) {
            durable::replace(&path, content).map_err(|error| unusable(&path, &error))?;
        }
        durable::replace(&self.facts(&digest), &facts).map_err(|error| unusable(&path, &error))?;
        Ok(kept)
    }

    /// What is written down of the component with this digest.
    fn noted(&self, digest: &str) -> Result<Option<Kept>> {
        let path = self.facts(digest);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| unusable(&path, &io::Error::other(error))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, &error)),
        }
    }

    /// Whether its file is there, as long as it was.
    fn has_file(&self, noted: &Kept) -> bool {
        fs::metadata(self.path(&noted.digest)).is_ok_and(|file| file.is_file() && file.len() == noted.bytes)
    }

    /// All that are written down, from the first pushed to the last.
    fn all(&self) -> Result<Vec<Kept>> {
        let names = names(&self.dir)?;
        let digests = names.iter().filter_map(|name| name.strip_suffix(".json")).filter(|name| is_digest(name));
        let mut noted = digests.filter_map(|digest| self.noted(digest).transpose()).collect::<Result<Vec<_>>>()?;
        noted.sort_by(|one, other| (&one.pushed, &one.digest).cmp(&(&other.pushed, &other.digest)));
        Ok(noted)
    }

    /// All of them, from the first pushed to the last.
    pub(super) fn list(&self) -> Result<Vec<Kept>> {
        Ok(self.all()?.into_iter().filter(|noted| self.has_file(noted)).collect())
    }

    /// Tells in the log of those whose files are lost.
    pub(super) fn tell_lost(&self) {
        match self.all() {
            Ok(all) => {
                all.iter().filter(|noted| !self.has_file(noted)).for_each(|lost| tracing::warn!("{}: push it again", self.lost(lost)))
            }
            Err(error) => tracing::warn!("which components there are can't be read: {error}"),
        }
    }

    fn lost(&self, Kept { digest, name, version, .. }: &Kept) -> Error {
        let file = self.path(digest);
        let message = format!("component `{name}@{version}` is lost: {} is missing, or not as long as it was", file.display());
        Error::new(Kind::NotFound, message).help("push it again with `cofferdam component push`")
    }

    /// The component that is meant: by digest, or by name and version, of which the last one pushed counts.
    ///
    /// # Errors
    /// Kind `NotFound`, also if its file is lost.
    pub(super) fn find(&self, wanted: &ComponentRef) -> Result<Kept> {
        let noted = self.find_noted(wanted)?;
        match self.has_file(&noted) {
            true => Ok(noted),
            false => Err(self.lost(&noted)),
        }
    }

    /// The same, also if its file is lost.
    ///
    /// # Errors
    /// Kind `NotFound`.
    pub(super) fn find_noted(&self, wanted: &ComponentRef) -> Result<Kept> {
        let found = match wanted {
            ComponentRef::Digest(digest) => self.noted(digest)?,
            ComponentRef::Version { name, version } => self.all()?.into_iter().rfind(|kept| kept.name == *name && kept.version == *version),
            ComponentRef::File(_) => None,
        };
        found.ok_or_else(|| {
            let message = format!("the host has no component `{wanted}`");
            Error::new(Kind::NotFound, message).help("`cofferdam component list` lists those that it has, `component push` adds one")
        })
    }

    /// What is to be known about one.
    pub(super) fn inspect(&self, engine: &Engine, kept: &Kept) -> Result<ComponentInspection> {
        let component = Component::load(engine, &self.path(&kept.digest), Limits::default(), &Interrupt::default())?;
        Ok(ComponentInspection::of(&component, kept.bytes))
    }

    /// Removes one.
    pub(super) fn remove(&self, digest: &str) -> Result<()> {
        let _writing = self.writing();
        for path in [self.facts(digest), self.path(digest)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(&path, &error)),
                _ => {}
            }
        }
        durable::sync_dir(&self.dir).map_err(|error| unusable(&self.dir, &error))
    }
}
