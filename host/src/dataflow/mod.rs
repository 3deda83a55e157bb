//! The engine, and the one user of timely: it builds a plan's chains as a dataflow, one copy on each worker thread, and runs it.
//!
//! Time is the epoch, the number of the next checkpoint. A source's step to the next epoch is the barrier; an operator knows that it
//! has everything before the barrier when its input frontier has passed the epoch. What the rest of the host asks of a running
//! dataflow goes through [`Control`], what it learns comes as [`Event`]s. Nothing here waits: for files and the network there are
//! other threads.

mod backlog;
mod build;
mod chain;
mod control;
mod credit;
mod event;
mod failing;
mod finish;
mod flood;
mod lull;
mod metrics;
mod operator;
mod parcel;
mod sink;
mod source;
mod splits;
mod swap;
mod trial;

pub use build::{Blueprint, Running, Splits, context, start};
pub use control::Control;
pub use credit::Held;
pub use event::{BarrierCost, Event, Events, SnapshotSlice};
pub use lull::Lull;
pub use metrics::{Metrics, NodeCounts, OwnMetrics, Pauses};
pub use swap::{Migrate, Swap, Version};
pub use trial::Trial;
