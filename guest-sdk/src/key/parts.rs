//! The types that are keys.

use super::Key;
use crate::codec::{Decode, Malformed};
use crate::column::append;
use crate::schema::Schema;

impl Key for String {
    type Ref<'a> = &'a str;

    const WIDTH: Option<usize> = None;

    #[inline]
    fn encode_key(&self, out: &mut Vec<u8>) {
        append(out, self.as_bytes());
    }

    #[inline]
    fn decode_key(bytes: &[u8]) -> Result<&str, Malformed> {
        <&str>::decode(bytes)
    }

    fn own(key: &str) -> Self {
        key.to_owned()
    }
}

impl Key for Vec<u8> {
    type Ref<'a> = &'a [u8];

    const WIDTH: Option<usize> = None;

    #[inline]
    fn encode_key(&self, out: &mut Vec<u8>) {
        append(out, self);
    }

    #[inline]
    fn decode_key(bytes: &[u8]) -> Result<&[u8], Malformed> {
        Ok(bytes)
    }

    fn own(key: &[u8]) -> Self {
        key.to_vec()
    }
}

impl Key for () {
    type Ref<'a> = ();

    const WIDTH: Option<usize> = Some(0);

    #[inline]
    fn encode_key(&self, _out: &mut Vec<u8>) {}

    #[inline]
    fn decode_key(bytes: &[u8]) -> Result<(), Malformed> {
        <()>::decode(bytes)
    }

    fn own((): ()) -> Self {}
}

impl Key for bool {
    type Ref<'a> = bool;

    const WIDTH: Option<usize> = Some(1);

    #[inline]
    fn encode_key(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    #[inline]
    fn decode_key(bytes: &[u8]) -> Result<bool, Malformed> {
        match bytes {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed::new::<bool>("not one byte 0 or 1")),
        }
    }

    fn own(key: bool) -> Self {
        key
    }
}

/// Whole numbers: big-endian, and of signed ones the sign bit flipped, so that negative ones come first.
macro_rules! integers {
    ($($type:ty, $flip:expr;)*) => {$(
        impl Key for $type {
            type Ref<'a> = $type;

            const WIDTH: Option<usize> = Some(size_of::<$type>());

            #[inline]
            fn encode_key(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(*self ^ $flip).to_be_bytes());
            }

            #[inline]
            fn decode_key(bytes: &[u8]) -> Result<$type, Malformed> {
                match bytes.try_into() {
                    Ok(array) => Ok(<$type>::from_be_bytes(array) ^ $flip),
                    Err(_) => Err(wrong_width::<$type>(bytes.len())),
                }
            }

            fn own(key: $type) -> Self {
                key
            }
        }
    )*};
}

integers! {
    u8, 0; u16, 0; u32, 0; u64, 0; u128, 0;
    i8, i8::MIN; i16, i16::MIN; i32, i32::MIN; i64, i64::MIN; i128, i128::MIN;
}

#[cold]
fn wrong_width<T: Schema>(len: usize) -> Malformed {
    Malformed::new::<T>(format_args!("{len} bytes instead of {}", size_of::<T>()))
}

/// Appends a part of a tuple that others follow: as it is if its width is fixed, else escaped and ended by two zero bytes.
fn write_part<K: Key>(part: &K, out: &mut Vec<u8>) {
    if K::WIDTH.is_some() {
        return part.encode_key(out);
    }
    let mut plain = Vec::new();
    part.encode_key(&mut plain);
    for byte in plain {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// Takes a part of a tuple that others follow off the front of `bytes`.
fn read_part<T: Schema, K: Key>(bytes: &mut &[u8]) -> Result<K, Malformed> {
    if let Some(width) = K::WIDTH {
        let (part, rest) = bytes.split_at_checked(width).ok_or_else(|| Malformed::new::<T>("too few bytes"))?;
        *bytes = rest;
        return K::decode_key(part).map(K::own);
    }
    let mut plain = Vec::new();
    loop {
        match *bytes {
            [0, 0, rest @ ..] => {
                *bytes = rest;
                return K::decode_key(&plain).map(K::own);
            }
            [0, 0xff, rest @ ..] => {
                plain.push(0);
                *bytes = rest;
            }
            [0, ..] => return Err(Malformed::new::<T>("a zero byte that is neither escaped nor an end")),
            [byte, rest @ ..] => {
                plain.push(*byte);
                *bytes = rest;
            }
            [] => return Err(Malformed::new::<T>("too few bytes")),
        }
    }
}

/// Tuples: each part but the last one in a form that shows its end, the last one as it is.
macro_rules! tuples {
    ($($($part:ident)* | $last:ident;)*) => {$(
        #[allow(non_snake_case, reason = "variables named as their types")]
        impl<$($part: Key,)* $last: Key> Key for ($($part,)* $last,) {
            type Ref<'a> = Self;

            const WIDTH: Option<usize> = None;

            fn encode_key(&self, out: &mut Vec<u8>) {
                let ($($part,)* $last,) = self;
                $(write_part($part, out);)*
                $last.encode_key(out);
            }

            fn decode_key(mut bytes: &[u8]) -> Result<Self, Malformed> {
                $(let $part = read_part::<Self, $part>(&mut bytes)?;)*
                Ok(($($part,)* $last::own($last::decode_key(bytes)?),))
            }

            fn own(key: Self) -> Self {
                key
            }
        }
    )*};
}

tuples! { A | B; A B | C; A B C | D; }
