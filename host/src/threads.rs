//! Work that waits, beside the asynchronous threads. What it logs is about the job like all else.

use tracing::Span;

use crate::error::{Error, Kind, Result};

/// Does work that may wait, for files say, on a thread for that. `what` it is tells the error if it panics.
///
/// # Errors
/// The work's own; [`Kind::Internal`] if it panics.
pub async fn blocking<T: Send + 'static>(what: &str, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let span = Span::current();
    let done = tokio::task::spawn_blocking(move || span.in_scope(work)).await;
    done.map_err(|panic| Error::new(Kind::Internal, format!("{what} panicked: {panic}")))?
}

/// Does work that may call guests on a thread of its own: guests never run on the runtime's. It begins at once.
///
/// # Errors
/// The work's own; [`Kind::Internal`] if it panics, or there is no thread for it.
pub fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> impl Future<Output = Result<T>> {
    let (done, result) = tokio::sync::oneshot::channel();
    let span = Span::current();
    // Nobody waits any more if another one has failed.
    let spawned = std::thread::Builder::new().name("restore".into()).spawn(move || span.in_scope(|| drop(done.send(work()))));
    async move {
        spawned.map_err(|error| Error::new(Kind::Internal, format!("a thread for restoring can't be started: {error}")))?;
        result.await.map_err(|_| Error::new(Kind::Internal, "restoring state panicked"))?
    }
}
