//! Values against postcard, and bytes that are none.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde::Serialize;

use super::*;
use crate::record;

#[record]
#[derive(Clone, Debug, PartialEq)]
struct Flight {
    carrier: String,
    delay: Option<i64>,
    via: Vec<(String, u16)>,
    #[serde(skip)]
    cache: u8,
}

#[record]
#[derive(Debug, PartialEq)]
struct Borrowed<'a> {
    carrier: &'a str,
    payload: &'a [u8],
}

fn bytes_of<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = b"before".to_vec();
    value.encode(&mut bytes);
    bytes.split_off(6)
}

/// What is written is read as the same, and with a byte more or less it is not.
fn round_trip<T: Encode + for<'de> Decode<'de> + PartialEq + Debug>(value: T) -> Result<(), TestCaseError> {
    let mut bytes = bytes_of(&value);
    prop_assert_eq!(&T::decode(&bytes).unwrap(), &value);
    bytes.push(0);
    prop_assert!(T::decode(&bytes).is_err(), "a byte too many");
    bytes.truncate(bytes.len() - 2);
    prop_assert!(T::decode(&bytes).is_err(), "a byte too few");
    Ok(())
}

/// As [`round_trip`], and written as postcard writes it.
fn is_postcard<T: Encode + Serialize + for<'de> Decode<'de> + PartialEq + Debug>(value: T) -> Result<(), TestCaseError> {
    prop_assert_eq!(bytes_of(&value), postcard::to_allocvec(&value).unwrap());
    round_trip(value)
}

#[test]
fn a_number_of_more_bytes_than_its_type_has_is_refused_as_postcard_does() {
    let bytes = [0x80, 0x80, 0x80, 0x00];
    assert!(postcard::from_bytes::<(u16,)>(&bytes).is_err());
    assert!(<(u16,)>::decode(&bytes).is_err() && u16::decode(&bytes).is_err());
    assert_eq!(<(u32,)>::decode(&bytes).ok(), postcard::from_bytes(&bytes).ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn integers_are_postcard(value: u64, shift in 0u32..64) {
        // Small ones as often as large ones.
        let value = value >> shift;
        is_postcard(value)?;
        is_postcard(value as i64)?;
        is_postcard(value as u32)?;
        is_postcard(value as i32)?;
        is_postcard(value as u16)?;
        is_postcard(value as i16)?;
        is_postcard(value as u8)?;
        is_postcard(value as i8)?;
        is_postcard(u128::from(value) << 60)?;
        is_postcard(-i128::from(value))?;
        is_postcard((value, value as i64, value as u8))?;
        is_postcard((Some(value as i16), (value as u32, value as i32), value as u16))?;
    }

    #[test]
    fn other_values_are_postcard(carrier: String, delay: Option<i64>, via: Vec<(String, u16)>, flag: bool, real in -1e9f64..1e9, letter: char) {
        is_postcard(Flight { carrier: carrier.clone(), delay, via: via.clone(), cache: 0 })?;
        is_postcard(via.clone())?;
        is_postcard(via.into_iter().collect::<BTreeMap<_, _>>())?;
        is_postcard((carrier, delay, flag))?;
        is_postcard(real)?;
        is_postcard(letter)?;
        is_postcard(if flag { Ok(letter) } else { Err(delay) })?;
    }

    #[test]
    fn any_bytes_are_read_or_refused_as_postcard_does(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
        fn same<T: for<'de> Decode<'de> + for<'de> serde::Deserialize<'de> + PartialEq + Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
            let theirs = postcard::take_from_bytes::<T>(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value);
            prop_assert_eq!(T::decode(bytes).ok(), theirs);
            Ok(())
        }
        same::<u64>(&bytes)?;
        same::<i64>(&bytes)?;
        same::<u32>(&bytes)?;
        same::<i16>(&bytes)?;
        same::<(u64, i16)>(&bytes)?;
        same::<(i64, Option<u8>, (u32,))>(&bytes)?;
        same::<(u16, String)>(&bytes)?;
        same::<Flight>(&bytes)?;
    }

    #[test]
    fn text_and_bytes_are_as_they_are(text: String, bytes: Vec<u8>) {
        prop_assert_eq!(bytes_of(&text), text.as_bytes());
        prop_assert_eq!(bytes_of(text.as_str()), text.as_bytes());
        prop_assert_eq!(String::decode(text.as_bytes()).unwrap(), text.as_str());
        prop_assert_eq!(bytes_of(&bytes), bytes.as_slice());
        prop_assert_eq!(Vec::<u8>::decode(&bytes).unwrap(), bytes.as_slice());
        prop_assert_eq!(<&str>::decode(&bytes).ok(), std::str::from_utf8(&bytes).ok());
    }
}

#[test]
fn the_largest_integers_are_read_and_larger_ones_refused() {
    for value in [0, 1, 127, 128, u64::MAX >> 1, u64::MAX] {
        assert_eq!(u64::decode(&bytes_of(&value)), Ok(value));
    }
    let [mut too_large, mut too_long] = [bytes_of(&u64::MAX), bytes_of(&u64::MAX)];
    too_large[9] = 2;
    too_long[9] |= 0x80;
    too_long.push(0);
    assert!(u64::decode(&too_large).is_err());
    assert!(u64::decode(&too_long).is_err());
    assert!(u32::decode(&bytes_of(&(u64::from(u32::MAX) + 1))).is_err());
    assert_eq!(u32::decode(&bytes_of(&u64::from(u32::MAX))), Ok(u32::MAX));
    assert!(u64::decode(&[]).is_err());
}

#[test]
fn a_borrowed_value_points_into_the_bytes() {
    let bytes = bytes_of(&Borrowed { carrier: "UA", payload: &[1, 2] });
    let value = Borrowed::decode(&bytes).unwrap();
    assert_eq!(value, Borrowed { carrier: "UA", payload: &[1, 2] });
    assert!(bytes.as_ptr_range().contains(&value.carrier.as_ptr()));
}

#[test]
fn json_is_text_for_others() {
    let value = Json(BTreeMap::from([("a", 1u8)]));
    assert_eq!(bytes_of(&value), br#"{"a":1}"#);
    assert_eq!(Json::<BTreeMap<String, u8>>::decode(br#" {"a": 1}"#).unwrap().0["a"], 1);
    let error = Json::<u8>::decode(b"1 2").unwrap_err().to_string();
    assert!(error.starts_with("not json: trailing characters"), "{error}");
}

#[test]
fn messages_name_the_schema() {
    assert_eq!(Flight::decode(&[]).unwrap_err().schema, "postcard:{carrier:text,delay:option<i64>,via:list<(text,u16)>}");
    let schema = "postcard:(u64,text)";
    assert_eq!(<(u64, String)>::decode(&[1, 9, b'a']).unwrap_err().schema, schema);
    assert_eq!(<(u64, String)>::decode(&[1, 1, b'a', 0]).unwrap_err().to_string(), format!("not {schema}: 1 bytes too many"));
    assert_eq!(<()>::decode(b"ab").unwrap_err().to_string(), "not postcard:unit: 2 bytes too many");
    assert_eq!(u16::decode(&[0xff; 3]).unwrap_err().to_string(), "not postcard:u16: not one whole number in range");
}
