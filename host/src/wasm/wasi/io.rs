//! `wasi:io`: waiting and streams. Streams are always ready: standard input is empty, and the console takes everything. What a guest
//! can wait for is time, as in `thread::sleep`; that waits, like computing does, at most until its time limit.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wasmtime::Trap;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::io::poll as once;
use wasmtime_wasi::p2::bindings::sync::io::{poll, streams};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult};

use super::Wasi;

/// The first pause between two looks at what a guest waits for.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
/// The longest pause between two such looks: each is twice as long as the one before, up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

impl Wasi {
    /// Repeats `attempt` until it is ready, or the call is to end.
    fn wait<R>(&mut self, attempt: impl Fn(&mut ResourceTable) -> Poll<wasmtime::Result<R>>) -> wasmtime::Result<R> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Poll::Ready(result) = attempt(&mut self.table) {
                return result;
            }
            if self.deadline.is_over() {
                return Err(Trap::Interrupt.into());
            }
            std::thread::sleep(pause);
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}

/// Drives a future of wasmtime-wasi as far as it goes without waiting.
fn poll_once<R>(future: impl Future<Output = R>) -> Poll<R> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn borrow<T: 'static>(resource: &Resource<T>) -> Resource<T> {
    Resource::new_borrow(resource.rep())
}

impl poll::Host for Wasi {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        self.wait(|table| poll_once(once::Host::poll(table, pollables.iter().map(borrow).collect())))
    }
}

impl poll::HostPollable for Wasi {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        match poll_once(once::HostPollable::ready(&mut self.table, pollable)) {
            Poll::Ready(ready) => ready,
            Poll::Pending => Ok(false),
        }
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.wait(|table| poll_once(once::HostPollable::block(table, borrow(&pollable))))
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        once::HostPollable::drop(&mut self.table, pollable)
    }
}

impl streams::Host for Wasi {
    fn convert_stream_error(&mut self, error: StreamError) -> wasmtime::Result<streams::StreamError> {
        streams::Host::convert_stream_error(&mut self.table, error)
    }
}

impl streams::HostInputStream for Wasi {
    fn read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        streams::HostInputStream::read(&mut self.table, stream, len)
    }

    fn blocking_read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        self.read(stream, len)
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        streams::HostInputStream::skip(&mut self.table, stream, len)
    }

    fn blocking_skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        self.skip(stream, len)
    }

    fn subscribe(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        streams::HostInputStream::subscribe(&mut self.table, stream)
    }

    fn drop(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<()> {
        self.table.delete(stream)?;
        Ok(())
    }
}

impl streams::HostOutputStream for Wasi {
    fn check_write(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        streams::HostOutputStream::check_write(&mut self.table, stream)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        streams::HostOutputStream::write(&mut self.table, stream, bytes)
    }

    fn blocking_write_and_flush(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.write(stream, bytes)
    }

    fn flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        streams::HostOutputStream::flush(&mut self.table, stream)
    }

    fn blocking_flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        self.flush(stream)
    }

    fn subscribe(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<Resource<DynPollable>> {
        streams::HostOutputStream::subscribe(&mut self.table, stream)
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        streams::HostOutputStream::write_zeroes(&mut self.table, stream, len)
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        self.write_zeroes(stream, len)
    }

    fn splice(&mut self, to: Resource<DynOutputStream>, from: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        streams::HostOutputStream::splice(&mut self.table, to, from, len)
    }

    fn blocking_splice(&mut self, to: Resource<DynOutputStream>, from: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        self.splice(to, from, len)
    }

    fn drop(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<()> {
        self.table.delete(stream)?;
        Ok(())
    }
}
