//! `wasi:random`: numbers that look random and follow from the seed of the subtask's attempt, so that a run can be repeated. Nothing
//! here is fit for secrets.

use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Wasi;
use crate::wasm::failure::Misuse;

/// Bytes that a guest may ask for at once.
const BYTES_AT_ONCE: u64 = 1 << 20;

impl Wasi {
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        xxh3_64_with_seed(&self.drawn.to_le_bytes(), self.seed)
    }

    fn draw_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        if len > BYTES_AT_ONCE {
            return Err(Misuse(format!("wasi:random: {len} bytes at once are more than {BYTES_AT_ONCE}")).into());
        }
        // At most a mebibyte.
        let len = len as usize;
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.draw().to_le_bytes());
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

impl random::Host for Wasi {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.draw_bytes(len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.draw())
    }
}

impl insecure::Host for Wasi {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.draw_bytes(len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.draw())
    }
}

impl insecure_seed::Host for Wasi {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.draw(), self.draw()))
    }
}
