//! The program `cofferdam`.

use std::process::ExitCode;

/// Guests' batches make many allocations of all sizes on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cofferdam::cli::main()
}
