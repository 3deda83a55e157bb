//! [`Keys`]: listing the keys that have state of any kind, each once. Where all state is in memory these are places in the tables; where
//! some lies below, they are read from there, one key group after the other, so that the list need not fit in memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::vec;

use super::KeyedState;
use super::changed::split_listed;
use super::cold::split_place;
use super::field;
use super::index::Index;
use super::table::Table;
use crate::plan::StateKind;
use crate::record::{Batch, hash_key};

/// Bytes of keys that are listed at once: with so many of them, no more follow.
const TOGETHER_BYTES: usize = 8 << 20;

/// Keys still to be listed.
#[derive(Debug)]
pub enum Keys {
    /// As places: state and slot.
    InMemory(vec::IntoIter<(u16, u32)>),
    /// As they lie below.
    Below(KeysBelow),
}

/// A listing of what lies below.
#[derive(Debug, Default)]
pub struct KeysBelow {
    /// Keys of entries that can't lie there, by key group.
    others: BTreeMap<u16, BTreeSet<Vec<u8>>>,
    /// The next key group to be read; none after the last one.
    next: Option<u16>,
    /// What is left of the one before it.
    keys: btree_set::IntoIter<Vec<u8>>,
}

impl KeyedState {
    /// Begins to list the keys that have state of any kind at this time. Until the end of it nothing may be swept and no slice taken, and
    /// only the keys that were listed last may change.
    pub fn keys(&mut self, now: i64) -> Keys {
        self.begin(now);
        if self.below.is_none() {
            return Keys::InMemory(self.places().into_iter());
        }
        self.write_back();
        let mut others = BTreeMap::<u16, BTreeSet<Vec<u8>>>::new();
        for table in &self.tables {
            for slot in table.with_value(now).map(|number| &table.slots[number as usize]).filter(|slot| !slot.notes.is_below()) {
                others.entry(slot.group).or_default().insert(key_of(table, slot.key()).into_owned());
            }
        }
        Keys::Below(KeysBelow { others, next: Some(0), keys: btree_set::IntoIter::default() })
    }

    /// Appends more keys to those of a call, until it has `most`, or fewer if they are long; none are left if it gets none.
    pub fn next_keys(&mut self, keys: &mut Keys, most: usize, call: &mut Batch) {
        while call.keys.len() < most && call.keys.bytes.len() < TOGETHER_BYTES {
            let Some((key, hash)) = self.next_key(keys) else { return };
            call.keys.push(&key);
            call.hashes.push(hash);
        }
    }

    /// The next key, and its hash.
    fn next_key(&mut self, keys: &mut Keys) -> Option<(Cow<'_, [u8]>, u64)> {
        match keys {
            Keys::InMemory(places) => places.next().map(|place| self.key(place)),
            Keys::Below(keys) => loop {
                if let Some(key) = keys.keys.next() {
                    let hash = hash_key(&key);
                    return Some((Cow::Owned(key), hash));
                }
                if !self.next_group(keys) {
                    return None;
                }
            },
        }
    }

    /// Reads the keys of the next key group that has any; false if there is none, or the store has failed, which is noted.
    fn next_group(&mut self, keys: &mut KeysBelow) -> bool {
        let (Some(below), Some(next)) = (&self.below, keys.next) else { return false };
        let mut group = keys.others.first_key_value().map(|(group, _)| *group);
        let mut found = BTreeSet::new();
        let mut visit = |place: &[u8], laid: &[u8]| {
            let (at, ..) = split_place(place);
            if split_listed(place).is_some() || group.is_some_and(|group| group < at) {
                return false;
            }
            group = Some(at);
            let Some(placed) = below.placed(place) else { return true };
            let (table, (facts, value)) = (&self.tables[placed.state], below.facts(place, laid));
            if facts.live && !facts.is_expired(table.kind, value, table.ttl, self.now) {
                let key = key_of(table, &placed.key);
                if !found.contains(&*key) {
                    found.insert(key.into_owned());
                }
            }
            true
        };
        if below.is_readable() {
            let read = below.store.range(&next.to_be_bytes(), &mut visit);
            self.below.iter_mut().for_each(|below| below.settle(read.clone()));
        }
        let Some(group) = group else { return false };
        found.extend(keys.others.remove(&group).unwrap_or_default());
        (keys.next, keys.keys) = (group.checked_add(1), found.into_iter());
        true
    }

    /// The keys that have state of any kind, as long as all of it is in memory, as places.
    fn places(&self) -> Vec<(u16, u32)> {
        let mut keys: Vec<(u16, u32)> = Vec::new();
        let mut seen = Index::default();
        for (state, table) in self.tables.iter().enumerate() {
            // In a table that is no map's each key occurs only once, and nobody asks what the last table has seen.
            let (once, last) = (state == 0 && table.kind != StateKind::Map, state + 1 == self.tables.len());
            for slot in table.with_value(self.now) {
                // Descriptors have far fewer states than a u16 counts.
                let place = (state as u16, slot);
                let (key, hash) = self.key(place);
                if !once && seen.find(hash, |earlier| self.key(keys[earlier as usize]).0 == key).is_some() {
                    continue;
                }
                if !last || table.kind == StateKind::Map {
                    // As many keys as there are slots, at most some times.
                    seen.insert(hash, keys.len() as u32);
                }
                keys.push(place);
            }
        }
        keys
    }

    /// A key and its hash, for a place: a state and a slot in use.
    pub(super) fn key(&self, (state, slot): (u16, u32)) -> (Cow<'_, [u8]>, u64) {
        let table = &self.tables[state as usize];
        let slot = &table.slots[slot as usize];
        if table.kind != StateKind::Map {
            return (Cow::Borrowed(slot.key()), slot.hash);
        }
        let (key, _) = field::split(slot.key());
        let hash = hash_key(&key);
        (key, hash)
    }
}

/// The key to which an entry belongs.
fn key_of<'a>(table: &Table, entry: &'a [u8]) -> Cow<'a, [u8]> {
    if table.kind == StateKind::Map { field::split(entry).0 } else { Cow::Borrowed(entry) }
}
