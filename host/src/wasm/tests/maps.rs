//! Maps through the boundary: what a guest puts it gets and scans, and what it does wrong is named.

use super::guest::{Described, Guest, emitted, failure, processing, words};
use crate::record::Batch;
use crate::wasm::{Cause, Failure};

/// At address 8192: keys 0, 1 and 0; at 8204: ends 1, 2 and 3, and 2; at 8220: bytes.
const DATA: [u32; 7] = [0, 1, 0, 1, 2, 3, 2];
const TEXT: &[u8] = b"baczyx";
const KEYS: &str = "(i32.const 8192) (i32.const 3)";
const ENDS: &str = "(i32.const 8204) (i32.const 3)";
/// "b", "a" and "c".
const FIELDS: &str = "(i32.const 8204) (i32.const 3) (i32.const 8220) (i32.const 3)";
/// "z", "y" and "x".
const VALUES: &str = "(i32.const 8204) (i32.const 3) (i32.const 8223) (i32.const 3)";
/// Ends 3 and 2.
const FALLING: &str = "(i32.const 8212) (i32.const 2) (i32.const 8220) (i32.const 2)";
/// Emits the columns to which the four words at an address point.
fn emit_at(address: u32) -> String {
    let words: Vec<String> = (0..4).map(|word| format!("(i32.load (i32.const {}))", address + 4 * word)).collect();
    format!(
        "(call $emit (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) {} (i32.const 0) (i32.const 0))",
        words.join(" ")
    )
}

fn guest(process: impl Into<String>) -> Guest {
    let mut data: Vec<u8> = DATA.iter().flat_map(|word| word.to_le_bytes()).collect();
    data.extend_from_slice(TEXT);
    Guest { data, ..processing(process) }
}

fn put(state: u32) -> String {
    format!("(call $map-put (i32.const {state}) {KEYS} {FIELDS} {VALUES})")
}

fn scan(state: u32, key: u32, start: &str, max: u32) -> String {
    format!("(call $map-scan (i32.const {state}) (i32.const {key}) {start} (i32.const {max}) (i32.const 64))")
}

fn run(body: &[String]) -> Vec<Vec<u8>> {
    let mut instance = guest(body.join(" ")).run();
    assert_eq!(instance.process(0, &mut words(&["a", "b"])), Ok(()));
    emitted(&mut instance, 1)
}

#[test]
fn what_is_put_is_got_and_scanned_in_order() {
    let from_the_start = "(i32.const 0) (i32.const 0)";
    let all = [put(2), scan(2, 0, from_the_start, 99), emit_at(64), emit_at(80), scan(2, 1, from_the_start, 99), emit_at(64), emit_at(80)];
    assert_eq!(run(&all), [b"b", b"c", b"z", b"x", b"a", b"y"]);
    // From "c" on, and one entry at a time.
    assert_eq!(run(&[put(2), scan(2, 0, "(i32.const 8222) (i32.const 1)", 99), emit_at(64)]), [b"c"]);
    assert_eq!(run(&[put(2), scan(2, 0, from_the_start, 0), emit_at(64)]), [b"b"]);
    let get = format!("(call $map-get (i32.const 2) {KEYS} {FIELDS} (i32.const 64))");
    let removed = String::from(
        "(call $map-remove (i32.const 2) (i32.const 8196) (i32.const 1) (i32.const 8204) (i32.const 1) (i32.const 8221) (i32.const 1))",
    );
    // The column of the cells follows their flags.
    assert_eq!(run(&[put(2), get.clone(), emit_at(72)]), [b"z", b"y", b"x"]);
    assert_eq!(run(&[put(2), removed, get, emit_at(72)]), [&b"z"[..], b"", b"x"]);
    // "c" of the first key, which the second does not have: 80 is where the option lies, 88 its length, which is the column's only end.
    let get_one = |key: u32| format!("(call $map-get-one (i32.const 2) (i32.const {key}) (i32.const 8222) (i32.const 1) (i32.const 80))");
    let emit = "(call $emit (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) \
        (i32.const 88) (i32.load8_u (i32.const 80)) (i32.load (i32.const 84)) (i32.load (i32.const 88)) (i32.const 0) (i32.const 0))";
    assert_eq!(run(&[put(2), get_one(1), emit.into(), get_one(0), emit.into()]), [b"x"]);
}

#[test]
fn a_failed_call_leaves_no_field_behind() {
    let mut instance = guest(format!("{} unreachable", put(2))).run();
    assert_eq!(instance.process(0, &mut words(&["a", "b"])).unwrap_err().cause, Cause::Trap);
    let (mut keys, mut listed) = (instance.state().keys(0), Batch::default());
    instance.state().next_keys(&mut keys, 1, &mut listed);
    assert!(listed.keys.is_empty());
}

#[test]
fn every_misuse_of_maps_is_named() {
    let start = "(i32.const 0) (i32.const 0)";
    let cases = [
        (put(0), "keyed-state.map-put: state `count` is of another kind (Value)"),
        (
            format!("(call $map-put (i32.const 2) {KEYS} {FALLING} {VALUES})"),
            "keyed-state.map-put: `fields` is no column: ends[1] lies before ends[0]",
        ),
        (
            format!("(call $map-put (i32.const 2) (i32.const 8192) (i32.const 2) {FIELDS} {VALUES})"),
            "keyed-state.map-put: `keys` has 2 entries, but there are 3 fields",
        ),
        (
            format!("(call $map-put (i32.const 2) {KEYS} {FIELDS} (i32.const 8204) (i32.const 1) (i32.const 8220) (i32.const 1))"),
            "keyed-state.map-put: `keys` has 3 entries, but there are 1 values",
        ),
        (
            format!("(call $map-get (i32.const 2) {ENDS} {FIELDS} (i32.const 64))"),
            "keyed-state.map-get: key 2 is beyond the 2 keys of this call",
        ),
        (
            "(call $map-get-one (i32.const 2) (i32.const 2) (i32.const 8222) (i32.const 1) (i32.const 80))".into(),
            "keyed-state.map-get-one: key 2 is beyond the 2 keys of this call",
        ),
        (format!("(call $map-remove (i32.const 1) {KEYS} {FIELDS})"), "keyed-state.map-remove: state `seen` is of another kind (List)"),
        (scan(1, 0, start, 9), "keyed-state.map-scan: state `seen` is of another kind (List)"),
        (scan(2, 2, start, 9), "keyed-state.map-scan: key 2 is beyond the 2 keys of this call"),
        (format!("(call $get (i32.const 2) {KEYS} (i32.const 64))"), "keyed-state.get: state `per` is of another kind (Map)"),
    ];
    for (body, cause) in cases {
        let Failure { cause: kind, message, .. } = failure(&guest(body));
        assert_eq!((kind, message), (Cause::HostCall, format!("misused the host: {cause}")));
    }
}

#[test]
fn a_value_whose_time_is_over_when_a_call_begins_is_not_there() {
    let described =
        Described { more: vec![vec![("ttl-ms", "60000")]], states: vec![("count", "value", "bytes", 1)], ..Described::default() };
    let put = "(call $put (i32.const 0) (i32.const 8192) (i32.const 1) (i32.const 8204) (i32.const 1) (i32.const 8220) (i32.const 1))";
    let get = "(call $get (i32.const 0) (i32.const 8192) (i32.const 1) (i32.const 64))";
    let body = format!("{get} {} {put}", emit_at(72));
    let mut instance = Guest { described, ..guest(body) }.run();
    let mut process = || {
        instance.process(0, &mut words(&["a"])).unwrap();
        emitted(&mut instance, 1)
    };
    assert_eq!(process(), [b""]);
    assert_eq!(process(), [b"b"], "written a moment ago, for a minute");
}
