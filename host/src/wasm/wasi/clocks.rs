//! `wasi:clocks`: the host's clocks, read where everything reads them.

use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant, UNIX_EPOCH};

use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use super::Wasi;
use crate::clock;

const NANOSECOND: Duration = Duration::from_nanos(1);

/// Ready from a moment on; without one, never.
struct Alarm(Option<Instant>);

impl Pollable for Alarm {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let at = self.0;
        Box::pin(std::future::poll_fn(move |_| if at.is_some_and(|at| clock::now() >= at) { Poll::Ready(()) } else { Poll::Pending }))
    }
}

impl Wasi {
    fn alarm(&mut self, at: Option<Instant>) -> wasmtime::Result<Resource<DynPollable>> {
        let alarm = self.table.push(Alarm(at))?;
        subscribe(&mut self.table, alarm)
    }
}

impl monotonic_clock::Host for Wasi {
    fn now(&mut self) -> wasmtime::Result<u64> {
        let since = clock::now().duration_since(self.started);
        Ok(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(1)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.alarm(self.started.checked_add(Duration::from_nanos(when)))
    }

    fn subscribe_duration(&mut self, duration: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.alarm(clock::now().checked_add(Duration::from_nanos(duration)))
    }
}

impl wall_clock::Host for Wasi {
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        let since = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(datetime(since))
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(datetime(NANOSECOND))
    }
}

fn datetime(since: Duration) -> wall_clock::Datetime {
    wall_clock::Datetime { seconds: since.as_secs(), nanoseconds: since.subsec_nanos() }
}
