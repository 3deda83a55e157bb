//! Jobs: preparing one, beginning an attempt from a checkpoint, running it to its end. The asynchronous shell around the synchronous
//! dataflow.

mod attempt;
mod begin;
mod checkpoints;
mod commit;
mod controller;
mod cycle;
mod inspect;
mod migrate;
mod notice;
mod order;
mod patience;
mod prepare;
mod restore;
mod run;
mod signal;
mod sinks;
mod states;
mod strategy;
mod summary;
mod swap;
mod trouble;
mod upload;
mod versions;

pub use crate::checkpoint::listing::{Broken, Listed, Listing};
pub use crate::checkpoint::manifest::{ComponentFacts, Fate};
pub use crate::dataflow::{Metrics, OwnMetrics, Pauses};
pub use attempt::{attempts, newest_attempt};
pub use checkpoints::{checkpoints, checkpoints_in};
pub use inspect::{ComponentInspection, Inspection, inspect};
pub use notice::{Notice, Observer, in_seconds};
pub use order::{End, Order};
pub use prepare::{OperatorReport, Prepared, Report, SourceReport, cache_dir};
pub use run::{Options, block_on, run, runtime, validate};
pub use signal::Signals;
pub use summary::{FailedAttempt, Health, NodeTotals, Outcome, Progress, Restored, Summary};
pub use swap::{Resumed, StateFate, StateReport, SwapOutcome, SwapReply, SwapReport, SwapRequest, WayBack};
