//! Jobs: preparing one, beginning an attempt from a checkpoint, running it to its end. The asynchronous shell around the synchronous
//! dataflow.

mod begin;
mod controller;
mod inspect;
mod migrate;
mod notice;
mod prepare;
mod restore;
mod run;
mod signal;
mod sinks;
mod strategy;
mod summary;
mod upload;

pub use crate::dataflow::{OwnMetrics, Pauses};
pub use inspect::{ComponentInspection, Inspection, inspect};
pub use notice::{Notice, Observer};
pub use prepare::{OperatorReport, Report, SourceReport};
pub use run::{Options, run, validate};
pub use summary::{FailedAttempt, NodeTotals, Outcome, Progress, Restored, Summary};
