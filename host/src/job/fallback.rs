//! Falling back: where the newest checkpoint is damaged and the user has said so, a run begins from the newest one that is whole.

use crate::checkpoint::decide::{RestorePoint, newest_point, point_at};
use crate::checkpoint::store::Store;
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;

/// Why an attempt has begun from another checkpoint than the newest.
pub(super) struct FellBack {
    /// What is wrong with the newest.
    pub(super) damage: String,
    /// Whether sinks may have published output of newer ones.
    pub(super) doubles: bool,
}

/// The newest checkpoint of the newest run all of whose files are as they were written, if the newest of all can't be restored because
/// its files are not.
///
/// # Errors
/// `error`, for which the newest can't be restored, if that is for another reason or none is whole. Kind `Storage` if a file can't be read
/// for the time being.
pub(super) async fn newest_whole(store: &Store, error: Error) -> Result<(RestorePoint, FellBack)> {
    let Some(log) = store.newest_log().await? else { return Err(error) };
    let newest = newest_point(&log).ok().flatten().map(|point| point.slot);
    for point in log.manifests().filter_map(|(slot, _)| point_at(&log, slot)) {
        match store.verify(&point).await {
            Err(damage) if damage.kind() == Kind::Checkpoint => tracing::info!("passed over: {damage}"),
            Err(other) => return Err(other),
            // What it holds does not fit the job, and older ones would not either.
            Ok(()) if newest == Some(point.slot) => return Err(error),
            Ok(()) => {
                let newest = AttemptId { run: log.run, attempt: log.last_attempt() };
                let doubles = store.is_published_beyond(newest, point.manifest.checkpoint).await?;
                return Ok((point, FellBack { damage: error.message().into(), doubles }));
            }
        }
    }
    Err(error)
}
