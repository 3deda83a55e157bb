//! WASI, closed: everything that components of `wasm32-wasip2` import through their standard library links, and sees nothing. No
//! files, no sockets, no arguments, an empty standard input, and no environment but what the job grants; standard output and error go
//! to the log; clocks are the host's; random numbers are seeded.
//!
//! What could block is ours. wasmtime-wasi would wait within a runtime of its own, where neither the guest's time limit nor anything
//! else reaches; and where nothing needs waiting for, a runtime is not needed at all.

mod clocks;
mod console;
mod io;
mod random;

use std::time::Instant;

use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p2::bindings;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::guest::Guest;
use super::limits::Deadline;
use super::log::GuestLog;
use crate::clock;
use crate::plan::Variable;

/// An instance's part of WASI.
pub(super) struct Wasi {
    /// Ends waiting.
    pub(super) deadline: Deadline,
    /// For what is closed: nothing is granted in it but the environment.
    closed: WasiCtx,
    table: ResourceTable,
    log: GuestLog,
    /// The zero of the monotonic clock.
    started: Instant,
    seed: u64,
    drawn: u64,
}

/// Entries of the table of streams, pollables and the like.
const RESOURCES: usize = 4096;

impl Wasi {
    pub(super) fn new(log: GuestLog, environment: &[Variable], deadline: Deadline, seed: u64) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES);
        let mut closed = WasiCtx::builder();
        closed.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        for Variable { name, value } in environment {
            closed.env(name, value.as_deref().unwrap_or_default());
        }
        let closed = closed.build();
        Wasi { deadline, closed, table, log, started: clock::now(), seed, drawn: 0 }
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi.closed, table: &mut self.wasi.table }
    }
}

/// Offers all of it.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    add_ours(linker)?;
    add_closed(linker)
}

/// What does something.
fn add_ours(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    type Ours = HasSelf<Wasi>;
    bindings::sync::io::poll::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::sync::io::streams::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::io::error::add_to_linker::<_, HasSelf<ResourceTable>>(linker, |guest| &mut guest.wasi.table)?;
    bindings::clocks::monotonic_clock::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::clocks::wall_clock::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::random::random::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::random::insecure::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::random::insecure_seed::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::cli::exit::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::cli::stdout::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)?;
    bindings::cli::stderr::add_to_linker::<_, Ours>(linker, |guest| &mut guest.wasi)
}

/// What is there and holds nothing, or what is granted.
fn add_closed(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    bindings::cli::environment::add_to_linker::<_, WasiCli>(linker, Guest::cli)?;
    bindings::cli::stdin::add_to_linker::<_, WasiCli>(linker, Guest::cli)?;
    bindings::cli::terminal_input::add_to_linker::<_, WasiCli>(linker, Guest::cli)?;
    bindings::cli::terminal_output::add_to_linker::<_, WasiCli>(linker, Guest::cli)?;
    bindings::cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, Guest::cli)?;
    bindings::cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, Guest::cli)?;
    bindings::cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, Guest::cli)?;
    bindings::filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, Guest::filesystem)?;
    bindings::sync::filesystem::types::add_to_linker::<_, WasiFilesystem>(linker, Guest::filesystem)?;
    bindings::sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, Guest::sockets)?;
    let options = bindings::sync::LinkOptions::default();
    bindings::sockets::network::add_to_linker::<_, WasiSockets>(linker, &(&options).into(), Guest::sockets)?;
    bindings::sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, Guest::sockets)?;
    bindings::sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, Guest::sockets)?;
    bindings::sync::sockets::tcp::add_to_linker::<_, WasiSockets>(linker, Guest::sockets)?;
    bindings::sync::sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, Guest::sockets)?;
    bindings::sync::sockets::udp::add_to_linker::<_, WasiSockets>(linker, Guest::sockets)
}
