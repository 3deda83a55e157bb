//! Cofferdam: a job host for stateful stream operators compiled to WebAssembly components.
//!
//! The guest holds the logic; the host holds everything that must survive: the dataflow, the state, the barriers, the snapshots and
//! the restarts. `ARCHITECTURE.md` in the repository has the map. Modules stand in rows, each using only the rows above it; a test
//! keeps that.

// Row 1: what everything else speaks.
pub mod clock;
pub mod codec;
pub mod durable;
pub mod error;
pub mod record;
pub mod telemetry;
pub mod threads;
pub mod tls;

// Row 2: plain data and pure decisions.
pub mod config;
pub mod plan;
pub mod state;

// Row 3: the outside world, each part on its own.
pub mod checkpoint;
pub mod cold;
pub mod connectors;
pub mod wasm;

// Row 4: the engine.
pub mod dataflow;

// Row 5: jobs, and many of them in a host.
pub mod job;
pub mod service;

// Row 6: the host's REST interface.
pub mod api;

// Row 7: the command line.
pub mod cli;
