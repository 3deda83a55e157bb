//! Jobs: preparing one, beginning an attempt from a checkpoint, running it to its end. The asynchronous shell around the synchronous
//! dataflow.

mod attempt;
mod begin;
mod checkpoints;
mod commit;
mod controller;
mod cycle;
mod inspect;
mod local;
mod migrate;
mod notice;
mod order;
mod patience;
mod prepare;
mod restore;
mod run;
mod signal;
mod sinks;
mod strategy;
mod summary;
mod trouble;
mod upload;

pub use crate::checkpoint::listing::{Broken, Listed, Listing};
pub use crate::checkpoint::manifest::Fate;
pub use crate::dataflow::{OwnMetrics, Pauses};
pub use checkpoints::{checkpoints, checkpoints_in};
pub use inspect::{ComponentInspection, Inspection, inspect};
pub use notice::{Notice, Observer, in_seconds};
pub use order::{End, Order};
pub use prepare::{OperatorReport, Report, SourceReport};
pub use run::{Options, run, validate};
pub use summary::{FailedAttempt, Health, NodeTotals, Outcome, Progress, Restored, Summary};
