//! Records on their way into an operator.

use std::collections::BTreeMap;

use super::Record;
use crate::codec::EncodeAs;
use crate::column::{Batch, Column};
use crate::key::AsKey;

/// Bytes that are given to an operator as they are, to see what it does with values that are none of its input's type.
#[derive(Clone, Debug)]
pub struct Raw<T>(pub T);

impl<V, T: AsRef<[u8]>> EncodeAs<V> for Raw<T> {
    fn encode_as(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_ref());
    }
}

/// What can be given as the key of a record: what [`AsKey`] allows, or [`NoKey`](crate::NoKey).
pub trait AsInputKey<K> {
    /// The key's bytes.
    fn bytes(&self) -> Vec<u8>;

    /// Whether there is a key.
    const KEYED: bool;
}

impl AsInputKey<crate::NoKey> for crate::NoKey {
    fn bytes(&self) -> Vec<u8> {
        Vec::new()
    }

    const KEYED: bool = false;
}

impl<K: crate::Key, A: AsKey<K>> AsInputKey<K> for A {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_key(&mut bytes);
        bytes
    }

    const KEYED: bool = true;
}

/// Packs records into a batch, as the host does: each key once.
pub(super) fn pack<K2, K: AsInputKey<K2>, V2, V: EncodeAs<V2>>(records: impl IntoIterator<Item = Record<K, V>>) -> Batch {
    let mut batch = Batch { keys: Column::new(), key_of: Vec::new(), values: Column::new(), timestamps: Vec::new() };
    let mut known = BTreeMap::new();
    for Record { key, value, time } in records {
        if K::KEYED {
            let index = *known.entry(key.bytes()).or_insert_with_key(|bytes| {
                batch.keys.push(bytes);
                batch.keys.len() as u32 - 1
            });
            batch.key_of.push(index);
        }
        batch.values.push_with(|bytes| value.encode_as(bytes));
        batch.timestamps.extend(time);
    }
    let times = batch.timestamps.len();
    assert!(times == 0 || times == batch.values.len(), "of a batch either all records have an event time or none");
    batch
}
