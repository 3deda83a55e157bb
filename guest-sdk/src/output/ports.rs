//! [`Outputs`]: all outputs of an operator, as the macros and the driver see them.

use std::marker::PhantomData;

use super::{Buffer, KeyedOutput, Output};
use crate::bindings::descriptor::Port;
use crate::codec::Value;
use crate::key::{Key, MaybeKey, NoKey};
use crate::operator::Fields;
use crate::schema::Schema;
use crate::scope::Scope;

/// An output. `Same` is the operator's own key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no output",
    note = "outputs are `&mut Output<V>` and `&mut KeyedOutput<K, V>`, of values that can be read back: `V` borrows nothing"
)]
pub trait OutputPort: Sized {
    /// The key of its records.
    type Key<Same: MaybeKey>: MaybeKey;

    /// The value of its records.
    type Value: Value;

    /// Whether its records keep the key of the record at hand.
    const KEEPS_KEY: bool;

    /// A new one with its number, for an operator that is keyed or not.
    fn new(scope: &Scope, port: u32, keyed: bool) -> Self;

    /// Where its records gather.
    fn buffer(&mut self) -> &mut Buffer;
}

impl<V: Value> OutputPort for Output<V> {
    type Key<Same: MaybeKey> = Same;
    type Value = V;

    const KEEPS_KEY: bool = true;

    fn new(scope: &Scope, port: u32, keyed: bool) -> Self {
        Output { buffer: Buffer::new(scope, port), keyed, value: PhantomData }
    }

    #[inline]
    fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

impl<K: Key, V: Value> OutputPort for KeyedOutput<K, V> {
    type Key<Same: MaybeKey> = K;
    type Value = V;

    const KEEPS_KEY: bool = false;

    fn new(scope: &Scope, port: u32, _keyed: bool) -> Self {
        KeyedOutput { buffer: Buffer::new(scope, port), record: PhantomData }
    }

    #[inline]
    fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }
}

/// All outputs of an operator, in the order of their ports: `(first, (second, ()))`.
pub trait Outputs: Sized {
    /// The key of the first one's records.
    type Key<Same: MaybeKey>: MaybeKey;

    /// The value of the first one's records.
    type Value: Value;

    /// Adds what the descriptor says about them.
    fn describe<Same: MaybeKey>(names: &[&str], ports: &mut Vec<Port>);

    /// New ones, numbered from `first` on.
    fn new(scope: &Scope, first: u32, keyed: bool) -> Self;

    /// Does something with each.
    fn each(&mut self, work: &mut impl FnMut(&mut Buffer));
}

impl Outputs for () {
    type Key<Same: MaybeKey> = NoKey;
    type Value = ();

    fn describe<Same: MaybeKey>(_names: &[&str], _ports: &mut Vec<Port>) {}

    fn new(_scope: &Scope, _first: u32, _keyed: bool) -> Self {}

    #[inline]
    fn each(&mut self, _work: &mut impl FnMut(&mut Buffer)) {}
}

impl<First: OutputPort, Rest: Outputs> Outputs for (First, Rest) {
    type Key<Same: MaybeKey> = First::Key<Same>;
    type Value = First::Value;

    fn describe<Same: MaybeKey>(names: &[&str], ports: &mut Vec<Port>) {
        if let [name, rest @ ..] = names {
            ports.push(port::<First::Key<Same>>(name, First::Value::schema()));
            Rest::describe::<Same>(rest, ports);
        }
    }

    fn new(scope: &Scope, first: u32, keyed: bool) -> Self {
        (First::new(scope, first, keyed), Rest::new(scope, first + 1, keyed))
    }

    #[inline]
    fn each(&mut self, work: &mut impl FnMut(&mut Buffer)) {
        work(self.0.buffer());
        self.1.each(work);
    }
}

/// Refuses, when the operator is compiled, an output that keeps the key of the record at hand on an input whose records have none.
pub const fn sends_without_key<O: Fields, P: OutputPort>() {
    assert!(
        !(P::KEEPS_KEY && <O::Key as MaybeKey>::KEYED),
        "an `Output` sends records under the key of the record at hand, and those of a broadcast input have none: take a `KeyedOutput`"
    );
}

/// A descriptor's entry for a port whose records have the key `K`.
pub(crate) fn port<K: MaybeKey>(name: &str, value_schema: String) -> Port {
    let partitioning = if K::KEYED { "keyed" } else { "any" };
    let key_schema = K::schema_or_empty();
    Port { name: name.into(), partitioning: partitioning.into(), key_schema, value_schema, more: Vec::new() }
}
