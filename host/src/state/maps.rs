//! What [`KeyedState`] does with maps. Each field of each key is an entry of its own, written and saved on its own; how its key is made
//! is in `field`. The order of fields is kept from the first scan on.

use std::ops::Range;

use super::KeyedState;
use super::facts::Laid;
use super::field;
use super::keyed::{Cells, PER_VALUE, key_at};
use super::table::{Hashed, NONE};
use super::ttl;
use crate::plan::TtlFrom;
use crate::record::{Batch, Column, append, hash_key, slice};

/// Fields of maps as a guest names them: field i is of key `keys[i]` of the call at hand.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// Keys, as indices.
    pub keys: &'a [u32],
    /// The ends of the fields in `bytes`.
    pub ends: &'a [u32],
    /// The fields.
    pub bytes: &'a [u8],
}

/// Entries to be found together.
#[derive(Debug, Default)]
pub(super) struct Entries {
    keys: Column,
    hashes: Vec<u64>,
}

/// How many entries are looked for at once, but no more than [`TOGETHER_BYTES`]: a long key stands in each of them.
const TOGETHER: usize = 256;
const TOGETHER_BYTES: usize = 1 << 20;

impl Entries {
    /// Takes up entries from `from` on. Returns how far it came: at least one further.
    fn fill(&mut self, call: &Batch, fields: Fields<'_>, within: Range<usize>) -> usize {
        self.keys.clear();
        self.hashes.clear();
        for index in within.clone() {
            if self.keys.len() == TOGETHER || self.keys.bytes.len() > TOGETHER_BYTES {
                return index;
            }
            let start = self.keys.bytes.len();
            field::push_key(call.keys.get(fields.keys[index] as usize), &mut self.keys.bytes);
            self.keys.push(slice(fields.ends, fields.bytes, index));
            self.hashes.push(hash_key(&self.keys.bytes[start..]));
        }
        within.end
    }

    fn iter(&self) -> impl Iterator<Item = Hashed<'_>> + Clone {
        self.hashes.iter().enumerate().map(|(index, &hash)| (hash, self.keys.get(index)))
    }
}

/// An entry on its way into a page: its key, its value as it is kept, and its slot if it has one.
type Entry<'a> = (&'a [u8], &'a [u8], u32);

/// Two runs of entries in one order.
fn merged<'a>(one: impl Iterator<Item = Entry<'a>>, other: impl Iterator<Item = Entry<'a>>) -> impl Iterator<Item = Entry<'a>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(one_next), Some(other_next)) if one_next.0 > other_next.0 => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

impl KeyedState {
    /// Values for the fields `within`, appended to `cells`.
    pub fn map_get(&mut self, state: usize, call: &Batch, fields: Fields<'_>, within: Range<usize>, cells: &mut Cells) {
        self.find_entries(state, call, fields, within, |this, _, _, found| this.read(state, found, cells));
    }

    /// The value of one field of one key.
    pub fn map_get_one(&mut self, state: usize, call: &Batch, key: u32, field: &[u8]) -> Option<&[u8]> {
        let mut entry = std::mem::take(&mut self.entries.keys.bytes);
        entry.clear();
        field::push_key(call.keys.get(key as usize), &mut entry);
        append(&mut entry, field);
        let number = self.look(state, (hash_key(&entry), &entry), call.hashes[key as usize]);
        self.entries.keys.bytes = entry;
        self.value_of(state, number)
    }

    /// Replaces values `within`: value i becomes the one for field i.
    pub fn map_put(
        &mut self,
        state: usize,
        call: &Batch,
        fields: Fields<'_>,
        value_ends: &[u32],
        value_bytes: &[u8],
        within: Range<usize>,
    ) {
        let stamp = self.stamp(state);
        self.find_entries(state, call, fields, within, |this, start, entries, found| {
            for (index, (&slot, hashed)) in (start..).zip(found.iter().zip(entries.iter())) {
                let slot = match slot {
                    NONE => this.new_slot_for_entry(state, hashed, call.hashes[fields.keys[index] as usize]),
                    slot => slot,
                };
                this.replace(state, slot, true, stamp.as_ref(), slice(value_ends, value_bytes, index));
            }
        });
    }

    /// Removes the fields `within`.
    pub fn map_remove(&mut self, state: usize, call: &Batch, fields: Fields<'_>, within: Range<usize>) {
        self.find_entries(state, call, fields, within, |this, _, _, found| {
            for &slot in found.iter().filter(|&&slot| slot != NONE) {
                if this.taken > this.most_taken {
                    return;
                }
                this.remove(state, slot);
            }
        });
    }

    /// Fields of one key from `start` on, in the order of their bytes, and their values: as many as fit into `max_bytes`, but at least
    /// one.
    #[expect(clippy::too_many_arguments, reason = "a page has two columns")]
    pub fn map_scan(
        &mut self,
        state: usize,
        call: &Batch,
        key: u32,
        start: &[u8],
        max_bytes: u32,
        fields: &mut Column,
        values: &mut Column,
    ) {
        let mut from = Vec::new();
        field::push_key(call.keys.get(key as usize), &mut from);
        let prefix = from.len();
        from.extend_from_slice(start);
        let mut read = Vec::new();
        self.tables[state].order();
        let hash_of_key = call.hashes[key as usize];
        let below = self.page_below(state, hash_of_key, &from, prefix, max_bytes as usize);
        let table = &self.tables[state];
        let in_memory =
            table.ordered_from(&from).take_while(|(entry, _)| entry.starts_with(&from[..prefix])).filter_map(|(entry, number)| {
                let slot = &table.slots[number as usize];
                slot.live.then(|| (entry, slot.value(), number))
            });
        let below = below.iter().map(|(entry, _, value)| (&entry[..], &value[..], NONE));
        let mut room = max_bytes as usize;
        for (entry, value, number) in merged(in_memory, below) {
            let Some(value) = table.ttl.map_or(Some(value), |ttl| ttl::fresh(value, ttl, self.now)) else { continue };
            let field = &entry[prefix..];
            if field.len() + value.len() > room && !fields.is_empty() {
                break;
            }
            room = room.saturating_sub(field.len() + value.len());
            fields.push(field);
            values.push(value);
            read.push(number);
        }
        if let Some(ttl) = table.ttl.filter(|ttl| ttl.from == TtlFrom::Access) {
            read.into_iter().for_each(|number| self.touch(state, number, ttl));
        }
    }

    /// Entries that are not in memory, from `from` on, of whose bytes the first `prefix` belong to the key: more than fit into a page,
    /// or all that there are. Those that reading changes are brought into memory.
    fn page_below(&mut self, state: usize, hash_of_key: u64, from: &[u8], prefix: usize, max_bytes: usize) -> Vec<Laid> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        let (ttl, now) = (self.tables[state].ttl, self.now);
        self.visit_below(state, hash_of_key, from, prefix, |entry, facts, kept| {
            if let Some(value) = ttl.map_or(Some(kept), |ttl| ttl::fresh(kept, ttl, now)) {
                bytes += entry.len() - prefix + value.len();
                page.push((entry.to_vec(), facts, kept.to_vec()));
            }
            bytes <= max_bytes
        });
        if ttl.is_some_and(|ttl| ttl.from == TtlFrom::Access) {
            self.take_in(state, hash_of_key, page.drain(..));
        }
        page
    }

    /// Removes all fields of one key.
    pub(super) fn map_clear(&mut self, state: usize, call: &Batch, key: u32) {
        let mut prefix = Vec::new();
        let (hash_of_key, key) = key_at(call, key);
        field::push_key(key, &mut prefix);
        self.tables[state].order();
        let (mut below, mut bytes, most) = (Vec::new(), self.taken, self.most_taken);
        self.visit_below(state, hash_of_key, &prefix, prefix.len(), |entry, facts, kept| {
            bytes += kept.len() + PER_VALUE;
            below.push((entry.to_vec(), facts, kept.to_vec()));
            bytes <= most
        });
        self.take_in(state, hash_of_key, below.into_iter());
        let slots: Vec<u32> = self.tables[state].ordered_with(&prefix).map(|(_, number)| number).collect();
        for number in slots {
            self.remove(state, number);
            if self.taken > most {
                return;
            }
        }
    }

    /// Looks for entries, and has `work` deal with what was found: the index of the first field, the entries, and their slots. Leaves off when
    /// the call has to be undone.
    fn find_entries(
        &mut self,
        state: usize,
        call: &Batch,
        fields: Fields<'_>,
        within: Range<usize>,
        mut work: impl FnMut(&mut Self, usize, &Entries, &[u32]),
    ) {
        let mut entries = std::mem::take(&mut self.entries);
        let mut found = std::mem::take(&mut self.found);
        let mut start = within.start;
        while start < within.end && self.taken <= self.most_taken {
            let end = entries.fill(call, fields, start..within.end);
            let KeyedState { tables, below, max_parallelism, .. } = self;
            let table = &mut tables[state];
            table.find_many(entries.hashes.iter().copied(), entries.keys.iter(), &mut found);
            if let Some(below) = below {
                let hashes = fields.keys[start..end].iter().map(|&key| call.hashes[key as usize]);
                below.bring(state, table, *max_parallelism, entries.iter().zip(hashes), &mut found);
            }
            work(self, start, &entries, &found);
            start = end;
        }
        if entries.keys.bytes.capacity() > 4 * TOGETHER_BYTES {
            // A very long key should not cost its memory for ever.
            entries = Entries::default();
        }
        (self.entries, self.found) = (entries, found);
    }
}
