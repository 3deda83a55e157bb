//! What an operator sends on: packed into columns, given to the host when enough has gathered and when the call ends.

mod buffer;
mod ports;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use crate::codec::{Encode, EncodeAs};
use crate::key::{AsKey, Key};
pub(crate) use buffer::Buffer;
use buffer::To;
pub(crate) use ports::port;
pub use ports::{OutputPort, Outputs, sends_without_key};

/// Records of `V` that keep the key of the record at hand, if the operator is keyed; so it can't be taken on a broadcast input of such an
/// operator.
///
/// What is sent leaves when the call ends. What a record has sent before its method fails never leaves.
#[derive(Debug)]
pub struct Output<V> {
    buffer: Buffer,
    keyed: bool,
    value: PhantomData<fn(V)>,
}

impl<V: Encode> Output<V> {
    /// Sends a record with the key and the event time of the record at hand: a `V`, a reference to one, or what [`EncodeAs`] allows in
    /// its place.
    #[inline]
    pub fn emit(&mut self, value: impl EncodeAs<V>) {
        let time = self.buffer.time();
        self.send(value, time);
    }

    /// Sends a record with an event time of its own, in milliseconds since the Unix epoch.
    #[inline]
    pub fn emit_at(&mut self, value: impl EncodeAs<V>, time: i64) {
        self.send(value, Some(time));
    }

    #[inline]
    fn send(&mut self, value: impl EncodeAs<V>, time: Option<i64>) {
        let to = if self.keyed { To::Current } else { To::Nobody };
        self.buffer.push(to, time, |bytes| value.encode_as(bytes));
    }
}

/// Records of `V` under keys `K` that the operator gives.
///
/// What is sent leaves when the call ends. What a record has sent before its method fails never leaves.
#[derive(Debug)]
pub struct KeyedOutput<K, V> {
    buffer: Buffer,
    record: PhantomData<fn(K, V)>,
}

impl<K: Key, V: Encode> KeyedOutput<K, V> {
    /// Sends a record under `key`, with the event time of the record at hand. The key may be a `K`, a reference to one, what [`AsKey`]
    /// allows in its place, or [`Meta::same_key`](crate::Meta::same_key); the value as in [`Output::emit`].
    #[inline]
    pub fn emit(&mut self, key: impl AsKey<K>, value: impl EncodeAs<V>) {
        let time = self.buffer.time();
        self.send(key, value, time);
    }

    /// Sends a record under `key` with an event time of its own, in milliseconds since the Unix epoch.
    #[inline]
    pub fn emit_at(&mut self, key: impl AsKey<K>, value: impl EncodeAs<V>, time: i64) {
        self.send(key, value, Some(time));
    }

    #[inline]
    fn send(&mut self, key: impl AsKey<K>, value: impl EncodeAs<V>, time: Option<i64>) {
        let to = match key.known() {
            Some(_) if self.buffer.takes_known() => To::Current,
            _ => To::Fresh(|bytes: &mut Vec<u8>| key.write_key(bytes)),
        };
        self.buffer.push_to(to, time, |bytes| value.encode_as(bytes));
    }
}
