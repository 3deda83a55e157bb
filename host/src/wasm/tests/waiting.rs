//! A guest that waits, as `thread::sleep` does in Rust: it gets its time, and no more than its limit. And what guests print.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::guest::{Guest, context, limits, open, open_in, soon, words};
use crate::plan::Limits;
use crate::wasm::log::{GuestLog, INFO};
use crate::wasm::{Cause, Limit};

/// A guest that sleeps in `process`, for as many nanoseconds as stand at address 8192.
fn sleeping(time: Duration) -> Guest {
    let imports = r#"
        (import "wasi:io/poll@0.2.6" (instance $poll
          (export "pollable" (type $pollable (sub resource)))
          (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
        (alias export $poll "pollable" (type $pollable))
        (import "wasi:clocks/monotonic-clock@0.2.6" (instance $clock
          (alias outer $operator-in-text $pollable (type $pollable'))
          (export "pollable" (type $pollable (eq $pollable')))
          (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
        (core func $block (canon lower (func $poll "[method]pollable.block")))
        (core func $subscribe (canon lower (func $clock "subscribe-duration")))
        (core func $drop (canon resource.drop $pollable))"#;
    Guest {
        imports,
        host: r#"(export "block" (func $block)) (export "subscribe" (func $subscribe)) (export "drop" (func $drop))"#,
        core: r#"(import "host" "block" (func $block (param i32))) (import "host" "subscribe" (func $subscribe (param i64) (result i32)))
            (import "host" "drop" (func $drop (param i32)))"#,
        process: "(local $alarm i32) (local.set $alarm (call $subscribe (i64.load (i32.const 8192))))
            (call $block (local.get $alarm)) (call $drop (local.get $alarm))"
            .into(),
        data: u64::try_from(time.as_nanos()).unwrap().to_le_bytes().to_vec(),
        ..Guest::default()
    }
}

#[test]
fn a_sleeping_guest_wakes() {
    let mut instance = sleeping(Duration::from_millis(3)).run();
    assert_eq!(instance.process(0, &mut words(&["a"])), Ok(()));
    assert_eq!(instance.process(0, &mut words(&["a"])), Ok(()));
}

#[test]
fn a_guest_that_sleeps_too_long_is_woken_by_its_limit() {
    for time in [Duration::from_secs(3600), Duration::from_nanos(u64::MAX)] {
        let component = sleeping(time).load().unwrap();
        let mut instance = open(&component, soon()).map_err(|u| u.failure).unwrap();
        let failure = instance.process(0, &mut words(&["a"])).unwrap_err();
        assert_eq!(failure.cause, Cause::Limit(Limit::Time), "{failure}");
    }
}

#[test]
fn whatever_a_guest_does_is_interrupted() {
    let looping = Guest { process: "(loop $again (br $again))".into(), ..Guest::default() };
    for guest in [sleeping(Duration::from_secs(3600)), looping] {
        let (component, context) = (guest.load().unwrap(), context());
        let open = || open_in(&context, &component, Limits { time: Duration::from_secs(3600), ..limits() }).map_err(|u| u.failure).unwrap();
        let (mut instance, mut ending) = (open(), open());
        let failure = std::thread::scope(|scope| {
            scope.spawn(|| context.interrupt.interrupt());
            instance.process(0, &mut words(&["a"])).unwrap_err()
        });
        assert_eq!(failure.cause, Cause::Interrupted, "{failure}");
        ending.begin_to_end();
        assert_eq!(ending.process(0, &mut words(&["a"])).unwrap_err().cause, Cause::Interrupted);
    }
}

/// What was logged.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_flood_of_log_lines_is_cut_and_counted() {
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let log = GuestLog::new("flooding", 3, 100);
        (0..250).for_each(|number| log.line(INFO, &format!("line\n{number}")));
    });
    let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 101, "{text}");
    assert_eq!(lines[99].trim(), r#"INFO guest: line 99 operator="flooding" subtask=3"#);
    assert!(lines[100].contains("150 more lines were left out: at most 100 a second are logged (limits.log-lines)"), "{}", lines[100]);
}
