//! The hooks of a checkpoint and of the end, and the operator state that they reach.

use super::guest::{Described, Guest, refusal, words};
use crate::record::Column;
use crate::wasm::Cause;

const HOOKS: &str = r#"
  (func $snapshot (param "checkpoint" u64) (result (result (error string))) (canon lift (core func $main "snapshot") (memory $mem)))
  (instance $snapshot-hook (export "snapshot" (func $snapshot)))
  (export "cofferdam:operator/snapshot-hook@{{export-version}}" (instance $snapshot-hook))
  (func $complete (param "checkpoint" u64) (canon lift (core func $main "complete")))
  (instance $checkpoint-hooks (export "checkpoint-complete" (func $complete)))
  (export "cofferdam:operator/checkpoint-hooks@{{export-version}}" (instance $checkpoint-hooks))
  (func $aborted (param "checkpoint" u64) (canon lift (core func $main "aborted")))
  (instance $aborted-hook (export "checkpoint-aborted" (func $aborted)))
  (export "cofferdam:operator/checkpoint-aborted-hook@{{export-version}}" (instance $aborted-hook))
  (func $close (canon lift (core func $main "close")))
  (instance $close-hook (export "close" (func $close)))
  (export "cofferdam:operator/close-hook@{{export-version}}" (instance $close-hook))"#;

/// Writes one element, the byte at 8196, to state `$state`; its end, 1, lies at 8192.
macro_rules! update {
    ($state:literal) => {
        concat!("(call $list-update (i32.const ", $state, ") (i32.const 8192) (i32.const 1) (i32.const 8196) (i32.const 1))")
    };
}

/// Emits one record on output 1.
const EMIT: &str = "(call $emit (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
    (i32.const 8192) (i32.const 1) (i32.const 8196) (i32.const 1) (i32.const 0) (i32.const 0))";

/// A guest with all hooks, and one list of each kind as its states 1 and 2.
fn guest(snapshot: &str, complete: &str, aborted: &str, close: &str) -> Guest {
    let core = format!(
        r#"(func (export "snapshot") (param $checkpoint i64) (result i32) {snapshot} (i32.const 16))
        (func (export "complete") (param $checkpoint i64) {complete})
        (func (export "aborted") (param $checkpoint i64) {aborted})
        (func (export "close") {close})"#
    );
    let states = vec![("n", "value", "bytes", 1), ("list", "operator-list", "bytes", 1), ("union", "operator-union-list", "bytes", 1)];
    Guest {
        described: Described { states, more: Vec::new(), ..Described::default() },
        core: core.leak(),
        hooks: HOOKS.replace("{{export-version}}", "0.1.0").leak(),
        data: vec![1, 0, 0, 0, b'x'],
        ..Guest::default()
    }
}

#[test]
fn hooks_are_found_by_their_exports() {
    let with = guest("", "", "", "").load().unwrap();
    let without = Guest::default().load().unwrap();
    for (component, expected) in [(with, true), (without, false)] {
        let descriptor = component.descriptor();
        let found = [descriptor.snapshot_hook, descriptor.checkpoint_hooks, descriptor.checkpoint_aborted_hook, descriptor.close_hook];
        assert_eq!(found, [expected; 4]);
    }
    let mut instance = Guest::default().run();
    assert_eq!(
        [instance.snapshot(1), instance.checkpoint_complete(1), instance.checkpoint_aborted(2), instance.close()],
        [const { Ok(()) }; 4]
    );
}

#[test]
fn a_hook_of_another_type_is_refused_by_name() {
    let hooks = r#"(func $close (result u32) (canon lift (core func $main "close")))
      (instance $close-hook (export "close" (func $close)))
      (export "cofferdam:operator/close-hook@0.1.0" (instance $close-hook))"#;
    let guest = Guest { core: r#"(func (export "close") (result i32) (i32.const 0))"#, hooks, ..Guest::default() };
    let cause = refusal(guest.load());
    assert!(cause.contains("`cofferdam:operator/close-hook@0.1.0` close: func() -> u32 instead of func()"), "{cause}");
}

#[test]
fn what_the_snapshot_hook_writes_is_in_the_freeze_unless_it_fails() {
    let x: Column = std::iter::once(&b"x"[..]).collect();
    let mut good = guest(update!(1), "", "", "").run();
    assert_eq!(good.snapshot(1), Ok(()));
    let lists = good.operator_state().freeze().lists.unwrap();
    assert_eq!((&*lists[0].1, lists[1].1.len()), (&x, 0));
    for (fails, cause) in [
        (concat!(update!(1), " unreachable"), Cause::Trap),
        (concat!(update!(1), "(i32.store (i32.const 16) (i32.const 1))"), Cause::Error),
    ] {
        let mut bad = guest(fails, "", "", "").run();
        assert_eq!(bad.snapshot(1).unwrap_err().cause, cause);
        assert!(bad.operator_state().freeze().lists.is_none());
    }
}

#[test]
fn nothing_is_emitted_and_no_key_is_there_in_a_hook() {
    let told = |snapshot, complete, aborted, close| {
        let guest: Guest = guest(snapshot, complete, aborted, close);
        let run = || guest.run();
        let messages = [run().snapshot(7), run().checkpoint_complete(7), run().checkpoint_aborted(7), run().close()];
        messages.into_iter().find_map(Result::err).unwrap().message
    };
    let emits = |hook: &str| format!("misused the host: output.emit: not to be called from `{hook}`");
    assert_eq!(told(EMIT, "", "", ""), emits("snapshot"));
    assert_eq!(told("", EMIT, "", ""), emits("checkpoint-complete"));
    assert_eq!(told("", "", EMIT, ""), emits("checkpoint-aborted"));
    assert_eq!(told("", "", "", EMIT), emits("close"));
    let reads = "(call $get (i32.const 0) (i32.const 8192) (i32.const 1) (i32.const 64))";
    assert_eq!(told(reads, "", "", ""), "misused the host: keyed-state.get: not to be called from `snapshot`");
    let writes = "misused the host: operator-state.list-update: not to be called from `close`";
    assert_eq!(told("", "", "", update!(1)), writes);
}

#[test]
fn operator_state_is_part_of_the_transaction() {
    let mut instance = Guest {
        process: format!("{} (if (i32.gt_u (local.get $records) (i32.const 1)) (then unreachable))", update!(2)),
        ..guest("", "", "", "")
    }
    .run();
    instance.process(0, &mut words(&["a"])).unwrap();
    assert_eq!(instance.operator_state().get(2).unwrap().len(), 1);
    assert!(instance.operator_state().freeze().lists.is_some());
    instance.process(0, &mut words(&["a", "b"])).unwrap_err();
    assert!(instance.operator_state().freeze().lists.is_none());
    let (state, _) = instance.into_parts();
    assert_eq!(state.operator.get(2).unwrap().len(), 1, "as of the last good batch");
}

#[test]
fn misuse_of_operator_state_traps_and_says_how() {
    let told = |body: &str| {
        let failure = Guest { process: body.into(), ..guest("", "", "", "") }.run().process(0, &mut words(&["a"])).unwrap_err();
        assert_eq!(failure.cause, Cause::HostCall);
        failure.message
    };
    let kind = "misused the host: operator-state.list-update: state `n` is of another kind (Value)";
    assert_eq!(told(update!(0)), kind);
    assert_eq!(told(update!(3)), "misused the host: operator-state.list-update: there is no state 3; the descriptor has 3");
    assert_eq!(told("(call $list-get (i32.const 0) (i32.const 64))"), kind.replace("update", "get"));
    let column = "(call $list-update (i32.const 1) (i32.const 8192) (i32.const 1) (i32.const 8196) (i32.const 2))";
    assert!(told(column).contains("`values` is no column"));
    let keyed =
        "(call $list-append (i32.const 1) (i32.const 8200) (i32.const 1) (i32.const 8192) (i32.const 1) (i32.const 8196) (i32.const 1))";
    assert!(told(keyed).contains("state `list` is of another kind (OperatorList)"));
}
