//! Calls of the host that take long because of how much they name: they end as the guest's own work does.

use std::time::Duration;

use super::guest::{Described, Guest, context, limits, open_in, words};
use crate::plan::Limits;
use crate::wasm::{Cause, Failure, Limit};

/// 4 Mi words, all zero, which serve as indices of a key and as ends of empty values and fields.
const MANY: &str = "(i32.const 1048576) (i32.const 4194304)";
const NONE: &str = "(i32.const 0) (i32.const 0)";
const AT: &str = "(i32.const 64)";
/// The input whose records may change broadcast state.
const AIRLINES: u32 = 1;

/// A guest that makes a call of the host with many keys or fields, and has something to say if that returns.
fn guest(call: &str) -> Guest {
    let states = Described::default().states.into_iter().chain([("rates", "broadcast", "bytes", 1)]).collect();
    let field = || vec![("field-schema", "text")];
    let inputs = vec![["words", "keyed", "text", "text"], ["airlines", "broadcast", "", "text"]];
    Guest {
        described: Described { inputs, states, more: vec![vec![], vec![], field(), field()], ..Described::default() },
        open: "(drop (memory.grow (i32.const 256)))",
        process: format!("{call} (call $panicked (i32.const 0) (i32.const 0) {NONE})"),
        ..Guest::default()
    }
}

fn calls() -> [String; 11] {
    let (value, list, map, broadcast) = ("(i32.const 0)", "(i32.const 1)", "(i32.const 2)", "(i32.const 3)");
    [
        format!("(call $get {value} {MANY} {AT})"),
        format!("(call $put {value} {MANY} {MANY} {NONE})"),
        format!("(call $clear {value} {MANY})"),
        format!("(call $clear {map} {MANY})"),
        format!("(call $list-append {list} {MANY} {MANY} {NONE})"),
        format!("(call $map-get {map} {MANY} {MANY} {NONE} {AT})"),
        format!("(call $map-put {map} {MANY} {MANY} {NONE} {MANY} {NONE})"),
        format!("(call $map-remove {map} {MANY} {MANY} {NONE})"),
        format!("(call $broadcast-get {broadcast} {MANY} {NONE} {AT})"),
        format!("(call $broadcast-put {broadcast} {MANY} {NONE} {MANY} {NONE})"),
        format!("(call $broadcast-remove {broadcast} {MANY} {NONE})"),
    ]
}

/// How a guest fails that may take as long as `time`, interrupted or not. What it began is taken back.
fn failure(call: &str, time: Duration, interrupted: bool) -> Failure {
    let (context, limits) = (context(), Limits { memory: 128 << 20, written: u64::MAX, ..limits() });
    let mut instance = open_in(&context, &guest(call).load().unwrap(), limits).map_err(|unopened| unopened.failure).unwrap();
    instance.set_time(time);
    if interrupted {
        context.interrupt.interrupt();
    }
    let failure = instance.process(AIRLINES, &mut words(&["a"])).unwrap_err();
    assert!(!instance.state().is_dirty(), "{call}");
    failure
}

#[test]
fn a_call_of_the_host_that_takes_too_long_ends_at_the_limit() {
    for call in calls() {
        assert_eq!(failure(&call, Duration::ZERO, false).cause, Cause::Limit(Limit::Time), "{call}");
    }
}

#[test]
fn a_call_of_the_host_is_interrupted() {
    let clear = format!("(call $clear (i32.const 2) {MANY})");
    assert_eq!(failure(&clear, Duration::from_secs(3600), true).cause, Cause::Interrupted);
}
