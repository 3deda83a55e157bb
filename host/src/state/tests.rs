//! Keyed state against plain maps: reads, undo, what expires, and snapshots taken in slices while writing goes on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};

use super::below_tests::Shelf;
use super::*;
use crate::plan::{Schema, StateDescriptor, StateKind, Ttl, TtlFrom};
use crate::record::{Batch, Column, hash_key};

const KEYS: u32 = 12;
const TTL: u64 = 50;

static DECLARED: LazyLock<Vec<StateDescriptor>> = LazyLock::new(declare);

/// States of every kind, without a time to live and with one from the last write and from the last access.
pub(crate) fn states() -> &'static [StateDescriptor] {
    &DECLARED
}

fn declare() -> Vec<StateDescriptor> {
    let mut states = Vec::new();
    for (suffix, from) in [("", None), ("-write", Some(TtlFrom::Write)), ("-access", Some(TtlFrom::Access))] {
        for (name, kind) in [("value", StateKind::Value), ("list", StateKind::List), ("map", StateKind::Map)] {
            let ttl = from.map(|from| Ttl::new(TTL, from));
            let field_schema = (kind == StateKind::Map).then(|| Schema("bytes".into()));
            states.push(StateDescriptor { ttl, field_schema, ..StateDescriptor::new(format!("{name}{suffix}"), kind, Schema::text(), 1) });
        }
    }
    states
}

/// The same with one more.
fn arranged() -> Vec<StateDescriptor> {
    let new = StateDescriptor::new("new", StateKind::Value, Schema::text(), 1);
    states().iter().cloned().chain([new]).collect()
}

const VALUE: usize = 0;
const LIST: usize = 1;
const MAP: usize = 2;
const VALUE_WRITE: usize = 3;
const LIST_WRITE: usize = 4;
const LIST_ACCESS: usize = 7;
const MAP_ACCESS: usize = 8;
const STATES: usize = 9;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put(usize, u32, Vec<u8>),
    Clear(usize, u32),
    Append(usize, u32, Vec<u8>),
    Replace(usize, u32, Vec<Vec<u8>>),
    MapPut(usize, Vec<(u32, Vec<u8>, Vec<u8>)>),
    MapRemove(usize, Vec<(u32, Vec<u8>)>),
    Get(usize, Vec<u32>),
    List(usize, u32, u32, u32),
    MapGet(usize, Vec<(u32, Vec<u8>)>),
    Scan(usize, u32, Vec<u8>, u32),
    Tick(u64),
    Commit,
    Undo,
    Freeze,
    Advance(usize),
    Sweep,
    /// Another component takes over.
    Arrange,
}

pub(crate) fn call() -> Batch {
    let mut call = Batch::default();
    for key in 0..KEYS {
        // Zero bytes, short and long keys, and the empty one.
        let key = match key {
            0 => String::new(),
            1 => "\0".into(),
            2 => "\0\u{1}".into(),
            _ => format!("{key}-{}", "k".repeat(key as usize * 7)),
        };
        call.hashes.push(hash_key(key.as_bytes()));
        call.keys.push(key.as_bytes());
    }
    call
}

/// A value, an element or a field's value, and when it was stamped; 0 where nothing expires.
type Cell = (Vec<u8>, i64);

/// What state should be: for each state and key its cells, by field, or by number in a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    cells: BTreeMap<(usize, u32), BTreeMap<Vec<u8>, Cell>>,
    now: i64,
    appended: u64,
}

/// What can be seen, without numbers of elements.
pub(crate) type Seen = BTreeMap<(usize, Vec<u8>), Vec<(Vec<u8>, Cell)>>;

impl Oracle {
    fn ttl(state: usize) -> Option<Ttl> {
        states()[state].ttl
    }

    fn is_fresh(state: usize, stamped: i64, now: i64) -> bool {
        Self::ttl(state).is_none_or(|ttl| stamped + ttl.ms as i64 > now)
    }

    fn stamp(&self, state: usize) -> i64 {
        if Self::ttl(state).is_some() { self.now } else { 0 }
    }

    /// What several say, each about its own keys.
    pub(crate) fn united<'a, F: Fn(u32) -> bool>(parts: impl Iterator<Item = (&'a Oracle, F)>) -> Oracle {
        let mut all = Oracle::default();
        for (part, own) in parts {
            all.cells.extend(part.cells.iter().filter(|((_, key), _)| own(*key)).map(|(place, cells)| (*place, cells.clone())));
            (all.now, all.appended) = (part.now, all.appended.max(part.appended));
        }
        all
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Changes all values.
    pub(crate) fn rewrite(&mut self, rewrite: fn(&[u8]) -> Vec<u8>) {
        self.cells.values_mut().flat_map(BTreeMap::values_mut).for_each(|cell| cell.0 = rewrite(&cell.0));
    }

    pub(crate) fn seen(&self, call: &Batch, now: i64) -> Seen {
        let mut seen = Seen::new();
        for (&(state, key), cells) in &self.cells {
            let is_map = states()[state].kind == StateKind::Map;
            let fresh = cells.iter().filter(|(_, cell)| Self::is_fresh(state, cell.1, now));
            let fresh: Vec<_> = fresh.map(|(field, cell)| (if is_map { field.clone() } else { vec![] }, cell.clone())).collect();
            if !fresh.is_empty() {
                seen.insert((state, call.keys.get(key as usize).to_vec()), fresh);
            }
        }
        seen
    }

    fn put(&mut self, state: usize, key: u32, field: &[u8], value: &[u8]) {
        let cell = (value.to_vec(), self.stamp(state));
        self.cells.entry((state, key)).or_default().insert(field.to_vec(), cell);
    }

    fn append(&mut self, state: usize, key: u32, element: &[u8]) {
        self.appended += 1;
        let number = self.appended.to_be_bytes();
        self.put(state, key, &number, element);
    }

    /// Stamps what a read has met, if reads count.
    fn touch(&mut self, state: usize, key: u32, met: impl Fn(&[u8]) -> bool) {
        let (now, ttl) = (self.now, Self::ttl(state));
        if ttl.is_some_and(|ttl| ttl.from == TtlFrom::Access) {
            let cells = self.cells.entry((state, key)).or_default();
            let met = cells.iter_mut().filter(|(field, cell)| met(field) && Self::is_fresh(state, cell.1, now));
            met.for_each(|(_, cell)| cell.1 = now);
        }
    }

    fn cell(&self, state: usize, key: u32, field: &[u8]) -> Option<Vec<u8>> {
        let cell = self.cells.get(&(state, key))?.get(field)?;
        Self::is_fresh(state, cell.1, self.now).then(|| cell.0.clone())
    }

    /// The cells from a field on that fit into so many bytes.
    fn page(&self, state: usize, key: u32, start: &[u8], skip: usize, max: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let is_map = states()[state].kind == StateKind::Map;
        let mut page: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        let cells = self.cells.get(&(state, key)).into_iter().flat_map(|cells| cells.range(start.to_vec()..));
        for (field, (value, _)) in cells.filter(|(_, cell)| Self::is_fresh(state, cell.1, self.now)).skip(skip) {
            let field = if is_map { field.clone() } else { vec![] };
            // Even an empty element takes room for its end.
            bytes += if is_map { field.len() + value.len() } else { value.len().max(1) };
            if bytes > max as usize && !page.is_empty() {
                break;
            }
            page.push((field, value.clone()));
        }
        page
    }

    /// Makes a change. What a read gives is compared with `state`, which makes it too.
    pub(crate) fn apply(&mut self, step: &Step, state: &mut KeyedState, call: &Batch) {
        match step {
            Step::Put(at, key, value) => self.put(*at, *key, &[], value),
            Step::Clear(at, key) => drop(self.cells.remove(&(*at, *key))),
            Step::Append(at, key, element) => self.append(*at, *key, element),
            Step::Replace(at, key, elements) => {
                self.cells.remove(&(*at, *key));
                elements.iter().for_each(|element| self.append(*at, *key, element));
            }
            Step::MapPut(at, entries) => entries.iter().for_each(|(key, field, value)| self.put(*at, *key, field, value)),
            Step::MapRemove(at, fields) => {
                fields.iter().for_each(|(key, field)| drop(self.cells.entry((*at, *key)).or_default().remove(field)));
            }
            Step::Get(at, keys) => {
                let expected: Vec<_> = keys.iter().map(|key| self.cell(*at, *key, &[])).collect();
                keys.iter().for_each(|key| self.touch(*at, *key, |_| true));
                let mut cells = Cells::default();
                state.get(*at, call, keys, &mut cells);
                assert_eq!(options(&cells), expected, "{step:?}");
                return;
            }
            Step::MapGet(at, fields) => {
                let expected: Vec<_> = fields.iter().map(|(key, field)| self.cell(*at, *key, field)).collect();
                fields.iter().for_each(|(key, field)| self.touch(*at, *key, |met| met == field));
                let mut cells = Cells::default();
                let (keys, column) = unzip(fields.iter().map(|(key, field)| (*key, &field[..])));
                let asked = Fields { keys: &keys, ends: &column.ends, bytes: &column.bytes };
                // In two parts, as a caller may who limits the reply.
                let middle = keys.len() / 2;
                state.map_get(*at, call, asked, 0..middle, &mut cells);
                state.map_get(*at, call, asked, middle..keys.len(), &mut cells);
                assert_eq!(options(&cells), expected, "{step:?}");
                for ((key, field), expected) in fields.iter().zip(expected) {
                    assert_eq!(state.map_get_one(*at, call, *key, field).map(<[u8]>::to_vec), expected, "{step:?}");
                }
                return;
            }
            Step::List(at, key, start, max) => {
                let expected = self.page(*at, *key, &[], *start as usize, *max);
                self.touch(*at, *key, |_| true);
                let mut page = Column::default();
                state.list_read(*at, call, *key, *start, *max, &mut page);
                let page: Vec<_> = page.iter().map(|element| (vec![], element.to_vec())).collect();
                assert_eq!(page, expected, "{step:?}");
                return;
            }
            Step::Scan(at, key, start, max) => {
                let expected = self.page(*at, *key, start, 0, *max);
                self.touch(*at, *key, |met| expected.iter().any(|(field, _)| field == met));
                let (mut fields, mut values) = (Column::default(), Column::default());
                state.map_scan(*at, call, *key, start, *max, &mut fields, &mut values);
                let page: Vec<_> = fields.iter().map(<[u8]>::to_vec).zip(values.iter().map(<[u8]>::to_vec)).collect();
                assert_eq!(page, expected, "{step:?}");
                return;
            }
            Step::Tick(ms) => {
                self.now += *ms as i64;
                state.begin(self.now);
                return;
            }
            Step::Sweep => return state.sweep(),
            Step::Arrange => {
                state.arrange(&arranged(), self.now);
                // The new state is empty, and takes what is put there; it is taken back, so that nobody else need know of it.
                for value in [None, Some(b"x".to_vec())] {
                    let mut cells = Cells::default();
                    state.get(STATES, call, &[0], &mut cells);
                    assert_eq!(options(&cells), [value]);
                    state.put(STATES, call, &[0], &[1], b"x", 0..1);
                }
                state.clear(STATES, call, &[0]);
                return state.commit();
            }
            _ => unreachable!("not a change"),
        }
        write(state, call, step);
    }
}

fn options(cells: &Cells) -> Vec<Option<Vec<u8>>> {
    assert_eq!(cells.present.len(), cells.values.len());
    let cell = |(&present, value): (&u8, &[u8])| (present == 1).then(|| value.to_vec());
    cells.present.iter().zip(cells.values.iter()).map(cell).collect()
}

fn unzip<'a>(entries: impl Iterator<Item = (u32, &'a [u8])>) -> (Vec<u32>, Column) {
    let (keys, values): (Vec<u32>, Vec<&[u8]>) = entries.unzip();
    (keys, values.into_iter().collect())
}

fn write(state: &mut KeyedState, call: &Batch, step: &Step) {
    let column = |values: &[Vec<u8>]| values.iter().map(Vec::as_slice).collect::<Column>();
    match step {
        Step::Put(at, key, value) => {
            let column = column(std::slice::from_ref(value));
            state.put(*at, call, &[*key], &column.ends, &column.bytes, 0..1);
        }
        Step::Clear(at, key) => state.clear(*at, call, &[*key]),
        Step::Append(at, key, element) => {
            let column = column(std::slice::from_ref(element));
            state.list_append(*at, call, &[*key], &column.ends, &column.bytes, 0..1).unwrap();
        }
        Step::Replace(at, key, elements) => {
            let column = column(elements);
            state.list_replace(*at, call, *key, &column.ends, &column.bytes).unwrap();
        }
        Step::MapPut(at, entries) => {
            let (keys, fields) = unzip(entries.iter().map(|(key, field, _)| (*key, &field[..])));
            let values: Column = entries.iter().map(|(_, _, value)| &value[..]).collect();
            let fields = Fields { keys: &keys, ends: &fields.ends, bytes: &fields.bytes };
            state.map_put(*at, call, fields, &values.ends, &values.bytes, 0..keys.len());
        }
        Step::MapRemove(at, fields) => {
            let (keys, fields) = unzip(fields.iter().map(|(key, field)| (*key, &field[..])));
            state.map_remove(*at, call, Fields { keys: &keys, ends: &fields.ends, bytes: &fields.bytes }, 0..keys.len());
        }
        _ => unreachable!("not a write"),
    }
}

/// What can be seen of a state at a time, wherever it lies.
pub(crate) fn seen(state: &KeyedState, now: i64) -> Seen {
    let mut seen = Seen::new();
    let parts = parts_below(state);
    let whole = |parts_of: Option<parts::Parts>, tail: &[u8]| {
        let in_parts = parts_of.map(|of| parts[&of.list].clone()).unwrap_or_default();
        assert_eq!(in_parts.len(), parts_of.map_or(0, |of| of.bytes as usize));
        [&in_parts, tail].concat()
    };
    for (at, table) in state.tables.iter().enumerate() {
        for number in table.with_value(now) {
            let slot = &table.slots[number as usize];
            see(&mut seen, at, slot.key(), &whole(table.parts(number), slot.value()), now);
        }
    }
    if let Some(below) = &state.below {
        let mut visit = |place: &[u8], laid: &[u8]| {
            if changed::split_listed(place).is_some() {
                return false;
            }
            let Some(below::Placed { state: at, key, .. }) = below.placed(place) else { return true };
            let (facts, value) = below.facts(place, laid);
            let table = &state.tables[at];
            let expired = facts.is_expired(table.kind, value, table.ttl, now);
            if facts.live && !expired && table.find((hash_key(&key), &key)).is_none() {
                see(&mut seen, at, &key, &whole(facts.parts, value), now);
            }
            true
        };
        below.store.range(&[], &mut visit).unwrap();
    }
    seen.values_mut().for_each(|cells| cells.sort_by(|a, b| a.0.cmp(&b.0)));
    seen
}

/// What lies below in parts, by the numbers of lists.
fn parts_below(state: &KeyedState) -> BTreeMap<u64, Vec<u8>> {
    let mut parts = BTreeMap::<u64, Vec<u8>>::new();
    let Some(below) = &state.below else { return parts };
    let mut visit = |place: &[u8], part: &[u8]| {
        if changed::split_listed(place).is_none() && below.placed(place).is_none() {
            let (place, _) = place.split_last_chunk::<8>().unwrap();
            let (_, list) = place.split_last_chunk().unwrap();
            parts.entry(u64::from_be_bytes(*list)).or_default().extend_from_slice(part);
        }
        true
    };
    below.store.range(&[], &mut visit).unwrap();
    parts
}

fn see(seen: &mut Seen, at: usize, key: &[u8], kept: &[u8], now: i64) {
    let StateDescriptor { kind, ttl, .. } = states()[at];
    let cell = |kept: &[u8]| match ttl {
        None => Some((kept.to_vec(), 0)),
        Some(ttl) => ttl::fresh(kept, ttl, now).map(|value| (value.to_vec(), ttl::split(kept).0)),
    };
    let (key, cells): (_, Vec<_>) = match kind {
        StateKind::Map => {
            let (key, field) = field::split(key);
            (key.to_vec(), cell(kept).map(|cell| (field.to_vec(), cell)).into_iter().collect())
        }
        StateKind::List => (key.to_vec(), list::elements(kept).filter_map(cell).map(|cell| (vec![], cell)).collect()),
        _ => (key.to_vec(), cell(kept).map(|cell| (vec![], cell)).into_iter().collect()),
    };
    seen.entry((at, key)).or_default().extend(cells);
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..50)
}

/// Few fields, with zero bytes among them.
fn field_of_few() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(0xff)], 0..3)
}

fn of_kind(kind: usize) -> impl Strategy<Value = usize> {
    (0usize..3).prop_map(move |ttl| kind + 3 * ttl)
}

pub(crate) fn change() -> impl Strategy<Value = Step> {
    let fields = || proptest::collection::vec((0..KEYS, field_of_few()), 0..5);
    prop_oneof![
        4 => (of_kind(VALUE), 0..KEYS, bytes()).prop_map(|(state, key, value)| Step::Put(state, key, value)),
        2 => (0..STATES, 0..KEYS).prop_map(|(state, key)| Step::Clear(state, key)),
        4 => (of_kind(LIST), 0..KEYS, bytes()).prop_map(|(state, key, element)| Step::Append(state, key, element)),
        1 => (of_kind(LIST), 0..KEYS, proptest::collection::vec(bytes(), 0..3)).prop_map(|(state, key, all)| Step::Replace(state, key, all)),
        4 => (of_kind(MAP), proptest::collection::vec((0..KEYS, field_of_few(), bytes()), 0..5)).prop_map(|(state, all)| Step::MapPut(state, all)),
        2 => (of_kind(MAP), fields()).prop_map(|(state, fields)| Step::MapRemove(state, fields)),
        2 => (of_kind(VALUE), proptest::collection::vec(0..KEYS, 0..5)).prop_map(|(state, keys)| Step::Get(state, keys)),
        2 => (of_kind(LIST), 0..KEYS, 0u32..3, 0u32..80).prop_map(|(state, key, start, max)| Step::List(state, key, start, max)),
        2 => (of_kind(MAP), fields()).prop_map(|(state, fields)| Step::MapGet(state, fields)),
        2 => (of_kind(MAP), 0..KEYS, field_of_few(), 0u32..80).prop_map(|(state, key, start, max)| Step::Scan(state, key, start, max)),
        4 => (0..TTL / 2).prop_map(Step::Tick),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        25 => change(),
        3 => Just(Step::Commit),
        2 => Just(Step::Undo),
        2 => Just(Step::Freeze),
        3 => (0usize..5).prop_map(Step::Advance),
        3 => Just(Step::Sweep),
        1 => Just(Step::Arrange),
    ]
}

/// Lists of few keys, to which more is appended than goes.
pub(crate) fn long_lists() -> impl Strategy<Value = Step> {
    let (state, key) = (|| of_kind(LIST), || 0u32..2);
    prop_oneof![
        60 => (state(), key(), bytes()).prop_map(|(state, key, element)| Step::Append(state, key, element)),
        6 => (state(), key(), 0u32..60, 0u32..600).prop_map(|(state, key, start, max)| Step::List(state, key, start, max)),
        1 => (state(), key()).prop_map(|(state, key)| Step::Clear(state, key)),
        1 => (state(), key(), proptest::collection::vec(bytes(), 0..20)).prop_map(|(state, key, all)| Step::Replace(state, key, all)),
        10 => (0..TTL / 10).prop_map(Step::Tick),
        25 => step().prop_filter("not of lists", |step| !matches!(step, Step::Clear(..) | Step::Replace(..) | Step::Tick(_))),
    ]
}

/// Whether a step is one of those that [`change`] makes.
pub(crate) fn is_change(step: &Step) -> bool {
    !matches!(step, Step::Commit | Step::Undo | Step::Freeze | Step::Advance(_) | Step::Sweep | Step::Arrange)
}

impl KeyedState {
    /// The same with parts of lists of so many bytes.
    pub(crate) fn with_parts_of(mut self, bytes: usize) -> Self {
        self.below.iter_mut().for_each(|below| below.part = bytes);
        self
    }
}

/// Snapshots under way: what each is to be, and the changes that have come.
#[derive(Default)]
struct Snapshots {
    expected: VecDeque<Oracle>,
    restored: Option<KeyedState>,
    pending: Vec<Changes>,
}

impl Snapshots {
    fn take(&mut self, slice: Slice, call: &Batch, now: i64) {
        self.pending.push(slice.changes);
        if !slice.last {
            return;
        }
        let restored = self.restored.get_or_insert_with(|| KeyedState::new(states(), 128));
        let mut keys = BTreeSet::new();
        for change in self.pending.iter().flat_map(Changes::iter) {
            assert!(keys.insert((change.state, change.key.to_vec())), "an entry occurs once in a snapshot");
            restored.restore(change);
        }
        self.pending.clear();
        let expected = self.expected.pop_front().unwrap();
        assert_eq!(seen(restored, now), expected.seen(call, now), "restored from all snapshots so far");
    }
}

pub(crate) fn check(mut state: KeyedState, steps: &[Step]) -> Result<(), TestCaseError> {
    let call = call();
    let (mut now, mut committed) = (Oracle::default(), Oracle::default());
    let mut snapshots = Snapshots::default();
    for step in steps {
        match step {
            Step::Commit => {
                state.commit();
                state.evict();
                committed = now.clone();
            }
            Step::Undo => {
                state.undo();
                state.evict();
                now = Oracle { now: now.now, ..committed.clone() };
            }
            Step::Freeze => {
                state.commit();
                committed = now.clone();
                state.freeze();
                snapshots.expected.push_back(now.clone());
            }
            Step::Advance(entries) => {
                if !state.is_dirty()
                    && let Some(slice) = state.advance(*entries)
                {
                    snapshots.take(slice, &call, now.now);
                }
            }
            Step::Sweep | Step::Arrange if state.is_dirty() => {}
            change => now.apply(change, &mut state, &call),
        }
        prop_assert_eq!(seen(&state, now.now), now.seen(&call, now.now));
        // Listing writes everything below, so not after each step, and never within a call.
        if !state.is_backed() || (matches!(step, Step::Sweep) && !state.is_dirty()) {
            prop_assert_eq!(listed(&mut state, now.now), keys_seen(&now, &call));
        }
    }
    state.commit();
    while state.is_freezing() {
        if let Some(slice) = state.advance(3) {
            snapshots.take(slice, &call, now.now);
        }
    }
    prop_assert!(snapshots.expected.is_empty());
    prop_assert_eq!(state.fault(), None);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..ProptestConfig::default() })]

    /// Reads give what was written and has not expired; snapshots, applied one after another, give exactly the state that was frozen,
    /// however writes, undos, sweeps and slices interleave.
    #[test]
    fn state_is_what_was_written_and_snapshots_hold_what_was_frozen(steps in proptest::collection::vec(step(), 1..120)) {
        check(KeyedState::new(states(), 128), &steps)?;
    }

    /// When all has expired and is in snapshots, sweeping leaves nothing, and what was restored from them expires too.
    #[test]
    fn what_has_expired_leaves_the_memory(steps in proptest::collection::vec(change(), 1..60)) {
        let call = call();
        let mut state = KeyedState::new(states(), 128);
        let mut now = Oracle::default();
        steps.iter().for_each(|step| now.apply(step, &mut state, &call));
        (0..STATES as u32 / 3).for_each(|kind| (0..KEYS).for_each(|key| state.clear(kind as usize, &call, &[key])));
        state.commit();
        state.freeze();
        let mut restored = KeyedState::new(states(), 128);
        while state.is_freezing() {
            let slice = state.advance(usize::MAX);
            slice.iter().flat_map(|slice| slice.changes.iter()).for_each(|change| restored.restore(change));
        }
        for state in [&mut state, &mut restored] {
            state.begin(now.now + TTL as i64);
            prop_assert!(listed(state, now.now + TTL as i64).is_empty());
            (0..200).for_each(|_| state.sweep());
            prop_assert_eq!(state.entries(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(4), failure_persistence: None, ..ProptestConfig::default() })]

    /// So it is when only few bytes of it may be in memory.
    #[test]
    fn so_it_is_wherever_state_lies(steps in proptest::collection::vec(step(), 1..400), bound in 0usize..4000, part in 1usize..100) {
        let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), bound).with_parts_of(part);
        state.below.as_mut().unwrap().most_held = bound / 8;
        check(state, &steps)?;
    }

    /// And when lists are longer than what may be in memory.
    #[test]
    fn so_it_is_with_long_lists(steps in proptest::collection::vec(long_lists(), 1..400), bound in 0usize..4000, part in 1usize..200) {
        let mut state = KeyedState::over(states(), 128, Box::new(Shelf::default()), bound).with_parts_of(part);
        state.below.as_mut().unwrap().most_held = bound / 8;
        check(state, &steps)?;
    }
}

/// The keys that `finish` gets, sorted.
fn listed(state: &mut KeyedState, now: i64) -> Vec<Vec<u8>> {
    let (mut keys, mut listed) = (state.keys(now), Vec::new());
    loop {
        let mut call = Batch::default();
        state.next_keys(&mut keys, 3, &mut call);
        assert!(call.keys.iter().map(hash_key).eq(call.hashes.iter().copied()));
        listed.extend(call.keys.iter().map(<[u8]>::to_vec));
        if call.keys.len() < 3 {
            listed.sort();
            return listed;
        }
    }
}

/// The keys that have state, sorted.
fn keys_seen(oracle: &Oracle, call: &Batch) -> Vec<Vec<u8>> {
    oracle.seen(call, oracle.now).into_keys().map(|(_, key)| key).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Steps that are no reads.
fn run(state: &mut KeyedState, steps: &[Step]) {
    steps.iter().for_each(|step| write(state, &call(), step));
    state.commit();
}

/// All changes of the next snapshot.
fn snapshot(state: &mut KeyedState) -> Vec<Changes> {
    state.freeze();
    let mut all = Vec::new();
    while state.is_freezing() {
        all.extend(state.advance(usize::MAX).map(|slice| slice.changes));
    }
    all
}

fn kinds(changes: &[Changes]) -> Vec<ChangeKind> {
    changes.iter().flat_map(Changes::iter).map(|change| change.kind).collect()
}

#[test]
fn a_list_is_read_in_pages_of_at_least_one_element() {
    let call = call();
    let mut state = KeyedState::new(states(), 128);
    let elements: Vec<Vec<u8>> = (0..10u8).map(|n| vec![n; n as usize * 40]).collect();
    elements.iter().for_each(|element| run(&mut state, &[Step::Append(LIST, 4, element.clone())]));
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
fn a_page_of_a_list_begins_where_the_one_before_it_has_ended_until_the_list_is_replaced() {
    const ELEMENTS: u32 = 5000;
    let call = call();
    let elements: Column = (0..ELEMENTS).map(u32::to_be_bytes).collect::<Vec<_>>().iter().map(|element| &element[..]).collect();
    for at in [LIST, LIST_WRITE, LIST_ACCESS] {
        let mut state = KeyedState::new(states(), 128);
        state.list_replace(at, &call, 4, &elements.ends, &elements.bytes).unwrap();
        state.commit();
        let (mut read, mut page) = (Column::default(), Column::default());
        while read.is_empty() || !page.is_empty() {
            page.clear();
            state.list_read(at, &call, 4, read.len() as u32, 100, &mut page);
            let passed = state.page.unwrap().passed;
            page.iter().for_each(|element| read.push(element));
            // Whatever becomes of others.
            state.put(VALUE, &call, &[1], &[1], b"x", 0..1);
            state.clear(VALUE, &call, &[1]);
            state.list_replace(at, &call, 2, &[], &[]).unwrap();
            assert!(state.page.is_some());
            // Where reads count, the first page has stamped all of it, and so moved it.
            assert!(passed as usize == read.len() || (at == LIST_ACCESS && read.len() == page.len()), "{passed} passed");
        }
        assert_eq!(read, elements);
        let changes = [
            (Step::Append(at, 4, 0u32.to_be_bytes().into()), vec![ELEMENTS - 1, 0]),
            (Step::Replace(at, 4, elements.iter().map(<[u8]>::to_vec).collect()), vec![ELEMENTS - 1]),
            (Step::Clear(at, 4), vec![]),
        ];
        for (change, expected) in changes {
            write(&mut state, &call, &change);
            page.clear();
            state.list_read(at, &call, 4, ELEMENTS - 1, 100, &mut page);
            assert!(page.iter().map(<[u8]>::to_vec).eq(expected.iter().map(|element| element.to_be_bytes().to_vec())), "{change:?}");
        }
    }
}

#[test]
fn a_list_that_is_replaced_by_one_too_long_stays_as_it_was() {
    let mut state = KeyedState::new(states(), 128);
    run(&mut state, &[Step::Append(LIST, 4, b"one".to_vec())]);
    let before = state.value(LIST, call().keys.get(4)).map(<[u8]>::to_vec);
    let ends: Vec<u32> = (1..=32).map(|element| element << 24).collect();
    let bytes = vec![0; LONGEST_LIST];
    // Each element has a length as well.
    let replaced = state.list_replace(LIST, &call(), 4, &ends, &bytes);
    assert_eq!(replaced, Err(ListTooLong { most: LONGEST_LIST as u64 }));
    assert_eq!(state.value(LIST, call().keys.get(4)).map(<[u8]>::to_vec), before);
}

#[test]
fn keys_are_listed_some_at_a_time_and_long_ones_fewer() {
    let mut call = Batch::default();
    for key in (0..5).map(|key| vec![key; 3 << 20]) {
        call.hashes.push(hash_key(&key));
        call.keys.push(&key);
    }
    let place = || KeyedState::over(states(), 128, Box::new(Shelf::default()), 0);
    for mut state in [KeyedState::new(states(), 128), place()] {
        state.put(VALUE, &call, &[0, 1, 2, 3, 4], &[1, 2, 3, 4, 5], b"12345", 0..5);
        state.commit();
        let mut keys = state.keys(0);
        let lens = [1024, 1024, 1024].map(|most| {
            let mut listed = Batch::default();
            state.next_keys(&mut keys, most, &mut listed);
            listed.keys.len()
        });
        assert_eq!(lens, [3, 2, 0]);
    }
}

#[test]
fn two_keys_with_one_hash_are_kept_apart() {
    let mut call = Batch::default();
    for key in [&b"a"[..], b"b", b"c"] {
        call.hashes.push(7);
        call.keys.push(key);
    }
    let mut state = KeyedState::new(states(), 128);
    let values: Column = [&b"1"[..], b"2", b"3"].into_iter().collect();
    state.put(VALUE, &call, &[0, 1, 2], &values.ends, &values.bytes, 0..3);
    let mut cells = Cells::default();
    state.get(VALUE, &call, &[2, 0, 1], &mut cells);
    assert_eq!(cells.values.iter().collect::<Vec<_>>(), [b"3", b"1", b"2"]);
}

#[test]
fn one_field_of_many_is_a_change_of_its_own_and_an_entry_lies_in_the_group_of_its_key() {
    let mut state = KeyedState::new(states(), 128);
    let put = |field: u32, value: u8| Step::MapPut(MAP, vec![(5, field.to_be_bytes().to_vec(), vec![value])]);
    run(&mut state, &(0..10_000).map(|field| put(field, 0)).collect::<Vec<_>>());
    assert_eq!(kinds(&snapshot(&mut state)).len(), 10_000);
    run(&mut state, &[put(77, 1), Step::MapRemove(MAP, vec![(5, 78u32.to_be_bytes().to_vec())])]);
    let changes = snapshot(&mut state);
    assert_eq!(kinds(&changes), [ChangeKind::Put, ChangeKind::Delete]);
    let group = crate::record::key_group(call().hashes[5], 128);
    assert!(changes.iter().flat_map(Changes::iter).all(|change| change.group == group));
}

#[test]
fn a_long_key_stands_in_many_entries_and_takes_little_room() {
    let mut call = Batch::default();
    let key = vec![7; 200_000];
    call.hashes.push(hash_key(&key));
    call.keys.push(&key);
    let mut state = KeyedState::new(states(), 128);
    let fields: Vec<[u8; 2]> = (0..300u16).map(u16::to_be_bytes).collect();
    let column: Column = fields.iter().map(|field| &field[..]).collect();
    let fields = Fields { keys: &[0; 300], ends: &column.ends, bytes: &column.bytes };
    state.map_put(MAP, &call, fields, &column.ends, &column.bytes, 0..300);
    let mut cells = Cells::default();
    state.map_get(MAP, &call, fields, 0..300, &mut cells);
    assert_eq!(cells.values, column);
}

#[test]
fn a_list_whose_elements_expire_is_still_saved_by_its_new_ones() {
    let mut state = KeyedState::new(states(), 128);
    let mut restored = KeyedState::new(states(), 128);
    let mut length = 0;
    for time in 0..1000 {
        state.begin(time * 10);
        run(&mut state, &[Step::Append(LIST_WRITE, 3, vec![0; 30])]);
        state.sweep();
        if time % 3 == 0 {
            let changes = snapshot(&mut state);
            assert_eq!(kinds(&changes), [if time == 0 { ChangeKind::Put } else { ChangeKind::Append }]);
            changes.iter().flat_map(Changes::iter).for_each(|change| restored.restore(change));
            assert_eq!(seen(&restored, time * 10), seen(&state, time * 10));
        }
        length = state.value(LIST_WRITE, call().keys.get(3)).unwrap().len();
    }
    assert!(length <= 8 * 40, "five elements live at a time, and {length} bytes are kept");
}

#[test]
fn keys_that_come_and_go_leave_nothing_behind_without_a_barrier_and_nothing_in_a_snapshot() {
    let mut state = KeyedState::new(states(), 128);
    let value: Column = [&b"value"[..], b"stays"].into_iter().collect();
    let mut most = 0;
    for time in 0..20_000u32 {
        state.begin(i64::from(time) * 10);
        let key = time.to_be_bytes();
        let hashes = vec![hash_key(&key), hash_key(b"stays")];
        let call = Batch { keys: [&key[..], b"stays"].into_iter().collect(), hashes, ..Batch::default() };
        state.put(VALUE_WRITE, &call, &[0, 1], &value.ends, &value.bytes, 0..2);
        state.list_append(LIST_WRITE, &call, &[0, 0], &value.ends, &value.bytes, 0..2).unwrap();
        // What is put and cleared in one call leaves nothing, either.
        if time.is_multiple_of(1000) {
            state.put(VALUE, &call, &[0, 1], &value.ends, &value.bytes, 0..2);
            state.clear(VALUE, &call, &[0, 1]);
        }
        state.commit();
        state.sweep();
        most = most.max(state.entries());
    }
    assert!(most < 100, "{most} entries at once, where ten live");
    assert!(state.tables.iter().all(|table| table.written.len() < 500), "the list of written slots stays short");
    let living: usize = seen(&state, state.now).into_values().map(|cells| cells.len()).sum();
    assert_eq!(living, 5 + 1 + 2 * 5);
    let saved = snapshot(&mut state);
    let mut restored = KeyedState::new(states(), 128);
    saved.iter().flat_map(Changes::iter).for_each(|change| restored.restore(change));
    assert_eq!(seen(&restored, state.now), seen(&state, state.now));
    assert!(kinds(&saved).len() < 100, "what came and went is in no snapshot");
    state.begin(1 << 40);
    (0..100).for_each(|_| state.sweep());
    assert_eq!(state.entries(), 0);
}

/// Event ids that are never seen again, a thousand in each call.
#[test]
fn however_many_keys_each_call_brings_memory_stays_in_proportion_to_those_that_live() {
    const PER_CALL: u32 = 1000;
    let mut state = KeyedState::new(states(), 128);
    let which: Vec<u32> = (0..PER_CALL).collect();
    let values: Column = which.iter().map(|_| &b"seen"[..]).collect();
    let mut most = 0;
    for time in 0..200u32 {
        // Those of five calls live.
        state.begin(i64::from(time) * TTL as i64 / 5);
        let ids: Vec<[u8; 4]> = which.iter().map(|id| (time * PER_CALL + id).to_be_bytes()).collect();
        let hashes = ids.iter().map(|id| hash_key(id)).collect();
        let call = Batch { keys: ids.iter().map(|id| &id[..]).collect(), hashes, ..Batch::default() };
        state.put(VALUE_WRITE, &call, &which, &values.ends, &values.bytes, 0..which.len());
        state.list_append(LIST_WRITE, &call, &vec![0; which.len()], &values.ends, &values.bytes, 0..which.len()).unwrap();
        state.commit();
        state.sweep();
        most = most.max(state.entries());
    }
    assert!(most <= 2 * 6 * PER_CALL as usize, "{most} entries at once");
    assert!(state.tables[VALUE_WRITE].written.len() <= 3 * most, "the list of written slots stays in proportion, too");
}

/// An element has 23 bytes, as it is kept, and those of fifty calls live.
#[test]
fn however_much_each_call_appends_to_a_list_it_stays_in_proportion_to_what_lives() {
    let call = call();
    let mut state = KeyedState::new(states(), 128);
    let elements: Column = (0..1000).map(|_| &b"fourteen bytes"[..]).collect();
    // Many keys, at which the sweep has to look meanwhile.
    run(
        &mut state,
        &(0..20_000u32).map(|field| Step::MapPut(MAP_ACCESS, vec![(5, field.to_be_bytes().into(), vec![])])).collect::<Vec<_>>(),
    );
    let mut most = 0;
    for time in 0..500 {
        state.begin(time);
        state.list_append(LIST_WRITE, &call, &[3; 1000], &elements.ends, &elements.bytes, 0..1000).unwrap();
        state.commit();
        state.sweep();
        most = most.max(state.value(LIST_WRITE, call.keys.get(3)).unwrap().len());
    }
    let living = TTL as usize * 1000 * 23;
    assert!(most <= 3 * living, "{most} bytes, of which {living} live");
}

/// Sessions that are opened and closed, with no time to live and no checkpoints; and calls that fail.
#[test]
fn what_is_put_and_cleared_again_takes_no_memory_without_a_barrier() {
    const PER_CALL: u32 = 1000;
    let which: Vec<u32> = (0..PER_CALL).collect();
    let values: Column = which.iter().map(|_| &b"open"[..]).collect();
    let fields = Fields { keys: &which, ends: &values.ends, bytes: &values.bytes };
    let sessions = |time: u32| {
        let ids: Vec<[u8; 4]> = which.iter().map(|id| (time * PER_CALL + id).to_be_bytes()).collect();
        let hashes = ids.iter().map(|id| hash_key(id)).collect();
        Batch { keys: ids.iter().map(|id| &id[..]).collect(), hashes, ..Batch::default() }
    };
    let mut state = KeyedState::new(states(), 128);
    for time in 0..100 {
        let (open, before) = (sessions(time), sessions(time.max(1) - 1));
        state.put(VALUE, &open, &which, &values.ends, &values.bytes, 0..which.len());
        state.map_put(MAP, &open, fields, &values.ends, &values.bytes, 0..which.len());
        state.list_append(LIST, &open, &which, &values.ends, &values.bytes, 0..which.len()).unwrap();
        match time % 3 {
            // At once, later, or never, for it fails.
            0 => [VALUE, MAP, LIST].into_iter().for_each(|kind| state.clear(kind, &open, &which)),
            1 => {}
            _ => state.undo(),
        }
        if time % 3 == 2 {
            state.clear(VALUE, &before, &which);
            state.map_remove(MAP, &before, fields, 0..which.len());
            which.iter().for_each(|&key| state.list_replace(LIST, &before, key, &[], &[]).unwrap());
        }
        state.commit();
        let expected = if time % 3 == 1 { 3 * PER_CALL as usize } else { 0 };
        assert_eq!(state.entries(), expected, "entries after call {time}");
        assert!(state.tables.iter().all(|table| table.slots.len() <= 2 * PER_CALL as usize), "slots are used again");
        assert!(state.tables.iter().all(|table| table.written.len() <= 6 * PER_CALL as usize), "the list of written slots stays short");
    }
    assert_eq!(snapshot(&mut state).iter().map(Changes::len).sum::<usize>(), 0);
}

#[test]
fn what_one_large_call_has_found_does_not_cost_its_memory_for_ever() {
    let mut state = KeyedState::new(states(), 128);
    state.get(VALUE, &call(), &vec![3; 2_000_000], &mut Cells::default());
    state.commit();
    assert!(state.found.capacity() <= 1 << 20);
}

#[test]
fn a_key_is_listed_once_whatever_its_fields_and_states() {
    for order in [[MAP, VALUE, LIST], [LIST, MAP, VALUE], [VALUE, LIST, MAP]] {
        let states: Vec<StateDescriptor> = order.iter().map(|&at| states()[at].clone()).collect();
        let at = |of: usize| order.iter().position(|&other| other == of).unwrap();
        let mut state = KeyedState::new(&states, 128);
        let fields = [b"f", b"g", b"h"].map(|field| (1, field.to_vec(), vec![])).into_iter();
        let steps = [
            Step::MapPut(at(MAP), fields.chain([(0, vec![], vec![]), (2, b"f".to_vec(), vec![])]).collect()),
            Step::Put(at(VALUE), 1, vec![]),
            Step::Append(at(LIST), 1, vec![]),
            Step::Append(at(LIST), 3, vec![]),
            Step::Put(at(VALUE), 5, vec![]),
            Step::Clear(at(VALUE), 5),
        ];
        run(&mut state, &steps);
        let mut expected: Vec<_> = [0, 1, 2, 3].map(|key| call().keys.get(key).to_vec()).into();
        expected.sort();
        assert_eq!(listed(&mut state, 0), expected);
    }
}

#[test]
fn a_value_that_a_snapshot_holds_is_not_forgotten_before_the_one_that_replaced_it_is_saved() {
    let mut state = KeyedState::new(states(), 128);
    let mut restored = KeyedState::new(states(), 128);
    state.begin(1000);
    run(&mut state, &[Step::Put(VALUE_WRITE, 4, b"old".to_vec())]);
    snapshot(&mut state).iter().flat_map(Changes::iter).for_each(|change| restored.restore(change));
    // The clock has gone back: the new value expires before the old one would have.
    state.begin(500);
    run(&mut state, &[Step::Put(VALUE_WRITE, 4, b"new".to_vec())]);
    state.begin(600);
    state.sweep();
    snapshot(&mut state).iter().flat_map(Changes::iter).for_each(|change| restored.restore(change));
    state.sweep();
    assert_eq!(state.entries(), 0);
    assert_eq!(seen(&restored, 600), Seen::new());
}

#[test]
fn a_clock_that_goes_backwards_lets_values_live_longer() {
    let call = call();
    let mut state = KeyedState::new(states(), 128);
    let get = |state: &mut KeyedState, now| {
        state.begin(now);
        let mut cells = Cells::default();
        state.get(VALUE_WRITE, &call, &[4], &mut cells);
        cells.present[0] == 1
    };
    state.begin(1000);
    run(&mut state, &[Step::Put(VALUE_WRITE, 4, b"x".to_vec())]);
    assert!(get(&mut state, 500));
    assert!(get(&mut state, 1049));
    assert!(!get(&mut state, 1050));
    assert!(get(&mut state, 1049), "seen again, while it is in memory");
    snapshot(&mut state);
    assert!(!get(&mut state, 1050));
    state.sweep();
    assert!(!get(&mut state, 1049));
    assert!(!get(&mut state, i64::MAX) && !get(&mut state, i64::MIN));
}

#[test]
fn a_value_that_is_read_lives_on_and_is_saved_again_where_reads_count() {
    let mut state = KeyedState::new(states(), 128);
    let call = call();
    let put = Step::MapPut(MAP_ACCESS, vec![(3, b"f".to_vec(), b"v".to_vec())]);
    run(&mut state, &[put]);
    for now in (0..500).step_by(30) {
        assert_eq!(kinds(&snapshot(&mut state)).len(), 1);
        state.begin(now + 30);
        let (mut fields, mut values) = (Column::default(), Column::default());
        state.map_scan(MAP_ACCESS, &call, 3, b"", 100, &mut fields, &mut values);
        assert_eq!(values.len(), 1);
        state.commit();
    }
}
