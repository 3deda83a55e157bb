//! Keys: the golden vectors that other languages use too, and order.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value as Json;

use super::*;

const VECTORS: &str = include_str!("../../wit/key-vectors.json");

fn bytes_of<K: Key>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode_key(&mut bytes);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a JSON value as a key of this schema, and whether they are read back as the same.
fn encode(schema: &str, value: &Json) -> (Vec<u8>, bool) {
    fn as_key<K: Key + PartialEq + serde::de::DeserializeOwned>(value: &Json) -> (Vec<u8>, bool) {
        assert!(!K::key_schema().is_empty());
        let key: K = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"));
        let bytes = bytes_of(&key);
        let same = K::read(&bytes).is_ok_and(|read| read == key);
        (bytes, same)
    }
    // Whole numbers beyond 64 bits are strings in JSON.
    fn number<K: Key + PartialEq + std::str::FromStr>(value: &Json) -> (Vec<u8>, bool) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let Ok(key) = text.parse::<K>() else { panic!("{text} is no number") };
        let bytes = bytes_of(&key);
        let same = K::read(&bytes).is_ok_and(|read| read == key);
        (bytes, same)
    }
    match schema {
        "text" => as_key::<String>(value),
        "bytes" => as_key::<Vec<u8>>(value),
        "unit" => as_key::<()>(value),
        "bool" => as_key::<bool>(value),
        "u8" => number::<u8>(value),
        "u16" => number::<u16>(value),
        "u32" => number::<u32>(value),
        "u64" => number::<u64>(value),
        "u128" => number::<u128>(value),
        "i8" => number::<i8>(value),
        "i16" => number::<i16>(value),
        "i32" => number::<i32>(value),
        "i64" => number::<i64>(value),
        "i128" => number::<i128>(value),
        "(text,u32)" => as_key::<(String, u32)>(value),
        "(u32,text)" => as_key::<(u32, String)>(value),
        "(text,text)" => as_key::<(String, String)>(value),
        "(bytes,bool,i16)" => as_key::<(Vec<u8>, bool, i16)>(value),
        "((text,u8),text)" => as_key::<((String, u8), String)>(value),
        "(i8,unit,text,i64)" => as_key::<(i8, (), String, i64)>(value),
        other => panic!("no type for schema {other}"),
    }
}

#[test]
fn the_vectors_hold_and_are_in_order() {
    let vectors: Json = serde_json::from_str(VECTORS).unwrap();
    let (mut count, mut before) = (0, None::<(String, Vec<u8>)>);
    for vector in vectors.as_array().unwrap() {
        let schema = vector["schema"].as_str().unwrap();
        let (bytes, same) = encode(schema, &vector["value"]);
        assert_eq!(hex(&bytes), vector["hex"].as_str().unwrap(), "of {schema} {}", vector["value"]);
        assert!(same, "{schema} {} is not read back", vector["value"]);
        if let Some((_, smaller)) = before.filter(|(of, _)| of == schema) {
            assert!(smaller < bytes, "{schema} {} is not above the one before it", vector["value"]);
        }
        before = Some((schema.to_owned(), bytes));
        count += 1;
    }
    assert!(count > 50);
}

#[test]
fn the_vendored_vectors_are_the_repositorys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/key-vectors.json");
    // A published crate has no surroundings.
    if let Ok(theirs) = std::fs::read_to_string(path) {
        assert_eq!(VECTORS, theirs, "copy wit/key-vectors.json to guest-sdk/wit");
    }
}

#[test]
fn schemas_are_the_structures() {
    let schemas = [
        (String::key_schema(), "text"),
        (Vec::<u8>::key_schema(), "bytes"),
        (<()>::key_schema(), "unit"),
        (u64::key_schema(), "u64"),
        (<((String, u8), i128)>::key_schema(), "((text,u8),i128)"),
    ];
    for (schema, expected) in schemas {
        assert_eq!(schema, expected);
    }
}

#[test]
fn bytes_that_are_no_key_are_refused() {
    assert!(String::decode_key(&[0xff]).is_err());
    assert!(bool::decode_key(&[2]).is_err());
    assert!(<()>::decode_key(&[0]).is_err());
    assert!(u32::decode_key(&[0; 3]).is_err());
    assert!(<(String, u8)>::decode_key(b"a\0\0").is_err(), "the last part is missing");
    assert!(<(String, u8)>::decode_key(b"a\0\x01\x07").is_err(), "a zero byte in the text, not escaped");
    assert!(<(String, u8)>::decode_key(b"a").is_err(), "no end");
    assert!(<(u32, String)>::decode_key(&[0; 3]).is_err(), "too short for the number");
}

/// Read back as the same; and ordered and equal as the values are.
fn ordered<K: Key + Ord + Debug>(a: K, b: K) -> Result<(), TestCaseError> {
    let (a_bytes, b_bytes) = (bytes_of(&a), bytes_of(&b));
    prop_assert_eq!(a_bytes.cmp(&b_bytes), a.cmp(&b), "{:?} and {:?}", a, b);
    prop_assert_eq!(K::read(&a_bytes).unwrap(), a);
    Ok(())
}

/// Few different bytes, those with a meaning among them, so that keys are often nearly equal.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), Just(b'a')], 0..5)
}

fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[\0\u{1}aé]{0,4}").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(4), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_have_the_order_of_their_values(a: (i64, u64, i128), b: (i64, u64, i128), t in (text(), text()), y in (bytes(), bytes()), f: (bool, bool)) {
        ordered(a.0, b.0)?;
        ordered(a.1, b.1)?;
        ordered(a.2, b.2)?;
        ordered(a.0 as i8, b.0 as i8)?;
        ordered(t.0.clone(), t.1.clone())?;
        ordered(y.0.clone(), y.1.clone())?;
        ordered((t.0.clone(), a.0 as i8), (t.1.clone(), b.0 as i8))?;
        ordered((f.0, y.0.clone(), t.0.clone()), (f.1, y.1.clone(), t.1.clone()))?;
        ordered(((y.0.clone(), t.0.clone()), (t.0, y.0)), ((y.1.clone(), t.1.clone()), (t.1, y.1)))?;
    }
}
