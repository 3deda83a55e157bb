//! Pending checkpoints: who must acknowledge, in which order commits come, and what they name.

use super::*;
use crate::checkpoint::decide::FileLists;
use crate::checkpoint::manifest::tests::{operator_state_file, state_file};
use crate::checkpoint::manifest::{ComponentFacts, LogEntry, render};
use crate::record::Position;

const OWN: AttemptId = AttemptId { run: 1, attempt: 3 };

fn node(uid: &str, role: Role, subtasks: u16) -> Expected {
    Expected { uid: uid.into(), role, subtasks }
}

/// A source and an operator with two subtasks, a sink with one.
fn pending() -> Pending {
    let nodes = vec![node("lines", Role::Source, 2), node("count", Role::Operator, 2), node("out", Role::Sink, 1)];
    Pending::new(OWN, nodes, 40)
}

fn split(name: &str, offset: u64) -> SplitPosition {
    SplitPosition { split: name.into(), position: Position { offset, records: 1, ended: false } }
}

fn staged(name: &str) -> Staged {
    Staged { from: format!("{name}.tmp"), to: name.into(), bytes: 1, records: 1 }
}

fn ack(epoch: u64, uid: &str, subtask: u16, part: Part) -> Ack {
    Ack { attempt: OWN, epoch, uid: uid.into(), subtask, part }
}

/// An operator's part with state files only.
fn files(files: Vec<StateFile>) -> Part {
    Part::State { files, operator_state: vec![], digests: vec![] }
}

/// All acknowledgements of an epoch.
fn acks(epoch: u64) -> Vec<Ack> {
    vec![
        ack(epoch, "lines", 0, Part::Positions(vec![split("b", epoch)])),
        ack(epoch, "lines", 1, Part::Positions(vec![split("a", epoch)])),
        ack(epoch, "count", 0, files(vec![state_file(3, epoch, "count", 0)])),
        ack(epoch, "count", 1, files(vec![state_file(3, epoch, "count", 1)])),
        ack(epoch, "out", 0, Part::Staged(vec![staged(&format!("out-{epoch}"))])),
    ]
}

fn opened(epochs: &[u64]) -> Pending {
    let mut pending = pending();
    epochs.iter().for_each(|&epoch| pending.open(epoch, Trigger::Interval).unwrap());
    pending
}

fn ready_epoch(pending: &Pending) -> Option<u64> {
    pending.ready().unwrap().map(|ready| ready.epoch)
}

fn ready(pending: &Pending) -> Ready {
    pending.ready().unwrap().unwrap()
}

fn paths_of(ready: &Ready) -> Vec<String> {
    ready.files.iter().flat_map(|(_, files)| files).map(|file| file.path.clone()).collect()
}

fn staged_of(ready: &Ready) -> Vec<String> {
    ready.sinks.iter().flat_map(|sink| &sink.staged).map(|staged| staged.to.clone()).collect()
}

fn refused(pending: &mut Pending, ack: Ack) -> String {
    let before = format!("{pending:?}");
    let refused = pending.ack(ack).unwrap_err().to_string();
    assert_eq!(format!("{pending:?}"), before, "a refused acknowledgement changes nothing");
    refused
}

#[test]
fn a_checkpoint_is_ready_with_its_last_acknowledgement_and_not_before() {
    for last in 0..5 {
        let mut pending = opened(&[41]);
        let mut acks = acks(41);
        let held = acks.remove(last);
        acks.into_iter().for_each(|ack| pending.ack(ack).unwrap());
        assert_eq!(ready_epoch(&pending), None);
        assert_eq!(pending.missing(41), [(held.uid.as_str(), held.subtask)]);
        pending.ack(held).unwrap();
        assert_eq!(ready_epoch(&pending), Some(41));
    }
}

#[test]
fn the_order_of_acknowledgements_does_not_matter() {
    let mut forward = opened(&[41]);
    acks(41).into_iter().for_each(|ack| forward.ack(ack).unwrap());
    let mut backward = opened(&[41]);
    acks(41).into_iter().rev().for_each(|ack| backward.ack(ack).unwrap());
    let ready = forward.ready().unwrap().unwrap();
    assert_eq!(ready, backward.ready().unwrap().unwrap());
    assert_eq!(
        ready.sources,
        [crate::checkpoint::manifest::SourcePart { uid: "lines".into(), splits: vec![split("a", 41), split("b", 41)] }]
    );
    assert_eq!(paths_of(&ready), ["state/3-41/count-0.state", "state/3-41/count-1.state"]);
    assert_eq!(staged_of(&ready), ["out-41"]);
}

#[test]
fn checkpoints_commit_in_order_only() {
    let mut pending = opened(&[41, 42]);
    acks(42).into_iter().for_each(|ack| pending.ack(ack).unwrap());
    assert_eq!(ready_epoch(&pending), None);
    assert_eq!(pending.committed(42).unwrap_err().kind(), Kind::Internal);
    acks(41).into_iter().for_each(|ack| pending.ack(ack).unwrap());
    assert_eq!(ready_epoch(&pending), Some(41));
    pending.committed(41).unwrap();
    assert_eq!(ready_epoch(&pending), Some(42));
    assert_eq!(paths_of(&ready(&pending)), ["state/3-42/count-0.state", "state/3-42/count-1.state"]);
    pending.committed(42).unwrap();
    assert_eq!((ready_epoch(&pending), pending.epochs().count()), (None, 0));
}

#[test]
fn what_was_given_up_belongs_to_the_next_commit_which_waits_for_it() {
    let mut pending = opened(&[41, 42]);
    pending.give_up(41);
    let mut late = acks(41);
    let last = late.pop().unwrap();
    acks(42).into_iter().chain(late).for_each(|ack| pending.ack(ack).unwrap());
    // A file of epoch 41 may still be missing, and 42 alone would not be the whole state.
    assert_eq!(ready_epoch(&pending), None);
    pending.ack(last).unwrap();
    let ready = ready(&pending);
    assert_eq!(ready.epoch, 42);
    let expected = ["state/3-41/count-0.state", "state/3-41/count-1.state", "state/3-42/count-0.state", "state/3-42/count-1.state"];
    assert_eq!(paths_of(&ready), expected);
    assert_eq!(staged_of(&ready), ["out-41", "out-42"]);
    // Positions are those of the last barrier.
    assert_eq!(ready.sources[0].splits, [split("a", 42), split("b", 42)]);
    pending.committed(42).unwrap();
    assert_eq!(pending.epochs().count(), 0);
}

#[test]
fn a_checkpoint_that_was_given_up_never_commits_on_its_own() {
    let mut pending = opened(&[41]);
    pending.give_up(41);
    acks(41).into_iter().for_each(|ack| pending.ack(ack).unwrap());
    assert_eq!(ready_epoch(&pending), None);
    assert!(pending.committed(41).is_err());
}

#[test]
fn what_is_not_confirmed_as_published_is_named_again() {
    let mut pending = opened(&[41, 42, 43, 44]);
    (41..=44).flat_map(acks).for_each(|ack| pending.ack(ack).unwrap());
    pending.committed(41).unwrap();
    assert_eq!(staged_of(&ready(&pending)), ["out-41", "out-42"]);
    pending.committed(42).unwrap();
    pending.published(41);
    // 42 named what 41 had staged too.
    assert_eq!(staged_of(&ready(&pending)), ["out-41", "out-42", "out-43"]);
    pending.published(42);
    assert_eq!(staged_of(&ready(&pending)), ["out-43"]);
    pending.committed(43).unwrap();
    pending.published(43);
    assert_eq!(staged_of(&ready(&pending)), ["out-44"]);
}

#[test]
fn acknowledgements_of_other_attempts_are_refused() {
    let mut pending = opened(&[41]);
    for attempt in [AttemptId { attempt: 2, ..OWN }, AttemptId { attempt: 4, ..OWN }, AttemptId { run: 2, ..OWN }] {
        let ack = Ack { attempt, ..acks(41).remove(0) };
        assert_eq!(pending.ack(ack), Err(Refused::OtherAttempt(attempt)));
    }
}

#[test]
fn acknowledgements_that_break_a_rule_are_refused_and_say_which() {
    let mut pending = opened(&[41]);
    pending.ack(acks(41).remove(0)).unwrap();
    let twice = acks(41).remove(0);
    assert!(refused(&mut pending, twice).contains("read by two"));
    let staged = || Part::Staged(vec![]);
    assert!(refused(&mut pending, ack(41, "out", 1, staged())).contains("nobody waits"));
    assert!(refused(&mut pending, ack(42, "out", 0, staged())).contains("not pending"));
    assert!(refused(&mut pending, ack(40, "out", 0, staged())).contains("not pending"));
    assert!(refused(&mut pending, ack(41, "in", 0, staged())).contains("no such node"));
    assert!(refused(&mut pending, ack(41, "count", 0, staged())).contains("another kind"));
    pending.ack(ack(41, "out", 0, staged())).unwrap();
    assert!(refused(&mut pending, ack(41, "out", 0, staged())).contains("twice"));
    for file in [state_file(2, 41, "count", 0), state_file(3, 40, "count", 0), state_file(3, 41, "other", 0)] {
        assert!(refused(&mut pending, ack(41, "count", 0, files(vec![file]))).contains("does not belong to it"));
    }
    let both = Part::Positions(vec![split("c", 1), split("c", 2)]);
    assert!(refused(&mut pending, ack(41, "lines", 1, both)).contains("read by two"));
}

#[test]
fn checkpoints_are_triggered_in_order() {
    let mut pending = opened(&[41]);
    for epoch in [40, 41] {
        assert_eq!(pending.open(epoch, Trigger::Interval).unwrap_err().kind(), Kind::Internal);
    }
    // Numbers may be left out.
    pending.open(50, Trigger::Stop).unwrap();
    assert_eq!(pending.epochs().collect::<Vec<_>>(), [41, 50]);
}

#[test]
fn a_manifest_adds_what_is_new_to_what_was_there() {
    let restored = crate::checkpoint::manifest::tests::manifest(2, 40, vec![state_file(2, 40, "count", 0)]);
    let mut lists = FileLists::new(OWN, 2, 128, Some(&restored));
    let mut pending = opened(&[41]);
    acks(41).into_iter().for_each(|ack| pending.ack(ack).unwrap());
    let ready = ready(&pending);
    let component = ComponentFacts { digest: "d".into(), name: "count".into(), version: "1".into() };
    let operators = [OperatorFacts { uid: "count".into(), component, states: vec![], key_schema: None }];
    let facts = CommitFacts {
        job: "words",
        attempt: OWN,
        triggered: "2026-11-30T06:59:59Z".into(),
        created: "2026-11-30T07:00:00Z".into(),
        finished: false,
        parallelism: 2,
        max_parallelism: 128,
        duration_ms: 5,
        origin: None,
        owned: None,
        operators: &operators,
        snapshots: vec![],
        history: vec![],
    };
    let manifest = build_manifest(&facts, &ready, &lists);
    let paths: Vec<&str> = manifest.operators[0].files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["state/2-40/count-0.state", "state/3-41/count-0.state", "state/3-41/count-1.state"]);
    assert_eq!((manifest.new_bytes, manifest.total_bytes, manifest.checkpoint), (2000, 3000, 41));
    ready.files.iter().for_each(|(operator, files)| lists.add(operator, files));
    assert_eq!(lists.files("count"), manifest.operators[0].files);
    render(&LogEntry::Checkpoint(manifest)).unwrap();
}

/// The acknowledgement of an operator's subtask with operator state only.
fn lists_ack(epoch: u64, subtask: u16, lists: impl IntoIterator<Item = OperatorStateFile>) -> Ack {
    ack(epoch, "count", subtask, Part::State { files: vec![], operator_state: lists.into_iter().collect(), digests: vec![] })
}

#[test]
fn of_operator_state_the_newest_of_each_subtask_is_named() {
    let file = |epoch, subtask| operator_state_file(3, epoch, "count", subtask);
    let mut restored = crate::checkpoint::manifest::tests::manifest(2, 40, vec![]);
    restored.operators[0].operator_state = vec![operator_state_file(2, 40, "count", 0), operator_state_file(2, 39, "count", 1)];
    let mut pending = opened(&[41, 42]);
    // Subtask 0 has changed twice, and 41 is not committed on its own.
    for acks in
        [[lists_ack(41, 0, Some(file(41, 0))), lists_ack(41, 1, None)], [lists_ack(42, 0, Some(file(42, 0))), lists_ack(42, 1, None)]]
    {
        acks.into_iter().for_each(|ack| pending.ack(ack).unwrap());
    }
    acks(41).into_iter().chain(acks(42)).filter(|ack| ack.uid != "count").for_each(|ack| pending.ack(ack).unwrap());
    pending.give_up(41);
    let ready = ready(&pending);
    assert_eq!(ready.operator_state, [("count".to_owned(), vec![file(42, 0)])]);
    let named = |parallelism| {
        let mut lists = FileLists::new(OWN, parallelism, 128, Some(&restored));
        let named = lists.operator_state_with("count", &ready.operator_state[0].1);
        lists.replace_operator_state("count", &ready.operator_state[0].1);
        assert_eq!(lists.operator_state_with("count", []), named);
        assert!(named.iter().all(|file| lists.live(None).paths.contains(&file.path)));
        named
    };
    assert_eq!(named(2), [file(42, 0), operator_state_file(2, 39, "count", 1)], "what has not changed stays named");
    assert_eq!(named(3), [file(42, 0)], "of other subtasks than there are now nothing stays");
}

/// Of broadcast state the file of an epoch in between stands for all subtasks, and stays at any parallelism.
#[test]
fn broadcast_state_is_named_once_and_belongs_to_no_subtask() {
    let broadcast = |attempt, epoch| operator_state_file(attempt, epoch, "count", None);
    let mut pending = opened(&[41, 42]);
    let acks_of = |epoch| acks(epoch).into_iter().filter(|ack| ack.uid != "count");
    let lists = operator_state_file(3, 41, "count", 1);
    let own = [lists_ack(41, 0, [broadcast(3, 41)]), lists_ack(41, 1, [lists.clone()]), lists_ack(42, 0, []), lists_ack(42, 1, [])];
    own.into_iter().chain(acks_of(41)).chain(acks_of(42)).for_each(|ack| pending.ack(ack).unwrap());
    pending.give_up(41);
    let found = ready(&pending).operator_state;
    assert_eq!(found, [("count".to_owned(), vec![broadcast(3, 41), lists])]);
    let mut restored = crate::checkpoint::manifest::tests::manifest(2, 40, vec![]);
    restored.operators[0].operator_state = vec![broadcast(2, 39), operator_state_file(2, 39, "count", 0)];
    for parallelism in [1, 2, 3, 8] {
        let mut lists = FileLists::new(OWN, parallelism, 128, Some(&restored));
        assert_eq!(lists.operator_state_with("count", [])[0], broadcast(2, 39), "at {parallelism}");
        assert!(lists.live(None).paths.contains(&broadcast(2, 39).path));
        lists.replace_operator_state("count", &found[0].1);
        let named = lists.operator_state_with("count", []);
        assert_eq!((&named[0], named.iter().filter(|file| file.subtask.is_none()).count()), (&broadcast(3, 41), 1), "at {parallelism}");
    }
}

fn digests_ack(epoch: u64, uid: &str, subtask: u16, digests: &[(&str, u128)]) -> Ack {
    let digests = digests.iter().map(|&(state, digest)| (state.to_owned(), digest)).collect();
    ack(epoch, uid, subtask, Part::State { files: vec![], operator_state: vec![], digests })
}

#[test]
fn a_checkpoint_on_which_subtasks_do_not_agree_is_never_ready() {
    let opened = |epochs: &[u64]| {
        let nodes = vec![node("other", Role::Operator, 1), node("enrich", Role::Operator, 4)];
        let mut pending = Pending::new(OWN, nodes, 40);
        epochs.iter().for_each(|&epoch| pending.open(epoch, Trigger::Interval).unwrap());
        pending
    };
    let acknowledge = |pending: &mut Pending, epoch: u64, rates: [u128; 4]| {
        // Another operator's state of the same name is another state.
        pending.ack(digests_ack(epoch, "other", 0, &[("rates", 99)])).unwrap();
        for (subtask, rate) in (0..).zip(rates) {
            assert_eq!(pending.ready().unwrap(), None, "before subtask {subtask}");
            pending.ack(digests_ack(epoch, "enrich", subtask, &[("names", 7), ("rates", rate)])).unwrap();
        }
    };
    let mut agreed = opened(&[41]);
    acknowledge(&mut agreed, 41, [5; 4]);
    assert_eq!(ready_epoch(&agreed), Some(41));
    let cases = [
        ([5, 5, 6, 5], "subtasks 0, 1, 3 and subtask 2"),
        ([6, 5, 6, 5], "subtasks 0, 2 and subtasks 1, 3"),
        ([3, 2, 1, 3], "subtasks 0, 3 and subtask 1 and subtask 2"),
    ];
    for (rates, who) in cases {
        let mut differing = opened(&[41]);
        acknowledge(&mut differing, 41, rates);
        let error = differing.ready().unwrap_err();
        let expected =
            format!("operator `enrich`: the copies of broadcast state `rates` differ at checkpoint 41: {who} have different ones");
        assert_eq!((error.kind(), error.message()), (Kind::Job, expected.as_str()));
        assert_eq!(differing.committed(41).unwrap_err().kind(), Kind::Job);
        // The next commit would name what this one has left.
        let mut given_up = opened(&[41, 42]);
        given_up.give_up(41);
        acknowledge(&mut given_up, 41, rates);
        acknowledge(&mut given_up, 42, [5; 4]);
        assert_eq!(given_up.ready().unwrap_err().message(), expected);
    }
}

#[test]
fn operator_state_of_another_subtask_is_refused() {
    let mut pending = opened(&[41]);
    for wrong in [operator_state_file(3, 41, "count", 1), operator_state_file(3, 40, "count", 0), operator_state_file(2, 41, "count", 0)] {
        assert!(refused(&mut pending, lists_ack(41, 0, Some(wrong))).contains("does not belong to it"));
    }
    let keyed = OperatorStateFile { path: paths::snapshot(3, 41, "count", 0, 0), ..operator_state_file(3, 41, "count", 0) };
    assert!(refused(&mut pending, lists_ack(41, 0, Some(keyed))).contains("does not belong to it"));
    let lists = StateFile { path: paths::operator_state(3, 41, "count", Some(0)), ..state_file(3, 41, "count", 0) };
    assert!(refused(&mut pending, ack(41, "count", 0, files(vec![lists]))).contains("does not belong to it"));
    // Broadcast state comes from the first subtask.
    let broadcast = || operator_state_file(3, 41, "count", None);
    assert!(refused(&mut pending, lists_ack(41, 1, [broadcast()])).contains("does not belong to it"));
    let own = OperatorStateFile { path: operator_state_file(3, 41, "count", 0).path, ..broadcast() };
    assert!(refused(&mut pending, lists_ack(41, 0, [own])).contains("does not belong to it"));
    pending.ack(lists_ack(41, 0, [broadcast(), operator_state_file(3, 41, "count", 0)])).unwrap();
}
