//! `serve`: the host as a service, until a signal ends it.

use std::sync::Arc;

use super::args::{Output, ServeArgs};
use super::{console, descriptors};
use crate::api::{Guard, Listen, Serving};
use crate::error::{Error, Kind, Result};
use crate::job::{self, Signals};
use crate::service::{Host, LogReader};

/// Serves until the first signal, then has all jobs take a last checkpoint. A second signal ends the process at once.
pub(super) fn serve(args: &ServeArgs, log: LogReader, output: Output) -> Result<u8> {
    descriptors::allow_all();
    let runtime = job::runtime()?;
    // In this order: where it can't listen, no job begins.
    let listen = Listen { address: args.listen, guard: Guard::new(args.token.read()?.as_deref()), tls: args.tls.clone().both() };
    let serving = runtime.block_on(Serving::listen(listen))?;
    // Before jobs begin, so that they are stopped as they should be.
    let mut signals = runtime.block_on(async { Signals::new() })?;
    // Once, so that no job begins with other settings than those before it, or fails for good because the file is being changed.
    let host = Host::open(&args.data_dir, args.host_file.read()?, log)?;
    let address = serving.address()?;
    console::say(&format!("serving on {address}"));
    if output == Output::Json {
        console::print(&serde_json::json!({ "address": address }).to_string())?;
    }
    let ended = runtime.block_on(async {
        let end = serving.end();
        let served = tokio::spawn(serving.run(Arc::clone(&host)));
        let first = signals.next().await;
        console::say("every job takes a last checkpoint; the signal once more ends the process at once");
        tokio::spawn(async move { std::process::exit(128 + signals.next().await) });
        tracing::info!("ending, by signal {first}");
        let (closing, limit) = (Arc::clone(&host), args.stop_timeout);
        let closed = tokio::task::spawn_blocking(move || closing.close(limit)).await.map_err(panicked)?;
        end();
        served.await.map_err(panicked)??;
        closed
    });
    // Whoever still waits for a job that does not end, such as for the answer to a swap, is not waited for.
    runtime.shutdown_background();
    ended.map(|()| 0)
}

fn panicked(panic: tokio::task::JoinError) -> Error {
    Error::new(Kind::Internal, format!("the host panicked: {panic}"))
}
