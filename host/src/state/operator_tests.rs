//! Operator state against plain lists: calls that fail, barriers, and restores with other numbers of subtasks.

use proptest::prelude::*;

use super::*;
use crate::plan::Schema;

fn states() -> Vec<StateDescriptor> {
    let kinds = [StateKind::Value, StateKind::OperatorList, StateKind::List, StateKind::OperatorUnionList];
    let state = |(place, kind)| StateDescriptor::new(format!("state-{place}"), kind, Schema::text(), 1);
    kinds.into_iter().enumerate().map(state).collect()
}

const LIST: usize = 1;
const UNION: usize = 3;

fn column(elements: &[&str]) -> Column {
    elements.iter().map(|element| element.as_bytes()).collect()
}

fn text(column: &Column) -> Vec<String> {
    column.iter().map(|element| String::from_utf8(element.to_vec()).unwrap()).collect()
}

fn own(lists: &Lists, state: usize) -> Vec<String> {
    lists.iter().find(|(place, _)| *place == state).map(|(_, list)| text(list)).unwrap()
}

#[test]
fn only_operator_state_has_lists() {
    let state = OperatorState::new(&states());
    assert_eq!([0, 1, 2, 3].map(|place| state.get(place).is_some()), [false, true, false, true]);
}

#[test]
fn a_call_that_fails_leaves_the_lists_as_they_were() {
    let mut state = OperatorState::new(&states());
    state.update(LIST, column(&["a"]));
    state.commit();
    state.freeze();
    state.update(LIST, column(&["b"]));
    state.update(UNION, column(&["c"]));
    state.update(LIST, column(&["d"]));
    assert_eq!(text(state.get(LIST).unwrap()), ["d"], "reads see what the call has written");
    state.undo();
    assert_eq!((text(state.get(LIST).unwrap()), state.get(UNION).unwrap().len()), (vec!["a".to_owned()], 0));
    assert!(state.freeze().lists.is_none(), "what was undone is no change");
}

#[test]
fn rewritten_in_memory_a_list_is_what_the_guest_sees_and_what_is_saved() {
    let before = [vec![(UNION, Arc::new(column(&["a"])))], vec![(UNION, Arc::new(column(&["b", "c"])))]];
    let mut state = spread(&states(), &before, Maps::new(), 2).unwrap().remove(1);
    state.update(LIST, column(&["d", "too large"]));
    state.commit();
    let mut double = |values: &Column| match values.iter().position(|value| value.len() > 1) {
        Some(value) => Err(Unwritten { value: Some(value), cause: ListTooLong { most: 0 } }),
        None => {
            let mut doubled = Column::default();
            values.iter().for_each(|value| doubled.push(&[value, value].concat()));
            Ok(doubled)
        }
    };
    assert_eq!(state.rewrite(UNION, &mut double).unwrap(), 2, "as many as it saves");
    assert_eq!(state.rewrite(LIST, &mut double).unwrap_err().value, Some(1));
    assert_eq!(
        (text(state.get(UNION).unwrap()), text(state.get(LIST).unwrap())),
        (vec!["aa".into(), "bb".into(), "cc".into()], vec!["d".into(), "too large".to_owned()])
    );
    state.save_anew();
    let lists = state.freeze().lists.unwrap();
    assert_eq!((own(&lists, UNION), own(&lists, LIST)), (vec!["bb".into(), "cc".into()], vec!["d".into(), "too large".to_owned()]));
}

#[test]
fn a_snapshot_is_taken_of_what_has_changed_and_stays_as_it_was() {
    let mut state = OperatorState::new(&states());
    assert!(state.freeze().lists.is_none());
    state.update(LIST, column(&["a"]));
    state.commit();
    let lists = state.freeze().lists.unwrap();
    state.update(LIST, column(&["b"]));
    state.commit();
    assert_eq!((own(&lists, LIST), own(&lists, UNION).len()), (vec!["a".to_owned()], 0));
    assert_eq!(own(&state.freeze().lists.unwrap(), LIST), ["b"]);
    assert!(state.freeze().lists.is_none());
}

#[test]
fn with_as_many_subtasks_as_before_each_has_its_own_and_nothing_has_changed() {
    let before: Vec<Lists> =
        [&["a", "b", "c"][..], &[]].map(|elements| vec![(LIST, Arc::new(column(elements))), (UNION, Arc::new(column(elements)))]).into();
    let mut after = spread(&states(), &before, Maps::new(), 2).unwrap();
    assert_eq!(after.iter().map(|state| state.get(LIST).unwrap().len()).collect::<Vec<_>>(), [3, 0]);
    assert_eq!(after.iter().map(|state| state.get(UNION).unwrap().len()).collect::<Vec<_>>(), [3, 3]);
    assert!(after.iter_mut().all(|state| state.freeze().lists.is_none()));
    // What the first has written since is all that it gives to the next checkpoint, beside what it had and has not written.
    after[1].update(LIST, column(&["d"]));
    after[1].commit();
    let lists = after[1].freeze().lists.unwrap();
    assert_eq!((own(&lists, LIST), own(&lists, UNION).len()), (vec!["d".to_owned()], 0));
}

/// Whatever the number of subtasks, each has all of it, and it grows by what is written and by nothing else.
#[test]
fn broadcast_state_is_the_same_on_all_subtasks_after_any_number_of_restores() {
    let states = [StateDescriptor::new("rates", StateKind::Broadcast, Schema::text(), 1)];
    let mut maps = Maps::new();
    for (restore, parallelism) in (0u8..).zip([1, 3, 3, 2, 8, 1, 4, 4, 7, 2, 5]) {
        let mut after = spread(&states, &vec![Lists::new(); 2], maps.clone(), parallelism).unwrap();
        assert!(after.iter_mut().all(|state| state.freeze().maps.is_none()), "what is restored is no change");
        for state in &mut after {
            assert_eq!(state.broadcast.map(0).unwrap().len(), usize::from(restore));
            state.broadcast.put(0, [(&[restore][..], &b"value"[..])].into_iter());
            state.commit();
        }
        let snapshots: Vec<OperatorSnapshot> = after.iter_mut().map(OperatorState::freeze).collect();
        assert!(snapshots.iter().all(|snapshot| snapshot.digests == snapshots[0].digests));
        maps = snapshots.into_iter().next().and_then(|snapshot| snapshot.maps).expect("it was written");
    }
}

proptest! {
    /// Through any sequence of restores, elements are neither lost nor doubled nor reordered, parts differ by one at most where the
    /// number of subtasks changes, and every subtask sees the whole union.
    #[test]
    fn restores_keep_every_element_once(
        first in prop::collection::vec(prop::collection::vec(".{0,3}", 0..6), 1..9),
        parallelisms in prop::collection::vec(1u16..9, 1..10),
    ) {
        let all: Vec<String> = first.iter().flatten().cloned().collect();
        let lists = |elements: &Vec<String>| {
            let column: Arc<Column> = Arc::new(elements.iter().map(|element| element.as_bytes()).collect());
            vec![(LIST, Arc::clone(&column)), (UNION, column)]
        };
        let mut before: Vec<Lists> = first.iter().map(lists).collect();
        for parallelism in parallelisms {
            let same = before.len() == usize::from(parallelism);
            let mut after = spread(&states(), &before, Maps::new(), parallelism).unwrap();
            prop_assert_eq!(after.len(), usize::from(parallelism));
            for state in &after {
                prop_assert_eq!(text(state.get(UNION).unwrap()), all.clone());
            }
            let lengths = || after.iter().map(|state| state.get(LIST).unwrap().len());
            prop_assert!(same || lengths().max().unwrap() - lengths().min().unwrap() <= 1);
            // What has not changed is what it was.
            let frozen = after.iter_mut().enumerate().map(|(place, state)| state.freeze().lists.unwrap_or_else(|| before[place].clone()));
            before = frozen.collect();
            for state in [LIST, UNION] {
                let found: Vec<String> = before.iter().flat_map(|lists| own(lists, state)).collect();
                prop_assert_eq!(&found, &all);
            }
        }
    }
}
