//! Running a job in the foreground: from a plan to its summary.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::error::{Error, Kind, Result};
use crate::plan::Plan;
use crate::record::AttemptId;
use crate::wasm::{Engine, Interrupt};

use super::attempt::attempts;
use super::prepare::{Prepared, Report, cache_dir};
use super::signal::Signals;
use super::{End, Observer, Order, Resumed, Summary};

/// How a run is to begin.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A new run without state, beside what is there.
    pub fresh: bool,
    /// The checkpoint to begin from: its number, or the path or URL of its manifest or of a savepoint. None: the newest of a run that has
    /// not finished.
    pub from: Option<String>,
    /// If the newest checkpoint is damaged, begin from the newest one that is whole.
    pub fallback: bool,
    /// Begin from an older checkpoint even if output of newer ones is published already.
    pub allow_duplicates: bool,
    /// The newest attempt when this was asked for, see [`super::newest_attempt`]. If there is a newer one, it has begun as asked, and the job
    /// goes on from there, be it from its end. None: the job begins now.
    pub since: Option<AttemptId>,
    /// Nobody is there to mend what is wrong: an attempt that does not begin is followed by another like one that fails.
    pub unattended: bool,
    /// Leave out state of operators and sources that the job has no longer.
    pub allow_non_restored_state: bool,
    /// `from` is a savepoint, and belongs to the job from now on.
    pub claim: bool,
    /// A swap that the process before may have been in the middle of. `prepared` has the component before it.
    pub swap: Option<Resumed>,
    /// Ends the calls of guests before the job runs: it is cancelled, as an order tells as well.
    pub interrupt: Interrupt,
}

/// By how much threads that give way are nicer than workers, as the system counts that: they get a third of what those get.
#[cfg(target_os = "linux")]
const GIVEN_WAY: i32 = 5;

/// Loads and checks everything that a job needs, without touching anything of it.
///
/// # Errors
/// What is not in order.
pub fn validate(plan: &Plan) -> Result<Report> {
    Ok(Prepared::new(plan, &Engine::new(cache_dir())?, &Interrupt::default())?.report())
}

/// Runs a job in the foreground until its input has ended, it is stopped by SIGINT or SIGTERM, or it fails for good: an attempt that fails is followed by
/// another, from the newest checkpoint, as the job's restart strategy says. A second signal ends the process.
///
/// # Errors
/// What made it fail, with the job's name.
pub fn run(plan: &Plan, options: &Options, observer: Arc<dyn Observer>) -> Result<Summary> {
    let named = |error: Error| error.context(format!("job `{}`", plan.name));
    // Guests never run on the runtime's threads, and loading a component runs its `describe`.
    let engine = Engine::new(cache_dir())?;
    let prepared = Arc::new(Prepared::new(plan, &engine, &options.interrupt).map_err(named)?);
    let runtime = several().on_thread_start(give_way).build().map_err(no_runtime)?;
    runtime.block_on(async { attempts(prepared, options, observer, &mut listen()?).await }).map_err(named)
}

/// Waits here for what a job does, or what is to be known about one, on this thread alone.
///
/// # Errors
/// Kind `Internal` if there is nothing to wait with.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().on_thread_start(give_way).build();
    runtime.map_err(no_runtime)?.block_on(work)
}

/// What serves several at once, besides workers.
///
/// # Errors
/// Kind `Internal` if there are no threads for it.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    several().build().map_err(no_runtime)
}

fn several() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder
}

/// Has this thread give way to a job's workers where there are not enough processors for all: what is to be stored can wait for a moment, and
/// nobody should notice a barrier by it. Threads that it starts give way as well, so no worker may be one of them.
fn give_way() {
    // Elsewhere this would be about all threads of the process. Where it is not allowed, all are served alike.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, GIVEN_WAY);
}

fn no_runtime(error: std::io::Error) -> Error {
    Error::new(Kind::Internal, format!("no asynchronous runtime: {error}"))
}

/// Has the first signal stop the job; the second ends the process.
fn listen() -> Result<UnboundedReceiver<Order>> {
    let mut signals = Signals::new()?;
    let (orders, taken) = unbounded_channel();
    tokio::spawn(async move {
        // Nobody listens once the job has failed and only waits for its workers; the second signal counts all the same.
        orders.send(Order::End(End::Stop { signal: Some(signals.next().await) })).unwrap_or(());
        std::process::exit(128 + signals.next().await);
    });
    Ok(taken)
}
