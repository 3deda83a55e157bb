//! Keys and their encoding, which is the same in every language and keeps the order: `wit/keys.md` in the repository specifies it.

mod parts;
#[cfg(test)]
mod tests;

use crate::codec::Malformed;
use crate::column::append;
use crate::schema::Schema;

/// A type that records can be keyed by: text, bytes, whole numbers, `bool`, `()`, and tuples of these.
///
/// Two keys are equal exactly when their bytes are, and the bytes have the order of the values.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a key",
    note = "keys are String, Vec<u8>, bool, (), u8 to u128, i8 to i128, and tuples of two to four of these"
)]
pub trait Key: Schema + Clone + 'static {
    /// A key as it is read, borrowed where that saves an allocation: `&str` for `String`.
    type Ref<'a>;

    /// How many bytes each key takes, if all take the same.
    const WIDTH: Option<usize>;

    /// The schema of keys of this type. Keys are no postcard: it is the structure alone.
    fn key_schema() -> String {
        crate::schema::Structure::of::<Self>()
    }

    /// Appends the key.
    fn encode_key(&self, out: &mut Vec<u8>);

    /// The key that `bytes` are, all of them.
    ///
    /// # Errors
    /// Why they are no such key.
    fn decode_key(bytes: &[u8]) -> Result<Self::Ref<'_>, Malformed>;

    /// The key on its own.
    fn own(key: Self::Ref<'_>) -> Self;
}

/// What can be given where a `K` is to be written: a `K`, a reference to one, `&str` for `String`, `&[u8]` for `Vec<u8>`, and
/// [`Meta::same_key`](crate::Meta::same_key).
#[diagnostic::on_unimplemented(message = "`{Self}` can't be used as the key `{K}`")]
pub trait AsKey<K> {
    /// Appends the key.
    fn write_key(&self, out: &mut Vec<u8>);

    /// Its index among the keys of the call at hand, if it is one of them and that is known.
    #[doc(hidden)]
    #[inline]
    fn known(&self) -> Option<u32> {
        None
    }
}

impl<K: Key> AsKey<K> for K {
    #[inline]
    fn write_key(&self, out: &mut Vec<u8>) {
        self.encode_key(out);
    }
}

impl<K: Key> AsKey<K> for &K {
    #[inline]
    fn write_key(&self, out: &mut Vec<u8>) {
        self.encode_key(out);
    }
}

impl AsKey<String> for &str {
    #[inline]
    fn write_key(&self, out: &mut Vec<u8>) {
        append(out, self.as_bytes());
    }
}

impl AsKey<Vec<u8>> for &[u8] {
    #[inline]
    fn write_key(&self, out: &mut Vec<u8>) {
        append(out, self);
    }
}

/// The key of the record at hand, to be sent on unchanged: the host has hashed it already.
#[derive(Clone, Copy, Debug)]
pub struct SameKey<'a, K> {
    pub(crate) index: u32,
    pub(crate) bytes: &'a [u8],
    pub(crate) key: std::marker::PhantomData<fn() -> K>,
}

impl<K: Key> AsKey<K> for SameKey<'_, K> {
    #[inline]
    fn write_key(&self, out: &mut Vec<u8>) {
        append(out, self.bytes);
    }

    #[inline]
    fn known(&self) -> Option<u32> {
        Some(self.index)
    }
}

/// Of an operator that is not keyed: in place of the key's type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoKey;

/// A [`Key`], or [`NoKey`].
pub trait MaybeKey: Sized + 'static {
    /// Whether there is one.
    const KEYED: bool;

    /// The keys' schema; empty when there are none.
    fn schema_or_empty() -> String;

    /// The key that `bytes` are.
    ///
    /// # Errors
    /// Why they are no such key.
    fn read(bytes: &[u8]) -> Result<Self, Malformed>;
}

impl MaybeKey for NoKey {
    const KEYED: bool = false;

    fn schema_or_empty() -> String {
        String::new()
    }

    fn read(_bytes: &[u8]) -> Result<Self, Malformed> {
        Ok(NoKey)
    }
}

impl<K: Key> MaybeKey for K {
    const KEYED: bool = true;

    fn schema_or_empty() -> String {
        K::key_schema()
    }

    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        K::decode_key(bytes).map(K::own)
    }
}
