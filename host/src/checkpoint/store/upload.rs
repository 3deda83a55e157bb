//! [`Upload`]: a large object on its way in parts, or a large file being written beside its place. It appears when all of it has come.

use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{Error, MultipartUpload, Result};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::cause::is_remote;
use super::objects::Objects;

/// How many parts of an object are on their way at once.
const PARTS_AT_ONCE: usize = 4;

/// An object of a key that nobody else writes. What is dropped before its end is nothing.
pub(super) struct Upload {
    objects: Objects,
    key: Key,
    /// Until it is complete.
    parts: Option<Box<dyn MultipartUpload>>,
    under_way: JoinSet<Result<()>>,
    bytes: u64,
}

impl Upload {
    pub(super) fn new(objects: Objects, key: Key, parts: Box<dyn MultipartUpload>) -> Self {
        Upload { objects, key, parts: Some(parts), under_way: JoinSet::new(), bytes: 0 }
    }

    /// Sends the next part. Returns when there is room for another one.
    pub(super) async fn put(&mut self, part: Bytes) -> Result<()> {
        let Some(parts) = &mut self.parts else { return Ok(()) };
        self.bytes += part.len() as u64;
        self.under_way.spawn(parts.put_part(part.into()));
        self.wait_for_fewer_than(PARTS_AT_ONCE).await
    }

    /// Completes it.
    pub(super) async fn finish(&mut self) -> Result<()> {
        self.wait_for_fewer_than(1).await?;
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let completed = parts.complete().await;
        if let Err(error) = self.objects.written(&self.key, completed).await {
            // The answer may have been lost, and then there is nothing left to complete. A disk has not lost it: there the file may be at its
            // place, but its name not be durable.
            if !is_remote(&error) || self.objects.size(&self.key).await.ok().flatten() != Some(self.bytes) {
                return Err(error);
            }
        }
        self.parts = None;
        Ok(())
    }

    /// Ends it. Nothing happens if it is complete.
    pub(super) async fn abort(mut self) {
        self.under_way.shutdown().await;
        if let Some(mut parts) = self.parts.take() {
            abort(&mut *parts).await;
        }
    }

    async fn wait_for_fewer_than(&mut self, parts: usize) -> Result<()> {
        while self.under_way.len() >= parts
            && let Some(sent) = self.under_way.join_next().await
        {
            sent.map_err(|source| Error::JoinError { source })??;
        }
        Ok(())
    }
}

impl Drop for Upload {
    /// Whoever was writing was told to leave off.
    fn drop(&mut self) {
        if let (Some(mut parts), Ok(runtime)) = (self.parts.take(), Handle::try_current()) {
            runtime.spawn(async move { abort(&mut *parts).await });
        }
    }
}

/// Parts of an upload that is not ended cost money. If this fails, the bucket's own rules have to end it.
async fn abort(parts: &mut dyn MultipartUpload) {
    if let Err(error) = parts.abort().await {
        tracing::debug!("an upload that was given up could not be ended: {}", super::cause(&error));
    }
}
