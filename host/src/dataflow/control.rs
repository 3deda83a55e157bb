//! [`Control`]: what the job's controller asks of a running dataflow. Plain flags, read by the workers between batches, and wakers; and what
//! it tells, which is put in line for each operator.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use timely::scheduling::SyncActivator;

use super::swap::Swap;
use crate::wasm::Interrupt;

/// What the controller asks of a running dataflow.
#[derive(Debug)]
pub struct Control {
    /// Sources step past every epoch up to this one.
    barrier: AtomicU64,
    /// The epoch that ends the job; `u64::MAX`: not known yet.
    last: AtomicU64,
    /// Sources read nothing in epochs after this one.
    stop_after: AtomicU64,
    /// Who is told what becomes of checkpoints.
    listeners: Mutex<Vec<Sender<CheckpointEnd>>>,
    /// Sources that have ended, and of whose records all state is committed.
    worked_off: Mutex<Vec<usize>>,
    /// Sources are at their end, whatever is left to read.
    drained: AtomicBool,
    cancelled: AtomicBool,
    /// Ends the guests' calls.
    interrupt: Interrupt,
    /// The newest swap; none once the checkpoint at its barrier, or a later one, is committed.
    swap: Mutex<Option<Arc<Swap>>>,
    /// The epoch at whose end the newest swap falls; 0 if there was none.
    swap_epoch: AtomicU64,
    wakers: Mutex<Vec<SyncActivator>>,
}

/// What has become of the checkpoint that ends an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) enum CheckpointEnd {
    Committed(u64),
    Aborted(u64),
}

impl CheckpointEnd {
    pub(super) fn epoch(self) -> u64 {
        match self {
            CheckpointEnd::Committed(epoch) | CheckpointEnd::Aborted(epoch) => epoch,
        }
    }
}

impl Default for Control {
    fn default() -> Self {
        Control {
            barrier: AtomicU64::new(0),
            last: AtomicU64::new(u64::MAX),
            stop_after: AtomicU64::new(u64::MAX),
            listeners: Mutex::default(),
            worked_off: Mutex::default(),
            drained: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            interrupt: Interrupt::default(),
            swap: Mutex::default(),
            swap_epoch: AtomicU64::new(0),
            wakers: Mutex::default(),
        }
    }
}

impl Control {
    /// Puts the barrier that ends `epoch` into the stream.
    pub fn trigger(&self, epoch: u64) {
        self.barrier.fetch_max(epoch, SeqCst);
        self.wake();
    }

    /// Like [`Control::trigger`], and nothing is read after it.
    pub fn stop(&self, epoch: u64) {
        self.stop_after.store(epoch, SeqCst);
        self.trigger(epoch);
    }

    /// What [`Control::stop`] was for has not come to pass: sources read again.
    pub fn go_on(&self) {
        self.stop_after.store(u64::MAX, SeqCst);
        self.wake();
    }

    /// Like [`Control::trigger`] for the epoch of the swap, at whose barrier the component takes over. Whoever passes that barrier has
    /// heard of it: the swap is there before the first source is told to step past, and all others come to the barrier only because of
    /// that step.
    pub fn swap(&self, swap: Swap) {
        let epoch = swap.epoch;
        *self.swap.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(swap));
        self.swap_epoch.store(epoch, SeqCst);
        self.trigger(epoch);
    }

    /// All sources have ended: operators finish, and `epoch` is the last.
    pub fn finish(&self, epoch: u64) {
        self.last.store(epoch, SeqCst);
        self.wake();
    }

    /// The checkpoint that ends `epoch` is committed.
    pub fn committed(&self, epoch: u64) {
        // Whoever had to hear of a swap has passed its barrier.
        self.swap.lock().unwrap_or_else(PoisonError::into_inner).take_if(|swap| swap.epoch <= epoch);
        self.tell(CheckpointEnd::Committed(epoch));
    }

    /// The checkpoint that ends `epoch` is given up. Its barrier may still be on its way.
    pub fn aborted(&self, epoch: u64) {
        self.tell(CheckpointEnd::Aborted(epoch));
    }

    /// The source at this node has ended, and all its records are worked off: sources that wait for it may read.
    pub fn worked_off(&self, node: usize) {
        self.worked_off.lock().unwrap_or_else(PoisonError::into_inner).push(node);
        self.wake();
    }

    /// Sources read nothing more, as if all input ended here.
    pub fn drain(&self) {
        self.drained.store(true, SeqCst);
        self.wake();
    }

    /// Ends the dataflow as it is, at once: calls that guests are in are interrupted.
    pub fn cancel(&self) {
        self.interrupt.interrupt();
        self.end();
    }

    /// Ends the dataflow as it is, once calls that guests are in have come to their end.
    pub fn end(&self) {
        self.cancelled.store(true, SeqCst);
        self.wake();
    }

    pub(super) fn is_due(&self, epoch: u64) -> bool {
        self.barrier.load(SeqCst) >= epoch
    }

    /// The swap of a node at the barrier that ends `epoch`.
    pub(super) fn swap_at(&self, epoch: u64, node: usize) -> Option<Arc<Swap>> {
        if self.swap_epoch.load(SeqCst) != epoch {
            return None;
        }
        self.swap.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|swap| (swap.node, swap.epoch) == (node, epoch))
    }

    /// Whether the barrier of a swap lies between two epochs. It aligns whatever the mode: what comes after it is for the new component.
    pub(super) fn parts(&self, epoch: u64, later: u64) -> bool {
        (epoch..later).contains(&self.swap_epoch.load(SeqCst))
    }

    pub(super) fn is_last(&self, epoch: u64) -> bool {
        self.last.load(SeqCst) == epoch
    }

    pub(super) fn may_read(&self, epoch: u64) -> bool {
        self.stop_after.load(SeqCst) >= epoch
    }

    pub(super) fn is_worked_off(&self, node: usize) -> bool {
        self.worked_off.lock().unwrap_or_else(PoisonError::into_inner).contains(&node)
    }

    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(SeqCst)
    }

    /// What becomes of checkpoints from now on, in the order in which it does.
    pub(super) fn listen(&self) -> Receiver<CheckpointEnd> {
        let (listener, coming) = channel();
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        coming
    }

    /// What ends the guests' calls when it is cancelled.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    pub(super) fn register(&self, waker: SyncActivator) {
        self.lock().push(waker);
    }

    fn tell(&self, end: CheckpointEnd) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        // A listener that is gone need not be told.
        listeners.iter().for_each(|listener| listener.send(end).unwrap_or(()));
        drop(listeners);
        self.wake();
    }

    /// Has all workers look at what there is to do.
    pub(super) fn wake(&self) {
        // A worker that is gone needs no waking.
        self.lock().iter().for_each(|waker| waker.activate().unwrap_or(()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<SyncActivator>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
