//! Broadcast state against ordered maps: calls that fail, barriers whose snapshots must stay as they were, restores, and copies whose
//! digests must tell them apart.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::plan::Schema;

/// Two broadcast states among others.
fn states() -> Vec<StateDescriptor> {
    let kinds = [StateKind::Map, StateKind::Broadcast, StateKind::OperatorList, StateKind::Broadcast];
    let state = |(place, kind)| StateDescriptor::new(format!("state-{place}"), kind, Schema::text(), 1);
    kinds.into_iter().enumerate().map(state).collect()
}

const PLACES: [usize; 2] = [1, 3];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What happens to one of the states, or to all.
#[derive(Clone, Debug)]
enum Step {
    Put(usize, Vec<(Vec<u8>, Vec<u8>)>),
    Remove(usize, Vec<Vec<u8>>),
    Get(usize, Vec<Vec<u8>>),
    Scan(usize, Vec<u8>, u32),
    Commit,
    Undo,
    /// Only between calls.
    Freeze,
    /// Goes back to the snapshot of a freeze, as on another subtask.
    Restore(usize),
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..most)
}

fn step() -> impl Strategy<Value = Step> {
    let place = || proptest::sample::select(PLACES.to_vec());
    // So short that fields come again.
    let fields = || proptest::collection::vec(bytes(3), 0..6);
    prop_oneof![
        6 => (place(), proptest::collection::vec((bytes(3), bytes(20)), 0..6)).prop_map(|(place, entries)| Step::Put(place, entries)),
        3 => (place(), fields()).prop_map(|(place, fields)| Step::Remove(place, fields)),
        2 => (place(), fields()).prop_map(|(place, fields)| Step::Get(place, fields)),
        2 => (place(), bytes(3), 0u32..60).prop_map(|(place, start, max)| Step::Scan(place, start, max)),
        3 => Just(Step::Commit),
        2 => Just(Step::Undo),
        1 => Just(Step::Freeze),
        1 => (0usize..4).prop_map(Step::Restore),
    ]
}

/// The content of a map.
fn content(map: &BroadcastMap) -> Model {
    map.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect()
}

fn map_of(model: &Model) -> BroadcastMap {
    model.iter().map(|(field, value)| (&field[..], &value[..])).collect()
}

/// The content and digest of both states, and whether they count as changed.
#[derive(Clone, Debug, Default, PartialEq)]
struct Oracle {
    maps: [Model; 2],
    changed: bool,
}

impl Oracle {
    fn map(&mut self, place: usize) -> &mut Model {
        &mut self.maps[PLACES.iter().position(|&known| known == place).unwrap()]
    }
}

/// As many fields of a model as fit into a page, which is at least one.
fn page(model: &Model, start: &[u8], max: u32) -> Model {
    let mut room = max as usize;
    let mut page = Model::new();
    for (field, value) in model.range(start.to_vec()..) {
        if field.len() + value.len() > room && !page.is_empty() {
            break;
        }
        room = room.saturating_sub(field.len() + value.len());
        page.insert(field.clone(), value.clone());
    }
    page
}

fn pairs(fields: &Column, values: &Column) -> Model {
    fields.iter().map(<[u8]>::to_vec).zip(values.iter().map(<[u8]>::to_vec)).collect()
}

/// A state that goes through steps, with what it should be, now and when the call at hand began.
#[derive(Default)]
struct Run {
    state: BroadcastState,
    now: Oracle,
    before: Oracle,
    /// Snapshots with what they should hold for ever.
    snapshots: Vec<(Maps, [Model; 2])>,
}

impl Run {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Put(place, entries) => {
                self.state.put(*place, entries.iter().map(|(field, value)| (&field[..], &value[..])));
                self.now.map(*place).extend(entries.iter().cloned());
            }
            Step::Remove(place, fields) => {
                self.state.remove(*place, fields.iter().map(|field| &field[..]));
                self.now.map(*place).retain(|field, _| !fields.contains(field));
            }
            Step::Get(place, fields) => {
                let mut cells = Cells::default();
                fields.iter().for_each(|field| self.state.get(*place, field, &mut cells));
                let expected: Vec<Option<Vec<u8>>> = fields.iter().map(|field| self.now.map(*place).get(field).cloned()).collect();
                let found = cells.present.iter().zip(cells.values.iter()).map(|(&there, value)| (there == 1).then(|| value.to_vec()));
                assert_eq!(found.collect::<Vec<_>>(), expected);
            }
            Step::Scan(place, start, max) => {
                let (mut fields, mut values) = (Column::default(), Column::default());
                self.state.scan(*place, start, *max, &mut fields, &mut values);
                assert!(fields.iter().is_sorted());
                assert_eq!(pairs(&fields, &values), page(self.now.map(*place), start, *max));
            }
            Step::Commit => self.end(true),
            Step::Undo => self.end(false),
            Step::Freeze => {
                self.end(true);
                let (digests, maps) = self.state.freeze();
                assert_eq!(digests, PLACES.map(|place| (place, map_of(self.now.map(place)).digest())));
                assert_eq!(maps.is_some(), std::mem::take(&mut self.now.changed));
                self.before = self.now.clone();
                self.snapshots.extend(maps.map(|maps| (maps, self.now.maps.clone())));
            }
            Step::Restore(which) if *which < self.snapshots.len() => {
                let (maps, models) = &self.snapshots[*which];
                self.state = BroadcastState::restored(&states(), maps.clone());
                self.now = Oracle { maps: models.clone(), ..Oracle::default() };
                self.before = self.now.clone();
            }
            Step::Restore(_) => {}
        }
    }

    fn end(&mut self, succeeded: bool) {
        if succeeded {
            self.state.commit();
            self.now.changed |= self.now.maps != self.before.maps;
        } else {
            self.state.undo();
            self.now = self.before.clone();
        }
        self.before = self.now.clone();
    }

    fn holds_what_it_should(&mut self) {
        for place in PLACES {
            let map = self.state.map(place).unwrap();
            let expected = self.now.map(place).clone();
            assert_eq!((content(map), map.len(), map.is_empty()), (expected.clone(), expected.len(), expected.is_empty()));
            assert_eq!(map.digest(), map_of(&expected).digest(), "whatever has led to it");
        }
        for (maps, models) in &self.snapshots {
            let found: Vec<(usize, Model)> = maps.iter().map(|(place, map)| (*place, content(map))).collect();
            assert_eq!(found, PLACES.into_iter().zip(models.clone()).collect::<Vec<_>>());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_an_ordered_map_through_calls_that_fail_barriers_and_restores(steps in proptest::collection::vec(step(), 1..80)) {
        let mut run = Run { state: BroadcastState::new(&states()), ..Run::default() };
        for step in &steps {
            run.step(step);
            run.holds_what_it_should();
        }
    }

    /// Digests are equal exactly where the content is.
    #[test]
    fn digests_tell_copies_apart(
        one in proptest::collection::vec((bytes(3), bytes(3)), 0..6),
        other in proptest::collection::vec((bytes(3), bytes(3)), 0..6),
    ) {
        let (one, other): (Model, Model) = (one.into_iter().collect(), other.into_iter().collect());
        prop_assert_eq!(map_of(&one).digest() == map_of(&other).digest(), one == other);
    }
}

#[test]
fn only_broadcast_state_has_maps() {
    let state = BroadcastState::new(&states());
    assert_eq!([0, 1, 2, 3].map(|place| state.map(place).is_some()), [false, true, false, true]);
}

#[test]
fn bytes_that_move_from_field_to_value_or_from_entry_to_entry_are_noticed() {
    let digest = |entries: &[(&[u8], &[u8])]| entries.iter().copied().collect::<BroadcastMap>().digest();
    let digests = [
        digest(&[]),
        digest(&[(b"", b"")]),
        digest(&[(b"ab", b"c")]),
        digest(&[(b"a", b"bc")]),
        digest(&[(b"a", b"b"), (b"c", b"d")]),
        digest(&[(b"a", b"d"), (b"c", b"b")]),
    ];
    let different: std::collections::BTreeSet<u128> = digests.into();
    assert_eq!(different.len(), digests.len());
}

/// The note for undoing a call and a snapshot share all that has not changed with the map, so that neither gets dearer with its size.
#[test]
fn of_a_large_map_a_write_copies_a_path_only() {
    let name = |number: u32| number.to_be_bytes();
    let entries: Vec<([u8; 4], [u8; 4])> = (0..100_000).map(|number| (name(number), name(number))).collect();
    let map: BroadcastMap = entries.iter().map(|(field, value)| (&field[..], &value[..])).collect();
    let mut state = BroadcastState::restored(&states(), vec![(1, map)]);
    let snapshot = state.map(1).unwrap().clone();
    state.put(1, [(&name(500)[..], &b"new"[..])].into_iter());
    let shared = |state: &BroadcastState| {
        let values = |map: &BroadcastMap| map.entries.values().map(|value| std::ptr::from_ref(&**value)).collect::<Vec<_>>();
        values(state.map(1).unwrap()).into_iter().zip(values(&snapshot)).filter(|(one, other)| std::ptr::eq(*one, *other)).count()
    };
    assert_eq!(shared(&state), 99_999);
    state.undo();
    assert_eq!((shared(&state), state.map(1).unwrap().digest()), (100_000, snapshot.digest()));
    assert!(state.freeze().1.is_none());
}
