//! How values become bytes: text and bytes as they are, everything else as postcard.

mod json;
mod std_types;
#[cfg(test)]
mod tests;
pub(crate) mod varint;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::column::append;
use crate::schema::{Schema, Structure};

pub use json::Json;

/// A value that can be written: `#[record]` and `#[derive(Schema)]` implement it.
pub trait Encode: Schema {
    /// Appends the value to `out`.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A value that can be read, and may borrow from the bytes: `#[record]` and `#[derive(Schema)]` implement it.
pub trait Decode<'de>: Schema + Sized {
    /// The value that `bytes` are, all of them.
    ///
    /// # Errors
    /// Why they are no such value.
    fn decode(bytes: &'de [u8]) -> Result<Self, Malformed>;
}

/// A value that can be kept in state: written, and read without borrowing.
pub trait Value: Encode + for<'de> Decode<'de> + 'static {}

impl<T: Encode + for<'de> Decode<'de> + 'static> Value for T {}

/// What can be given where a `V` is to be written: a `V`, a reference to one, and for text and bytes also borrowed ones and
/// `format_args!`, so that nothing has to be built only to be written.
#[diagnostic::on_unimplemented(message = "`{Self}` can't be written as `{V}`")]
pub trait EncodeAs<V> {
    /// Appends the value to `out`.
    fn encode_as(&self, out: &mut Vec<u8>);
}

impl<V: Encode> EncodeAs<V> for V {
    #[inline]
    fn encode_as(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl<V: Encode> EncodeAs<V> for &V {
    #[inline]
    fn encode_as(&self, out: &mut Vec<u8>) {
        (*self).encode(out);
    }
}

impl EncodeAs<String> for &str {
    #[inline]
    fn encode_as(&self, out: &mut Vec<u8>) {
        append(out, self.as_bytes());
    }
}

impl EncodeAs<String> for fmt::Arguments<'_> {
    fn encode_as(&self, out: &mut Vec<u8>) {
        // Writing to memory fails only if a `Display` says so; what it wrote before stands.
        let _ = std::io::Write::write_fmt(out, *self);
    }
}

impl<T: Schema + Serialize> EncodeAs<Vec<T>> for &[T]
where
    Vec<T>: Encode,
{
    #[inline]
    fn encode_as(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

/// Bytes that are not a value of the type that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The type's schema.
    pub schema: String,
    /// What is wrong.
    pub reason: String,
}

impl Malformed {
    /// Bytes that are not a `T`, because of `reason`.
    #[cold]
    pub fn new<T: Schema + ?Sized>(reason: impl fmt::Display) -> Self {
        Malformed { schema: T::schema(), reason: reason.to_string() }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not {}: {}", self.schema, self.reason)
    }
}

impl std::error::Error for Malformed {}

/// Where postcard puts what it writes.
struct Appender<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Appender<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        append(self.0, bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Appends `value` as postcard.
///
/// # Panics
/// If its `Serialize` fails, which derived ones never do.
#[inline]
pub fn write_postcard<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    if let Err(error) = postcard::serialize_with_flavor(value, Appender(out)) {
        panic!("{} can't be written: {error}", std::any::type_name::<T>());
    }
}

/// Reads `bytes`, all of them, as postcard.
///
/// # Errors
/// Why they are no `T`.
#[inline]
pub fn read_postcard<'de, T: Deserialize<'de> + Schema>(bytes: &'de [u8]) -> Result<T, Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(left_over::<T>(rest.len())),
        Err(error) => Err(Malformed { schema: format!("postcard:{}", Structure::of::<T>()), reason: error.to_string() }),
    }
}

/// Bytes that go on after the value.
#[cold]
fn left_over<T: Schema>(count: usize) -> Malformed {
    Malformed::new::<T>(format_args!("{count} bytes too many"))
}
