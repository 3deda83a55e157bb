//! [`Index`]: from a key's hash to the slot that holds it. A table of its own, because what a lookup costs at millions of keys is its
//! cache misses: here one, for the tag and the slot number together, and growing touches no slot.

/// Open addressing with linear probing. An entry is the upper half of a hash (its tag) and a slot number plus one; 0 is empty.
#[derive(Debug)]
pub(super) struct Index {
    entries: Vec<u64>,
    len: usize,
    /// The binary logarithm of the number of entries.
    bits: u32,
}

const FIRST_BITS: u32 = 6;

impl Default for Index {
    fn default() -> Self {
        Index { entries: vec![0; 1 << FIRST_BITS], len: 0, bits: FIRST_BITS }
    }
}

#[inline]
fn tag_of(hash: u64) -> u64 {
    hash >> 32
}

#[inline]
fn slot_of(entry: u64) -> u32 {
    // The lower half.
    entry as u32 - 1
}

impl Index {
    #[inline]
    fn home(&self, tag: u64) -> usize {
        (tag >> (32 - self.bits)) as usize
    }

    /// The first slot whose tag fits, if the first probe finds one. Cheap, and without a branch that waits for the slot itself, so that
    /// the processor overlaps the misses of many lookups; the caller checks the slot, and asks [`Index::find`] when it is another's.
    #[inline]
    pub(super) fn guess(&self, hash: u64) -> Option<u32> {
        let mut at = self.home(tag_of(hash));
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            if entry >> 32 == tag_of(hash) {
                return Some(slot_of(entry));
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// The slot with `hash` for which `same` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut same: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(tag_of(hash));
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            if entry >> 32 == tag_of(hash) && same(slot_of(entry)) {
                return Some(slot_of(entry));
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    /// Adds a slot that is not in it.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) {
        if (self.len + 1) * 3 > self.entries.len() * 2 {
            self.grow();
        }
        self.place(tag_of(hash) << 32 | u64::from(slot + 1));
        self.len += 1;
    }

    /// Removes a slot that is in it.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let mask = self.entries.len() - 1;
        let mut at = self.home(tag_of(hash));
        while self.entries[at] as u32 != slot + 1 {
            assert_ne!(self.entries[at], 0, "a slot that is removed is in the index");
            at = (at + 1) & mask;
        }
        self.len -= 1;
        // Entries behind the gap move up, unless that would put them before their home.
        let mut next = at;
        loop {
            next = (next + 1) & mask;
            let entry = self.entries[next];
            if entry == 0 {
                break;
            }
            let home = self.home(entry >> 32);
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(at) & mask) {
                self.entries[at] = entry;
                at = next;
            }
        }
        self.entries[at] = 0;
    }

    fn grow(&mut self) {
        self.bits += 1;
        let old = std::mem::replace(&mut self.entries, vec![0; 1 << self.bits]);
        old.into_iter().filter(|&entry| entry != 0).for_each(|entry| self.place(entry));
    }

    fn place(&mut self, entry: u64) {
        let mut at = self.home(entry >> 32);
        while self.entries[at] != 0 {
            at = (at + 1) & (self.entries.len() - 1);
        }
        self.entries[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few hashes with crowded tags, so that probes run long, wrap around and close gaps.
        #[test]
        fn finds_what_was_inserted_and_not_removed(steps in proptest::collection::vec((any::<bool>(), 0u64..200), 1..600)) {
            let (mut index, mut oracle) = (Index::default(), BTreeMap::new());
            for (slot, (insert, key)) in (0u32..).zip(steps) {
                let hash = (key % 7).wrapping_mul(0x2545_F491_4F6C_DD1D) << 20 | key;
                match (insert, oracle.contains_key(&hash)) {
                    (true, false) => {
                        index.insert(hash, slot);
                        oracle.insert(hash, slot);
                    }
                    (false, true) => index.remove(hash, oracle.remove(&hash).unwrap()),
                    _ => (),
                }
                for (&hash, &slot) in &oracle {
                    prop_assert_eq!(index.find(hash, |found| found == slot), Some(slot));
                }
                prop_assert_eq!(index.len, oracle.len());
            }
        }
    }
}
