//! `serve`: the host as a service, until a signal ends it.

use std::sync::Arc;

use super::args::{Output, ServeArgs};
use super::console;
use crate::api::Serving;
use crate::error::{Error, Kind, Result};
use crate::job::{self, Signals};
use crate::service::Host;

/// Serves until the first signal, then has all jobs take a last checkpoint. A second signal ends the process at once.
pub(super) fn serve(args: &ServeArgs, output: Output) -> Result<u8> {
    let runtime = job::runtime()?;
    // In this order: where it can't listen, no job begins.
    let serving = runtime.block_on(async { Serving::listen(args.listen) })?;
    let host = Host::open(&args.data_dir, runtime.handle().clone())?;
    let address = format!("http://{}", serving.address()?);
    console::say(&format!("serving on {address}"));
    if output == Output::Json {
        console::print(&serde_json::json!({ "address": address }).to_string())?;
    }
    runtime.block_on(async {
        let (mut signals, end) = (Signals::new()?, serving.end());
        let served = tokio::spawn(serving.run(Arc::clone(&host)));
        let first = signals.next().await;
        console::say("every job takes a last checkpoint; the signal once more ends the process at once");
        tokio::spawn(async move { std::process::exit(128 + signals.next().await) });
        tracing::info!("ending, by signal {first}");
        host.close().await;
        end();
        served.await.map_err(|panic| Error::new(Kind::Internal, format!("the REST interface panicked: {panic}")))?
    })?;
    Ok(0)
}
