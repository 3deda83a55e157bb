//! Keyed state over a cold store: what leaves memory, what stays, and a store that fails.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;

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
        self.entries.range::<[u8], _>(range).all(|(place, value)| visit(place, value));
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

fn call(keys: &[Vec<u8>]) -> Batch {
    let hashes = keys.iter().map(|key| hash_key(key)).collect();
    Batch { keys: keys.iter().map(Vec::as_slice).collect(), hashes, ..Batch::default() }
}

/// Puts a value of some bytes for each key.
fn put(state: &mut KeyedState, call: &Batch, bytes: usize) {
    let which: Vec<u32> = (0..call.keys.len() as u32).collect();
    let values: Column = which.iter().map(|&key| vec![key as u8; bytes]).collect();
    state.put(VALUE, call, &which, &values.ends, &values.bytes);
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
