//! Keyed state over a cold store: what leaves memory, what stays, and a store that fails.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::tests::states;
use super::*;
use crate::record::{Batch, Column, hash_key};

/// A cold store in memory.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    noted: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// After so many commits and reads it fails.
    fails_after: Option<Cell<usize>>,
    /// Bytes of what was read.
    read: Arc<AtomicUsize>,
}

impl Shelf {
    /// One that soon fails.
    pub(crate) fn breaking_after(uses: usize) -> Self {
        Shelf { fails_after: Some(Cell::new(uses)), ..Shelf::default() }
    }

    fn fail(&self) -> Result<(), ColdFault> {
        match &self.fails_after {
            Some(left) if left.get() == 0 => Err(ColdFault("the shelf has broken".into())),
            Some(left) => {
                left.set(left.get() - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Cold for Shelf {
    fn get(&mut self, place: &[u8], value: &mut Vec<u8>) -> Result<bool, ColdFault> {
        assert!(self.noted.is_empty(), "nothing is read before what was noted is written");
        self.fail()?;
        let found = self.entries.get(place);
        value.clear();
        found.iter().for_each(|found| value.extend_from_slice(found));
        self.read.fetch_add(value.len(), Relaxed);
        Ok(found.is_some())
    }

    fn put(&mut self, place: &[u8], value: &[u8]) {
        self.noted.push((place.to_vec(), Some(value.to_vec())));
    }

    fn remove(&mut self, place: &[u8]) {
        assert!(self.entries.contains_key(place), "only what is there is removed");
        self.noted.push((place.to_vec(), None));
    }

    fn commit(&mut self) -> Result<(), ColdFault> {
        if self.noted.is_empty() {
            return Ok(());
        }
        self.fail()?;
        for (place, value) in self.noted.drain(..) {
            match value {
                Some(value) => drop(self.entries.insert(place, value)),
                None => drop(self.entries.remove(&place)),
            }
        }
        Ok(())
    }

    fn range(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), ColdFault> {
        assert!(self.noted.is_empty(), "nothing is read before what was noted is written");
        self.fail()?;
        let range = (Bound::Included(from), Bound::Unbounded);
        self.entries.range::<[u8], _>(range).all(|(place, value)| {
            self.read.fetch_add(value.len(), Relaxed);
            visit(place, value)
        });
        Ok(())
    }

    fn fill(&mut self, source: &mut dyn FnMut(&mut Take<'_>)) -> Result<(), ColdFault> {
        source(&mut |place, value| {
            assert!(self.entries.last_key_value().is_none_or(|(last, _)| &last[..] < place), "in order");
            self.entries.insert(place.to_vec(), value.to_vec());
            Ok(())
        });
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().map(|(place, value)| (place.len() + value.len()) as u64).sum()
    }
}

const VALUE: usize = 0;
const LIST: usize = 1;
const MAP: usize = 2;
const VALUE_WRITE: usize = 3;
const LIST_WRITE: usize = 4;

fn call(keys: &[Vec<u8>]) -> Batch {
    let hashes = keys.iter().map(|key| hash_key(key)).collect();
    Batch { keys: keys.iter().map(Vec::as_slice).collect(), hashes, ..Batch::default() }
}

/// Puts a value of some bytes for each key.
fn put(state: &mut KeyedState, call: &Batch, bytes: usize) {
    let which: Vec<u32> = (0..call.keys.len() as u32).collect();
    let values: Column = which.iter().map(|&key| vec![key as u8; bytes]).collect();
    state.put(VALUE, call, &which, &values.ends, &values.bytes, 0..which.len());
    state.commit();
}

/// Takes a snapshot; how many changes it has.
fn snapshot(state: &mut KeyedState) -> usize {
    let mut changes = 0;
    state.freeze();
    while state.is_freezing() && state.fault().is_none() {
        changes += state.advance(100).map_or(0, |slice| slice.changes.len());
    }
    changes
}

fn get(state: &mut KeyedState, call: &Batch) -> Vec<Option<Vec<u8>>> {
    let which: Vec<u32> = (0..call.keys.len() as u32).collect();
    let mut cells = Cells::default();
    state.get(VALUE, call, &which, &mut cells);
    state.commit();
    cells.present.iter().zip(cells.values.iter()).map(|(&present, value)| (present == 1).then(|| value.to_vec())).collect()
}

#[test]
fn memory_is_bounded_whether_or_not_entries_are_in_a_snapshot() {
    const BOUND: usize = 100_000;
    let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), BOUND);
    let keys: Vec<Vec<u8>> = (0..5000u32).map(|key| key.to_be_bytes().to_vec()).collect();
    let check = |state: &mut KeyedState| {
        state.evict();
        let memory = state.tables.iter().map(table::Table::memory).sum::<usize>();
        assert!(memory <= BOUND, "{memory} bytes in {} entries", state.entries());
        assert!(state.tables.iter().all(|table| table.written.len() <= 2 * table.slots.len()));
    };
    for round in 0..3 {
        for part in keys.chunks(50) {
            put(&mut state, &call(part), 100);
            check(&mut state);
        }
        for part in keys.chunks(50) {
            let found = get(&mut state, &call(part));
            assert!(found.iter().all(|value| value.as_ref().is_some_and(|value| value.len() == 100)));
            check(&mut state);
        }
        assert!(state.entries() > 300, "memory is made use of");
        if round > 0 {
            assert_eq!(snapshot(&mut state), 5000, "one change of each entry, however often it was written");
        }
    }
    assert_eq!(snapshot(&mut state), 0);
    assert_eq!(get(&mut state, &call(&[b"another".to_vec()])), [None]);
}

/// As after a migration, for which all of it comes into memory.
#[test]
fn what_one_call_has_brought_into_memory_gives_its_room_back() {
    const BOUND: usize = 100_000;
    let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), BOUND);
    let call = call(&(0..20_000u32).map(|key| key.to_be_bytes().to_vec()).collect::<Vec<_>>());
    put(&mut state, &call, 100);
    for _ in 0..2 {
        state.evict();
        let bytes = state.usage().unwrap().bytes_in_memory as usize;
        assert!(bytes < 3 * BOUND, "{bytes} bytes in {} entries", state.entries());
        assert!(get(&mut state, &call).iter().all(|value| value.as_ref().is_some_and(|value| value.len() == 100)));
    }
    state.evict();
    assert_eq!(snapshot(&mut state), 20_000);
}

#[test]
fn what_is_saved_for_a_snapshot_that_nobody_takes_does_not_stay_in_memory() {
    let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), 100_000);
    state.below.as_mut().unwrap().most_held = 20_000;
    let keys: Vec<Vec<u8>> = (0..5000u32).map(|key| key.to_be_bytes().to_vec()).collect();
    for _ in 0..3 {
        for part in keys.chunks(50) {
            put(&mut state, &call(part), 100);
            state.evict();
            assert!(state.freezer.held() <= 20_000);
        }
        state.freeze();
    }
    let mut changes = [0; 3];
    for changes in &mut changes {
        while let Some(slice) = std::iter::repeat_with(|| state.advance(100)).flatten().next() {
            *changes += slice.changes.len();
            if slice.last {
                break;
            }
        }
    }
    assert_eq!(changes, [5000; 3]);
    assert!(!state.is_freezing());
}

#[test]
fn an_entry_with_a_very_long_key_stays_in_memory_and_is_listed_all_the_same() {
    let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), 0);
    let call = call(&[vec![7; LONGEST_PLACE], b"short".to_vec()]);
    put(&mut state, &call, 10);
    snapshot(&mut state);
    state.evict();
    assert_eq!(state.entries(), 1);
    let (mut keys, mut listed) = (state.keys(0), Batch::default());
    state.next_keys(&mut keys, 10, &mut listed);
    assert_eq!(listed.keys.len(), 2);
    assert!(get(&mut state, &call).iter().all(Option::is_some));
}

#[test]
fn after_the_store_has_failed_nothing_is_done_any_more_but_to_say_so() {
    let keys: Vec<Vec<u8>> = (0..100u32).map(|key| key.to_be_bytes().to_vec()).collect();
    for uses in 0..20 {
        let mut state = KeyedState::over(states(), 128, Box::new(Shelf::breaking_after(uses)), 0);
        let mut passed = 0;
        for part in keys.chunks(10).cycle().take(30) {
            if state.fault().is_some() {
                break;
            }
            passed += 1;
            put(&mut state, &call(part), 10);
            snapshot(&mut state);
            state.evict();
        }
        assert_eq!(state.fault(), Some(&ColdFault("the shelf has broken".into())), "{uses}");
        assert!(passed <= uses + 1);
    }
}

const ELEMENT: usize = 100;

/// Appends an element to the list of each key of a call.
fn append(state: &mut KeyedState, at: usize, call: &Batch, number: u32) {
    let which: Vec<u32> = (0..call.keys.len() as u32).collect();
    let elements: Column = which.iter().map(|_| element(number)).collect();
    state.list_append(at, call, &which, &elements.ends, &elements.bytes, 0..which.len()).unwrap();
    state.commit();
    state.evict();
}

fn element(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(ELEMENT / 4)
}

/// Reads the list of the first key page by page, in one call.
fn read_list(state: &mut KeyedState, at: usize, call: &Batch) -> Vec<Vec<u8>> {
    let mut read = Vec::new();
    loop {
        let mut page = Column::default();
        state.list_read(at, call, 0, read.len() as u32, 10_000, &mut page);
        if page.is_empty() {
            state.commit();
            state.evict();
            return read;
        }
        read.extend(page.iter().map(<[u8]>::to_vec));
    }
}

fn memory(state: &KeyedState) -> usize {
    state.tables.iter().map(table::Table::memory).sum()
}

#[test]
fn whoever_appends_to_a_list_reads_its_tail_only_and_whoever_reads_it_reads_it_once_in_parts() {
    const ELEMENTS: u32 = 20_000;
    const BOUND: usize = 50_000;
    let (call, read) = (call(&[b"long".to_vec()]), Arc::new(AtomicUsize::new(0)));
    // Whether or not it stays in memory from one call to the next.
    for bound in [0, BOUND] {
        let shelf = Shelf { read: Arc::clone(&read), ..Shelf::default() };
        let mut state = KeyedState::over(states(), 128, Box::new(shelf), bound);
        let mut saved = 0;
        for number in 0..ELEMENTS {
            read.store(0, Relaxed);
            append(&mut state, LIST, &call, number);
            let read = read.load(Relaxed);
            assert!(read < parts::PART + 100, "{read} bytes for element {number}");
            assert!(memory(&state) <= bound + bound / 8);
            if number % 100 == 0 {
                // What is saved are the new elements.
                state.freeze();
                while state.is_freezing() {
                    saved += state.advance(100).map_or(0, |slice| slice.changes.bytes());
                }
            }
        }
        let length = ELEMENTS as usize * (ELEMENT + 1);
        assert!(saved < length + length / 10, "{saved}");
        assert!(read_list(&mut state, LIST, &call).into_iter().eq((0..ELEMENTS).map(element)));
        let read = read.load(Relaxed);
        assert!(read < 2 * length, "{read} bytes for {length}");
        assert!(memory(&state) <= bound + bound / 8, "reading it takes none");
    }
}

#[test]
fn a_list_that_is_replaced_removed_or_has_expired_leaves_nothing_below() {
    let call = call(&[b"one".to_vec(), b"other".to_vec()]);
    for end in 0..4 {
        let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), 0);
        let at = if end == 3 { LIST_WRITE } else { LIST };
        (0..10_000).for_each(|number| append(&mut state, at, &call, number));
        snapshot(&mut state);
        let ends: Column = [element(7)].iter().map(Vec::as_slice).collect();
        match end {
            0 => state.clear(at, &call, &[0, 1]),
            1 => [0, 1].into_iter().for_each(|key| state.list_replace(at, &call, key, &ends.ends, &ends.bytes).unwrap()),
            2 => {
                // What is undone has not happened.
                state.clear(at, &call, &[0, 1]);
                state.undo();
                (0..1000).for_each(|_| state.evict());
                assert_eq!(read_list(&mut state, at, &call).len(), 10_000);
                state.clear(at, &call, &[0, 1]);
            }
            _ => state.begin(1 << 40),
        }
        state.commit();
        snapshot(&mut state);
        for _ in 0..1000 {
            state.sweep();
            state.evict();
        }
        let left = state.usage().unwrap().bytes_on_disk;
        assert!(left < 1000, "{left} bytes");
    }
}

/// Each round loses a hundred lists, each in more than one part.
#[test]
fn lists_that_are_lost_in_every_call_do_not_pile_up_below() {
    let keys: Vec<Vec<u8>> = (0..100u32).map(|key| key.to_be_bytes().to_vec()).collect();
    let (call, which) = (call(&keys), (0..100).collect::<Vec<u32>>());
    let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), 0);
    let ends: Column = (0..200).map(element).collect();
    let mut most = Vec::new();
    for _ in 0..40 {
        which.iter().for_each(|&key| state.list_replace(LIST, &call, key, &ends.ends, &ends.bytes).unwrap());
        state.commit();
        state.evict();
        snapshot(&mut state);
        state.clear(LIST, &call, &which);
        state.commit();
        state.evict();
        most.push(state.usage().unwrap().bytes_on_disk);
    }
    let (early, late) = (most[..20].iter().max().unwrap(), most[20..].iter().max().unwrap());
    assert!(late <= early, "{most:?}");
}

#[test]
fn of_a_list_whose_elements_expire_little_more_lies_below_than_lives() {
    let call = call(&[b"one".to_vec()]);
    for bound in [0, 20_000] {
        let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), bound);
        let mut most = 0;
        // Time goes by so slowly that a thousand live at once.
        for number in 0..20_000 {
            state.begin(i64::from(number / 20));
            append(&mut state, LIST_WRITE, &call, number);
            state.sweep();
            if number % 1000 == 0 {
                snapshot(&mut state);
            }
            most = most.max(state.usage().unwrap().bytes_on_disk);
        }
        let living = 1000 * (ELEMENT as u64 + 9);
        assert!(most < 2 * living, "{most}");
        let expected = (19_000..20_000).map(element);
        assert!(read_list(&mut state, LIST_WRITE, &call).into_iter().eq(expected));
    }
}

/// Event ids that are never seen again, a thousand in each call.
#[test]
fn however_many_keys_each_call_brings_little_more_lies_below_than_lives() {
    const PER_CALL: u32 = 1000;
    let which: Vec<u32> = (0..PER_CALL).collect();
    let values: Column = which.iter().map(|_| &b"seen"[..]).collect();
    // Whether nothing or little stays in memory, and whether or not there are snapshots.
    for (bound, snapshots) in [(0, false), (0, true), (100_000, false), (100_000, true)] {
        let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), bound);
        let mut most = (0, 0);
        for time in 0..100u32 {
            // Those of five calls live.
            state.begin(i64::from(time) * 10);
            let ids: Vec<Vec<u8>> = which.iter().map(|id| (time * PER_CALL + id).to_be_bytes().to_vec()).collect();
            state.put(VALUE_WRITE, &call(&ids), &which, &values.ends, &values.bytes, 0..which.len());
            state.commit();
            state.sweep();
            state.evict();
            if snapshots && time % 10 == 0 {
                snapshot(&mut state);
            }
            most = (most.0.max(state.entries()), most.1.max(state.usage().unwrap().bytes_on_disk));
        }
        // Of one that was written since the last snapshot: twice its place, and its facts.
        let entry = 2 * (8 + 6) + 9 + 8 + 4;
        assert!(most.1 <= 3 * 6 * u64::from(PER_CALL) * entry, "{most:?} entries in memory and bytes below, over {bound}");
        assert!(most.0 <= 2000, "{most:?} entries in memory");
    }
}

#[test]
fn a_call_that_removes_more_of_a_map_than_it_may_leaves_off_in_the_midst_of_it() {
    const MOST: usize = 10_000;
    const FIELDS: u32 = 5000;
    let call = call(&[b"key".to_vec()]);
    let (keys, names): (Vec<u32>, Column) =
        ((0..FIELDS).map(|_| 0).collect(), (0..FIELDS).map(u32::to_be_bytes).collect::<Vec<_>>().iter().map(|name| &name[..]).collect());
    let fields = Fields { keys: &keys, ends: &names.ends, bytes: &names.bytes };
    let values: Column = (0..FIELDS).map(element).collect::<Vec<_>>().iter().map(Vec::as_slice).collect();
    let clear = |state: &mut KeyedState| state.clear(MAP, &call, &[0]);
    let remove = |state: &mut KeyedState| state.map_remove(MAP, &call, fields, 0..keys.len());
    let removals: [&dyn Fn(&mut KeyedState); 2] = [&clear, &remove];
    for mut state in [KeyedState::new(states(), 128), KeyedState::over(states(), 128, Box::new(Shelf::default()), 0)] {
        state.map_put(MAP, &call, fields, &values.ends, &values.bytes, 0..keys.len());
        state.commit();
        state.evict();
        state.limit_taken(MOST);
        for remove in removals {
            let in_memory = state.entries();
            state.begin(0);
            remove(&mut state);
            let taken = state.take_taken();
            assert!((MOST + 1..=MOST + ELEMENT + PER_VALUE).contains(&taken), "{taken} bytes");
            assert!(state.entries() < in_memory + 1000, "no more of it is brought into memory");
            state.undo();
            let mut cells = Cells::default();
            state.map_get(MAP, &call, fields, 0..FIELDS as usize, &mut cells);
            assert_eq!(cells.values, values);
            state.commit();
            state.evict();
        }
    }
}
