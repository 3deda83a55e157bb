//! Migrations: values go through an instance in which nothing else may happen, and what goes wrong is told of the value that is to blame.

use std::sync::Arc;

use super::guest::{Guest, limits, refusal, soon};
use crate::plan::{Limits, Schema, StateDescriptor, StateKind};
use crate::record::Column;
use crate::state::Unwritten;
use crate::wasm::{Cause, Failure, Interrupt, Limit, Migrator};

const HOOK: &str = r#"
  (func $migrate (param "state" u32) (param "from-version" u32) (param "from-schema" string) (param "values" $column)
    (result (result $column (error string))) (canon lift (core func $main "migrate") (memory $mem) (realloc $realloc)))
  (instance $migration (export "migrate" (func $migrate)))
  (export "cofferdam:operator/migration@0.1.0" (instance $migration))"#;

/// Gives back the values that it was given.
const ECHO: &str = "(i32.store8 (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $ends)) (i32.store (i32.const 24) (local.get $values))
    (i32.store (i32.const 28) (local.get $bytes)) (i32.store (i32.const 32) (local.get $bytes-len))";

/// Goes on only if none of the bytes is an "x".
const NO_X: &str = r#"(loop $next
    (if (i32.lt_u (local.get $at) (local.get $bytes-len)) (then
      (if (i32.eq (i32.load8_u (i32.add (local.get $bytes) (local.get $at))) (i32.const 120)) (then unreachable))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))))"#;

/// Returns the error of seven bytes that stands at 8192.
const ERROR: &str = "(i32.store8 (i32.const 16) (i32.const 1))
    (i32.store (i32.const 20) (i32.const 8192)) (i32.store (i32.const 24) (i32.const 7))";

fn guest(body: &str) -> Guest {
    let core = format!(
        r#"(func (export "migrate") (param $state i32) (param $version i32) (param $schema i32) (param $schema-len i32)
          (param $ends i32) (param $values i32) (param $bytes i32) (param $bytes-len i32) (result i32) (local $at i32)
          {body} (call $reset) (i32.const 16))"#
    );
    Guest { core: core.leak(), hooks: HOOK, data: b"no\ngood".to_vec(), ..Guest::default() }
}

fn migrator(body: &str, limits: Limits) -> Migrator {
    Migrator::new(&Arc::new(guest(body).load().unwrap()), "o", limits, Interrupt::default()).unwrap()
}

fn from() -> StateDescriptor {
    StateDescriptor::new("count", StateKind::Value, Schema::text(), 7)
}

fn column(values: &[&str]) -> Column {
    values.iter().collect()
}

/// What becomes of values, on one and the same migrator again and again.
fn failed(body: &str, values: &[&str]) -> (Option<usize>, Failure) {
    let Unwritten { value, cause } = migrator(body, limits()).migrate(0, &from(), &column(values)).unwrap_err();
    assert!(!cause.message.contains('\n'), "one line: {cause}");
    (value, cause)
}

#[test]
fn values_are_rewritten_by_the_component_that_has_the_hook() {
    let without = Arc::new(Guest::default().load().unwrap());
    assert!(!without.descriptor().migration && Migrator::new(&without, "o", limits(), Interrupt::default()).is_none());
    assert!(guest(ECHO).load().unwrap().descriptor().migration);
    // Traps if it is told anything else than it should be.
    let told = "(if (i32.ne (local.get $state) (i32.const 2)) (then unreachable))
        (if (i32.ne (local.get $version) (i32.const 7)) (then unreachable))
        (if (i32.ne (i32.load (local.get $schema)) (i32.const 0x74786574)) (then unreachable))";
    let mut migrator = migrator(&format!("{told} {ECHO}"), limits());
    assert_eq!(migrator.ask(2, &from()), Ok(()));
    for values in [&["a", "", "bcd"][..], &[""], &[]] {
        assert_eq!(migrator.migrate(2, &from(), &column(values)).unwrap(), column(values));
    }
    let large = "y".repeat(300_000);
    assert_eq!(migrator.migrate(2, &from(), &column(&[&large])).unwrap(), column(&[&large]));
}

#[test]
fn a_migration_that_is_not_offered_says_why() {
    let mut not_offered = migrator(ERROR, limits());
    for _ in 0..2 {
        let failure = not_offered.ask(0, &from()).unwrap_err();
        assert_eq!((failure.cause, failure.message.as_str()), (Cause::Error, "failed: no good"));
    }
    assert_eq!(migrator("unreachable", limits()).ask(0, &from()).unwrap_err().cause, Cause::Trap);
    let other = HOOK.replace("u32", "u64");
    let wide = Guest { core: r#"(func (export "migrate") (param i64 i64 i32 i32 i32 i32 i32 i32) (result i32) unreachable)"#, ..guest("") };
    let refused = refusal(Guest { hooks: other.leak(), ..wide }.load());
    assert!(refused.contains("`cofferdam:operator/migration@0.1.0` migrate: func(state: u64, from-version: u64,"), "{refused}");
}

#[test]
fn the_value_that_is_to_blame_is_found() {
    let body = format!("{NO_X} {ECHO}");
    for values in [&["x"][..], &["a", "x"], &["x", "b"], &["a", "b", "c", "dx", "e"], &["a", "", "", "", "", "", "x"]] {
        let (value, failure) = failed(&body, values);
        let expected = values.iter().position(|value| value.contains('x'));
        assert_eq!((value, failure.cause), (expected, Cause::Trap), "{values:?}");
    }
    // After a trap a fresh instance goes on.
    let mut migrator = migrator(&body, limits());
    migrator.migrate(0, &from(), &column(&["x"])).unwrap_err();
    assert_eq!(migrator.migrate(0, &from(), &column(&["y"])).unwrap(), column(&["y"]));
    // One that fails for several only can't be told.
    let several = format!("(if (i32.gt_u (local.get $values) (i32.const 2)) (then unreachable)) {ECHO}");
    assert_eq!(failed(&several, &["a", "b", "c", "d"]).0, None);
}

#[test]
fn nothing_but_the_migration_may_happen_in_it() {
    let (_, failure) = failed("(drop (call $processing-time)) unreachable", &["a"]);
    let misuse = "misused the host: runtime.processing-time: `migrate` must not call imports of cofferdam:operator";
    assert_eq!((failure.cause, failure.message.as_str()), (Cause::HostCall, misuse));
    let reads = "(call $get (i32.const 0) (i32.const 8192) (i32.const 0) (i32.const 64)) unreachable";
    assert!(failed(reads, &["a"]).1.message.contains("keyed-state.get: `migrate` must not call"));
    // But last words are heard.
    let panics = "(call $panicked (i32.const 0) (i32.const 0) (i32.const 8192) (i32.const 7)) unreachable";
    assert_eq!(failed(panics, &["a"]).1.message, "panicked: no good");
    let (value, failure) = failed("(drop (memory.grow (i32.const 4096))) unreachable", &["a", "b"]);
    assert_eq!((value, failure.cause), (Some(0), Cause::Limit(Limit::Memory)));
}

/// Runs for ever where a value is an "x" and others come with it, or is a "y".
const ENDLESS: &str = r#"(loop $next
    (if (i32.lt_u (local.get $at) (local.get $bytes-len)) (then
      (if (i32.and (i32.gt_u (local.get $values) (i32.const 1))
          (i32.eq (i32.load8_u (i32.add (local.get $bytes) (local.get $at))) (i32.const 120)))
        (then (loop $on (br $on))))
      (if (i32.eq (i32.load8_u (i32.add (local.get $bytes) (local.get $at))) (i32.const 121)) (then (loop $on (br $on))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))))"#;

/// Takes more memory than there is for more than two values.
const GREEDY: &str = "(if (i32.gt_u (local.get $values) (i32.const 2)) (then (drop (memory.grow (i32.const 4096))) unreachable))";

#[test]
fn values_that_are_only_together_too_much_for_a_limit_are_rewritten_in_parts() {
    let values = column(&["a", "", "b", "c", "xd", "e", "f"]);
    for body in [ENDLESS, GREEDY] {
        let mut migrator = migrator(&format!("{body} {ECHO}"), soon());
        assert_eq!(migrator.migrate(0, &from(), &values).unwrap(), values, "{body}");
    }
    // One that is too much alone is named, and so is one that fails in another way in its part.
    let mut endless = migrator(&format!("{ENDLESS} {ECHO}"), soon());
    let Unwritten { value, cause } = endless.migrate(0, &from(), &column(&["a", "b", "x", "y", "c"])).unwrap_err();
    assert_eq!((value, cause.message.as_str()), (Some(3), "ran longer than its time limit of 300ms (limits.time)"));
    let (value, failure) = failed(&format!("{GREEDY} {NO_X} {ECHO}"), &["a", "b", "c", "d", "x"]);
    assert_eq!((value, failure.cause), (Some(4), Cause::Trap));
}

#[test]
fn no_call_follows_once_it_is_interrupted() {
    let interrupt = Interrupt::default();
    let mut migrator = Migrator::new(&Arc::new(guest(ECHO).load().unwrap()), "o", limits(), interrupt.clone()).unwrap();
    let values = column(&["a", "b"]);
    assert_eq!(migrator.migrate(0, &from(), &values).unwrap(), values);
    interrupt.interrupt();
    let Unwritten { value, cause } = migrator.migrate(0, &from(), &values).unwrap_err();
    assert_eq!((value, cause.cause), (None, Cause::Interrupted));
}

#[test]
fn what_comes_back_is_checked() {
    let returns = |ends: &str, values: &str, bytes: &str| {
        format!(
            "{ECHO} (i32.store (i32.const 20) {ends}) (i32.store (i32.const 24) (i32.const {values}))
             (i32.store (i32.const 32) (i32.const {bytes}))"
        )
    };
    let cases = [
        (returns("(local.get $ends)", "0", "0"), "returned 0 values for 1"),
        (returns("(local.get $ends)", "1", "0"), "returned what is no column: the last end is 1, but there are 0 bytes"),
    ];
    for (body, message) in cases {
        let (value, failure) = failed(&body, &["a"]);
        assert_eq!((value, failure.cause, failure.message.as_str()), (Some(0), Cause::HostCall, message));
    }
    let beyond = returns("(i32.const -8)", "1", "1");
    assert_eq!(failed(&beyond, &["a"]).1.cause, Cause::Trap);
    // A single byte more than a value may have, out of memory that is there.
    let more = (16 << 20) + 1;
    let long = format!(
        "(drop (memory.grow (i32.const 300))) (i32.store (local.get $ends) (i32.const {more})) {}",
        returns("(local.get $ends)", "1", &more.to_string())
    );
    let roomy = Limits { memory: 64 << 20, ..limits() };
    let failure = migrator(&long, roomy).migrate(0, &from(), &column(&["a"])).unwrap_err().cause;
    assert_eq!(failure.message, "returned a value of more than 16 MiB");
}
