//! What whoever rewrites gets to see, and what is told of a value that can't be rewritten. That all kinds of state survive it, through
//! files too, is tested with those.

use super::*;
use crate::record::{Batch, hash_key};
use crate::state::tests::states;
use crate::state::{Fields, elements};

const LIST: usize = 1;
const MAP: usize = 2;

fn call(keys: &[&str]) -> Batch {
    let mut call = Batch::default();
    for key in keys {
        call.keys.push(key.as_bytes());
        call.hashes.push(hash_key(key.as_bytes()));
    }
    call
}

#[derive(Debug, PartialEq)]
enum Cause {
    TooLong,
    Refused,
}

impl From<ListTooLong> for Cause {
    fn from(_: ListTooLong) -> Self {
        Cause::TooLong
    }
}

/// Lists of keys "a" and "b" with so many elements of so many bytes each, and a map.
fn state(elements: usize, bytes: usize) -> (KeyedState, Batch) {
    let (mut state, call) = (KeyedState::new(states(), 16), call(&["a", "b"]));
    let values: Column = (0..elements).map(|number| vec![number as u8; bytes]).collect();
    state.list_replace(LIST, &call, 0, &values.ends, &values.bytes).unwrap();
    state.list_replace(LIST, &call, 1, &values.ends, &values.bytes).unwrap();
    let fields = Fields { keys: &[1], ends: &[1], bytes: b"f" };
    state.map_put(MAP, &call, fields, &[1], b"x", 0..1);
    state.commit();
    (state, call)
}

#[test]
fn values_come_in_columns_of_64_kib_in_their_order() {
    for (count, bytes, columns) in [(3, 10_000, 1), (7, 10_000, 2), (3, 100_000, 6), (20_000, 0, 3), (20_000, 1, 4)] {
        let (mut state, _) = state(count, bytes);
        let mut seen = 0;
        let mut rewrite = |values: &Column| {
            seen += 1;
            assert!(values.bytes.len() <= (64 << 10) + bytes);
            Ok::<_, Unwritten<usize, Cause>>(values.iter().map(|value| [b"new ", value].concat()).collect())
        };
        assert_eq!(state.rewrite(LIST, 0, &mut rewrite).unwrap(), 2 * count as u64);
        assert_eq!(seen, columns, "{count} of {bytes} bytes");
        for key in [b"a", b"b"] {
            let expected = (0..count).map(|number| [b"new ".to_vec(), vec![number as u8; bytes]].concat());
            assert!(elements(state.value(LIST, key).unwrap()).eq(expected));
        }
    }
}

#[test]
fn the_key_of_a_value_that_can_not_be_rewritten_is_told() {
    let (mut keyed, _) = state(10, 10_000);
    let mut left = 12;
    let mut refuse = |values: &Column| {
        let value = (left < values.len()).then_some(left);
        left -= values.len().min(left);
        match value {
            Some(_) => Err(Unwritten { value, cause: Cause::Refused }),
            None => Ok(values.clone()),
        }
    };
    let refused = keyed.rewrite(LIST, 0, &mut refuse).unwrap_err();
    assert_eq!((refused.value.unwrap(), refused.cause), (b"b".to_vec(), Cause::Refused), "the 13th of twice ten");
    let mut refuse = |_: &Column| Err(Unwritten { value: Some(0), cause: Cause::Refused });
    // Of a map's entry the key, without the field.
    assert_eq!(keyed.rewrite(MAP, 0, &mut refuse).unwrap_err().value.unwrap(), b"b");

    let elements: Column = (0..20).map(|_| vec![0; 10_000]).collect();
    let mut columns = 0;
    let mut refuse = |values: &Column| {
        columns += 1;
        if columns == 2 { Err(Unwritten { value: Some(1), cause: Cause::Refused }) } else { Ok(values.clone()) }
    };
    let refused = rewrite_each(elements.iter(), &mut refuse, |_| Ok(())).unwrap_err();
    assert_eq!(refused.value, Some(8), "seven in the first column");
    assert_eq!(rewrite_each(Column::default().iter(), &mut refuse, |_| Ok(())).unwrap(), 0);
}

#[test]
fn a_list_that_gets_too_long_is_refused() {
    let (mut state, _) = state(40, 0);
    let large = vec![0; 16 << 20];
    let mut rewrite = |values: &Column| Ok::<_, Unwritten<usize, Cause>>(values.iter().map(|_| &large[..]).collect());
    let refused = state.rewrite(LIST, 0, &mut rewrite).unwrap_err();
    assert_eq!((refused.value.unwrap(), refused.cause), (b"a".to_vec(), Cause::TooLong));
}

#[test]
fn values_of_operator_state_are_kept_in_their_order_until_one_is_not_taken() {
    let elements: Column = (0..40u8).map(|number| vec![number; 10_000]).collect();
    let mut rewrite =
        |values: &Column| Ok::<_, Unwritten<usize, Cause>>(values.iter().map(|value| [&b"new "[..], value].concat()).collect());
    let mut kept = Vec::new();
    let rewritten = rewrite_each(elements.iter(), &mut rewrite, |value| {
        kept.push(value.to_vec());
        if kept.len() <= 30 { Ok(()) } else { Err(Cause::TooLong) }
    });
    let refused = rewritten.unwrap_err();
    assert_eq!((refused.value, refused.cause), (Some(30), Cause::TooLong));
    assert!(kept.iter().zip(elements.iter()).all(|(new, old)| new[4..] == *old));
}
