//! [`Overlay`]: what is known of the fields of maps, for all keys of a call. Nothing is allocated for a field: most of them are looked at
//! once and forgotten.

use super::slot::Slot;

/// Fields of all the call's keys, each with what is known of its value.
#[derive(Debug)]
pub(super) struct Overlay<T> {
    entries: Vec<Entry<T>>,
    /// The fields of the entries, back to back.
    fields: Vec<u8>,
    /// Open addressing: an entry's index plus one; 0 is empty. As long as a power of two.
    index: Vec<u32>,
    /// For each key.
    keys: Vec<OfKey>,
}

#[derive(Debug)]
struct Entry<T> {
    key: u32,
    /// Where the field ends; it begins where the one before it ends.
    end: u32,
    /// The entry of the same key before this one, as its index plus one; 0: there is none.
    before: u32,
    hash: u32,
    slot: Slot<T>,
}

/// What is known of one key's map.
#[derive(Clone, Copy, Debug, Default)]
struct OfKey {
    /// Its last entry, as its index plus one; 0: it has none.
    last: u32,
    /// What the host has is to be removed, and counts no more.
    cleared: bool,
}

const FIRST_INDEX: usize = 64;
const KEPT_INDEX: usize = 1 << 14;

impl<T> Overlay<T> {
    pub(super) const fn new() -> Self {
        Overlay { entries: Vec::new(), fields: Vec::new(), index: Vec::new(), keys: Vec::new() }
    }

    /// Whether a call has begun to use it.
    #[inline]
    pub(super) fn has_key(&self, key: u32) -> bool {
        (key as usize) < self.keys.len()
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Begins a call with so many keys.
    pub(super) fn begin(&mut self, keys: usize) {
        self.keys.resize(keys, OfKey::default());
        self.index.resize(self.index.len().max(FIRST_INDEX), 0);
    }

    /// Whether what the host has of a key counts no more.
    #[inline]
    pub(super) fn is_cleared(&self, key: u32) -> bool {
        self.keys[key as usize].cleared
    }

    pub(super) fn set_cleared(&mut self, key: u32, cleared: bool) {
        self.keys[key as usize].cleared = cleared;
    }

    #[inline]
    pub(super) fn field(&self, entry: u32) -> &[u8] {
        let start = if entry == 0 { 0 } else { self.entries[entry as usize - 1].end as usize };
        &self.fields[start..self.entries[entry as usize].end as usize]
    }

    #[inline]
    pub(super) fn slot(&self, entry: u32) -> &Slot<T> {
        &self.entries[entry as usize].slot
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, entry: u32) -> &mut Slot<T> {
        &mut self.entries[entry as usize].slot
    }

    /// The entry of a field, made if there is none.
    #[inline]
    pub(super) fn entry(&mut self, key: u32, field: &[u8]) -> u32 {
        let hash = hash(key, field);
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        while self.index[at] != 0 {
            let entry = self.index[at] - 1;
            let Entry { key: its_key, hash: its_hash, .. } = self.entries[entry as usize];
            if its_hash == hash && its_key == key && self.field(entry) == field {
                return entry;
            }
            at = (at + 1) & mask;
        }
        self.insert(key, hash, field, at)
    }

    fn insert(&mut self, key: u32, hash: u32, field: &[u8], at: usize) -> u32 {
        crate::column::append(&mut self.fields, field);
        // All of it is below a guest's 4 GiB.
        let (entry, end) = (self.entries.len() as u32, self.fields.len() as u32);
        let before = std::mem::replace(&mut self.keys[key as usize].last, entry + 1);
        self.entries.push(Entry { key, end, before, hash, slot: Slot::Unread });
        self.index[at] = entry + 1;
        if self.entries.len() * 2 > self.index.len() {
            self.grow();
        }
        entry
    }

    #[cold]
    fn grow(&mut self) {
        let length = self.index.len() * 2;
        self.index.clear();
        self.index.resize(length, 0);
        for (entry, Entry { hash, .. }) in (1u32..).zip(&self.entries) {
            let mut at = *hash as usize & (length - 1);
            while self.index[at] != 0 {
                at = (at + 1) & (length - 1);
            }
            self.index[at] = entry;
        }
    }

    /// The entries of a key, the newest first.
    pub(super) fn of_key(&self, key: u32) -> impl Iterator<Item = u32> {
        let mut next = self.keys[key as usize].last;
        std::iter::from_fn(move || {
            let entry = next.checked_sub(1)?;
            next = self.entries[entry as usize].before;
            Some(entry)
        })
    }

    /// The keys whose maps are to be cleared.
    pub(super) fn cleared(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.keys).filter(|(_, of_key)| of_key.cleared).map(|(key, _)| key)
    }

    /// All entries: key, field and slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8], &Slot<T>)> {
        (0u32..).zip(&self.entries).map(|(entry, Entry { key, slot, .. })| (*key, self.field(entry), slot))
    }

    /// Forgets everything, and keeps the room if it is not too much.
    pub(super) fn forget(&mut self) {
        self.keys.clear();
        if self.index.len() > KEPT_INDEX {
            (self.entries, self.fields, self.index) = Default::default();
        } else if !self.entries.is_empty() {
            self.entries.clear();
            self.fields.clear();
            self.index.fill(0);
        }
    }
}

/// A hash for one call's fields, of four bytes at a time.
#[inline]
fn hash(key: u32, field: &[u8]) -> u32 {
    const FACTOR: u32 = 0x9e37_79b1;
    let step = |hash: u32, word: u32| (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = field.as_chunks::<4>();
    let mut hash = step(field.len() as u32, key);
    for word in words {
        hash = step(hash, u32::from_le_bytes(*word));
    }
    for &byte in rest {
        hash = step(hash, byte.into());
    }
    // The index takes the lower bits, and the upper ones are the better mixed.
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(6), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_field_of_each_key_has_one_entry(asked in proptest::collection::vec((0u32..5, "[a-d]{0,6}"), 0..500)) {
            let mut overlay = Overlay::new();
            for _ in 0..2 {
                overlay.begin(5);
                let mut oracle: BTreeMap<(u32, String), u32> = BTreeMap::new();
                for (key, field) in &asked {
                    let entry = overlay.entry(*key, field.as_bytes());
                    prop_assert_eq!(*oracle.entry((*key, field.clone())).or_insert(entry), entry);
                    *overlay.slot_mut(entry) = Slot::Changed(entry);
                }
                for (key, field, slot) in overlay.iter() {
                    let field = String::from_utf8(field.to_vec()).unwrap();
                    prop_assert_eq!(slot.value(), Some(&oracle[&(key, field)]));
                }
                for key in 0..5 {
                    let entries: Vec<u32> = overlay.of_key(key).collect();
                    prop_assert!(entries.is_sorted_by(|a, b| a > b));
                    prop_assert_eq!(entries.len(), oracle.keys().filter(|(of, _)| *of == key).count());
                }
                overlay.forget();
                prop_assert_eq!(overlay.iter().count(), 0);
            }
        }
    }
}
