//! Savepoints until they are whole: one writer at a time, who says so first of all and puts that where nothing is; and what a writer leaves
//! who does not come to the end is removed, and nothing else.

use bytes::Bytes;

use super::write::Target;
use super::{DISPOSED, SavepointDir};
use crate::checkpoint::paths::savepoint::{self as paths, SavepointPath};
use crate::checkpoint::store::files::Place;
use crate::checkpoint::store::open::objects_at;
use crate::checkpoint::store::{Store, key, unreadable, unwritable};
use crate::error::{Error, Kind, Result};
use crate::plan::Location;

impl SavepointDir {
    /// Begins to write it. Whoever else wants to is refused from then on.
    ///
    /// # Errors
    /// [`Kind::Storage`] if somebody else writes it, if there is something of a savepoint already, or if it can't be written. Nothing of what
    /// is there has changed.
    pub(super) async fn take(&self, writer: &str) -> Result<()> {
        let dir = &self.0.dir;
        if !self.mark(writer).await? {
            let message = format!("{dir} is being written by somebody else, or was left by a host that was killed");
            return Err(Error::new(Kind::Storage, message).help(format!(
                "choose another place, or ask for it by another name; `cofferdam savepoint dispose {dir}` removes it if nobody writes it"
            )));
        }
        let refused = match self.list().await {
            Ok(there) if there.iter().any(|path| path == paths::MANIFEST) => {
                let manifest = dir.join(paths::MANIFEST);
                let message = format!("{manifest} exists already: a savepoint of the same name was written there, or is being removed");
                Error::new(Kind::Storage, message).help("choose another place, or ask for it by another name")
            }
            Ok(there) if there.iter().any(|path| is_of_savepoint(path)) => {
                let message = format!("{dir} has files of a savepoint that was not written to its end");
                Error::new(Kind::Storage, message).help(format!("`cofferdam savepoint dispose {dir}` removes them"))
            }
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        self.delete_one(paths::WRITER).await?;
        Err(refused)
    }

    /// It is whole, and nobody writes it any more.
    pub(super) async fn finish(&self) {
        // What says who has written it is in nobody's way.
        self.delete_one(paths::WRITER).await.unwrap_or_else(|error| tracing::debug!("{error}"));
    }

    /// Removes what `writer`, who does not go on, has left of it. If it is whole it stays, and so it does if somebody else writes it.
    ///
    /// # Errors
    /// [`Kind::Storage`] if something can't be read or removed: the same again is safe.
    pub(super) async fn give_up(&self, writer: &str) -> Result<()> {
        // Anew, if it was disposed of meanwhile.
        if !self.mark(writer).await? {
            return Ok(());
        }
        if self.0.get(paths::MANIFEST).await?.is_some_and(|found| found != DISPOSED) {
            return self.delete_one(paths::WRITER).await;
        }
        // A put of the manifest that is still on its way finds its place taken.
        self.0.keep(paths::MANIFEST, &Bytes::from_static(DISPOSED)).await?;
        self.delete(&[paths::MANIFEST, paths::WRITER]).await.map(drop)
    }

    /// Says who writes it. False if somebody else does.
    async fn mark(&self, writer: &str) -> Result<bool> {
        let put = self.0.objects.put_new(&key(&self.0.prefix, paths::WRITER)?, &Bytes::from(writer.to_owned())).await;
        put.map_err(|error| unwritable(&self.0.dir.join(paths::WRITER), &error))
    }
}

fn is_of_savepoint(path: &str) -> bool {
    !matches!(paths::classify(path), SavepointPath::Foreign | SavepointPath::Writer)
}

impl Store {
    /// Removes what `writer`, who is gone, has left in `target` of the savepoint that was asked for as `trigger_id`, unless it is whole.
    ///
    /// # Errors
    /// [`Kind::Storage`] if something can't be read or removed.
    pub async fn clear_savepoint(&self, target: &Location, trigger_id: &str, writer: &str) -> Result<()> {
        if matches!(target, Location::Path(dir) if !dir.exists()) {
            return Ok(());
        }
        let objects = objects_at(target, &self.access_to(target)).map_err(|error| unreadable(target, &error))?;
        let names = objects.dirs().await.map_err(|error| unreadable(target, &error))?;
        let target = Target(Place::new(objects, String::new(), target.clone()));
        for name in names.iter().filter(|name| paths::is_dir_of(name, self.job(), trigger_id)) {
            let found = SavepointDir(target.place(name));
            if found.0.get(paths::WRITER).await?.is_some_and(|found| found == writer) {
                found.give_up(writer).await?;
            }
        }
        Ok(())
    }
}
