//! What guests count: it holds when the call succeeds, and is the subtask's, whatever instance counts.

use std::sync::Arc;

use super::guest::{Guest, context, limits, processing, words};
use crate::plan::{Limits, OnError};
use crate::record::{Outbox, Shape};
use crate::state::SubtaskState;
use crate::wasm::{Cause, Context, Failure, GuestMetrics, Instance, Limit, Reading};

/// A name of so many bytes from 8192 on.
fn name(bytes: u32) -> String {
    format!("(i32.const 8192) (i32.const {bytes})")
}

fn count(bytes: u32, by: u64) -> String {
    format!("(call $count {} (i64.const {by}))", name(bytes))
}

fn gauge(bytes: u32, value: f64) -> String {
    format!("(call $gauge {} (f64.const {value}))", name(bytes))
}

fn guest(process: String) -> Guest {
    Guest { data: [b"a.b-c_D9".as_slice(), &[b'x'; 100]].concat(), ..processing(process) }
}

/// Opens an instance of a subtask that has counted already what is in the context.
fn open(guest: &Guest, context: &Context, limits: Limits) -> Instance {
    let component = guest.load().unwrap();
    let state = SubtaskState::new(&component.descriptor().states, 128);
    let outputs = component.descriptor().outputs.iter().map(|_| Outbox::new(Shape::default())).collect();
    Instance::open(&component, context, limits, OnError::Fail, state, outputs).map_err(|unopened| unopened.failure).unwrap()
}

fn readings(metrics: &GuestMetrics) -> Vec<(String, Reading)> {
    metrics.readings().into_iter().map(|(name, reading)| (name.to_string(), reading)).collect()
}

#[test]
fn what_is_counted_holds_when_the_call_succeeds() {
    // Batches of one record succeed; others have counted under a new name before they fail.
    let fails = format!("(if (i32.gt_u (local.get $records) (i32.const 1)) (then {} unreachable))", count(3, 5));
    let guest = guest(format!("{} {} {} {} {fails}", count(1, 2), count(1, 1), gauge(8, 1.0), gauge(8, -2.5)));
    let context = context();
    let expected = |calls: u64| vec![("a".to_owned(), Reading::Counter(3 * calls)), ("a.b-c_D9".to_owned(), Reading::Gauge(-2.5))];
    for round in 1..3 {
        let mut instance = open(&guest, &context, limits());
        assert_eq!(instance.process(0, &mut words(&["a"])), Ok(()));
        assert_eq!(readings(&context.metrics), expected(2 * round - 1));
        assert_eq!(instance.process(0, &mut words(&["a"])), Ok(()));
        assert_eq!(instance.process(0, &mut words(&["a", "b"])).unwrap_err().cause, Cause::Trap);
        assert_eq!(readings(&context.metrics), expected(2 * round), "what the call has counted is forgotten, its new name too");
    }
}

#[test]
fn a_counter_stays_at_the_highest_number() {
    let context = context();
    let mut instance = open(&guest(count(1, u64::MAX)), &context, limits());
    (0..2).for_each(|_| assert_eq!(instance.process(0, &mut words(&["a"])), Ok(())));
    assert_eq!(readings(&context.metrics), [("a".to_owned(), Reading::Counter(u64::MAX))]);
}

#[test]
fn a_name_is_of_one_kind_on_all_subtasks_once_a_call_with_it_has_succeeded() {
    let first = context();
    let second = Context { metrics: Arc::new(first.metrics.of_another_subtask()), ..context() };
    let counts = |context: &Context, body: String| open(&guest(body), context, limits()).process(0, &mut words(&["a"]));
    counts(&first, count(1, 1) + "unreachable").unwrap_err();
    assert_eq!(counts(&second, gauge(1, 1.0)), Ok(()));
    let failure = counts(&first, count(1, 1)).unwrap_err();
    assert_eq!(failure.message, "misused the host: runtime.count: `a` is a gauge on another subtask");
    assert_eq!(counts(&first, gauge(1, 2.0)), Ok(()));
    assert_eq!(readings(&first.metrics), [("a".to_owned(), Reading::Gauge(2.0))]);
}

#[test]
fn another_component_begins_without_what_was_counted_before_it() {
    let first = context();
    let second = Context { metrics: Arc::new(first.metrics.of_another_subtask()), ..context() };
    let limits = Limits { metrics: 1, ..limits() };
    let counts = |context: &Context, body: String| open(&guest(body), context, limits).process(0, &mut words(&["a"]));
    let begin = |context: &Context, component: &str| context.metrics.begin(component);
    for context in [&first, &second] {
        begin(context, "one");
        assert_eq!(counts(context, count(1, 1)), Ok(()));
    }
    // While the other subtask still runs the one before.
    begin(&first, "two");
    assert_eq!(readings(&first.metrics), []);
    assert_eq!(counts(&first, gauge(1, 2.0)), Ok(()));
    assert_eq!(counts(&second, count(1, 1)), Ok(()));
    begin(&second, "two");
    let failure = counts(&second, count(1, 1)).unwrap_err();
    assert_eq!(failure.message, "misused the host: runtime.count: `a` is a gauge on another subtask");
    // It is taken back, and its successor has names of its own, as many as there may be.
    begin(&first, "one");
    assert_eq!(counts(&first, count(1, 5)), Ok(()));
    assert_eq!(readings(&first.metrics), [("a".to_owned(), Reading::Counter(5))]);
    begin(&first, "three");
    assert_eq!(counts(&first, count(8, 1)), Ok(()));
    begin(&first, "two");
    assert_eq!(counts(&first, count(1, 1)), Ok(()), "no subtask of it uses the name for something else any more");
}

#[test]
fn names_are_checked_and_limited() {
    let limits = Limits { metrics: 2, ..limits() };
    let failed = |body: String| {
        let context = Context { metrics: Arc::default(), ..context() };
        let Failure { cause, message, .. } = open(&guest(body), &context, limits).process(0, &mut words(&["a"])).unwrap_err();
        assert_eq!(readings(&context.metrics), []);
        (cause, message)
    };
    let misused = |cause: &str| (Cause::HostCall, format!("misused the host: {cause}"));
    assert_eq!(failed(count(1, 1) + &gauge(1, 1.0)), misused("runtime.gauge: `a` is a counter"));
    assert_eq!(failed(gauge(1, 1.0) + &count(1, 1)), misused("runtime.count: `a` is a gauge"));
    let rule = "is no name of a metric: letters, digits, `_`, `-` and `.`, 1 to 100 of them";
    assert_eq!(failed(count(0, 1)), misused(&format!("runtime.count: `` {rule}")));
    let shown = String::from("a.b-c_D9") + &"x".repeat(92);
    assert_eq!(failed(gauge(101, 1.0)), misused(&format!("runtime.gauge: `{shown}` {rule}")));
    // Followed by a zero byte.
    let (cause, message) = failed("(call $count (i32.const 8299) (i32.const 2) (i64.const 1))".into());
    assert_eq!((cause, message), misused(&format!("runtime.count: `x\\0` {rule}")));
    let many = [1, 3, 100].map(|bytes| count(bytes, 1)).concat();
    let told = "counts under more names than its limit of 2 (limits.metrics)".to_owned();
    assert_eq!(failed(many), (Cause::Limit(Limit::Metrics), told));
}
