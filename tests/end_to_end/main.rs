//! End-to-end tests: real jobs, through the binary, on real files. Each compares what comes out with an oracle of its own.
//!
//! They wait for what happens (a line of output, a committed checkpoint), never for time. What is random comes from a fixed seed,
//! which is printed.

#[cfg(test)]
mod harness;

#[cfg(test)]
mod aborted;
#[cfg(test)]
mod between;
#[cfg(test)]
mod broken_checkpoint;
#[cfg(test)]
mod broken_job;
#[cfg(test)]
mod compiled;
#[cfg(test)]
mod components;
#[cfg(test)]
mod cycle;
#[cfg(test)]
mod degraded;
#[cfg(test)]
mod disk_full;
#[cfg(test)]
mod disk_state;
#[cfg(test)]
mod disposal;
#[cfg(test)]
mod endurance;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod evolve;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod flights;
#[cfg(test)]
mod formats;
#[cfg(test)]
mod from;
#[cfg(test)]
mod full;
#[cfg(test)]
mod generator;
#[cfg(test)]
mod graphs;
#[cfg(test)]
mod host_access;
#[cfg(test)]
mod host_end;
#[cfg(test)]
mod host_file;
#[cfg(test)]
mod host_jobs;
#[cfg(test)]
mod host_paths;
#[cfg(test)]
mod host_schema;
#[cfg(test)]
mod in_memory;
#[cfg(test)]
mod inline;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod local_recovery;
#[cfg(test)]
mod maps;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod merging;
#[cfg(test)]
mod misbehave;
#[cfg(test)]
mod misfit;
#[cfg(test)]
mod model;
#[cfg(test)]
mod mortal;
#[cfg(test)]
mod of_ended;
#[cfg(test)]
mod on_cancel;
#[cfg(test)]
mod operator_state;
#[cfg(test)]
mod ports;
#[cfg(test)]
mod push;
#[cfg(test)]
mod rescale;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod s3;
#[cfg(test)]
mod s3_costs;
#[cfg(test)]
mod s3_faults;
#[cfg(test)]
mod s3_fencing;
#[cfg(test)]
mod s3_reached;
#[cfg(test)]
mod savepoint;
#[cfg(test)]
mod savepoint_faults;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod stdout;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod sums;
#[cfg(test)]
mod swap;
#[cfg(test)]
mod swap_flights;
#[cfg(test)]
mod swap_migrating;
#[cfg(test)]
mod swap_told;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod teardown;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod unfinished;
