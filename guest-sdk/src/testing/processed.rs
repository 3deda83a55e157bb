//! What came of a call: records, rejections, or its failure.

use std::fmt;

use super::Record;
use crate::backend::memory::Emitted;
use crate::bindings::descriptor::Port;
use crate::codec::Decode;
use crate::key::MaybeKey;

/// A record that the operator refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place among the records that were given, from 0 on.
    pub record: usize,
    /// Why.
    pub message: String,
}

/// What came of some records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processed<K, V> {
    /// What the operator sent on its output, in order; of several, on the first: see [`side`](Self::side) for the others.
    pub records: Vec<Record<K, V>>,
    /// What it refused.
    pub rejected: Vec<Rejected>,
    pub(super) sides: Vec<Side>,
}

/// What was sent on an output other than the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    name: String,
    key_schema: String,
    value_schema: String,
    pub(super) records: Vec<Emitted>,
}

impl Side {
    pub(super) fn new(port: &Port) -> Self {
        let Port { name, key_schema, value_schema, .. } = port.clone();
        Side { name, key_schema, value_schema, records: Vec::new() }
    }
}

impl<K: MaybeKey, V: for<'de> Decode<'de>> Record<K, V> {
    /// A record that was sent.
    pub(super) fn read(Emitted { key, value, time, .. }: &Emitted) -> Self {
        let key = MaybeKey::read(key).unwrap_or_else(|error| panic!("the operator sent a key that is {error}"));
        let value = V::decode(value).unwrap_or_else(|error| panic!("the operator sent a value that is {error}"));
        Record { key, value, time: *time }
    }
}

impl<K, V> Processed<K, V> {
    /// What the operator sent on the output of this name, which is not its first: records of `U` under keys `T`,
    /// which is [`NoKey`](crate::NoKey) if they have none.
    ///
    /// # Panics
    /// If there is no such output, or it carries other keys or values.
    pub fn side<T: MaybeKey, U: for<'de> Decode<'de>>(&self, output: &str) -> Vec<Record<T, U>> {
        let Some(side) = self.sides.iter().find(|side| side.name == output) else {
            let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
            panic!("there is no output `{output}` beside the first; there are: {}", names.join(", "));
        };
        let (has, asked) = ((&side.key_schema, &side.value_schema), (&T::schema_or_empty(), &U::schema()));
        assert_eq!(has, asked, "output `{output}` carries other keys or values");
        side.records.iter().map(Record::read).collect()
    }

    /// Adds what came of more records. So many were given before them.
    pub(super) fn append(&mut self, mut more: Self, before: usize) {
        more.rejected.iter_mut().for_each(|rejected| rejected.record += before);
        self.records.append(&mut more.records);
        self.rejected.append(&mut more.rejected);
        self.sides.iter_mut().zip(&mut more.sides).for_each(|(side, more)| side.records.append(&mut more.records));
    }
}

impl<K: Clone, V: Clone> Processed<K, V> {
    /// The values that were sent.
    pub fn values(&self) -> Vec<V> {
        self.records.iter().map(|record| record.value.clone()).collect()
    }

    /// The keys and values that were sent.
    pub fn pairs(&self) -> Vec<(K, V)> {
        self.records.iter().map(|record| (record.key.clone(), record.value.clone())).collect()
    }
}

/// Why a call failed as a whole. The batch is undone and the instance replaced, as the host would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `finish` or `snapshot` returned this error, or a record of a broadcast input was rejected with it.
    Error(String),
    /// The operator panicked.
    Panic {
        /// While working on which record, of those that were given, from 0 on; none: on no record.
        record: Option<usize>,
        /// What it said.
        message: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(message) => f.write_str(message),
            Failure::Panic { record: Some(record), message } => write!(f, "panic on record {record}: {message}"),
            Failure::Panic { record: None, message } => write!(f, "panic: {message}"),
        }
    }
}

impl std::error::Error for Failure {}
