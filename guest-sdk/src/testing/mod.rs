//! Runs an operator natively against state in memory: the operator's code, the SDK's cache and its encoding are those of the
//! component, and only the host is exchanged. So a plain `cargo test` covers an operator.
//!
//! ```
//! use cofferdam_sdk::prelude::*;
//! use cofferdam_sdk::testing::{Harness, keyed};
//!
//! #[operator(key = String)]
//! struct Total {
//!     sum: ReducingState<u64, Sum>,
//! }
//!
//! #[operator]
//! impl Total {
//!     #[input]
//!     fn amounts(&mut self, amount: &str) -> Result<()> {
//!         self.sum.add(amount.parse()?);
//!         Ok(())
//!     }
//!
//!     #[finish]
//!     fn totals(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
//!         out.emit(format_args!("{}: {}", meta.key(), self.sum.get().unwrap_or(0)));
//!         Ok(())
//!     }
//! }
//!
//! # fn main() {
//! let mut total = Harness::<Total>::new();
//! let result = total.process([keyed("a", "3"), keyed("b", "x"), keyed("a", "4")]).unwrap();
//! assert_eq!(result.rejected[0].record, 1);
//!
//! // As after a crash: what came after the snapshot is forgotten.
//! let snapshot = total.snapshot();
//! total.process([keyed("a", "100")]).unwrap();
//! total.restore(&snapshot);
//!
//! assert_eq!(total.value::<u64>("sum", "a"), Some(7));
//! assert_eq!(total.finish().unwrap().values(), ["a: 7"]);
//! # }
//! ```

mod harness;
mod snapshot;
#[cfg(test)]
mod tests;

use std::fmt;

pub use harness::{AsInputKey, Harness, Raw};
pub use snapshot::Snapshot;

use crate::key::NoKey;

/// A record that goes in or came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<K, V> {
    /// Its key, or [`NoKey`].
    pub key: K,
    /// Its value.
    pub value: V,
    /// Its event time in milliseconds since the Unix epoch, if it has one.
    pub time: Option<i64>,
}

impl<K, V> Record<K, V> {
    /// The record with this event time.
    pub fn at(self, time: i64) -> Self {
        Record { time: Some(time), ..self }
    }
}

/// A record for an operator that is not keyed.
pub fn value<V>(value: V) -> Record<NoKey, V> {
    Record { key: NoKey, value, time: None }
}

/// A record with a key.
pub fn keyed<K, V>(key: K, value: V) -> Record<K, V> {
    Record { key, value, time: None }
}

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
    /// What the operator sent, in order.
    pub records: Vec<Record<K, V>>,
    /// What it refused.
    pub rejected: Vec<Rejected>,
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
    /// `finish` returned this error.
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
