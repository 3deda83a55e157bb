//! What becomes of calls: a transaction that holds or is taken back, and a failure that says why.

use super::guest::{Described, Guest, context, emitted, failure, limits, load_text, open, processing, soon, words};
use crate::plan::{Limits, OnError};
use crate::record::{Batch, Outbox, Shape, hash_key};
use crate::state::below_tests::Shelf;
use crate::state::{ColdFault, KeyedState, SubtaskState};
use crate::wasm::{Cause, Failure, Instance, Interrupt, Limit};

/// At address 8192: 0, 1, 2, 0 as u32, which serve as indices of keys, as ends and as bytes. Lists are written as address and length.
const DATA: [u32; 4] = [0, 1, 2, 0];
/// Keys 0 and 1.
const KEYS: &str = "(i32.const 8192) (i32.const 2)";
/// Ends 1 and 2.
const ENDS: &str = "(i32.const 8196) (i32.const 2)";
/// Ends 2 and 0.
const FALLING: &str = "(i32.const 8200) (i32.const 2)";
/// Two bytes, the first of them 0.
const BYTES: &str = "(i32.const 8192) (i32.const 2)";
const NONE: &str = "(i32.const 0) (i32.const 0)";

fn guest(process: impl Into<String>) -> Guest {
    Guest { data: DATA.iter().flat_map(|word| word.to_le_bytes()).collect(), ..processing(process) }
}

/// A call of `emit`: `keys` as case and four words.
fn emit(port: u32, keys: &str, ends: &str, bytes: &str, times: &str) -> String {
    format!("(call $emit (i32.const {port}) {keys} {ends} {bytes} {times})")
}

fn known(keys: &str) -> String {
    format!("(i32.const 1) {keys} {NONE}")
}

fn fresh(ends: &str, bytes: &str) -> String {
    format!("(i32.const 2) {ends} {bytes}")
}

const KEYLESS: &str = "(i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)";

fn put(state: u32, keys: &str, ends: &str, bytes: &str) -> String {
    format!("(call $put (i32.const {state}) {keys} {ends} {bytes})")
}

fn get(state: u32, keys: &str) -> String {
    format!("(call $get (i32.const {state}) {keys} (i32.const 64))")
}

fn misused(guest: &Guest) -> String {
    let Failure { cause, record, message } = failure(guest);
    assert_eq!((cause, record), (Cause::HostCall, None), "{message}");
    message.strip_prefix("misused the host: ").unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[test]
fn a_disk_that_fails_fails_the_call_whatever_the_guest_makes_of_it() {
    for end in ["", "unreachable"] {
        let component = guest(format!("{} {end}", get(0, KEYS))).load().unwrap();
        // Broken once something lies in it.
        let mut keyed = KeyedState::over(&component.descriptor().states, 128, Box::new(Shelf::breaking_after(1)), 0);
        keyed.fill(|_| Ok::<(), ColdFault>(())).unwrap();
        let state = SubtaskState { keyed, ..SubtaskState::new(&component.descriptor().states, 128) };
        let outputs = component.descriptor().outputs.iter().map(|_| Outbox::new(Shape { plain: true, keyed: None })).collect();
        let mut instance = Instance::open(&component, &context(), limits(), OnError::Skip, state, outputs).unwrap();
        let failure = instance.process(0, &mut words(&["a", "b"])).unwrap_err();
        assert_eq!((failure.cause, failure.message.as_str()), (Cause::Disk, "the shelf has broken"));
    }
}

#[test]
fn what_a_guest_emits_arrives_once_the_call_succeeds() {
    let body = [
        emit(0, &known(KEYS), ENDS, BYTES, "(i32.const 8192) (i32.const 2)"),
        emit(0, &fresh(ENDS, BYTES), ENDS, BYTES, NONE),
        emit(1, KEYLESS, ENDS, BYTES, NONE),
    ];
    let mut instance = guest(body.join(" ")).run();
    let mut batch = words(&["a", "b", "a"]);
    assert_eq!(instance.process(0, &mut batch), Ok(()));
    assert_eq!(batch, words(&["a", "b", "a"]));
    assert_eq!(emitted(&mut instance, 0), [[0], [0], [0], [0]]);
    assert_eq!(emitted(&mut instance, 1), [[0], [0]]);
    assert_eq!(emitted(&mut instance, 1), Vec::<Vec<u8>>::new());
}

#[test]
fn every_misuse_of_emit_is_named() {
    let good = known(KEYS);
    let cases = [
        (emit(2, &good, ENDS, BYTES, NONE), "there is no output 2; the descriptor has 2"),
        (emit(0, &good, FALLING, BYTES, NONE), "`values` is no column: ends[1] lies before ends[0]"),
        (emit(0, &good, ENDS, "(i32.const 8192) (i32.const 3)", NONE), "`values` is no column: the last end is 2, but there are 3 bytes"),
        (emit(0, &good, ENDS, BYTES, "(i32.const 8192) (i32.const 1)"), "`timestamps` has 1 entries, but there are 2 values"),
        (emit(0, &known("(i32.const 8192) (i32.const 1)"), ENDS, BYTES, NONE), "`known` has 1 entries, but there are 2 values"),
        (emit(0, &known("(i32.const 8196) (i32.const 2)"), ENDS, BYTES, NONE), "key 2 is beyond the 2 keys of this call"),
        (emit(0, &fresh(FALLING, BYTES), ENDS, BYTES, NONE), "`fresh` is no column: ends[1] lies before ends[0]"),
        (emit(0, &fresh("(i32.const 8200) (i32.const 1)", BYTES), ENDS, BYTES, NONE), "`fresh` has 1 entries, but there are 2 values"),
        (emit(0, KEYLESS, ENDS, BYTES, NONE), "output `counts` is keyed, but the records carry no keys"),
        (emit(1, &good, ENDS, BYTES, NONE), "output `lines` is not keyed, but the records carry keys"),
    ];
    for (body, cause) in cases {
        assert_eq!(misused(&guest(body)), format!("output.emit: {cause}"));
    }
}

#[test]
fn a_call_emits_a_bounded_amount() {
    let half = 512u32 << 10;
    let emit = emit(1, KEYLESS, "(i32.const 8192) (i32.const 1)", &format!("(i32.const 0) (i32.const {half})"), NONE);
    let guest = Guest { data: half.to_le_bytes().to_vec(), ..processing(format!("(loop $on {emit} (br $on))")) };
    let component = guest.load().unwrap();
    // Nobody takes the records, but they count.
    let outputs = vec![Outbox::new(Shape::default()), Outbox::new(Shape::default())];
    let state = SubtaskState::new(&component.descriptor().states, 128);
    let mut instance = Instance::open(&component, &context(), limits(), OnError::Fail, state, outputs).map_err(|u| u.failure).unwrap();
    let failure = instance.process(0, &mut words(&["a"])).unwrap_err();
    assert_eq!(failure.message, "emitted more in one call than its limit of 256 MiB (limits.emitted)");
}

#[test]
fn keys_of_the_call_that_are_emitted_count_like_others() {
    let emit = emit(0, &known(KEYS), ENDS, BYTES, NONE);
    let key = "k".repeat(6 << 10);
    let limits = Limits { emitted: 10 << 10, ..limits() };
    let emits =
        |body: String| open(&guest(body).load().unwrap(), limits).map_err(|u| u.failure).unwrap().process(0, &mut words(&[&key, "b"]));
    assert_eq!(emits(emit.clone()), Ok(()));
    assert_eq!(emits(emit.repeat(2)).unwrap_err().message, "emitted more in one call than its limit of 10 KiB (limits.emitted)");
}

#[test]
fn a_call_writes_and_reads_a_bounded_amount() {
    let small = Limits { written: 64 << 10, read: 64 << 10, ..limits() };
    let told = |body: String| {
        let guest = Guest { data: (1u32 << 15).to_le_bytes().to_vec(), ..processing(body) };
        let mut instance = open(&guest.load().unwrap(), small).map_err(|unopened| unopened.failure).unwrap();
        let failure = instance.process(0, &mut words(&["a", "b"])).unwrap_err();
        (failure.cause, failure.message)
    };
    // A column of one value of 32 KiB, and a list of one key: 0.
    let column = "(i32.const 8192) (i32.const 1) (i32.const 0) (i32.const 32768)";
    let key = "(i32.const 0) (i32.const 1)";
    let put = format!("(call $put (i32.const 0) {key} {column})");
    let append = format!("(call $list-append (i32.const 1) {key} {column})");
    let written = (Cause::Limit(Limit::Written), "changed more state in one call than its limit of 64 KiB (limits.written)".to_owned());
    // Each value counts for 16 bytes more.
    for body in [format!("{put} {put}"), format!("{append} {append}"), format!("(loop $on {put} (br $on))")] {
        assert_eq!(told(body), written);
    }
    let read = (Cause::Limit(Limit::Read), "asked for more state at once than its limit of 64 KiB (limits.read)".to_owned());
    let page = |bytes: u32| format!("(call $list-read (i32.const 1) (i32.const 0) (i32.const 0) (i32.const {bytes}) (i32.const 64))");
    assert_eq!(told(page((64 << 10) + 1)), read);
    assert_eq!(told(page(64 << 10) + " unreachable").0, Cause::Trap, "exactly the limit is none too many");
}

#[test]
fn what_a_call_removes_or_stamps_counts_as_what_it_writes() {
    let small = Limits { written: 64 << 10, ..limits() };
    let column = "(i32.const 8192) (i32.const 1) (i32.const 0) (i32.const 32768)";
    let (key, field) = ("(i32.const 0) (i32.const 1)", "(i32.const 8196) (i32.const 1) (i32.const 0) (i32.const 1)");
    let put = format!("(call $put (i32.const 0) {key} {column})");
    let append = format!("(call $list-append (i32.const 1) {key} {column})");
    let map_put = format!("(call $map-put (i32.const 2) {key} {field} {column})");
    let clear = |state: u32| format!("(call $clear (i32.const {state}) {key})");
    let cases = [
        (&put, clear(0)),
        (&append, clear(1)),
        (&map_put, clear(2)),
        (&map_put, format!("(call $map-remove (i32.const 2) {key} {field})")),
        (&put, format!("(call $get (i32.const 0) {key} (i32.const 64))")),
        (&append, "(call $list-read (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 32768) (i32.const 64))".into()),
        (&map_put, format!("(call $map-get (i32.const 2) {key} {field} (i32.const 64))")),
        (&map_put, "(call $map-get-one (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 80))".into()),
        (&map_put, "(call $map-scan (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32768) (i32.const 64))".into()),
    ];
    let mortal = || vec![("ttl-ms", "3600000"), ("ttl-from", "access")];
    let described =
        || Described { more: vec![mortal(), mortal(), [mortal(), vec![("field-schema", "text")]].concat()], ..Described::default() };
    for (write, change) in cases {
        // A batch of one record writes 32 KiB, one of two changes that, and one of three writes besides as much again.
        let records = |least: u32, then: &str| format!("(if (i32.ge_u (local.get $records) (i32.const {least})) (then {then}))");
        let first = format!("(if (i32.eq (local.get $records) (i32.const 1)) (then {write}))");
        let body = [first, records(2, &change), records(3, &put)].concat();
        let data = [1u32 << 15, 1].into_iter().flat_map(u32::to_le_bytes).collect();
        let guest = Guest { data, described: described(), ..processing(body) };
        let mut instance = open(&guest.load().unwrap(), small).map_err(|unopened| unopened.failure).unwrap();
        let mut process = |records: &[&str]| {
            // What is read in the millisecond in which it was written is not stamped anew.
            std::thread::sleep(std::time::Duration::from_millis(2));
            instance.process(0, &mut words(records)).map_err(|failure| failure.cause)
        };
        assert_eq!(process(&["a"]), Ok(()), "{change}");
        assert_eq!(process(&["a", "a", "a"]), Err(Cause::Limit(Limit::Written)), "{change}");
    }
}

#[test]
fn a_read_returns_as_many_of_the_first_values_as_it_may() {
    // A value of 32 KiB for key 0, which is then asked for three times at once.
    let put = "(call $put (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8192) (i32.const 1) (i32.const 0) (i32.const 32768))";
    let get = "(call $get (i32.const 0) (i32.const 16384) (i32.const 3) (i32.const 64))";
    let found = |read: u64, cells: u32| {
        let check = format!("(if (i32.ne (i32.load (i32.const 68)) (i32.const {cells})) (then unreachable))");
        let guest = Guest { data: (1u32 << 15).to_le_bytes().to_vec(), ..processing(format!("{put} {get} {check}")) };
        let mut instance = open(&guest.load().unwrap(), Limits { read, ..limits() }).map_err(|unopened| unopened.failure).unwrap();
        instance.process(0, &mut words(&["a", "b"])).map_err(|failure| failure.cause)
    };
    assert_eq!(found(96 << 10, 3), Ok(()));
    assert_eq!(found((96 << 10) - 1, 2), Ok(()));
    assert_eq!(found(32 << 10, 1), Ok(()));
    assert_eq!(found((32 << 10) - 1, 0), Err(Cause::Limit(Limit::Read)), "a single value is too large");
}

#[test]
fn every_misuse_of_state_is_named() {
    let append = |state| format!("(call $list-append (i32.const {state}) {KEYS} {ENDS} {BYTES})");
    let read = |state, key| format!("(call $list-read (i32.const {state}) (i32.const {key}) (i32.const 0) (i32.const 9) (i32.const 64))");
    let cases = [
        (get(3, KEYS), "keyed-state.get: there is no state 3; the descriptor has 3"),
        (get(1, KEYS), "keyed-state.get: state `seen` is of another kind (List)"),
        (get(0, "(i32.const 8192) (i32.const 3)"), "keyed-state.get: key 2 is beyond the 2 keys of this call"),
        (put(1, KEYS, ENDS, BYTES), "keyed-state.put: state `seen` is of another kind (List)"),
        (put(0, KEYS, FALLING, BYTES), "keyed-state.put: `values` is no column: ends[1] lies before ends[0]"),
        (put(0, "(i32.const 8192) (i32.const 1)", ENDS, BYTES), "keyed-state.put: `keys` has 1 entries, but there are 2 values"),
        (append(0), "keyed-state.list-append: state `count` is of another kind (Value)"),
        (read(0, 0), "keyed-state.list-read: state `count` is of another kind (Value)"),
        (read(1, 2), "keyed-state.list-read: key 2 is beyond the 2 keys of this call"),
    ];
    for (body, cause) in cases {
        assert_eq!(misused(&guest(body)), cause);
    }
}

#[test]
fn other_misuse_is_named_too() {
    let reject = "(call $reject (i32.const 2) (i32.const 8192) (i32.const 0))";
    assert_eq!(misused(&guest(reject)), "output.reject: record 2 is beyond the 2 records of this call");
    let log = "(call $log (i32.const 5) (i32.const 8192) (i32.const 0))";
    assert_eq!(misused(&guest(log)), "runtime.log: there is no level 5; 4 is the highest");
}

#[test]
fn a_guest_reads_its_own_writes() {
    // Puts 0 and 1, reads, and emits what it read: the column of the cells stands at 64 + 8.
    let cells = "(i32.load (i32.const 72)) (i32.load (i32.const 76)) (i32.load (i32.const 80)) (i32.load (i32.const 84))";
    let body = [put(0, KEYS, ENDS, "(i32.const 8195) (i32.const 2)"), get(0, KEYS), emit(1, KEYLESS, cells, "", NONE)];
    let mut instance = guest(body.join(" ")).run();
    assert_eq!(instance.process(0, &mut words(&["a", "b"])), Ok(()));
    assert_eq!(emitted(&mut instance, 1), [[0], [1]]);
    assert_eq!(instance.state().value(0, b"a"), Some(&[0][..]));
    assert_eq!(instance.state().value(0, b"b"), Some(&[1][..]));
}

#[test]
fn whatever_ends_a_call_takes_back_what_it_did() {
    let begin = [put(0, KEYS, ENDS, BYTES), emit(0, &known(KEYS), ENDS, BYTES, NONE)].join(" ");
    let error = "(i32.store8 (i32.const 16) (i32.const 1)) (i32.store (i32.const 20) (i32.const 8192))";
    let ends = [
        ("unreachable", Cause::Trap),
        ("(i32.store (i32.const -1) (i32.const 0))", Cause::Trap),
        (error, Cause::Error),
        ("(call $reject (i32.const 1) (i32.const 8192) (i32.const 0))", Cause::Rejected),
        ("(call $panicked (i32.const 1) (i32.const 1) (i32.const 8192) (i32.const 0)) unreachable", Cause::Panic),
        ("(call $reject (i32.const 7) (i32.const 8192) (i32.const 0))", Cause::HostCall),
        ("(drop (memory.grow (i32.const 4096))) unreachable", Cause::Limit(Limit::Memory)),
    ];
    for (end, cause) in ends {
        let mut instance = guest(format!("{begin} {end}")).run();
        let failure = instance.process(0, &mut words(&["a", "b"])).unwrap_err();
        assert_eq!(failure.cause, cause, "{failure}");
        assert_eq!(instance.state().value(0, b"a"), None, "{end}");
        assert_eq!(emitted(&mut instance, 0), Vec::<Vec<u8>>::new(), "{end}");
    }
}

#[test]
fn failures_say_why_in_one_line() {
    let told = |body: &str| failure(&Guest { data: b"no\ngood".to_vec(), ..processing(body) });
    let expect = |cause, record, message: &str| Failure { cause, record, message: message.into() };
    let error =
        "(i32.store8 (i32.const 16) (i32.const 1)) (i32.store (i32.const 20) (i32.const 8192)) (i32.store (i32.const 24) (i32.const 7))";
    assert_eq!(told(error), expect(Cause::Error, None, "failed: no good"));
    let reject = "(call $reject (i32.const 1) (i32.const 8192) (i32.const 7)) (call $reject (i32.const 0) (i32.const 8192) (i32.const 0))";
    assert_eq!(told(reject), expect(Cause::Rejected, Some(1), "rejected a record: no good"));
    let panic = "(call $panicked (i32.const 1) (i32.const 1) (i32.const 8192) (i32.const 7)) unreachable";
    assert_eq!(told(panic), expect(Cause::Panic, Some(1), "panicked: no good"));
    let nowhere = "(call $panicked (i32.const 1) (i32.const 9) (i32.const 8192) (i32.const 7)) unreachable";
    assert_eq!(told(nowhere), expect(Cause::Panic, None, "panicked: no good"));
    assert_eq!(told("(drop (i32.div_u (i32.const 1) (i32.const 0)))"), expect(Cause::Trap, None, "trapped: integer divide by zero"));
    let memory = "(drop (memory.grow (i32.const 4096))) unreachable";
    assert_eq!(told(memory), expect(Cause::Limit(Limit::Memory), None, "used more than its memory limit of 4 MiB (limits.memory)"));
    let odd = Guest { core: "(func $odd (@name \"two\\n\\t words\") unreachable)", ..processing("(call $odd)") };
    let told = failure(&odd);
    assert!(told.message.ends_with(", in `two words`"), "{told}");
    let long = load_text(&odd.text().replace("words", &"words".repeat(20_000)), limits()).unwrap();
    let told = open(&long, limits()).map_err(|unopened| unopened.failure).unwrap().process(0, &mut words(&["a"])).unwrap_err();
    assert!(told.message.len() < 3000 && told.message.ends_with("…`"), "{told}");
    let deep = Guest {
        core: "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0))))",
        ..processing("(drop (call $deep (i32.const 0)))")
    };
    let told = failure(&deep);
    assert!(told.message.starts_with("trapped: calls nested deeper than its stack of 1 MiB allows"), "{told}");
}

#[test]
fn a_loop_ends_at_its_limit() {
    let component = processing("(loop $on (br $on))").load().unwrap();
    let mut instance = open(&component, soon()).map_err(|u| u.failure).unwrap();
    let failure = instance.process(0, &mut words(&["a"])).unwrap_err();
    assert_eq!(failure.cause, Cause::Limit(Limit::Time));
    assert_eq!(failure.message, "ran longer than its time limit of 300ms (limits.time)");
    let again = instance.process(0, &mut words(&["a"])).unwrap_err();
    assert_eq!(again.message, "was called again after it had trapped");
}

#[test]
fn memory_is_counted_over_all_memories_and_a_refusal_only_for_its_call() {
    let two = Guest {
        imports: "(core module $more (memory 40)) (core instance (instantiate $more)) (core instance (instantiate $more))",
        ..Guest::default()
    };
    let unopened = two.load();
    assert!(unopened.err().is_some_and(|error| error.message().ends_with("its memory limit of 4 MiB (limits.memory)")));
    // The first call asks for too much and copes; the second traps for another reason.
    let copes = "(if (i32.load (i32.const 8200)) (then unreachable))
        (drop (memory.grow (i32.const 4096))) (i32.store (i32.const 8200) (i32.const 1))";
    let mut instance = processing(copes).run();
    assert_eq!(instance.process(0, &mut words(&["a"])), Ok(()));
    assert_eq!(instance.process(0, &mut words(&["a"])).unwrap_err().cause, Cause::Trap);
}

#[test]
fn tables_count_as_memory_and_memories_are_few() {
    let loads = |parts: &str| {
        let text = Guest::default().text().replacen("(core module $main", &format!("{parts} (core module $main"), 1);
        load_text(&text, limits()).map_err(|error| error.message().to_owned())
    };
    let tables =
        |count, elements| format!("(core module $more (table {elements} funcref))") + &"(core instance (instantiate $more))".repeat(count);
    assert!(loads(&tables(3, 100_000)).is_ok());
    // Each would fit.
    assert!(loads(&tables(6, 100_000)).unwrap_err().ends_with("its memory limit of 4 MiB (limits.memory)"));
    let memories = |count| String::from("(core module $more (memory 0))") + &"(core instance (instantiate $more))".repeat(count);
    assert!(loads(&memories(63)).is_ok(), "with the guest's own");
    assert!(loads(&memories(64)).is_err());
    let grows = |elements: u32| Guest {
        core: "(table $functions 0 funcref)",
        ..processing(format!("(drop (table.grow $functions (ref.null func) (i32.const {elements}))) unreachable"))
    };
    assert_eq!(failure(&grows(300_000)).cause, Cause::Trap);
    assert_eq!(failure(&grows(600_000)).cause, Cause::Limit(Limit::Memory));
}

#[test]
fn state_that_was_lent_comes_back_however_an_instance_ends() {
    let trap = Guest { open: "unreachable", ..Guest::default() };
    let (good, bad) = (guest(put(0, KEYS, ENDS, BYTES)).load().unwrap(), trap.load().unwrap());
    let mut instance = open(&good, limits()).map_err(|u| u.failure).unwrap();
    instance.process(0, &mut words(&["a", "b"])).unwrap();
    let (state, outputs) = instance.into_parts();
    let unopened = Instance::open(&bad, &context(), limits(), OnError::Fail, state, outputs).err().unwrap();
    assert_eq!(unopened.failure.cause, Cause::Trap);
    assert_eq!((unopened.state.keyed.value(0, b"a"), unopened.outputs.len()), (Some(&[0][..]), 2));
}

#[test]
fn opening_neither_emits_nor_has_keys() {
    let told = |open_body| {
        let component = Guest { open: open_body, ..Guest::default() }.load().unwrap();
        open(&component, limits()).err().unwrap().failure.message
    };
    let emits = "(call $emit (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))";
    assert_eq!(told(emits), "misused the host: output.emit: not to be called before `open` has returned");
    let reads = "(call $get (i32.const 0) (i32.const 8192) (i32.const 1) (i32.const 64))";
    assert_eq!(told(reads), "misused the host: keyed-state.get: key 0 is beyond the 0 keys of this call");
}

#[test]
fn the_finish_hook_has_its_keys_at_hand() {
    let emits = "(call $emit (i32.const 0) (i32.const 2) (local.get $key-ends) (local.get $keys) (local.get $key-bytes)
        (local.get $key-bytes-len) (local.get $key-ends) (local.get $keys) (local.get $key-bytes) (local.get $key-bytes-len)
        (i32.const 0) (i32.const 0))";
    let mut instance = Guest { finish: emits, ..Guest::default() }.run();
    let mut keys = Batch::default();
    for key in ["a", "bc"] {
        keys.keys.push(key.as_bytes());
        keys.hashes.push(hash_key(key.as_bytes()));
    }
    let given = keys.clone();
    assert_eq!(instance.finish(&mut keys), Ok(()));
    assert_eq!(keys, given);
    assert_eq!(emitted(&mut instance, 0), [b"a".to_vec(), b"bc".to_vec()]);
}

#[test]
fn an_engine_may_go_before_its_instances() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("test.wasm");
    std::fs::write(&file, wat::parse_str(processing("(loop $on (br $on))").text()).unwrap()).unwrap();
    let engine = crate::wasm::Engine::new(None).unwrap();
    let component = crate::wasm::Component::load(&engine, &file, limits(), &Interrupt::default()).unwrap();
    drop(engine);
    let state = SubtaskState::new(&component.descriptor().states, 128);
    let outputs = vec![Outbox::new(Shape::default()), Outbox::new(Shape::default())];
    let mut instance = Instance::open(&component, &context(), soon(), OnError::Fail, state, outputs).map_err(|u| u.failure).unwrap();
    drop(component);
    assert_eq!(instance.process(0, &mut words(&["a"])).unwrap_err().cause, Cause::Limit(Limit::Time));
}
