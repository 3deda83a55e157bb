//! [`Table`]: one state of one subtask, entry by entry, with what has to be known for snapshots. An entry is a key with its value, or,
//! in a map, a key and a field with theirs.

use std::collections::BTreeMap;
use std::ops::Bound;

use smallvec::SmallVec;

use super::index::Index;
use super::notes::Notes;
use super::parts::Parts;
use super::ttl;
use super::written::Written;
use crate::plan::{StateDescriptor, StateKind, Ttl};
use crate::record::{Batch, copy};

/// Counts barriers within an attempt, from 1 on; 0 means "in a snapshot already".
pub(super) type Mark = u32;

/// What finds an entry: the hash of its key, or in a map of key and field, and these as bytes.
pub(super) type Hashed<'a> = (u64, &'a [u8]);

/// An entry: key and value side by side, so that a small one is a single cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) hash: u64,
    key_len: u32,
    /// When it was last written: before which barrier. 0: not since its last snapshot.
    pub(super) written: Mark,
    /// Of a list: how many bytes of it are in earlier snapshots.
    pub(super) saved: u32,
    /// The key's group, which in a map the hash does not tell.
    pub(super) group: u16,
    /// Whether there is a value. A slot without one stays until the call ends, or its deletion is in a snapshot if it is needed in one.
    pub(super) live: bool,
    pub(super) notes: Notes,
    data: SmallVec<[u8; 32]>,
}

impl Slot {
    /// The key, or key and field.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.data[..self.key_len as usize]
    }

    /// The value as it is kept: with its stamp, if it has one. Of a list with parts the tail.
    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        &self.data[self.key_len as usize..]
    }

    #[inline]
    pub(super) fn value_mut(&mut self) -> &mut [u8] {
        &mut self.data[self.key_len as usize..]
    }

    #[inline]
    pub(super) fn set_value(&mut self, value: &[u8]) {
        if !self.overwrite_value(value) {
            self.truncate_value(0);
            self.data.extend_from_slice(value);
        }
    }

    /// Replaces the value by one of the same length, if it is that.
    #[inline]
    pub(super) fn overwrite_value(&mut self, value: &[u8]) -> bool {
        let old = self.value_mut();
        let fits = old.len() == value.len();
        if fits {
            copy(value, old);
        }
        fits
    }

    #[inline]
    pub(super) fn extend_value(&mut self, more: &[u8]) {
        self.data.extend_from_slice(more);
    }

    #[inline]
    pub(super) fn truncate_value(&mut self, len: usize) {
        self.data.truncate(self.key_len as usize + len);
    }

    /// Drops the first bytes of the value.
    pub(super) fn drop_front(&mut self, bytes: usize) {
        let start = self.key_len as usize;
        self.data.drain(start..start + bytes);
        self.shrink();
    }

    /// Whether it was given up.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        !self.live && self.written == 0 && !self.notes.is_below()
    }

    /// Gives back memory that is no longer needed.
    pub(super) fn shrink(&mut self) {
        self.data.shrink_to_fit();
    }
}

/// Bytes that a slot takes besides those of a long key or value: itself, and its place in the index.
pub(super) const PER_SLOT: usize = size_of::<Slot>() + 24;
/// Bytes that a slot takes in the order of keys, besides another copy of the key.
const PER_ORDERED: usize = 64;
/// Bytes that a list with parts takes besides its slot.
const PER_PARTS: usize = 2 * size_of::<(u32, Parts)>();

/// Slots are sparse, and give back the room of those that were given up, when there are so many for each one in use, or for each of
/// [`LEAST_SLOTS`] if fewer are.
const SPARSE: usize = 4;
const LEAST_SLOTS: usize = if cfg!(test) { 4 } else { 1024 };

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Nobody has looked whether there is a slot.
const UNKNOWN: u32 = u32::MAX - 1;

/// Whether two keys are the same. Most are short, and a call to compare them takes longer than the comparison.
#[inline]
fn same(one: &[u8], other: &[u8]) -> bool {
    let len = one.len();
    if len != other.len() {
        return false;
    }
    match (one.first_chunk::<8>(), other.first_chunk::<8>(), one.last_chunk::<8>(), other.last_chunk::<8>()) {
        (Some(start), Some(other_start), Some(end), Some(other_end)) if len <= 16 => {
            (u64::from_ne_bytes(*start) ^ u64::from_ne_bytes(*other_start)) | (u64::from_ne_bytes(*end) ^ u64::from_ne_bytes(*other_end))
                == 0
        }
        _ => one == other,
    }
}

/// One state of one subtask.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) kind: StateKind,
    pub(super) ttl: Option<Ttl>,
    index: Index,
    pub(super) slots: Vec<Slot>,
    free: Vec<u32>,
    /// Bytes of all keys and values in slots.
    bytes: usize,
    /// Slots written since the last barrier. Those with another mark have been given up since, and one may occur twice after that.
    pub(super) written: Written,
    /// The slots in the order of their keys, from the first need of it on.
    ordered: Option<BTreeMap<Box<[u8]>, u32>>,
    /// For each key of the call at hand the slot that was found, [`NONE`] if there is none, or [`UNKNOWN`]; empty before the first look.
    /// A slot is given up between calls only, so what is read and then written is looked for once.
    known: Vec<u32>,
    /// Of lists that begin in parts below, by slot; the slot has the rest of it.
    parts: BTreeMap<u32, Parts>,
    /// Slots that have lost such a beginning since this was last taken, and the lists' numbers.
    pub(super) lost: Vec<(u32, u64)>,
}

impl Table {
    pub(super) fn new(state: &StateDescriptor) -> Self {
        let StateDescriptor { kind, ttl, .. } = *state;
        Table {
            kind,
            ttl,
            index: Index::default(),
            slots: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            written: Written::default(),
            ordered: None,
            known: Vec::new(),
            parts: BTreeMap::new(),
            lost: Vec::new(),
        }
    }

    /// The slot of a key, live or not.
    #[inline]
    pub(super) fn find(&self, (hash, key): Hashed<'_>) -> Option<u32> {
        self.index.find(hash, |slot| {
            let slot = &self.slots[slot as usize];
            slot.hash == hash && same(slot.key(), key)
        })
    }

    /// A call has ended: forgets which slots its keys have.
    #[inline]
    pub(super) fn end(&mut self) {
        self.known.clear();
    }

    /// The slots of the keys `which` of a call, [`NONE`] where there is none. What was found in the same call is not looked for again.
    /// `bring` gets the table and what was found in it, to add what is elsewhere.
    pub(super) fn find_keys(&mut self, call: &Batch, which: &[u32], found: &mut Vec<u32>, bring: impl FnOnce(&mut Table, &mut [u32])) {
        if !self.known.is_empty() && which.iter().all(|&key| self.known[key as usize] != UNKNOWN) {
            found.clear();
            found.extend(which.iter().map(|&key| self.known[key as usize]));
            return;
        }
        let hashes = which.iter().map(|&key| call.hashes[key as usize]);
        self.find_many(hashes, which.iter().map(|&key| call.keys.get(key as usize)), found);
        bring(self, found);
        if self.known.is_empty() {
            self.known.resize(call.keys.len(), UNKNOWN);
        }
        which.iter().zip(found).for_each(|(&key, slot)| self.known[key as usize] = *slot);
    }

    /// Notes that a key of the call, for which there was no slot, has one.
    #[inline]
    pub(super) fn found(&mut self, key: u32, slot: u32) {
        if let Some(known) = self.known.get_mut(key as usize) {
            *known = slot;
        }
    }

    /// The slots of many keys, which come with their hashes; [`NONE`] where there is none. Three short passes instead of one long one: each
    /// pass's cache misses do not depend on each other, so they overlap.
    pub(super) fn find_many<'a>(
        &self,
        hashes: impl Iterator<Item = u64> + Clone,
        keys: impl Iterator<Item = &'a [u8]>,
        found: &mut Vec<u32>,
    ) {
        found.clear();
        found.extend(hashes.clone().map(|hash| self.index.guess(hash).unwrap_or(NONE)));
        let mut misled = false;
        for (slot, hash) in found.iter().zip(hashes.clone()) {
            misled |= *slot != NONE && self.slots[*slot as usize].hash != hash;
        }
        for (slot, (hash, key)) in found.iter_mut().zip(hashes.zip(keys)) {
            let right = *slot == NONE || (!misled && same(self.slots[*slot as usize].key(), key));
            if !right {
                *slot = self.find((hash, key)).unwrap_or(NONE);
            }
        }
    }

    /// A slot for a key that has none; without a value as yet.
    pub(super) fn insert(&mut self, (hash, key): Hashed<'_>, group: u16) -> u32 {
        // Keys come out of columns, whose lengths fit u32; with a field and escapes they are at most some times as long.
        let slot = Slot {
            hash,
            key_len: key.len() as u32,
            written: 0,
            saved: 0,
            group,
            live: false,
            notes: Notes::default(),
            data: SmallVec::from_slice(key),
        };
        self.bytes += key.len();
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                let number =
                    u32::try_from(self.slots.len()).ok().filter(|&n| n < UNKNOWN).expect("fewer than 4 billion keys fit in memory");
                self.slots.push(slot);
                number
            }
        };
        self.index.insert(hash, number);
        if let Some(ordered) = &mut self.ordered {
            ordered.insert(key.into(), number);
        }
        number
    }

    /// Changes the value of a slot.
    #[inline]
    pub(super) fn change(&mut self, number: u32, change: impl FnOnce(&mut Slot)) {
        let slot = &mut self.slots[number as usize];
        let before = slot.data.len();
        change(slot);
        self.bytes = self.bytes - before + slot.data.len();
    }

    /// Gives up a slot without a value, whose deletion is in a snapshot or need not be. If the cold store holds something of it, it
    /// stays until that is removed.
    pub(super) fn release(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.written = 0;
        if !slot.notes.is_below() {
            return self.give_up(number);
        }
        slot.saved = 0;
        slot.notes.set_stored(false);
        slot.notes.changing();
        self.change(number, |slot| slot.truncate_value(0));
        self.lose_parts(number);
    }

    /// Releases a slot of whose value nothing is left, unless a snapshot holds something that only the next one takes back.
    pub(super) fn release_spent(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        if !slot.notes.is_stored() || (slot.live && slot.written == 0) {
            slot.live = false;
            self.release(number);
        }
    }

    /// Gives up a slot that nobody needs any more.
    pub(super) fn give_up(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        debug_assert!(!slot.live && slot.written == 0);
        self.bytes -= slot.data.len();
        self.index.remove(slot.hash, number);
        if let Some(ordered) = &mut self.ordered {
            ordered.remove(slot.key());
        }
        slot.notes = Notes::default();
        slot.data = SmallVec::new();
        slot.key_len = 0;
        self.parts.remove(&number);
        self.free.push(number);
    }

    /// What lies below of the list in a slot in parts, if anything does.
    #[inline]
    pub(super) fn parts(&self, number: u32) -> Option<Parts> {
        if self.parts.is_empty() { None } else { self.parts.get(&number).copied() }
    }

    /// All slots with lists that begin in parts below.
    pub(super) fn with_parts(&self) -> Vec<(u32, Parts)> {
        self.parts.iter().map(|(&number, &parts)| (number, parts)).collect()
    }

    pub(super) fn set_parts(&mut self, number: u32, parts: Option<Parts>) {
        match parts {
            Some(parts) => drop(self.parts.insert(number, parts)),
            None => drop(self.parts.remove(&number)),
        }
    }

    /// Takes the beginning of a list that is about to be replaced.
    #[inline]
    pub(super) fn take_parts(&mut self, number: u32) -> Option<Parts> {
        if self.parts.is_empty() { None } else { self.parts.remove(&number) }
    }

    /// What a slot has of its list is all of it, from now on.
    pub(super) fn lose_parts(&mut self, number: u32) {
        self.lost.extend(self.parts.remove(&number).map(|parts| (number, parts.list)));
    }

    /// How many bytes a value has, wherever they lie.
    #[inline]
    pub(super) fn length(&self, number: u32) -> usize {
        self.slots[number as usize].value().len() + self.parts(number).map_or(0, |parts| parts.bytes as usize)
    }

    /// Whether nothing of a slot's value is left at this time.
    pub(super) fn is_expired(&self, number: u32, now: i64) -> bool {
        self.ttl.is_some_and(|ttl| {
            let of_parts = |parts: Parts| ttl::is_past(parts.last, ttl, now);
            self.parts(number).is_none_or(of_parts) && ttl::is_expired(self.kind, self.slots[number as usize].value(), ttl, now)
        })
    }

    /// Takes slots that were given up out of the list of written ones, when they are many. `mark` is that of the written ones.
    pub(super) fn tidy(&mut self, mark: Mark) {
        if self.written.len() > 2 * self.slots.len() {
            self.written.retain(|number| self.slots[number as usize].written == mark);
        }
    }

    /// Gives back the room of slots that were given up, if it is most of all. The others get new numbers: only between calls, and while no
    /// frozen snapshot waits, which knows them by the old ones. `mark` is that of the written ones.
    pub(super) fn compact(&mut self, mark: Mark) {
        if self.slots.len() < SPARSE * self.len().max(LEAST_SLOTS) {
            return;
        }
        debug_assert!(self.known.is_empty() && self.lost.is_empty(), "they know slots by number, too");
        let room = Vec::with_capacity(self.len());
        let slots = std::mem::replace(&mut self.slots, room);
        let mut parts = std::mem::take(&mut self.parts);
        (self.index, self.free, self.written, self.ordered) = (Index::default(), Vec::new(), Written::default(), None);
        self.bytes = slots.iter().filter(|slot| !slot.is_free()).map(|slot| slot.data.len()).sum();
        for (old, slot) in (0u32..).zip(slots).filter(|(_, slot)| !slot.is_free()) {
            // There are fewer than before.
            let new = self.slots.len() as u32;
            self.index.insert(slot.hash, new);
            self.parts.extend(parts.remove(&old).map(|parts| (new, parts)));
            if slot.written == mark {
                self.written.push(new);
            }
            self.slots.push(slot);
        }
    }

    /// Brings the slots into order, if they are not. For maps, none of whose entries has an empty key: that is how a slot that has been
    /// given up is told.
    pub(super) fn order(&mut self) {
        if self.ordered.is_none() {
            let entries = self.numbered().filter(|(_, slot)| slot.key_len > 0);
            self.ordered = Some(entries.map(|(number, slot)| (slot.key().into(), number)).collect());
        }
    }

    /// The slots whose keys are not below `from`, in order, once [`Table::order`] was called.
    pub(super) fn ordered_from(&self, from: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
        let range = (Bound::Included(from), Bound::Unbounded);
        let slots = self.ordered.iter().flat_map(move |ordered| ordered.range::<[u8], _>(range));
        slots.map(|(key, &number)| (key.as_ref(), number))
    }

    /// The slots whose keys begin with `prefix`, in order, once [`Table::order`] was called.
    pub(super) fn ordered_with(&self, prefix: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
        self.ordered_from(prefix).take_while(|(key, _)| key.starts_with(prefix))
    }

    /// The numbers of all slots that have a value that can be seen at this time.
    pub(super) fn with_value(&self, now: i64) -> impl Iterator<Item = u32> {
        self.numbered().filter(move |&(number, slot)| slot.live && !self.is_expired(number, now)).map(|(number, _)| number)
    }

    /// How many slots are in use.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many bytes all keys and values in slots have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// About how many bytes of memory its entries take.
    pub(super) fn memory(&self) -> usize {
        let ordered = if self.ordered.is_some() { self.bytes + self.len() * PER_ORDERED } else { 0 };
        self.len() * PER_SLOT + self.bytes + ordered + self.parts.len() * PER_PARTS
    }

    /// About how many bytes of memory are kept for entries to come.
    pub(super) fn spare(&self) -> usize {
        self.free.len() * PER_SLOT
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, &Slot)> {
        // Slot numbers are u32 (see insert).
        (0u32..).zip(&self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_when_all_their_bytes_are() {
        for len in 0..40 {
            let key: Vec<u8> = (0..len).collect();
            assert!(same(&key, &key.clone()) && !same(&key, &[&key[..], b"x"].concat()));
            for place in 0..key.len() {
                let mut other = key.clone();
                other[place] ^= 1;
                assert!(!same(&key, &other), "{len}: byte {place}");
            }
        }
    }

    #[test]
    fn a_small_entry_is_one_cache_line() {
        assert_eq!(size_of::<Slot>(), 64);
    }
}
