//! What an operator sends on: packed into columns, given to the host when enough has gathered and when the call ends.

mod buffer;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

pub use crate::bindings::descriptor::Port;
use crate::codec::{Encode, EncodeAs, Value};
use crate::key::{AsKey, Key, MaybeKey, NoKey};
use crate::scope::Scope;
pub(crate) use buffer::Buffer;
use buffer::To;

/// Records of `V` that keep the key of the record at hand, if the operator is keyed.
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

/// In place of an output, of operators that have none.
#[derive(Debug)]
pub struct NoOutput(Buffer);

/// An output, or none, as the macros and the driver see it. `Same` is the operator's own key.
pub trait OutputPort: Sized {
    /// The key of its records.
    type Key<Same: MaybeKey>: MaybeKey;

    /// The value of its records.
    type Value: Value;

    /// What the descriptor says about it.
    fn describe<Same: MaybeKey>() -> Vec<Port>;

    /// A new one, for an operator that is keyed or not.
    fn new(scope: &Scope, keyed: bool) -> Self;

    /// Where its records gather.
    fn buffer(&mut self) -> &mut Buffer;
}

impl<V: Value> OutputPort for Output<V> {
    type Key<Same: MaybeKey> = Same;
    type Value = V;

    fn describe<Same: MaybeKey>() -> Vec<Port> {
        vec![port::<Same>("out", V::schema())]
    }

    fn new(scope: &Scope, keyed: bool) -> Self {
        Output { buffer: Buffer::new(scope), keyed, value: PhantomData }
    }

    #[inline]
    fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

impl<K: Key, V: Value> OutputPort for KeyedOutput<K, V> {
    type Key<Same: MaybeKey> = K;
    type Value = V;

    fn describe<Same: MaybeKey>() -> Vec<Port> {
        vec![port::<K>("out", V::schema())]
    }

    fn new(scope: &Scope, _keyed: bool) -> Self {
        KeyedOutput { buffer: Buffer::new(scope), record: PhantomData }
    }

    #[inline]
    fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

impl OutputPort for NoOutput {
    type Key<Same: MaybeKey> = NoKey;
    type Value = ();

    fn describe<Same: MaybeKey>() -> Vec<Port> {
        Vec::new()
    }

    fn new(scope: &Scope, _keyed: bool) -> Self {
        NoOutput(Buffer::new(scope))
    }

    #[inline]
    fn buffer(&mut self) -> &mut Buffer {
        &mut self.0
    }
}

/// A descriptor's entry for a port whose records have the key `K`.
pub(crate) fn port<K: MaybeKey>(name: &str, value_schema: String) -> Port {
    let partitioning = if K::KEYED { "keyed" } else { "any" };
    let key_schema = K::schema_or_empty();
    Port { name: name.into(), partitioning: partitioning.into(), key_schema, value_schema, more: Vec::new() }
}
