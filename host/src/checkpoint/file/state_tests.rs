//! State of every kind on its way through files: written by some subtasks, merged, restored by others, against the model of `state`.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::tests::{merge, write};
use super::*;
use crate::checkpoint::manifest::Epochs;
use crate::plan::{Compression, Schema, StateDescriptor, StateKind, Ttl, TtlFrom};
use crate::record::{Column, KeyGroups, key_group, subtask_of};
use crate::state::below_tests::Shelf;
use crate::state::tests::{Oracle, Step, call, change, is_change, long_lists, seen, states};
use crate::state::{Change, ChangeKind, Changes, KeyedState, ListTooLong, OperatorState, SubtaskState, Unwritten, without_expired};

const MAX: u16 = 64;

/// What of a step is about the keys for which `own` holds.
fn restricted(step: &Step, own: impl Fn(u32) -> bool) -> Option<Step> {
    Some(match step {
        Step::Put(_, key, _) | Step::Clear(_, key) | Step::Append(_, key, _) | Step::Replace(_, key, _) if !own(*key) => return None,
        Step::List(_, key, ..) | Step::Scan(_, key, ..) if !own(*key) => return None,
        Step::MapPut(state, entries) => Step::MapPut(*state, entries.iter().filter(|entry| own(entry.0)).cloned().collect()),
        Step::MapRemove(state, fields) => Step::MapRemove(*state, fields.iter().filter(|field| own(field.0)).cloned().collect()),
        Step::MapGet(state, fields) => Step::MapGet(*state, fields.iter().filter(|field| own(field.0)).cloned().collect()),
        Step::Get(state, keys) => Step::Get(*state, keys.iter().copied().filter(|&key| own(key)).collect()),
        other => other.clone(),
    })
}

/// A subtask's state with what it should be.
type Subtask = (KeyedState, Oracle);

fn snapshot(subtask: &mut Subtask, groups: KeyGroups, epoch: u64) -> StateReader {
    let state = &mut subtask.0;
    state.commit();
    state.sweep();
    state.freeze();
    let mut parts = Vec::new();
    while state.is_freezing() {
        parts.extend(state.advance(7).map(|slice| slice.changes));
    }
    state.evict();
    let facts = FileFacts { operator: "o", states: states(), groups, epochs: Epochs::only(epoch), compression: Compression::Lz4 };
    StateReader::open(format!("epoch {epoch}"), write(facts, parts).unwrap().bytes).unwrap()
}

fn restore(files: &[StateReader], groups: KeyGroups) -> KeyedState {
    let mut state = KeyedState::new(states(), MAX);
    for file in files.iter().filter(|file| file.head().groups.overlaps(groups)) {
        let mut changes = file.changes_for(groups, states()).unwrap();
        while let Some(change) = changes.next_change().unwrap() {
            state.restore(change);
        }
    }
    state
}

/// What [`restore`] gives, with all of it below.
fn filled(files: &[StateReader], groups: KeyGroups) -> KeyedState {
    let mut by_name = states().to_vec();
    by_name.sort_by(|one, other| one.name.cmp(&other.name));
    let mut state = KeyedState::over(states(), MAX, Box::new(Shelf::default()), 0).with_parts_of(60);
    state.fill(|visit| each_entry(files, groups, &by_name, visit)).unwrap();
    assert_eq!(state.entries(), 0, "nothing of it is in memory");
    state
}

fn doubled(value: &[u8]) -> Vec<u8> {
    [value, value].concat()
}

/// The state with all values rewritten, wherever they lie.
fn migrated(mut keyed: KeyedState, now: i64) -> KeyedState {
    keyed.take_in_all().unwrap();
    for state in 0..states().len() {
        let mut rewrite = |values: &Column| Ok::<_, Unwritten<usize, ListTooLong>>(values.iter().map(doubled).collect());
        keyed.rewrite(state, now, &mut rewrite).unwrap();
    }
    let mut subtask = SubtaskState { keyed, operator: OperatorState::default(), places: [].into() };
    subtask.save_anew();
    subtask.keyed
}

/// Merges some of the files of one lane: from the first on, or not.
fn merged(files: &mut Vec<StateReader>, from: usize, to: usize, groups: KeyGroups, now: i64) {
    let (from, to) = (from % files.len(), to % files.len());
    if from > to {
        return;
    }
    let written = merge(&files[from..=to], groups, from == 0, &[], now).unwrap();
    let reader = StateReader::open("merged", written.bytes).unwrap();
    if from == 0 {
        holds_nothing_expired(&reader, now);
    }
    files.splice(from..=to, [reader]);
}

fn holds_nothing_expired(base: &StateReader, now: i64) {
    let mut changes = base.changes(base.head().groups);
    let mut room = Vec::new();
    while let Some(change) = changes.next_change().unwrap() {
        let state = &base.head().states[usize::from(change.state)];
        if let Some(ttl) = state.ttl {
            assert!(state.kind != StateKind::List || !change.value.is_empty());
            assert_eq!(without_expired(state.kind, change.value, ttl, now, &mut room), Some(change.value));
        }
    }
}

/// Those of lists more often than of others, so that some are long.
fn changes() -> impl Strategy<Value = Step> {
    prop_oneof![change(), long_lists().prop_filter("changes only", is_change)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_kinds_of_state_survive_files_merges_and_another_parallelism(
        attempts in proptest::collection::vec(
            (
                1u16..9,
                any::<bool>(),
                proptest::collection::vec((proptest::bool::weighted(0.25), proptest::collection::vec(changes(), 0..40)), 1..6),
            ),
            1..4,
        ),
        cuts in proptest::collection::vec((0usize..8, 0usize..8), 3),
    ) {
        let call = call();
        let mut all = Oracle::default();
        let mut files: Vec<StateReader> = Vec::new();
        let mut epoch = 0;
        for (parallelism, on_disk, epochs) in attempts {
            let hashes = &call.hashes;
            let own = |subtask, key: u32| subtask_of(key_group(hashes[key as usize], MAX), MAX, parallelism) == subtask;
            let groups = |subtask| KeyGroups::of_subtask(subtask, parallelism, MAX);
            let begin = if on_disk { filled } else { restore };
            let mut subtasks: Vec<Subtask> = (0..parallelism).map(|subtask| (begin(&files, groups(subtask)), all.clone())).collect();
            subtasks.iter_mut().for_each(|(state, oracle)| oracle.apply(&Step::Tick(0), state, &call));
            // Restored files are the lane below everything that this attempt writes.
            let mut lanes: Vec<Vec<StateReader>> = subtasks.iter().map(|_| files.clone()).collect();
            for (migrates, changes) in &epochs {
                epoch += 1;
                for ((state, oracle), lane) in subtasks.iter_mut().zip(&mut lanes).filter(|_| *migrates) {
                    let old = std::mem::replace(state, KeyedState::new(&[], MAX));
                    *state = migrated(old, oracle.now());
                    oracle.rewrite(doubled);
                    // From then on nothing is needed of what was there.
                    lane.clear();
                }
                for change in changes {
                    for (subtask, (state, oracle)) in (0u16..).zip(&mut subtasks) {
                        if let Some(change) = restricted(change, |key| own(subtask, key)) {
                            oracle.apply(&change, state, &call);
                        }
                    }
                }
                for (subtask, (one, lane)) in (0u16..).zip(subtasks.iter_mut().zip(&mut lanes)) {
                    lane.push(snapshot(one, groups(subtask), epoch));
                }
            }
            all = Oracle::united((0u16..).zip(&subtasks).map(|(subtask, (_, oracle))| (oracle, move |key| own(subtask, key))));
            for (subtask, lane) in (0u16..).zip(&mut lanes) {
                cuts.iter().for_each(|&(from, to)| merged(lane, from, to, groups(subtask), all.now()));
            }
            files = lanes.into_iter().zip(0u16..).flat_map(|(lane, subtask)| {
                let now = all.now();
                let one = merge(&lane, groups(subtask), true, &[], now).unwrap();
                let reader = StateReader::open("lane", one.bytes).unwrap();
                holds_the_same(&lane, &reader, groups(subtask), now);
                Some(reader)
            }).collect();
            let mut found = std::collections::BTreeMap::new();
            for subtask in 0..3 {
                found.extend(seen(&restore(&files, KeyGroups::of_subtask(subtask, 3, MAX)), all.now()));
            }
            prop_assert_eq!(found, all.seen(&call, all.now()));
        }
    }
}

/// A lane of files and what it was merged into hold the same, wherever it goes.
fn holds_the_same(lane: &[StateReader], merged: &StateReader, groups: KeyGroups, now: i64) {
    assert_eq!(seen(&filled(lane, groups), now), seen(&restore(lane, groups), now));
    assert_eq!(seen(&restore(lane, groups), now), seen(&restore(std::slice::from_ref(merged), groups), now));
}

#[test]
fn how_long_values_live_is_as_the_newest_file_says() {
    let file = |ms, key: &[u8], written: i64, epoch| {
        let states =
            [StateDescriptor { ttl: Some(Ttl::new(ms, TtlFrom::Write)), ..StateDescriptor::new("v", StateKind::Value, Schema::text(), 1) }];
        let mut changes = Changes::default();
        changes.push(Change { group: 3, state: 0, kind: ChangeKind::Put, key, value: &written.to_le_bytes() });
        let facts = FileFacts {
            operator: "o",
            states: &states,
            groups: KeyGroups { start: 0, end: MAX },
            epochs: Epochs::only(epoch),
            compression: Compression::Lz4,
        };
        StateReader::open("f", write(facts, vec![changes]).unwrap().bytes).unwrap()
    };
    for (newest, expected) in [(1000, 2), (100, 2), (99, 1), (20, 1), (19, 0)] {
        let files = [file(50, b"old", 900, 1), file(newest, b"new", 980, 2)];
        let merged = merge(&files, KeyGroups { start: 0, end: MAX }, true, &[], 999).unwrap();
        assert_eq!(merged.written.entries, expected, "{newest}");
        // They may live on in another way than any file knows of.
        let kept = |ttl| [StateDescriptor { ttl: Some(ttl), ..files[0].head().states[0].clone() }];
        let left = |ttl| merge(&files, KeyGroups { start: 0, end: MAX }, true, &kept(ttl), 999).unwrap().written.entries;
        let long = Ttl::new(1000, TtlFrom::Write);
        assert_eq!([long, Ttl { past: Some(900), ..long }, Ttl { past: Some(980), ..long }].map(left), [2, 1, 0], "{newest}");
        let merged = StateReader::open("m", merged.bytes).unwrap();
        assert_eq!(merged.head().states[0].ttl, Some(Ttl::new(newest, TtlFrom::Write)));
    }
}
