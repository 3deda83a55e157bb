//! The one user of wasmtime.
