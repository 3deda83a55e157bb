//! [`Patience`]: what fails for want of storage is done again, until it succeeds or the attempt ends.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::checkpoint::store::Store;
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;

/// The pause before the second try.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause between two tries: each is twice as long as the one before, up to this.
const LONGEST: Duration = Duration::from_secs(10);
/// The part of a pause by which it is longer or shorter at random, so that what failed together is not tried again together.
const JITTER: f64 = 0.2;

/// Something for a checkpoint could not be stored, and is being tried again.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) epoch: u64,
    pub(super) error: Error,
}

/// For one checkpoint.
pub(super) struct Patience(Option<Patient>);

/// What it takes to be patient.
pub(super) struct Patient {
    pub(super) store: Store,
    pub(super) attempt: AttemptId,
    pub(super) epoch: u64,
    /// Is told of the first failure of each thing.
    pub(super) tell: UnboundedSender<Trouble>,
    /// Its other side is dropped when the attempt ends.
    pub(super) ended: watch::Receiver<()>,
}

impl Patience {
    pub(super) fn new(patient: Patient) -> Self {
        Patience(Some(patient))
    }

    /// Does everything only once.
    pub(super) fn none() -> Self {
        Patience(None)
    }

    /// Does `work` until it does not fail with [`Kind::Storage`] any more.
    ///
    /// # Errors
    /// Another one of `work`; the last one, when the attempt has ended; [`Kind::Fenced`] if a newer attempt has taken over meanwhile.
    pub(super) async fn store<T, F: Future<Output = Result<T>>>(&mut self, mut work: impl FnMut() -> F) -> Result<T> {
        let Some(Patient { store, attempt, epoch, tell, ended }) = &mut self.0 else { return work().await };
        let mut pause = FIRST;
        loop {
            let error = match work().await {
                Err(error) if error.kind() == Kind::Storage => error,
                done => return done,
            };
            if pause == FIRST {
                // If nobody listens, the attempt has ended.
                tell.send(Trouble { epoch: *epoch, error: error.clone() }).unwrap_or(());
            }
            tracing::debug!("to be tried again in {pause:?}: {error}");
            tokio::select! {
                () = tokio::time::sleep(pause.mul_f64(1.0 + JITTER * clock::random())) => {}
                _ = ended.changed() => return Err(error),
            }
            // Long pauses are where attempts are overtaken. If that can't be found out, nothing else can be done either.
            if let Ok(Some(overtaken)) = store.overtaken(*attempt).await {
                return Err(overtaken);
            }
            pause = (pause * 2).min(LONGEST);
        }
    }
    /// The same for work of which nothing has to stay: it is left off when the attempt ends.
    ///
    /// # Errors
    /// As [`Patience::store`]; that it was left off.
    pub(super) async fn store_unless_ended<T, F: Future<Output = Result<T>>>(&mut self, mut work: impl FnMut() -> F) -> Result<T> {
        let Some(mut ended) = self.0.as_ref().map(|patient| patient.ended.clone()) else { return work().await };
        tokio::select! {
            done = self.store(work) => done,
            _ = ended.changed() => Err(Error::new(Kind::Job, "it was left off, because the attempt has ended")),
        }
    }
}
