//! Schemas of the types of Rust and its library, as serde gives them to postcard.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{Schema, Structure};
use crate::codec::varint;

/// Types whose structure is one word.
macro_rules! words {
    ($($type:ty: $word:literal,)*) => {$(
        impl Schema for $type {
            fn structure(to: &mut Structure) {
                to.word($word);
            }
        }
    )*};
}

// serde writes the sizes of the machine as 64 bits.
words! {
    (): "unit", bool: "bool", char: "char", f32: "f32", f64: "f64",
    i8: "i8", i128: "i128", isize: "i64", u128: "u128", usize: "u64",
    Duration: "{secs:u64,nanos:u32}",
}

/// Integers that are read and written without serde.
macro_rules! integers {
    ($($unsigned:ident $signed:ident,)*) => {$(
        impl Schema for $unsigned {
            fn structure(to: &mut Structure) {
                to.word(stringify!($unsigned));
            }

            #[inline]
            fn encode_part(&self, out: &mut Vec<u8>) {
                varint::write(u64::from(*self), out);
            }

            #[inline]
            fn decode_part<'de>(bytes: &mut &'de [u8]) -> Option<Self>
            where
                Self: Deserialize<'de>,
            {
                // In range, because of the number of bits.
                varint::take(bytes, <$unsigned>::BITS).map(|value| value as $unsigned)
            }
        }

        impl Schema for $signed {
            fn structure(to: &mut Structure) {
                to.word(stringify!($signed));
            }

            #[inline]
            fn encode_part(&self, out: &mut Vec<u8>) {
                varint::write(varint::zigzag(i64::from(*self)), out);
            }

            #[inline]
            fn decode_part<'de>(bytes: &mut &'de [u8]) -> Option<Self>
            where
                Self: Deserialize<'de>,
            {
                // In range, because of the number of bits.
                varint::take(bytes, <$signed>::BITS).map(|value| varint::unzigzag(value) as $signed)
            }
        }
    )*};
}

integers! { u16 i16, u32 i32, u64 i64, }

impl Schema for u8 {
    fn structure(to: &mut Structure) {
        to.word("u8");
    }

    const IS_BYTE: bool = true;

    fn as_bytes(list: &[Self]) -> Option<&[u8]> {
        Some(list)
    }

    fn from_bytes(bytes: Vec<u8>) -> Option<Vec<Self>> {
        Some(bytes)
    }
}

impl Schema for str {
    fn structure(to: &mut Structure) {
        to.word("text");
    }

    fn schema() -> String {
        "text".into()
    }
}

impl Schema for String {
    fn structure(to: &mut Structure) {
        to.part::<str>();
    }

    fn schema() -> String {
        str::schema()
    }
}

impl<T: Schema> Schema for [T] {
    fn structure(to: &mut Structure) {
        if T::IS_BYTE { to.word("bytes") } else { to.wrap::<T>("list") }
    }

    fn schema() -> String {
        if T::IS_BYTE { "bytes".into() } else { format!("postcard:{}", Structure::of::<Self>()) }
    }
}

impl<T: Schema> Schema for Vec<T> {
    fn structure(to: &mut Structure) {
        to.part::<[T]>();
    }

    fn schema() -> String {
        <[T]>::schema()
    }
}

impl<T: Schema, const N: usize> Schema for [T; N] {
    fn structure(to: &mut Structure) {
        to.word("array<");
        to.part::<T>();
        to.word(&format!(",{N}>"));
    }
}

impl<T: Schema> Schema for Option<T> {
    fn structure(to: &mut Structure) {
        to.wrap::<T>("option");
    }
}

impl<T: Schema, E: Schema> Schema for Result<T, E> {
    fn structure(to: &mut Structure) {
        to.word("enum{Ok(");
        to.part::<T>();
        to.word("),Err(");
        to.part::<E>();
        to.word(")}");
    }
}

/// Types that serde writes as lists.
macro_rules! lists {
    ($($type:ident<T $(, $rest:ident)*>,)*) => {$(
        impl<T: Schema $(, $rest)*> Schema for $type<T $(, $rest)*> {
            fn structure(to: &mut Structure) {
                to.wrap::<T>("list");
            }
        }
    )*};
}

lists! { VecDeque<T>, BTreeSet<T>, HashSet<T, S>, }

/// Maps.
macro_rules! maps {
    ($($type:ident<K, V $(, $rest:ident)*>,)*) => {$(
        impl<K: Schema, V: Schema $(, $rest)*> Schema for $type<K, V $(, $rest)*> {
            fn structure(to: &mut Structure) {
                to.word("map<");
                to.part::<K>();
                to.word(",");
                to.part::<V>();
                to.word(">");
            }
        }
    )*};
}

maps! { BTreeMap<K, V>, HashMap<K, V, S>, }

/// Types that are written as what they point to.
macro_rules! pointers {
    ($([$($lifetime:lifetime)?] $type:ty,)*) => {$(
        impl<$($lifetime,)? T: Schema + ?Sized> Schema for $type {
            fn structure(to: &mut Structure) {
                to.part::<T>();
            }

            fn schema() -> String {
                T::schema()
            }
        }
    )*};
}

pointers! { ['a] &'a T, [] Box<T>, [] Rc<T>, [] Arc<T>, }

impl<T: Schema + ToOwned + ?Sized> Schema for Cow<'_, T> {
    fn structure(to: &mut Structure) {
        to.part::<T>();
    }

    fn schema() -> String {
        T::schema()
    }
}

/// Tuples.
macro_rules! tuples {
    ($(($first:ident $(, $rest:ident)*),)*) => {$(
        impl<$first: Schema $(, $rest: Schema)*> Schema for ($first, $($rest,)*) {
            fn structure(to: &mut Structure) {
                to.word("(");
                to.part::<$first>();
                $(
                    to.word(",");
                    to.part::<$rest>();
                )*
                to.word(")");
            }
        }
    )*};
}

tuples! {
    (A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), (A, B, C, D, E, F), (A, B, C, D, E, F, G), (A, B, C, D, E, F, G, H),
}
