//! The host as a service: a data directory with components and jobs, each job with workers of its own, which come back when the host does.
//!
//! What a user has asked for is written down, durably, before it is done; so after a crash each command either has happened, and is gone
//! on with, or has not. Everything here blocks: callers are on threads that may wait.

mod components;
mod data_dir;
mod deployment;
mod disposals;
mod event;
mod host;
mod job;
mod journal;
mod life;
mod log;
mod savepoints;
mod state;
mod swap;
mod unfinished;
mod view;
mod watcher;

pub use components::Kept;
pub use deployment::Ended;
pub use event::{Event, Happened};
pub use host::{Deploy, Host, Swap};
pub use journal::Entry;
pub use log::{Log, LogLine, LogReader};
pub use savepoints::SavepointWanted;
pub use state::{Fault, JobState};
pub use swap::{Intended, SwapCounts, TakenBack};
pub use view::{
    CheckpointHealth, DisposalOperation, DisposalView, JobDetails, JobOverview, NodeView, Operation, OperatorComponent, SavepointView,
    Status, StatusId,
};
