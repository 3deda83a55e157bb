//! The job in a savepoint: its file and its components, for whoever wants to go on from there with nothing else at hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::checkpoint::paths::savepoint::JOB_FILE;
use crate::checkpoint::store::{Disposed, SavepointDir};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::{Access, Location};

/// The job in a savepoint.
#[derive(Clone, Debug)]
pub struct JobInside {
    /// The text of its file.
    pub text: String,
    /// Where that would lie: paths in it count from the same directory as before.
    pub file: PathBuf,
    /// The component of each operator, by uid: its digest and its bytes.
    pub components: BTreeMap<String, (String, Bytes)>,
}

impl JobInside {
    /// Reads it. A bucket is reached as the environment says.
    ///
    /// # Errors
    /// Kind `Checkpoint` if `path` names no savepoint, or one without components, or something in it is missing or damaged; `Storage` if
    /// it can't be read.
    pub fn read(path: &Location) -> Result<Self> {
        super::run::runtime()?.block_on(read(path))
    }

    /// Puts the components into files, each under its digest, and says which operator's is where.
    ///
    /// # Errors
    /// Kind `Storage` if they can't be written.
    pub fn unpack(&self) -> Result<BTreeMap<String, PathBuf>> {
        let dir = super::prepare::cache_dir().map(|dir| dir.join("components")).ok_or_else(|| {
            Error::new(Kind::Storage, "there is no place for the components of the savepoint")
                .help("set HOME or XDG_CACHE_HOME, or give a job file")
        })?;
        let unpack = |(uid, (digest, bytes)): (&String, &(String, Bytes))| {
            let path = dir.join(format!("{digest}.wasm"));
            write(&path, bytes).map_err(|error| Error::new(Kind::Storage, format!("{} can't be written: {error}", path.display())))?;
            Ok((uid.clone(), path))
        };
        self.components.iter().map(unpack).collect()
    }
}

/// Removes a savepoint, or what is left of one whose writing was interrupted. A bucket is reached as the environment says.
///
/// # Errors
/// Kind `Checkpoint` if it is neither; `Storage` if something can't be deleted.
pub fn dispose(path: &Location) -> Result<Disposed> {
    super::run::runtime()?.block_on(async { find(path).await?.dispose().await })
}

/// The directory that `path` names as a savepoint, whole or not. A bucket is reached as the environment says.
///
/// # Errors
/// Kind `Checkpoint` if it names none; `Storage` if the place can't be reached.
pub fn savepoint_at(path: &Location) -> Result<Location> {
    super::block_on(async { Ok(find(path).await?.dir().clone()) })
}

async fn find(path: &Location) -> Result<SavepointDir> {
    let found = SavepointDir::find(path, &Access::default()).await?;
    found.ok_or_else(|| {
        Error::new(Kind::Checkpoint, format!("{path} is no savepoint")).help("give a savepoint's directory, or its manifest")
    })
}

async fn read(path: &Location) -> Result<JobInside> {
    let savepoint = find(path).await?;
    let manifest = savepoint.manifest().await?;
    let Some(part) = &manifest.savepoint else { return Err(Error::new(Kind::Internal, format!("{path} is no savepoint"))) };
    if !part.has_components && !manifest.operators.is_empty() {
        let message = format!("savepoint {} was taken without components", savepoint.dir());
        return Err(Error::new(Kind::Checkpoint, message).help("give a job file, which names them"));
    }
    let text = savepoint.job_file(part).await?;
    let mut components = BTreeMap::new();
    for operator in &manifest.operators {
        let digest = operator.component.digest.clone();
        let bytes = savepoint.component(&digest).await?;
        components.insert(operator.uid.clone(), (digest, bytes));
    }
    Ok(JobInside { text, file: Path::new(&part.job_file.directory).join(JOB_FILE), components })
}

/// Writes a file whose name says what is in it, so that whoever sees it sees all of it.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    let beside = path.with_extension(format!("{:016x}", clock::entropy()));
    std::fs::write(&beside, bytes)?;
    std::fs::rename(&beside, path)
}
