//! [`Table`]: one state of one subtask, key by key, with what has to be known for snapshots.

use smallvec::SmallVec;

use super::index::Index;

/// Counts barriers within an attempt, from 1 on; 0 means "in a snapshot already".
pub(super) type Mark = u32;

/// An entry: key and value side by side, so that a small one is a single cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) hash: u64,
    key_len: u32,
    /// When it was last written: before which barrier. 0: not since its last snapshot.
    pub(super) written: Mark,
    /// Of a list: how many bytes of the value are in earlier snapshots.
    pub(super) saved: u32,
    /// Whether there is a value. A slot without one stays until its deletion is in a snapshot.
    pub(super) live: bool,
    data: SmallVec<[u8; 32]>,
}

impl Slot {
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.data[..self.key_len as usize]
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        &self.data[self.key_len as usize..]
    }

    #[inline]
    pub(super) fn set_value(&mut self, value: &[u8]) {
        self.truncate_value(0);
        self.data.extend_from_slice(value);
    }

    #[inline]
    pub(super) fn extend_value(&mut self, more: &[u8]) {
        self.data.extend_from_slice(more);
    }

    #[inline]
    pub(super) fn truncate_value(&mut self, len: usize) {
        self.data.truncate(self.key_len as usize + len);
    }
}

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// One state of one subtask.
#[derive(Debug, Default)]
pub(super) struct Table {
    index: Index,
    pub(super) slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots written since the last barrier, each once.
    pub(super) written: Vec<u32>,
}

impl Table {
    /// The slot of a key, live or not.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.index.find(hash, |slot| {
            let slot = &self.slots[slot as usize];
            slot.hash == hash && slot.key() == key
        })
    }

    /// The slots of many keys, [`NONE`] where there is none. Three short passes instead of one long one: each pass's cache misses do
    /// not depend on each other, so they overlap.
    pub(super) fn find_many<'a>(&self, keys: impl Iterator<Item = (u64, &'a [u8])> + Clone, found: &mut Vec<u32>) {
        found.clear();
        found.extend(keys.clone().map(|(hash, _)| self.index.guess(hash).unwrap_or(NONE)));
        let mut misled = false;
        for (slot, (hash, _)) in found.iter().zip(keys.clone()) {
            misled |= *slot != NONE && self.slots[*slot as usize].hash != hash;
        }
        for (slot, (hash, key)) in found.iter_mut().zip(keys) {
            let right = *slot == NONE || (!misled && self.slots[*slot as usize].key() == key);
            if !right {
                *slot = self.find(hash, key).unwrap_or(NONE);
            }
        }
    }

    /// A slot for a key that has none; without a value as yet.
    pub(super) fn insert(&mut self, hash: u64, key: &[u8]) -> u32 {
        // Keys come out of columns, whose lengths fit u32.
        let slot = Slot { hash, key_len: key.len() as u32, written: 0, saved: 0, live: false, data: SmallVec::from_slice(key) };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                let number = u32::try_from(self.slots.len()).ok().filter(|&n| n != NONE).expect("fewer than 4 billion keys fit in memory");
                self.slots.push(slot);
                number
            }
        };
        self.index.insert(hash, number);
        number
    }

    /// Gives up a slot without a value, whose deletion is in a snapshot.
    pub(super) fn release(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        debug_assert!(!slot.live && slot.written == 0);
        self.index.remove(slot.hash, number);
        slot.data = SmallVec::new();
        slot.key_len = 0;
        self.free.push(number);
    }

    /// The numbers of all slots that have a value.
    pub(super) fn live(&self) -> impl Iterator<Item = u32> {
        // Slot numbers are u32 (see insert).
        (0u32..).zip(&self.slots).filter(|(_, slot)| slot.live).map(|(number, _)| number)
    }
}
