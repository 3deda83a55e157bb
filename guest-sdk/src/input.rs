//! [`InputPort`]: an input as the macros tell of it, and how its values are read.

use crate::bindings::descriptor::Port;
use crate::codec::{Decode, Malformed};
use crate::error::{Error, Result};
use crate::key::{MaybeKey, NoKey};
use crate::output::port;

/// An input, made of a method that is marked `#[input]`.
#[derive(Debug)]
pub struct InputPort {
    /// Its name in job files.
    pub name: &'static str,
    /// Tells its values' schema.
    pub value_schema: fn() -> String,
    /// Whether every subtask gets every record.
    pub broadcast: bool,
    /// The broadcast input that has to end before this one begins.
    pub waits_for: Option<&'static str>,
}

impl InputPort {
    /// A descriptor's entry, of an operator that is keyed by `K`.
    pub(crate) fn describe<K: MaybeKey>(&self) -> Port {
        let schema = (self.value_schema)();
        let mut described = if self.broadcast { port::<NoKey>(self.name, schema) } else { port::<K>(self.name, schema) };
        if self.broadcast {
            described.partitioning = "broadcast".into();
        }
        described.more.extend(self.waits_for.map(|name| ("waits-for".into(), name.into())));
        described
    }
}

/// Reads a record's value for an input method.
///
/// # Errors
/// Why it is no `T`.
#[inline]
pub fn input<'de, T: Decode<'de>>(bytes: &'de [u8]) -> Result<T> {
    T::decode(bytes).map_err(bad_value)
}

#[cold]
fn bad_value(error: Malformed) -> Error {
    Error::new(format_args!("the value is {error}"))
}
