//! How the key of a map's entry is made: of a key and a field, as `wit/keys.md` makes a tuple of two byte strings. The key is escaped
//! and ended, the field follows as it is. So entries have the order of (key, field), and those of one key are all that begin alike.

use std::borrow::Cow;

/// After a zero byte of the key.
const ESCAPE: u8 = 0xff;
/// After the last byte of the key.
const END: [u8; 2] = [0, 0];

/// Appends what all entries of a key begin with.
#[inline]
pub(super) fn push_key(key: &[u8], out: &mut Vec<u8>) {
    let mut rest = key;
    while let Some(zero) = rest.iter().position(|&byte| byte == 0) {
        out.extend_from_slice(&rest[..=zero]);
        out.push(ESCAPE);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&END);
}

/// The key of an entry, and its field.
pub(super) fn split(entry: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let mut key = Cow::Borrowed(&entry[..0]);
    let mut at = 0;
    loop {
        // Without an end it is no entry: then all of it is the key.
        let zero = entry[at..].iter().position(|&byte| byte == 0).map_or(entry.len(), |zero| at + zero);
        match &mut key {
            Cow::Borrowed(key) => *key = &entry[..zero],
            Cow::Owned(key) => key.extend_from_slice(&entry[at..zero]),
        }
        if entry.get(zero + 1) != Some(&ESCAPE) {
            return (key, entry.get(zero + END.len()..).unwrap_or_default());
        }
        key.to_mut().push(0);
        at = zero + 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn join(key: &[u8], field: &[u8]) -> Vec<u8> {
        let mut entry = Vec::new();
        push_key(key, &mut entry);
        entry.extend_from_slice(field);
        entry
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), Just(b'a')], 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn entries_are_ordered_by_key_and_field_and_can_be_taken_apart(a in (bytes(), bytes()), b in (bytes(), bytes())) {
            let (one, two) = (join(&a.0, &a.1), join(&b.0, &b.1));
            prop_assert_eq!(one.cmp(&two), a.cmp(&b));
            let (key, field) = split(&one);
            prop_assert_eq!((&*key, field), (&a.0[..], &a.1[..]));
            prop_assert_eq!(two.starts_with(&join(&a.0, &[])), a.0 == b.0);
        }

        #[test]
        fn what_is_no_entry_is_taken_apart_without_a_panic(bytes in bytes()) {
            let (key, field) = split(&bytes);
            prop_assert!(key.len() + field.len() <= bytes.len());
        }
    }
}
