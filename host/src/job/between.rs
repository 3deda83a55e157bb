//! Between two attempts: a job waits until one is torn down and the next one is to begin, and may be told to end meanwhile.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::checkpoint::decide::{RestorePoint, newest_point};
use crate::checkpoint::store::Store;
use crate::clock;
use crate::dataflow::Control;
use crate::error::{Error, Kind, Result};
use crate::record::AttemptId;
use crate::wasm::Interrupt;

use super::attempt::open;
use super::begin::publish;
use super::choice::unfulfilled;
use super::prepare::Prepared;
use super::{End, Order, Outcome, Summary};

/// So often it is looked whether a job was cancelled, which calls of guests are told by a flag, and nobody by an event.
const LOOK: Duration = Duration::from_millis(20);

/// Does work of which nothing has to stay, such as reading a checkpoint, and leaves it off when the job is cancelled.
///
/// # Errors
/// Why it has failed; that it was left off.
pub(super) async fn unless_cancelled<T>(interrupt: &Interrupt, work: impl Future<Output = Result<T>>) -> Result<T> {
    let cancelled = async {
        while !interrupt.is_due() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        done = work => done,
        () = cancelled => Err(Error::new(Kind::Job, "it was cancelled before the attempt had begun")),
    }
}

/// Waits until the next attempt is to begin, or the job is told to end.
pub(super) async fn pause(delay: Duration, job: &str, orders: &mut UnboundedReceiver<Order>) -> Option<End> {
    let over = clock::now() + delay;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(over.into()) => return None,
            Some(order) = orders.recv() => if let Some(end) = heed(order, job) {
                return Some(end);
            },
        }
    }
}

/// Waits until an attempt is torn down, and returns how the job was told to end meanwhile, if it was. Once it is cancelled, nobody waits for
/// calls of guests any more, which have time after a stop and at the end of input.
pub(super) async fn tear_down<T>(
    torn_down: impl Future<Output = T>,
    control: &Control,
    job: &str,
    orders: &mut UnboundedReceiver<Order>,
) -> (T, Option<End>) {
    let mut torn_down = std::pin::pin!(torn_down);
    let mut told = None;
    loop {
        tokio::select! {
            done = &mut torn_down => return (done, told),
            Some(order) = orders.recv() => match heed(order, job) {
                Some(End::Cancel) => {
                    control.cancel();
                    told = Some(End::Cancel);
                }
                end => told = told.or(end),
            },
        }
    }
}

/// Waits until the job is cancelled. To end in another way is what it does already.
pub(super) async fn cancelled(job: &str, orders: &mut UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        if heed(order, job) == Some(End::Cancel) {
            return;
        }
    }
    std::future::pending().await
}

/// How an order has the job end, if it does. All others are refused.
fn heed(order: Order, job: &str) -> Option<End> {
    let refused =
        |why: &str| Error::new(Kind::Conflict, format!("job `{job}` is between two attempts: {why}")).help("ask again when it runs");
    match order {
        Order::End(end) => return Some(end),
        // They may have gone.
        Order::Swap(_, reply) => reply.send(Err(refused("no component can take over"))).unwrap_or(()),
        Order::Savepoint(order) => order.refuse(refused("there is nothing to take a savepoint of")),
    }
    None
}

/// Ends a job that was told to stop after the attempt `last`, if one has begun: it has its newest checkpoint to go on from. What is
/// committed is published, since `last` may have failed in the middle of that.
///
/// # Errors
/// Kind `Fenced` if somebody else has taken over; why a last commit, with which nothing is left to go on, could not be published.
pub(super) async fn stop(prepared: &Prepared, last: Option<AttemptId>, claimer: u64, signal: Option<i32>) -> Result<Summary> {
    let began = clock::now();
    let ended = |outcome, last_checkpoint| {
        let signal = signal.filter(|_| outcome == Outcome::Stopped);
        let nothing = Summary::nothing_done(&prepared.plan, last.unwrap_or(AttemptId::NONE), outcome, began);
        Summary { signal, last_checkpoint, ..nothing }
    };
    let Some(last) = last else { return Ok(ended(Outcome::Stopped, None)) };
    let found = async {
        let store = open(&prepared.plan, claimer).await?;
        let point = newest(&store, last).await?;
        Ok::<_, Error>(point.map(|point| (store, point)))
    };
    let (store, point) = match found.await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(ended(Outcome::Stopped, None)),
        Err(error) if error.kind() == Kind::Fenced => return Err(error),
        // It may be why attempts fail, and is no reason to begin another.
        Err(error) => {
            tracing::warn!("stopped, though its newest checkpoint can't be read: {error}");
            return Ok(ended(Outcome::Stopped, None));
        }
    };
    let checkpoint = Some(point.manifest.checkpoint);
    match publish(&store, prepared, &point, None).await {
        Ok(()) if point.manifest.finished => Ok(ended(Outcome::Finished, checkpoint)),
        Ok(()) => Ok(ended(Outcome::Stopped, checkpoint)),
        Err(error) if point.manifest.finished => Err(error),
        Err(error) => {
            tracing::warn!("stopped, and what its newest checkpoint has still to publish is published when it goes on: {error}");
            Ok(ended(Outcome::Stopped, checkpoint))
        }
    }
}

/// The newest checkpoint of a run whose newest attempt is `last`, if it has one. None if that attempt was told to begin from another one and
/// has committed nothing since: then it is that one to go on from, and it stays.
async fn newest(store: &Store, last: AttemptId) -> Result<Option<RestorePoint>> {
    let newest = store.runs().await?.last().copied().unwrap_or(last.run);
    let log = store.log(newest).await?;
    match store.fence(last, &log).await? {
        Some(newer) => Err(newer),
        None if unfulfilled(&log).next().is_some() => Ok(None),
        None => newest_point(&log),
    }
}
