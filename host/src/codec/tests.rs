//! Frames: what was written comes back, and every damage is noticed and named.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

const NOTE: Frame = Frame { what: "note", tag: 9, version: 2, limit: 1 << 16 };

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    name: String,
    numbers: Vec<u64>,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
    inner: Option<Box<Note>>,
}

fn note() -> Note {
    let inner = Note { name: String::new(), numbers: vec![], bytes: vec![0; 300], inner: None };
    Note { name: "a name".into(), numbers: vec![0, 250, 251, 70_000, u64::MAX], bytes: vec![1, 2, 3], inner: Some(Box::new(inner)) }
}

fn framed() -> Vec<u8> {
    let mut out = Vec::new();
    NOTE.encode(&note(), &mut out).unwrap();
    out
}

#[test]
fn what_was_written_is_read_and_the_rest_is_left() {
    let mut out = framed();
    let one = out.len();
    out.extend_from_slice(&framed());
    let (first, rest): (Note, _) = NOTE.decode(&out).unwrap();
    assert_eq!(first, note());
    assert_eq!(rest.len(), one);
    assert_eq!(NOTE.decode::<Note>(rest).unwrap(), (note(), &[][..]));
}

#[test]
fn the_frame_is_laid_out_as_described_for_ever() {
    let mut out = Vec::new();
    Frame { what: "x", tag: 0x0102, version: 3, limit: 9 }.write(b"abc", &mut out).unwrap();
    assert_eq!(out[..16], [b'C', b'F', b'D', b'M', 2, 1, 3, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(out[16..20], crc32c::crc32c(b"\x02\x01\x03\0\x03\0\0\0\0\0\0\0abc").to_le_bytes());
    assert_eq!(&out[20..], b"abc");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let good = framed();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let error = NOTE.decode::<Note>(&bad).expect_err("a flipped bit");
            let expected = match at {
                0..4 => matches!(error, CodecError::Foreign { .. }),
                4..6 => matches!(error, CodecError::OtherKind { .. }),
                8..16 => matches!(error, CodecError::Truncated { .. } | CodecError::TooLarge { .. } | CodecError::Checksum { .. }),
                _ => matches!(error, CodecError::Checksum { .. }),
            };
            assert!(expected, "byte {at}, bit {bit}: {error}");
            assert!(!error.to_string().contains('\n'));
        }
    }
}

#[test]
fn every_truncation_is_named_as_one() {
    let good = framed();
    for length in 0..good.len() {
        let error = NOTE.decode::<Note>(&good[..length]).unwrap_err();
        assert!(matches!(error, CodecError::Truncated { .. }), "{length}: {error}");
    }
}

#[test]
fn another_kind_is_refused() {
    let other = Frame { what: "letter", tag: 10, ..NOTE };
    assert_eq!(other.read(&framed()).unwrap_err(), CodecError::OtherKind { what: "letter", expected: 10, found: 9 });
}

#[test]
fn the_past_is_read_and_the_future_refused_by_name() {
    let older = Frame { version: 1, ..NOTE };
    let mut out = Vec::new();
    older.write(b"old", &mut out).unwrap();
    assert_eq!(NOTE.read(&out).unwrap().0, b"old");
    let error = older.read(&framed()).unwrap_err();
    assert_eq!(error.to_string(), "note was written by a newer Cofferdam: format 2, this one reads up to 1");
}

#[test]
fn a_larger_frame_from_the_future_is_still_named_as_such() {
    let mut out = Vec::new();
    Frame { version: 3, limit: 1 << 20, ..NOTE }.write(&vec![0; 1 << 17], &mut out).unwrap();
    assert!(matches!(NOTE.read(&out), Err(CodecError::Newer { found: 3, reads: 2, .. })));
}

#[test]
fn the_limit_holds_both_ways() {
    let small = Frame { limit: 10, ..NOTE };
    let mut out = Vec::new();
    assert!(matches!(small.write(&[0; 11], &mut out), Err(CodecError::TooLarge { bytes: 11, limit: 10, .. })));
    assert!(out.is_empty());
    assert!(matches!(small.read(&framed()), Err(CodecError::TooLarge { .. })));
}

#[test]
fn bytes_after_a_value_are_refused() {
    let mut out = Vec::new();
    encode("number", &7u32, &mut out).unwrap();
    out.push(0);
    assert_eq!(decode::<u32>("number", &out).unwrap_err(), CodecError::Trailing { what: "number", bytes: 1 });
}

#[test]
fn a_length_that_lies_is_an_error_and_no_allocation() {
    // Varint 253 and eight bytes: a text, or bytes, of 2^40 bytes.
    let mut lie = vec![253];
    lie.extend_from_slice(&(1u64 << 40).to_le_bytes());
    assert!(matches!(decode::<String>("text", &lie), Err(CodecError::Malformed { .. })));
    assert!(matches!(decode::<serde_bytes::ByteBuf>("bytes", &lie), Err(CodecError::Malformed { .. })));
    assert!(matches!(decode::<Vec<u64>>("list", &lie), Err(CodecError::Malformed { .. })));
}

#[test]
fn many_small_numbers_stay_below_the_limit() {
    for count in [10, 70_000, 2_000_000] {
        let numbers = vec![1u64; count];
        let mut out = Vec::new();
        encode("numbers", &numbers, &mut out).unwrap();
        assert_eq!(decode::<Vec<u64>>("numbers", &out).unwrap(), numbers);
    }
}

proptest! {
    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(NOTE.decode::<Note>(&bytes).is_err());
        let mut wrapped = Vec::new();
        NOTE.write(&bytes, &mut wrapped).unwrap();
        // The frame is right, the payload is not: whatever comes of it, it comes as a value.
        let _ = NOTE.decode::<Note>(&wrapped);
    }
}
