//! The one user of wasmtime: compiles components, checks them against what the host offers, and runs instances of them, one per
//! subtask. Synchronous: a call into a guest is a function call on the caller's thread, and state is reached on the same thread.
//!
//! An instance is a cache: what must survive, its state and outputs, is lent to it and handed back when it ends, however it ends.

mod cache;
mod call;
mod component;
mod describe;
mod engine;
mod failure;
mod guest;
mod imports;
mod instance;
mod limits;
mod log;
mod metrics;
mod migrator;
mod ports;
mod signature;
mod wasi;
mod wire;
mod world;

pub use component::Component;
pub use engine::Engine;
pub use failure::{Cause, Failure, Rejected};
pub use instance::{Context, Instance, Unopened};
pub use limits::{Interrupt, Limit, PROBE_TIME};
pub use log::GuestLog;
pub use metrics::{GuestMetrics, Reading};
pub use migrator::Migrator;

#[cfg(test)]
mod tests;
