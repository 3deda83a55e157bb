//! [`SinkStage`]: hands a subtask's records to its writer: on the worker if writing never blocks, else on a thread of the writer's own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::credit::Credit;
use super::event::{Event, Events};
use super::metrics::Metrics;
use crate::connectors::SinkWriter;
use crate::error::{Error, Kind, Result};
use crate::record::Batch;

/// Which subtask of which sink, and whom it tells.
#[derive(Clone)]
pub(super) struct SinkPlace {
    pub(super) node: usize,
    pub(super) uid: String,
    pub(super) subtask: u16,
    pub(super) events: Events,
    pub(super) metrics: Arc<Metrics>,
}

/// One subtask of a sink.
pub(super) enum SinkStage {
    /// Written on the worker.
    Here(Box<Writing>),
    /// Written elsewhere.
    Thread(Sender<Order>),
}

pub(super) struct Writing {
    place: SinkPlace,
    writer: Box<dyn SinkWriter>,
}

pub(super) enum Order {
    Write(Batch),
    Barrier(u64),
}

impl SinkStage {
    /// For a writer that may block when `blocks`; what it has not yet written counts against `credit`.
    pub(super) fn new(place: SinkPlace, writer: Box<dyn SinkWriter>, blocks: bool, credit: Arc<Credit>) -> Result<Self> {
        let writing = Writing { place, writer };
        if !blocks {
            return Ok(SinkStage::Here(Box::new(writing)));
        }
        let (orders, taken) = channel();
        let name = format!("{}-{}", writing.place.uid, writing.place.subtask);
        let span = tracing::Span::current();
        // Not joined: a writer may wait for its reader for ever, and whatever it has to say comes as an event.
        std::thread::Builder::new()
            .name(name)
            .spawn(move || span.in_scope(|| writing.run(&taken, &credit)))
            .map_err(|error| Error::new(Kind::Internal, format!("no thread for a sink: {error}")))?;
        Ok(SinkStage::Thread(orders))
    }

    pub(super) fn write(&mut self, batch: Batch, credit: &Credit) -> Result<()> {
        match self {
            SinkStage::Here(writing) => writing.write(&batch),
            SinkStage::Thread(orders) => {
                credit.take(batch.bytes());
                send(orders, Order::Write(batch))
            }
        }
    }

    pub(super) fn barrier(&mut self, epoch: u64) -> Result<()> {
        match self {
            SinkStage::Here(writing) => writing.barrier(epoch),
            SinkStage::Thread(orders) => send(orders, Order::Barrier(epoch)),
        }
    }
}

fn send(orders: &Sender<Order>, order: Order) -> Result<()> {
    // It has reported why; the first report counts.
    orders.send(order).map_err(|_| Error::new(Kind::Internal, "a sink's thread has ended"))
}

/// Reports the end of a thread that panics.
struct Panics<'a>(&'a SinkPlace);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = format!("the writer of sink `{}` panicked on subtask {}", self.0.uid, self.0.subtask);
            (self.0.events)(Event::Failed(Error::new(Kind::Internal, message)));
        }
    }
}

impl Writing {
    fn run(mut self, orders: &Receiver<Order>, credit: &Credit) {
        let place = self.place.clone();
        let _panics = Panics(&place);
        while let Ok(order) = orders.recv() {
            let done = match order {
                Order::Write(batch) => {
                    let done = self.write(&batch);
                    credit.give_back(batch.bytes());
                    done
                }
                Order::Barrier(epoch) => self.barrier(epoch),
            };
            if let Err(error) = done {
                (self.place.events)(Event::Failed(error));
                return;
            }
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<()> {
        let counts = self.place.metrics.counts(self.place.node, self.place.subtask);
        counts.add_in(batch.len() as u64);
        self.writer.write(batch)?;
        counts.add_out(batch.len() as u64);
        self.place.metrics.lull().end();
        Ok(())
    }

    fn barrier(&mut self, epoch: u64) -> Result<()> {
        let staged = self.writer.stage(epoch)?;
        let SinkPlace { node, subtask, .. } = self.place;
        (self.place.events)(Event::Staged { node, subtask, epoch, staged });
        Ok(())
    }
}
