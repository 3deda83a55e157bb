//! Opening: that checkpoints can be kept in a place is found out before a job begins, and not when the first one is due.

use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path as Key;

use super::cause::cause;
use super::objects::Objects;
use super::{local, memory, remote};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::{Access, Location};

/// How long it is tried to reach a store at first: whoever has just typed a command waits for it.
const START: Duration = Duration::from_secs(15);

/// What a place is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A job's checkpoints.
    Checkpoints,
    /// Savepoints.
    Savepoints,
}

impl Purpose {
    /// What it is for, and the setting that names it.
    fn words(self) -> [&'static str; 2] {
        match self {
            Purpose::Checkpoints => ["checkpoint", "`[checkpoint] dir`"],
            Purpose::Savepoints => ["savepoint", "`[checkpoint] savepoint-dir`, or with the command"],
        }
    }
}

/// The files below `dir`, which is created if it is missing, once it is certain that files can be listed, written, deleted, and put only
/// where nothing is.
///
/// # Errors
/// [`Kind::Storage`], naming directory or bucket and the setting.
pub(super) async fn open(dir: &Location, access: &Access, purpose: Purpose) -> Result<Objects> {
    let refused = |cause: &str, help: &str| refused(dir, purpose, cause, help);
    local::create(dir).await.map_err(|cause| refused(&cause, DIR))?;
    let failed = |error: object_store::Error| {
        let cause = cause(&error);
        refused(&cause, help(dir, &cause))
    };
    let objects = objects_at(dir, &hasty(access)).map_err(failed)?;
    objects.dirs().await.map_err(failed)?;
    let probe = Key::from(format!("probe-{:016x}", clock::entropy()));
    let is_exclusive = is_exclusive(&objects, &probe).await.map_err(failed)?;
    objects.delete(&probe).await.map_err(|error| match cause(&error) {
        cause if ["400", "405", "501"].iter().any(|status| cause.starts_with(status)) => refused(&cause, BULK),
        cause => refused(&cause, help(dir, &cause)),
    })?;
    if !is_exclusive {
        return Err(refused(
            "it lets a put go through where something is, so that two attempts could commit the same checkpoint",
            EXCLUSIVE,
        ));
    }
    objects_at(dir, access).map_err(failed)
}

/// The same for someone who waits for it.
pub(super) fn hasty(access: &Access) -> Access {
    Access { retry_timeout: START.min(access.retry_timeout), ..access.clone() }
}

/// The files below `dir`, be they there or not.
pub(super) fn objects_at(dir: &Location, access: &Access) -> object_store::Result<Objects> {
    match dir {
        Location::Path(dir) => local::objects(dir),
        Location::Object(path) => remote::objects(path, access),
        Location::Memory(key) => memory::objects(key),
    }
}

/// Whether a put of `probe` fails where something is. Fails if nothing can be put.
async fn is_exclusive(objects: &Objects, probe: &Key) -> object_store::Result<bool> {
    let first = objects.put_new(probe, &Bytes::from_static(b"can this be written?")).await?;
    let second = objects.put_new(probe, &Bytes::from_static(b"and this in its place?")).await?;
    Ok(first && !second)
}

const DIR: &str = "make it writable, or choose another one with {setting}";
const EXCLUSIVE: &str = "the store has to honour `If-None-Match: *`: choose another one with {setting}";

const BULK: &str = "the store has to delete many objects at once: choose another one with {setting}, or set `AWS_DISABLE_BULK_DELETE=true` in the environment to have each deleted by itself";

/// The error for a place that can't be used; in the help, `{setting}` stands for where it is named.
fn refused(dir: &Location, purpose: Purpose, cause: &str, help: &str) -> Error {
    let [noun, setting] = purpose.words();
    let what = match dir {
        Location::Path(_) => format!("the {noun} directory {dir}"),
        Location::Memory(_) => format!("the memory for {noun}s in {dir}"),
        Location::Object(path) => format!("the bucket `{}` for {noun}s in {dir}", path.bucket),
    };
    Error::new(Kind::Storage, format!("{what} can't be used: {cause}")).help(help.replace("{setting}", setting))
}

/// What to do about an error. What a server has said begins with its status.
fn help(dir: &Location, cause: &str) -> &'static str {
    match cause.split(' ').next() {
        _ if matches!(dir, Location::Path(_)) => DIR,
        Some("404") => "create the bucket, or choose another one with {setting}",
        Some("401" | "403") => {
            "it must allow to list, read, write and delete; `profile` and `credentials-file` below `[checkpoint]`, or else the environment, say with which credentials"
        }
        Some("501") => EXCLUSIVE,
        _ if cause.contains("certificate") => {
            "a server's certificate is checked with those of the system: install them, or name a file with others in `SSL_CERT_FILE`"
        }
        _ => "`endpoint`, `region` and credentials below `[checkpoint]`, or else the environment, say how it is reached",
    }
}
