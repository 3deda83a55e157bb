//! [`Engine`]: wasmtime with our settings, the host functions, and the thread that measures the guests' time. One per process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;

use wasmtime::Config;
use wasmtime::component::{Component, Linker};

use super::cache::Cache;
use super::guest::Guest;
use super::limits::{Deadline, Interrupt, STACK_BYTES, TICK, Ticks};
use super::{imports, wasi};
use crate::error::{Error, Kind, Result};

/// Compiles components and runs their instances. Clones share everything.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    wasmtime: wasmtime::Engine,
    linker: Linker<Guest>,
    cache: Option<Cache>,
    ticks: Ticks,
    _ticker: Ticker,
}

impl Engine {
    /// An engine that keeps compiled components in `cache_dir`, or nowhere if there is none. A directory that can't be used costs time
    /// at every start, so it is a warning and not an error.
    ///
    /// # Errors
    /// Kind `Internal` if the host's own functions don't fit together or a thread can't be started.
    pub fn new(cache_dir: Option<PathBuf>) -> Result<Engine> {
        let mut config = Config::new();
        // Instances don't run concurrently within a store; without support for it a call costs a third.
        config.concurrency_support(false);
        config.epoch_interruption(true);
        config.max_wasm_stack(STACK_BYTES);
        // In which function a guest has trapped is told, but not where in it, which would have to be looked for at each trap.
        config.generate_address_map(false);
        let wasmtime = wasmtime::Engine::new(&config).map_err(broken)?;
        let mut linker = Linker::new(&wasmtime);
        imports::add_to_linker(&mut linker).and_then(|()| wasi::add_to_linker(&mut linker)).map_err(broken)?;
        let ticks = Ticks::default();
        let ticker = Ticker::start(wasmtime.clone(), ticks.clone())?;
        Ok(Engine(Arc::new(Inner { wasmtime, linker, cache: cache_dir.and_then(open_cache), ticks, _ticker: ticker })))
    }

    /// Compiles the component in `bytes`, whose digest this is, unless it is in the cache.
    pub(super) fn compile(&self, bytes: &[u8], digest: &str) -> wasmtime::Result<Component> {
        let Inner { wasmtime, cache, .. } = &*self.0;
        if let Some(component) = cache.as_ref().and_then(|cache| cache.get(wasmtime, digest)) {
            return Ok(component);
        }
        let component = Component::from_binary(wasmtime, bytes)?;
        if let Some(cache) = cache {
            cache.put(wasmtime, digest, &component);
        }
        Ok(component)
    }

    pub(super) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.0.wasmtime
    }

    pub(super) fn linker(&self) -> &Linker<Guest> {
        &self.0.linker
    }

    /// For an instance whose calls can be interrupted so.
    pub(super) fn deadline(&self, interrupt: Interrupt) -> Deadline {
        Deadline::new(self.0.ticks.clone(), interrupt)
    }
}

fn broken(error: wasmtime::Error) -> Error {
    Error::new(Kind::Internal, format!("the Wasm engine can't be set up: {error:#}"))
}

fn open_cache(dir: PathBuf) -> Option<Cache> {
    let cache = Cache::open(&dir);
    let warn = |error: &std::io::Error| {
        let dir = dir.display();
        tracing::warn!("components are compiled at every start, because the cache directory {dir} can't be used: {error}");
    };
    cache.inspect_err(warn).ok()
}

/// Interrupts guests: while it lives, the engine's epoch and the ticks advance once per [`TICK`].
struct Ticker {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(engine: wasmtime::Engine, ticks: Ticks) -> Result<Ticker> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
                ticks.advance();
            }
        };
        let thread = std::thread::Builder::new()
            .name("guest-clock".into())
            .spawn(run)
            .map_err(|error| Error::new(Kind::Internal, format!("the thread that limits the guests' time can't be started: {error}")))?;
        Ok(Ticker { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It can't have panicked; and if it had, there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}
