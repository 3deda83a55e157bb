//! [`Context`] and [`Meta`]: what surrounds an operator, and what comes with a record.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::backend::Backend;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::key::{Key, NoKey, SameKey};

/// What surrounds an operator: handed to `open`.
#[derive(Debug)]
pub struct Context {
    facts: Vec<(String, String)>,
    config: String,
    backend: Backend,
}

impl Context {
    pub(crate) fn new(backend: &Backend) -> Self {
        Context { facts: backend.context(), config: backend.config(), backend: backend.clone() }
    }

    /// The operator's `config` from the job file as a `T`. A job without one has an empty table.
    ///
    /// # Errors
    /// If it is no `T`, with the setting's name.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T> {
        let json = match self.config.trim() {
            "" | "null" => "{}",
            json => json,
        };
        serde_json::from_str(json).map_err(|error| {
            // The JSON was made from the job file: a place in it tells nobody anything.
            let message = error.to_string();
            let message = message.rfind(" at line ").map_or(message.as_str(), |end| &message[..end]);
            Error::new(format_args!("config: {message}"))
        })
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        self.fact("job").unwrap_or_default()
    }

    /// The operator's uid in the job.
    pub fn operator(&self) -> &str {
        self.fact("operator").unwrap_or_default()
    }

    /// Which of the operator's instances this is, from 0 on.
    pub fn subtask(&self) -> u32 {
        self.number("subtask")
    }

    /// How many instances the operator has.
    pub fn parallelism(&self) -> u32 {
        self.number("parallelism")
    }

    /// How many instances it can ever have over this state.
    pub fn max_parallelism(&self) -> u32 {
        self.number("max-parallelism")
    }

    /// Which run of the job this is, from 1 on: a run begins without state, or with what was brought to it.
    pub fn run(&self) -> u32 {
        self.number("run")
    }

    /// Which attempt of the run this is, from 1 on: each restart is another.
    pub fn attempt(&self) -> u32 {
        self.number("attempt")
    }

    /// The checkpoint that state was restored from, if it was.
    pub fn restored_from(&self) -> Option<&str> {
        self.fact("restored-from")
    }

    /// Wall-clock time in milliseconds since the Unix epoch.
    pub fn processing_time(&self) -> i64 {
        self.backend.processing_time()
    }

    /// What else the host tells, by name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|fact| fact.0 == name).map(|fact| fact.1.as_str())
    }

    fn number(&self, name: &str) -> u32 {
        self.fact(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

/// What comes with a record beside its value: its key, if the operator is keyed by `K`, and its event time. In `finish`, the key that
/// it is called for.
pub struct Meta<'a, K = NoKey> {
    keys: &'a Column,
    key: u32,
    time: Option<i64>,
    backend: &'a Backend,
    of: PhantomData<fn() -> K>,
}

impl<'a, K> Meta<'a, K> {
    #[inline]
    pub(crate) fn new(keys: &'a Column, key: u32, time: Option<i64>, backend: &'a Backend) -> Self {
        Meta { keys, key, time, backend, of: PhantomData }
    }

    /// The record's event time in milliseconds since the Unix epoch, if the stream carries times.
    #[inline]
    pub fn time(&self) -> Option<i64> {
        self.time
    }

    /// The same, of a record that has no key though the operator has.
    #[doc(hidden)]
    #[inline]
    pub fn without_key(&self) -> Meta<'a> {
        Meta::new(self.keys, self.key, self.time, self.backend)
    }

    /// Wall-clock time in milliseconds since the Unix epoch: a call to the host each time.
    pub fn processing_time(&self) -> i64 {
        self.backend.processing_time()
    }
}

impl<'a, K: Key> Meta<'a, K> {
    /// The current key: `&str` if the operator is keyed by `String`.
    ///
    /// # Panics
    /// If the key's bytes are no `K`: something upstream has put them there past the SDK.
    #[inline]
    pub fn key(&self) -> K::Ref<'a> {
        match K::decode_key(self.bytes()) {
            Ok(key) => key,
            Err(error) => panic!("the record's key is {error}"),
        }
    }

    /// The current key, to be sent on by a [`KeyedOutput`](crate::KeyedOutput).
    #[inline]
    pub fn same_key(&self) -> SameKey<'a, K> {
        SameKey { index: self.key, bytes: self.bytes(), key: PhantomData }
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.keys.get(self.key as usize)
    }
}

impl<K> fmt::Debug for Meta<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta").field("key", &self.key).field("time", &self.time).finish()
    }
}
