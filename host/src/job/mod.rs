//! Jobs: preparing one, beginning an attempt from a checkpoint, running it to its end. The asynchronous shell around the synchronous
//! dataflow.

mod afterwards;
mod attempt;
mod begin;
#[cfg(test)]
mod begin_tests;
mod between;
mod checkpoints;
mod choice;
mod commit;
mod controller;
mod cycle;
mod discard;
mod fallback;
mod inside;
mod inspect;
mod local;
mod migrate;
mod notice;
mod order;
#[cfg(test)]
mod panic_tests;
mod patience;
mod prepare;
mod restore;
mod run;
mod savepoint;
mod settle;
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
pub use crate::checkpoint::paths::savepoint::is_trigger_id;
pub use crate::checkpoint::store::{Disposed, Saved};
pub use crate::dataflow::{Metrics, OwnMetrics, Pauses};
pub use crate::state::Usage;
pub use afterwards::{begins_from, clear_savepoint, find_savepoint, newest_component, savepoint_of_ended};
pub use attempt::{attempts, discard_cancelled, newest_attempt};
pub use checkpoints::{checkpoints, checkpoints_in};
pub use inside::{JobInside, dispose, savepoint_at};
pub use inspect::{ComponentInspection, Inspection, inspect};
pub use migrate::MigrationProgress;
pub use notice::{Notice, Observer, in_seconds};
pub use order::{End, Order, SavepointOrder, Then};
pub use prepare::{OperatorReport, Prepared, Report, SourceReport, cache_dir};
pub use run::{Options, block_on, run, runtime, validate};
pub use signal::Signals;
pub use summary::{FailedAttempt, Health, NodeTotals, Outcome, Progress, Restored, Summary};
pub use swap::{CheckReport, Resumed, StateFate, StateReport, SwapOutcome, SwapReply, SwapReport, SwapRequest, WayBack};
