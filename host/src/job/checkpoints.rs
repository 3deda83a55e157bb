//! Looking at a job's checkpoints from outside, whether it runs or not.

use std::collections::BTreeSet;

use crate::checkpoint::listing::{Broken, Listing};
use crate::checkpoint::manifest::FailedCheckpoints;
use crate::checkpoint::paths;
use crate::checkpoint::store::{Store, canonical};
use crate::error::{Error, Kind, Result};
use crate::plan::{Access, Location};

/// The checkpoints of `job` below `dir`, which is reached as `access` says. Changes nothing.
///
/// # Errors
/// Kind `Storage` if the directory can't be read, `Checkpoint` if no run of the job has begun there. What is broken in it is no error.
pub fn checkpoints(dir: &Location, access: &Access, job: &str) -> Result<Listing> {
    super::block_on(list(dir, access, job))
}

/// The checkpoints in a job's own directory. A bucket is reached as the environment says. Changes nothing.
///
/// # Errors
/// As [`checkpoints`].
pub fn checkpoints_in(own: &Location) -> Result<Listing> {
    let whole = canonical(own);
    match (whole.parent(), whole.name()) {
        (Some(dir), Some(job)) => checkpoints(&dir, &Access::default(), job),
        // The top of everything is nobody's own.
        _ => Err(nothing(own, "")),
    }
}

async fn list(dir: &Location, access: &Access, job: &str) -> Result<Listing> {
    let store = Store::open_existing(dir, access, job).await?;
    let runs = store.runs().await?;
    if runs.is_empty() {
        return Err(nothing(dir, job));
    }
    let mut listing = Listing { foreign: store.strays(&runs).await?, ..Listing::default() };
    for run in runs {
        // The job may run: what goes meanwhile is there before, and what comes meanwhile is there afterwards.
        let mut files: BTreeSet<String> = store.list(run).await?.into_iter().collect();
        let log = store.log(run).await?;
        let failed = store.failed(run).await?.unwrap_or_else(|| Ok(FailedCheckpoints::default())).unwrap_or_else(|reason| {
            let path = store.run_dir(run).join(paths::FAILED).to_string();
            listing.broken.push(Broken { path, reason });
            FailedCheckpoints::default()
        });
        files.extend(store.list(run).await?);
        listing.add_run(&log, &failed, &files);
    }
    Ok(listing)
}

fn nothing(dir: &Location, job: &str) -> Error {
    let message = format!("no run of job `{job}` has begun in {dir}");
    let help = match dir {
        Location::Memory(_) => "they are in the memory of the process that runs the job, and end with it",
        _ => "give the job file, or the job's own directory below `[checkpoint] dir`",
    };
    Error::new(Kind::Checkpoint, message).help(help)
}
