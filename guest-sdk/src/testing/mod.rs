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
mod input;
mod look;
#[cfg(test)]
mod port_tests;
mod processed;
mod restore;
mod snapshot;
#[cfg(test)]
mod tests;

pub use harness::Harness;
pub use input::{AsInputKey, Raw};
pub use processed::{Failure, Processed, Rejected};
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
