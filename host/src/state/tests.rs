//! Keyed state against plain maps: reads, undo, and snapshots taken in slices while writing goes on.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::plan::Schema;

const VALUE: usize = 0;
const LIST: usize = 1;

fn states() -> Vec<StateDescriptor> {
    let state = |name: &str, kind| StateDescriptor { name: name.into(), kind, schema: Schema::text(), version: 1 };
    vec![state("value", StateKind::Value), state("list", StateKind::List)]
}

#[derive(Clone, Debug)]
enum Step {
    Put(u32, Vec<u8>),
    Clear(u32, bool),
    Append(u32, Vec<u8>),
    Replace(u32, Vec<Vec<u8>>),
    Commit,
    Undo,
    Freeze,
    Advance(usize),
}

/// What state should be: for each key its value and its list.
#[derive(Clone, Debug, Default, PartialEq)]
struct Oracle {
    values: BTreeMap<u32, Vec<u8>>,
    lists: BTreeMap<u32, Vec<Vec<u8>>>,
}

const KEYS: u32 = 12;

fn call() -> Batch {
    let mut call = Batch::default();
    for key in 0..KEYS {
        let key = format!("{key}-{}", "k".repeat(key as usize * 7));
        call.hashes.push(hash_key(key.as_bytes()));
        call.keys.push(key.as_bytes());
    }
    call
}

impl Oracle {
    fn of(state: &KeyedState, call: &Batch) -> Oracle {
        let mut oracle = Oracle::default();
        for key in 0..KEYS {
            let bytes = call.keys.get(key as usize);
            state.value(VALUE, bytes).map(|value| oracle.values.insert(key, value.to_vec()));
            let list = |value| list::elements(value).map(<[u8]>::to_vec).collect();
            state.value(LIST, bytes).map(|value| oracle.lists.insert(key, list(value)));
        }
        oracle
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Put(key, value) => drop(self.values.insert(*key, value.clone())),
            Step::Clear(key, false) => drop(self.values.remove(key)),
            Step::Clear(key, true) => drop(self.lists.remove(key)),
            Step::Append(key, element) => self.lists.entry(*key).or_default().push(element.clone()),
            Step::Replace(key, elements) if elements.is_empty() => drop(self.lists.remove(key)),
            Step::Replace(key, elements) => drop(self.lists.insert(*key, elements.clone())),
            _ => (),
        }
    }
}

fn apply(state: &mut KeyedState, call: &Batch, step: &Step) {
    let column = |values: &[Vec<u8>]| values.iter().map(Vec::as_slice).collect::<Column>();
    match step {
        Step::Put(key, value) => {
            let column = column(std::slice::from_ref(value));
            state.put(VALUE, call, &[*key], &column.ends, &column.bytes);
        }
        Step::Clear(key, list) => state.clear(usize::from(*list), call, &[*key]),
        Step::Append(key, element) => {
            let column = column(std::slice::from_ref(element));
            state.list_append(LIST, call, &[*key], &column.ends, &column.bytes).unwrap();
        }
        Step::Replace(key, elements) => {
            let column = column(elements);
            state.list_replace(LIST, call, *key, &column.ends, &column.bytes);
        }
        _ => unreachable!("not a write"),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..50);
    prop_oneof![
        4 => (0..KEYS, bytes()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (0..KEYS, any::<bool>()).prop_map(|(key, list)| Step::Clear(key, list)),
        4 => (0..KEYS, bytes()).prop_map(|(key, element)| Step::Append(key, element)),
        1 => (0..KEYS, proptest::collection::vec(bytes(), 0..3)).prop_map(|(key, elements)| Step::Replace(key, elements)),
        3 => Just(Step::Commit),
        2 => Just(Step::Undo),
        2 => Just(Step::Freeze),
        3 => (0usize..5).prop_map(Step::Advance),
    ]
}

/// Snapshots under way: what each is to be, and the changes that have come.
#[derive(Default)]
struct Snapshots {
    expected: std::collections::VecDeque<Oracle>,
    restored: Option<KeyedState>,
    pending: Vec<Changes>,
}

impl Snapshots {
    fn take(&mut self, slice: Slice, call: &Batch) {
        self.pending.push(slice.changes);
        if !slice.last {
            return;
        }
        let restored = self.restored.get_or_insert_with(|| KeyedState::new(&states(), 128));
        let mut keys = std::collections::BTreeSet::new();
        for change in self.pending.iter().flat_map(Changes::iter) {
            assert!(keys.insert((change.state, change.key.to_vec())), "an entry occurs once in a snapshot");
            restored.restore(change);
        }
        self.pending.clear();
        assert_eq!(Oracle::of(restored, call), self.expected.pop_front().unwrap(), "restored from all snapshots so far");
    }
}
use super::super::change::Changes;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Snapshots, applied one after another, give exactly the state that was frozen, however writes, undos and slices interleave.
    #[test]
    fn snapshots_hold_what_was_frozen(steps in proptest::collection::vec(step(), 1..80)) {
        let call = call();
        let mut state = KeyedState::new(&states(), 128);
        let (mut now, mut committed) = (Oracle::default(), Oracle::default());
        let mut snapshots = Snapshots::default();
        for step in &steps {
            match step {
                Step::Commit => {
                    state.commit();
                    committed = now.clone();
                }
                Step::Undo => {
                    state.undo();
                    now = committed.clone();
                }
                Step::Freeze => {
                    state.commit();
                    committed = now.clone();
                    state.freeze();
                    snapshots.expected.push_back(now.clone());
                }
                Step::Advance(entries) => if !state.is_dirty() && let Some(slice) = state.advance(*entries) {
                    snapshots.take(slice, &call);
                },
                write => {
                    apply(&mut state, &call, write);
                    now.apply(write);
                }
            }
            prop_assert_eq!(&Oracle::of(&state, &call), &now);
        }
        state.commit();
        while state.is_freezing() {
            if let Some(slice) = state.advance(3) {
                snapshots.take(slice, &call);
            }
        }
        prop_assert!(snapshots.expected.is_empty());
    }
}

#[test]
fn each_key_with_state_is_listed_once() {
    let call = call();
    let mut state = KeyedState::new(&states(), 128);
    for step in [Step::Put(1, b"a".to_vec()), Step::Append(1, b"b".to_vec()), Step::Append(2, b"c".to_vec()), Step::Put(3, vec![])] {
        apply(&mut state, &call, &step);
    }
    apply(&mut state, &call, &Step::Clear(3, false));
    let mut keys: Vec<_> = state.keys().into_iter().map(|place| state.key(place).0.to_vec()).collect();
    keys.sort();
    assert_eq!(keys, [call.keys.get(1).to_vec(), call.keys.get(2).to_vec()]);
}

#[test]
fn a_list_is_read_in_pages_of_at_least_one_element() {
    let call = call();
    let mut state = KeyedState::new(&states(), 128);
    let elements: Vec<Vec<u8>> = (0..10u8).map(|n| vec![n; n as usize * 40]).collect();
    elements.iter().for_each(|element| apply(&mut state, &call, &Step::Append(4, element.clone())));
    let mut read = Vec::new();
    loop {
        let mut page = Column::default();
        state.list_read(LIST, &call, 4, read.len() as u32, 100, &mut page);
        if page.is_empty() {
            break;
        }
        assert!(page.len() == 1 || page.bytes.len() <= 100);
        read.extend(page.iter().map(<[u8]>::to_vec));
    }
    assert_eq!(read, elements);
}

#[test]
fn two_keys_with_one_hash_are_kept_apart() {
    let mut call = Batch::default();
    for key in [&b"a"[..], b"b", b"c"] {
        call.hashes.push(7);
        call.keys.push(key);
    }
    let mut state = KeyedState::new(&states(), 128);
    let values: Column = [&b"1"[..], b"2", b"3"].into_iter().collect();
    state.put(VALUE, &call, &[0, 1, 2], &values.ends, &values.bytes);
    let mut cells = Cells::default();
    state.get(VALUE, &call, &[2, 0, 1], &mut cells);
    assert_eq!(cells.values.iter().collect::<Vec<_>>(), [b"3", b"1", b"2"]);
}
