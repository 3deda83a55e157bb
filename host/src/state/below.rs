//! [`Below`]: what lies below the tables when state may be larger than memory: a cold store, of which the tables are the write-back
//! cache.
//!
//! An entry that has a slot is what the slot says, live or not; any other is what the cold store says. So whoever looks for an entry
//! looks into the table, then below, and what is found there gets a slot. Slots leave memory between calls, when the tables have grown
//! beyond their bound (`evict`), and take along what they know (`facts`): so undo and freeze know of slots only. What is in no snapshot as
//! yet is listed below (`changed`), and read there when the snapshot is handed over.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::KeyedState;
use super::change::Change;
use super::changed::{Handed, split_listed};
use super::cold::{Cold, ColdFault, HEAD, LONGEST_PLACE, make_place, split_place};
use super::facts::{Facts, Laid};
use super::field;
use super::notes::Notes;
use super::parts::{Disowned, PART, Parts, part_place, prefix};
use super::table::{Hashed, NONE, Table};
use crate::plan::{StateDescriptor, StateKind};
use crate::record::{hash_key, key_group};

/// The cold store of a subtask, and what the tables above it may take.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) store: Box<dyn Cold>,
    /// Bytes of memory that entries may take.
    pub(super) bound: usize,
    /// For each table the number of its state in places: states stand there by name, as in state files.
    pub(super) numbers: Vec<u16>,
    /// For each table whether its state is one of lists.
    are_lists: Vec<bool>,
    /// Whether anything was ever written into the store.
    pub(super) filled: bool,
    /// Why the store can't be used any more.
    pub(super) fault: Option<ColdFault>,
    /// The slot at which the next eviction begins: table and number.
    pub(super) hand: (usize, usize),
    /// How many more slots evictions may look at, and bytes that the last one has left in memory: so they take no time when nothing can
    /// leave.
    pub(super) looks: usize,
    pub(super) left: usize,
    /// Bytes that may be in memory of what was saved for snapshots that wait.
    pub(super) most_held: usize,
    pub(super) handed: Handed,
    /// Entries that were looked for: found in memory, and asked for below.
    pub(super) hits: u64,
    pub(super) misses: u64,
    /// Where the sweep goes on, and how many entries it is to look at then.
    pub(super) swept: Vec<u8>,
    pub(super) due: usize,
    /// How many bytes make a part of a list.
    pub(super) part: usize,
    /// How many lists have got parts.
    pub(super) lists: u64,
    /// Lists that are no more, whose parts are still to be removed, the oldest first.
    pub(super) disowned: VecDeque<Disowned>,
    /// Room that is used again.
    pub(super) place: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// Of the memory for entries, one part in this many may be taken by what was saved for snapshots that wait.
const HELD: usize = 4;
/// Bytes that what was saved for waiting snapshots may take in any case: less is not worth the disk.
const LEAST_HELD: usize = 1 << 20;

impl Below {
    fn new(states: &[StateDescriptor], store: Box<dyn Cold>, bound: usize) -> Self {
        let number = |state: &StateDescriptor| states.iter().filter(|other| other.name < state.name).count();
        Below {
            store,
            bound,
            // Descriptors have far fewer states than a u16 counts.
            numbers: states.iter().map(|state| number(state) as u16).collect(),
            are_lists: states.iter().map(is_list).collect(),
            filled: false,
            fault: None,
            hand: (0, 0),
            looks: 0,
            left: 0,
            most_held: (bound / HELD).max(LEAST_HELD),
            handed: Handed::default(),
            hits: 0,
            misses: 0,
            swept: Vec::new(),
            due: 0,
            part: PART,
            lists: 0,
            disowned: VecDeque::new(),
            place: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Whether there is anything to be read from the store.
    pub(super) fn is_readable(&self) -> bool {
        self.filled && self.fault.is_none()
    }

    /// Notes how something has ended that the store was asked for.
    pub(super) fn settle(&mut self, ended: Result<(), ColdFault>) {
        self.fault = self.fault.take().or(ended.err());
    }

    /// Has numbers for states that come to stand behind the others.
    pub(super) fn add_states(&mut self, new: &[StateDescriptor]) {
        // What lies there keeps its number; only a fill needs the order of names. Descriptors have far fewer states than a u16 counts.
        let first = self.numbers.len();
        self.numbers.extend(first as u16..(first + new.len()) as u16);
        self.are_lists.extend(new.iter().map(is_list));
    }

    /// The entry at a place; none if it is a part of a list, or of a state that nobody knows.
    pub(super) fn placed<'p>(&self, place: &'p [u8]) -> Option<Placed<'p>> {
        let (group, number, key) = split_place(place);
        let state = self.numbers.iter().position(|other| *other == number)?;
        let (key, rest) = if self.are_lists[state] { field::split(key) } else { (Cow::Borrowed(key), &[][..]) };
        rest.is_empty().then_some(Placed { group, state, key })
    }

    /// Reads what lies at a place; false if there is nothing, or the store has failed.
    pub(super) fn read(&mut self, place: &[u8]) -> bool {
        let found = self.store.get(place, &mut self.value);
        let is_found = found.as_ref().is_ok_and(|found| *found);
        self.settle(found.map(drop));
        is_found
    }

    /// Makes the place of an entry; false if the entry has to stay in memory.
    pub(super) fn set_place(&mut self, state: usize, group: u16, key: &[u8]) -> bool {
        make_place(group, self.numbers[state], self.are_lists[state], key, &mut self.place);
        self.place.len() <= LONGEST_PLACE
    }

    /// The slot of an entry for which there was none before the call at hand has brought others into memory.
    #[inline(never)]
    fn look(&mut self, state: usize, table: &mut Table, hashed: Hashed<'_>, group: u16) -> u32 {
        if let Some(number) = table.find(hashed) {
            return number;
        }
        if !self.is_readable() || !self.set_place(state, group, hashed.1) {
            return NONE;
        }
        self.misses += 1;
        let found = self.store.get(&self.place, &mut self.value);
        let slot = match found {
            Ok(true) => {
                let (facts, value) = self.facts(&self.place, &self.value);
                insert_cold(table, hashed, group, facts, value)
            }
            _ => NONE,
        };
        self.settle(found.map(drop));
        slot
    }

    /// Adds to what was found in a table what lies below, for each of `entries` with the hash of its key.
    pub(super) fn bring<'a>(
        &mut self,
        state: usize,
        table: &mut Table,
        max_parallelism: u16,
        entries: impl Iterator<Item = (Hashed<'a>, u64)>,
        found: &mut [u32],
    ) {
        for (slot, (hashed, hash_of_key)) in found.iter_mut().zip(entries) {
            match *slot {
                NONE => *slot = self.look(state, table, hashed, key_group(hash_of_key, max_parallelism)),
                number => {
                    self.hits += 1;
                    table.slots[number as usize].notes.set_used();
                }
            }
        }
    }
}

/// An entry as its place tells it.
pub(super) struct Placed<'p> {
    pub(super) group: u16,
    pub(super) state: usize,
    /// The key, or key and field.
    pub(super) key: Cow<'p, [u8]>,
}

fn is_list(state: &StateDescriptor) -> bool {
    state.kind == StateKind::List
}

/// Gives an entry a slot as it lies in the cold store.
fn insert_cold(table: &mut Table, hashed: Hashed<'_>, group: u16, facts: Facts, value: &[u8]) -> u32 {
    let number = table.insert(hashed, group);
    table.change(number, |slot| {
        slot.set_value(value);
        let Facts { written, saved, live, stored, .. } = facts;
        (slot.written, slot.saved, slot.live, slot.notes) = (written, saved, live, Notes::of_cold(written == 0, stored));
    });
    table.set_parts(number, facts.parts);
    number
}

impl KeyedState {
    /// Empty state that may grow beyond memory: what the tables hold takes about `bound` bytes, everything else lies in `store`.
    pub fn over(states: &[StateDescriptor], max_parallelism: u16, store: Box<dyn Cold>, bound: usize) -> Self {
        let mut state = KeyedState::new(states, max_parallelism);
        state.below = Some(Box::new(Below::new(states, store, bound)));
        state
    }

    /// Whether it may grow beyond memory.
    pub fn is_backed(&self) -> bool {
        self.below.is_some()
    }

    /// Why its cold store can't be used any more. From then on what is read may be wrong: the call at hand is to be undone, and no other
    /// one made.
    pub fn fault(&self) -> Option<&ColdFault> {
        self.below.as_ref()?.fault.as_ref()
    }

    /// The slot of an entry, wherever it lies; [`NONE`] if there is none.
    pub(super) fn look(&mut self, state: usize, hashed: Hashed<'_>, hash_of_key: u64) -> u32 {
        let table = &mut self.tables[state];
        let in_memory = table.find(hashed);
        let mut found = [in_memory.unwrap_or(NONE)];
        if let Some(below) = &mut self.below {
            below.bring(state, table, self.max_parallelism, [(hashed, hash_of_key)].into_iter(), &mut found);
            if in_memory.is_none() && found[0] != NONE {
                // Nothing that the call at hand has done has to do with it.
                self.shed_parts(state, found[0]);
            }
        }
        found[0]
    }

    /// Shows the entries of a map that have a value below and no slot, from the key `from` on, of which the first `prefix` bytes are common
    /// to all that are wanted, until `visit` has seen enough and says false.
    pub(super) fn visit_below(
        &mut self,
        state: usize,
        hash_of_key: u64,
        from: &[u8],
        prefix: usize,
        mut visit: impl FnMut(&[u8], Facts, &[u8]) -> bool,
    ) {
        let Some(below) = self.below.as_mut().filter(|below| below.is_readable()) else { return };
        if !below.set_place(state, key_group(hash_of_key, self.max_parallelism), from) {
            if HEAD + prefix > LONGEST_PLACE {
                // Nothing with such a prefix lies there.
                return;
            }
            // No place is as long: what lies there from `from` on lies behind all that begins like it.
            below.place.truncate(LONGEST_PLACE);
            below.place.push(0);
        }
        let (table, wanted) = (&self.tables[state], &below.place[..HEAD + prefix]);
        let read = below.store.range(&below.place, &mut |place, laid| {
            let entry = &place[HEAD.min(place.len())..];
            let (facts, value) = below.facts(place, laid);
            place.starts_with(wanted) && (!facts.live || table.find((hash_key(entry), entry)).is_some() || visit(entry, facts, value))
        });
        below.settle(read);
    }

    /// Gives entries of a map slots, as they lie below.
    pub(super) fn take_in(&mut self, state: usize, hash_of_key: u64, entries: impl Iterator<Item = Laid>) {
        let group = key_group(hash_of_key, self.max_parallelism);
        for (entry, facts, value) in entries {
            insert_cold(&mut self.tables[state], (hash_key(&entry), &entry), group, facts, &value);
        }
    }

    /// Gives slots to all entries that lie below, as they lie there: then all there is is in memory. They leave it again as any others do.
    ///
    /// # Errors
    /// When the store can't be read. It can't be used any more then.
    pub fn take_in_all(&mut self) -> Result<(), ColdFault> {
        let KeyedState { tables, below: Some(below), .. } = self else { return Ok(()) };
        let read = below.store.range(&[], &mut |place, laid| {
            if split_listed(place).is_some() {
                // Behind all entries.
                return false;
            }
            // Parts are read when their list is joined.
            let Some(Placed { group, state, key }) = below.placed(place) else { return true };
            let hashed = (hash_key(&key), &*key);
            if tables[state].find(hashed).is_none() {
                let (facts, value) = below.facts(place, laid);
                insert_cold(&mut tables[state], hashed, group, facts, value);
            }
            true
        });
        below.settle(read);
        self.join_lists();
        self.fault().cloned().map_or(Ok(()), Err)
    }

    /// Takes up what a checkpoint holds, at a restore of state that may grow beyond memory: each entry once, as [`ChangeKind::Put`], in
    /// the order of state files, with states numbered by their names' order. `source` hands them over.
    ///
    /// # Errors
    /// What `source` says, or the store.
    ///
    /// # Panics
    /// If it may not grow beyond memory.
    ///
    /// [`ChangeKind::Put`]: super::ChangeKind::Put
    pub fn fill<E: From<ColdFault>>(
        &mut self,
        source: impl FnOnce(&mut dyn FnMut(Change<'_>) -> Result<(), E>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut below = self.below.take().expect("whoever fills it has asked whether it is backed");
        let Below { store, numbers, are_lists, place, value, lists, part, .. } = &mut *below;
        let (mut source, mut read) = (Some(source), Ok(()));
        let filled = store.fill(&mut |take| {
            let Some(source) = source.take() else { return };
            read = source(&mut |change| {
                // Whoever numbers them knows the same states.
                let state = numbers.iter().position(|number| *number == change.state).unwrap_or_default();
                make_place(change.group, change.state, are_lists[state], change.key, place);
                if place.len() > LONGEST_PLACE {
                    self.restore(Change { state: state as u16, ..change });
                    return Ok(());
                }
                if !are_lists[state] || change.value.len() < *part {
                    Facts::of_saved(true, change.value, None).lay(change.value, value);
                    return Ok(take(place, value)?);
                }
                *lists += 1;
                let (mut parts, mut pieces) = (Parts::none(*lists), Vec::new());
                let mortal = self.tables[state].ttl.is_some();
                let cut = parts.cut(change.value, change.value.len(), *part, mortal, |at, piece| {
                    pieces.push((at, piece));
                    Ok::<(), E>(())
                })?;
                let tail = &change.value[cut..];
                Facts::of_saved(true, tail, Some(parts)).lay(tail, value);
                take(place, value)?;
                let prefix = prefix(place, parts.list);
                Ok(pieces.into_iter().try_for_each(|(at, piece)| take(&part_place(&prefix, at), piece))?)
            });
        });
        below.filled = true;
        self.below = Some(below);
        read.and(filled.map_err(E::from))
    }
}
