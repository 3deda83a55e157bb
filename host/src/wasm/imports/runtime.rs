//! `runtime`: what surrounds an operator, its log, its metrics, and its last words.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, WasmStr};

use crate::clock;
use crate::wasm::failure::{Misuse, Panicked, one_line};
use crate::wasm::guest::{Guest, Phase};
use crate::wasm::metrics::Reading;

type Store<'a> = StoreContextMut<'a, Guest>;

const RUNNING: &[Phase] =
    &[Phase::Open, Phase::Process, Phase::Finish, Phase::Snapshot, Phase::CheckpointComplete, Phase::CheckpointAborted, Phase::Close];

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("cofferdam:operator/runtime@0.1.0")?;
    interface.func_wrap("context", |store: Store<'_>, (): ()| {
        store.data().allow_in(RUNNING, "runtime.context")?;
        Ok((Arc::clone(&store.data().context),))
    })?;
    interface.func_wrap("config", |store: Store<'_>, (): ()| {
        store.data().allow_in(RUNNING, "runtime.config")?;
        Ok((Arc::clone(&store.data().config),))
    })?;
    interface.func_wrap("processing-time", |store: Store<'_>, (): ()| {
        store.data().allow_in(RUNNING, "runtime.processing-time")?;
        Ok((clock::wall_ms(),))
    })?;
    interface.func_wrap("log", log)?;
    interface.func_wrap("count", count)?;
    interface.func_wrap("gauge", gauge)?;
    interface.func_wrap("panicked", panicked)
}

fn log(store: Store<'_>, (level, message): (u8, WasmStr)) -> wasmtime::Result<()> {
    const NAME: &str = "runtime.log";
    let guest = store.data();
    guest.allow_in(RUNNING, NAME)?;
    if level > 4 {
        return Err(Misuse(format!("{NAME}: there is no level {level}; 4 is the highest")).into());
    }
    let message = message.to_str(&store)?;
    guest.log.line(level, &message);
    Ok(())
}

fn count(store: Store<'_>, (metric, by): (WasmStr, u64)) -> wasmtime::Result<()> {
    change(&store, &metric, Reading::Counter(by), "runtime.count")
}

fn gauge(store: Store<'_>, (metric, value): (WasmStr, f64)) -> wasmtime::Result<()> {
    change(&store, &metric, Reading::Gauge(value), "runtime.gauge")
}

fn change(store: &Store<'_>, metric: &WasmStr, by: Reading, function: &str) -> wasmtime::Result<()> {
    store.data().allow_in(RUNNING, function)?;
    store.data().count_metric(&metric.to_str(store)?, by, function)
}

/// Allowed in every call, `describe` included. The call ends here: the trap that would follow costs a signal.
fn panicked(mut store: Store<'_>, (record, message): (Option<u32>, WasmStr)) -> wasmtime::Result<()> {
    let message = one_line(&message.to_str(&store)?);
    let guest = store.data_mut();
    let records = if guest.phase == Phase::Process { guest.call.len() } else { 0 };
    let record = record.map(|record| record as usize).filter(|&record| record < records);
    guest.panicked = Some((record, message));
    Err(Panicked.into())
}
