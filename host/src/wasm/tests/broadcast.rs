//! Broadcast state through the boundary: any call reads it, only records on a broadcast input change it, and a failed call does not.

use super::guest::{Described, Guest, emitted, refusal, words};
use crate::record::{Batch, Column};
use crate::state::BroadcastMap;
use crate::wasm::{Cause, Instance};

/// At address 8192: ends 1, 2 and 3; at 8204: 2 and 1; at 8212: bytes.
const DATA: [u32; 5] = [1, 2, 3, 2, 1];
const TEXT: &[u8] = b"baczyx";
/// "b", "a" and "c".
const FIELDS: &str = "(i32.const 8192) (i32.const 3) (i32.const 8212) (i32.const 3)";
/// "z", "y" and "x".
const VALUES: &str = "(i32.const 8192) (i32.const 3) (i32.const 8215) (i32.const 3)";
/// "a".
const FIELD: &str = "(i32.const 8192) (i32.const 1) (i32.const 8213) (i32.const 1)";
/// Ends 2 and 1.
const FALLING: &str = "(i32.const 8204) (i32.const 2) (i32.const 8212) (i32.const 1)";
const RATES: u32 = 1;

/// The inputs: keyed, and broadcast.
const WORDS: u32 = 0;
const AIRLINES: u32 = 1;

/// A guest whose `process` is `body`, with broadcast state as its state 1.
fn guest(body: impl Into<String>) -> Guest {
    let described = Described {
        inputs: vec![["words", "keyed", "text", "text"], ["airlines", "broadcast", "", "text"]],
        states: vec![("n", "value", "bytes", 1), ("rates", "broadcast", "bytes", 1)],
        more: vec![vec![], vec![("field-schema", "text")]],
        ..Described::default()
    };
    let mut data: Vec<u8> = DATA.iter().flat_map(|word| word.to_le_bytes()).collect();
    data.extend_from_slice(TEXT);
    Guest { described, data, process: body.into(), ..Guest::default() }
}

fn put(state: u32) -> String {
    format!("(call $broadcast-put (i32.const {state}) {FIELDS} {VALUES})")
}

fn remove(state: u32) -> String {
    format!("(call $broadcast-remove (i32.const {state}) {FIELD})")
}

fn get(state: u32) -> String {
    format!("(call $broadcast-get (i32.const {state}) {FIELDS} (i32.const 64))")
}

fn scan(state: u32, start: &str, max: u32) -> String {
    format!("(call $broadcast-scan (i32.const {state}) {start} (i32.const {max}) (i32.const 64))")
}

/// Emits the column to which the four words at an address point.
fn emit_at(address: u32) -> String {
    let words: Vec<String> = (0..4).map(|word| format!("(i32.load (i32.const {}))", address + 4 * word)).collect();
    format!(
        "(call $emit (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) {} (i32.const 0) (i32.const 0))",
        words.join(" ")
    )
}

/// Records without keys, as they come on a broadcast input.
fn records(values: &[&str]) -> Batch {
    Batch { values: values.iter().map(|value| value.as_bytes()).collect::<Column>(), ..Batch::default() }
}

/// What `body` emits when a record has come on the broadcast input.
fn run(body: &[String]) -> Vec<Vec<u8>> {
    let mut instance = guest(body.join(" ")).run();
    assert_eq!(instance.process(AIRLINES, &mut records(&["r"])), Ok(()));
    emitted(&mut instance, 1)
}

fn rates(instance: &mut Instance) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = |map: &BroadcastMap| map.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
    instance.operator_state().broadcast.map(RATES as usize).map(entries).unwrap()
}

#[test]
fn what_is_put_on_a_broadcast_input_is_got_and_scanned_in_order() {
    let all = "(i32.const 0) (i32.const 0)";
    assert_eq!(run(&[put(RATES), scan(RATES, all, 99), emit_at(64), emit_at(80)]), [b"a", b"b", b"c", b"y", b"z", b"x"]);
    // From "c" on, two entries, and one that is larger than the page.
    assert_eq!(run(&[put(RATES), scan(RATES, "(i32.const 8214) (i32.const 1)", 99), emit_at(64)]), [b"c"]);
    assert_eq!(run(&[put(RATES), scan(RATES, all, 5), emit_at(64)]), [b"a", b"b"]);
    assert_eq!(run(&[put(RATES), scan(RATES, all, 0), emit_at(64)]), [b"a"]);
    // The column of the cells follows their flags.
    assert_eq!(run(&[put(RATES), get(RATES), emit_at(72)]), [b"z", b"y", b"x"]);
    assert_eq!(run(&[put(RATES), remove(RATES), get(RATES), emit_at(72)]), [&b"z"[..], b"", b"x"]);
}

#[test]
fn other_inputs_and_calls_read_it_and_must_not_write_it() {
    // On the broadcast input it writes, on the other it reads.
    let body = format!("(if (local.get $port) (then {}) (else {} {}))", put(RATES), get(RATES), emit_at(72));
    let mut instance = guest(body).run();
    instance.process(AIRLINES, &mut records(&["r"])).unwrap();
    instance.process(WORDS, &mut words(&["a"])).unwrap();
    assert_eq!(emitted(&mut instance, 1), [b"z", b"y", b"x"]);
    let told = |port, body: String| {
        let batch = &mut if port == WORDS { words(&["a"]) } else { records(&["r"]) };
        guest(body).run().process(port, batch).map_err(|failure| (failure.cause, failure.message))
    };
    assert_eq!(told(AIRLINES, put(RATES)), Ok(()));
    for (body, function) in [(put(RATES), "put"), (remove(RATES), "remove")] {
        let message = format!(
            "misused the host: operator-state.broadcast-{function}: only on broadcast inputs, and `words` is none: \
             the subtasks' copies of the state would differ"
        );
        assert_eq!(told(WORDS, body), Err((Cause::HostCall, message)));
    }
    // What was a broadcast record's call is over.
    let finish = Guest { finish: put(RATES).leak(), ..guest("") };
    let mut instance = finish.run();
    instance.process(AIRLINES, &mut records(&["r"])).unwrap();
    let failure = instance.finish(&mut Batch::default()).unwrap_err();
    assert_eq!(failure.message, "misused the host: operator-state.broadcast-put: not to be called from `finish`");
    let reads = Guest { finish: format!("{} {}", get(RATES), emit_at(72)).leak(), open: get(RATES).leak(), ..guest(put(RATES)) };
    let mut instance = reads.run();
    instance.process(AIRLINES, &mut records(&["r"])).unwrap();
    instance.finish(&mut Batch::default()).unwrap();
    assert_eq!(emitted(&mut instance, 1), [b"z", b"y", b"x"]);
    let describes = Guest { describe: get(RATES).leak(), ..guest("") };
    assert!(refusal(describes.load()).contains("operator-state.broadcast-get: `describe` must not call imports"));
}

#[test]
fn a_failed_call_leaves_it_as_it_was_and_another_instance_goes_on_with_it() {
    let fails = "(if (i32.gt_u (local.get $records) (i32.const 1)) (then unreachable))";
    // The first call writes; the second removes and puts, and fails if there are two records.
    let component = guest(format!(
        "(if (i32.load (i32.const 8256)) (then {}) (else {})) {fails} (i32.store (i32.const 8256) (i32.const 1))",
        remove(RATES),
        put(RATES)
    ));
    let mut instance = component.run();
    instance.process(AIRLINES, &mut records(&["r"])).unwrap();
    let all = rates(&mut instance);
    assert_eq!(all.len(), 3);
    assert!(instance.operator_state().freeze().maps.is_some());
    assert_eq!(instance.process(AIRLINES, &mut records(&["r", "s"])).unwrap_err().cause, Cause::Trap);
    assert_eq!(rates(&mut instance), all);
    assert!(instance.operator_state().freeze().maps.is_none(), "what was undone is no change");
    let (state, _) = instance.into_parts();
    assert_eq!(state.operator.broadcast.map(RATES as usize).unwrap().len(), 3);
}

#[test]
fn every_misuse_of_broadcast_state_is_named() {
    let all = "(i32.const 0) (i32.const 0)";
    let cases = [
        (put(0), "broadcast-put: state `n` is of another kind (Value)"),
        (remove(0), "broadcast-remove: state `n` is of another kind (Value)"),
        (get(0), "broadcast-get: state `n` is of another kind (Value)"),
        (scan(0, all, 9), "broadcast-scan: state `n` is of another kind (Value)"),
        (put(2), "broadcast-put: there is no state 2; the descriptor has 2"),
        (
            format!("(call $broadcast-put (i32.const 1) {FALLING} {VALUES})"),
            "broadcast-put: `fields` is no column: ends[1] lies before ends[0]",
        ),
        (
            format!("(call $broadcast-put (i32.const 1) {FIELDS} {FALLING})"),
            "broadcast-put: `values` is no column: ends[1] lies before ends[0]",
        ),
        (format!("(call $broadcast-put (i32.const 1) {FIELD} {VALUES})"), "broadcast-put: `fields` has 1 entries, but there are 3 values"),
        (
            format!("(call $broadcast-get (i32.const 1) {FALLING} (i32.const 64))"),
            "broadcast-get: `fields` is no column: ends[1] lies before ends[0]",
        ),
        (
            format!("(call $broadcast-remove (i32.const 1) {FALLING})"),
            "broadcast-remove: `fields` is no column: ends[1] lies before ends[0]",
        ),
        ("(call $list-get (i32.const 1) (i32.const 64))".into(), "list-get: state `rates` is of another kind (Broadcast)"),
    ];
    for (body, cause) in cases {
        let failure = guest(body).run().process(AIRLINES, &mut records(&["r"])).unwrap_err();
        assert_eq!((failure.cause, failure.message), (Cause::HostCall, format!("misused the host: operator-state.{cause}")));
    }
}

#[test]
fn what_a_call_writes_there_is_bounded() {
    /// A column of one value that begins at address 0 and whose end lies at another.
    fn column(end_at: u32, length: u32) -> String {
        format!("(i32.const {end_at}) (i32.const 1) (i32.const 0) (i32.const {length})")
    }
    let told = |ends: &[u32], body: String| {
        let data = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        Guest { data, ..guest(body) }.run().process(AIRLINES, &mut records(&["r"])).unwrap_err().message
    };
    // One field with a value of 512 KiB, over and over.
    let half = 512 << 10;
    let put = format!("(loop $on (call $broadcast-put (i32.const 1) {} {}) (br $on))", column(8192, 1), column(8196, half));
    let message = "changed more state in one call than its limit of 256 MiB (limits.written)";
    assert_eq!(told(&[1, half], put), message);
    let large = (1 << 20) + 1;
    let get = format!("(drop (memory.grow (i32.const 1))) (call $broadcast-get (i32.const 1) {} (i32.const 64))", column(8192, large));
    assert_eq!(told(&[large], get), "misused the host: operator-state.broadcast-get: a field has more than 1 MiB");
}
