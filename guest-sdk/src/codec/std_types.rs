//! Reading and writing the types of Rust and its library.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Decode, Encode, Malformed, read_postcard, varint, write_postcard};
use crate::column::append;
use crate::schema::Schema;

impl Encode for () {
    #[inline]
    fn encode(&self, _out: &mut Vec<u8>) {}
}

impl Decode<'_> for () {
    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.is_empty() { Ok(()) } else { Err(super::left_over::<()>(bytes.len())) }
    }
}

/// Integers that postcard writes with a variable length.
macro_rules! integers {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl Encode for $unsigned {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                varint::write(u64::from(*self), out);
            }
        }

        impl Decode<'_> for $unsigned {
            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
                // In range, because of the number of bits.
                varint::read(bytes, <$unsigned>::BITS).map(|value| value as $unsigned).ok_or_else(no_integer::<Self>)
            }
        }

        impl Encode for $signed {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                varint::write(varint::zigzag(i64::from(*self)), out);
            }
        }

        impl Decode<'_> for $signed {
            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
                // In range, because of the number of bits.
                varint::read(bytes, <$signed>::BITS).map(|value| varint::unzigzag(value) as $signed).ok_or_else(no_integer::<Self>)
            }
        }
    )*};
}

integers! { u16, i16; u32, i32; u64, i64; }

#[cold]
fn no_integer<T: Schema>() -> Malformed {
    Malformed::new::<T>("not one whole number in range")
}

impl Encode for str {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        append(out, self.as_bytes());
    }
}

impl Encode for String {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
}

impl<'de> Decode<'de> for &'de str {
    #[inline]
    fn decode(bytes: &'de [u8]) -> Result<Self, Malformed> {
        std::str::from_utf8(bytes).map_err(Malformed::new::<str>)
    }
}

impl Decode<'_> for String {
    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        <&str>::decode(bytes).map(str::to_owned)
    }
}

impl<T: Schema + Serialize> Encode for [T] {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        match T::as_bytes(self) {
            Some(bytes) => append(out, bytes),
            None => write_postcard(self, out),
        }
    }
}

impl<T: Schema + Serialize> Encode for Vec<T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

impl<'de> Decode<'de> for &'de [u8] {
    #[inline]
    fn decode(bytes: &'de [u8]) -> Result<Self, Malformed> {
        Ok(bytes)
    }
}

impl<'de, T: Schema + Deserialize<'de>> Decode<'de> for Vec<T> {
    #[inline]
    fn decode(bytes: &'de [u8]) -> Result<Self, Malformed> {
        if T::IS_BYTE {
            return Ok(T::from_bytes(bytes.to_vec()).unwrap_or_default());
        }
        read_postcard(bytes)
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Box<T> {
    #[inline]
    fn decode(bytes: &'de [u8]) -> Result<Self, Malformed> {
        T::decode(bytes).map(Box::new)
    }
}

impl<T: Encode + ToOwned + ?Sized> Encode for Cow<'_, T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl<'de, T: Schema + ToOwned + ?Sized> Decode<'de> for Cow<'de, T>
where
    &'de T: Decode<'de>,
{
    #[inline]
    fn decode(bytes: &'de [u8]) -> Result<Self, Malformed> {
        <&'de T>::decode(bytes).map(Cow::Borrowed)
    }
}

/// Types that are plain postcard.
macro_rules! postcards {
    ($([$($generics:tt)*] $type:ty $(where [$($write:tt)*], [$($read:tt)*])?,)*) => {$(
        impl<$($generics)*> Encode for $type $(where $($write)*)? {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                write_postcard(self, out);
            }
        }

        impl<'de, $($generics)*> Decode<'de> for $type $(where $($read)*)? {
            #[inline]
            fn decode(bytes: &'de [u8]) -> Result<Self, Malformed> {
                read_postcard(bytes)
            }
        }
    )*};
}

postcards! {
    [] bool, [] char, [] f32, [] f64, [] u8, [] i8, [] u128, [] i128, [] usize, [] isize, [] Duration,
    [T: Schema] Option<T> where [T: Serialize], [T: Deserialize<'de>],
    [T: Schema, E: Schema] Result<T, E> where [T: Serialize, E: Serialize], [T: Deserialize<'de>, E: Deserialize<'de>],
    [T: Schema] VecDeque<T> where [T: Serialize], [T: Deserialize<'de>],
    [T: Schema] BTreeSet<T> where [T: Serialize], [T: Deserialize<'de> + Ord],
    [T: Schema, S] HashSet<T, S> where [T: Serialize], [T: Deserialize<'de> + Eq + Hash, S: BuildHasher + Default],
    [K: Schema, V: Schema] BTreeMap<K, V> where [K: Serialize, V: Serialize], [K: Deserialize<'de> + Ord, V: Deserialize<'de>],
    [K: Schema, V: Schema, S] HashMap<K, V, S>
        where [K: Serialize, V: Serialize], [K: Deserialize<'de> + Eq + Hash, V: Deserialize<'de>, S: BuildHasher + Default],
    [T: Schema, const N: usize] [T; N] where [[T; N]: Serialize], [[T; N]: Deserialize<'de>],
}

/// Tuples are postcard too, part by part: serde's way there and back takes several times as long, and accumulators are often tuples.
macro_rules! tuples {
    ($($($part:ident)*;)*) => {$(
        impl<$($part: Schema + Serialize),*> Encode for ($($part,)*) {
            #[inline]
            #[allow(non_snake_case, reason = "parts are named as their types")]
            fn encode(&self, out: &mut Vec<u8>) {
                let ($($part,)*) = self;
                $($part.encode_part(out);)*
            }
        }

        impl<'de, $($part: Schema + Deserialize<'de>),*> Decode<'de> for ($($part,)*) {
            #[inline]
            fn decode(bytes: &'de [u8]) -> Result<Self, Malformed> {
                let mut rest = bytes;
                let mut decode = || Some(($($part::decode_part(&mut rest)?,)*));
                match decode() {
                    Some(value) if rest.is_empty() => Ok(value),
                    _ => read_again(bytes),
                }
            }
        }
    )*};
}

/// [`read_postcard`] for what was not to be read part by part: it says what is wrong. Out of the way of those that call it.
#[cold]
#[inline(never)]
fn read_again<'de, T: Schema + Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Malformed> {
    read_postcard(bytes)
}

tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; }
