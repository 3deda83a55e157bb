//! `wasi:cli/stdout` and `stderr`: what a guest prints becomes lines of the log. And `wasi:cli/exit`, which ends the call.

use std::pin::Pin;

use bytes::Bytes;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::cli::{exit, stderr, stdout};
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamResult};

use super::Wasi;
use crate::wasm::failure::Exit;
use crate::wasm::log::{GuestLog, INFO, WARN};

/// Bytes of a line that is still open; more are cut off.
const LINE_BYTES: usize = 4096;
/// Bytes that a guest may print at once.
const WRITE_BYTES: usize = 64 << 10;

/// A stream into the log.
struct Console {
    log: GuestLog,
    level: u8,
    line: Vec<u8>,
}

impl Console {
    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        if !text.trim().is_empty() {
            self.log.line(self.level, &text);
        }
        self.line.clear();
    }
}

impl OutputStream for Console {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_BYTES - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

impl Pollable for Console {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(()))
    }
}

/// A line that has no end is still said.
impl Drop for Console {
    fn drop(&mut self) {
        self.end_line();
    }
}

impl Wasi {
    fn console(&mut self, level: u8) -> wasmtime::Result<Resource<DynOutputStream>> {
        let console: DynOutputStream = Box::new(Console { log: self.log.clone(), level, line: Vec::new() });
        Ok(self.table.push(console)?)
    }
}

impl stdout::Host for Wasi {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.console(INFO)
    }
}

impl stderr::Host for Wasi {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.console(WARN)
    }
}

impl exit::Host for Wasi {
    fn exit(&mut self, status: Result<(), ()>) -> wasmtime::Result<()> {
        self.exit_with_code(u8::from(status.is_err()))
    }

    fn exit_with_code(&mut self, code: u8) -> wasmtime::Result<()> {
        Err(Exit(code).into())
    }
}
