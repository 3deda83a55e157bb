//! What an operator may say about itself.

use std::path::Path;
use std::time::Duration;

use super::guest::{Described, Guest, engine, limits, load_text, refusal, soon};
use crate::plan::{Limits, Partitioning, StateKind};
use crate::wasm::{Component, Interrupt};

fn described(described: Described) -> Guest {
    Guest { described, ..Guest::default() }
}

#[test]
fn a_description_arrives_as_it_was_given() {
    let component = Guest::default().load().unwrap();
    let descriptor = component.descriptor();
    assert_eq!((descriptor.name.as_str(), descriptor.version.as_str()), ("test", "1.0"));
    let [input] = descriptor.inputs.as_slice() else { panic!("{descriptor:?}") };
    assert_eq!((input.name.as_str(), input.partitioning), ("words", Partitioning::Keyed));
    assert_eq!((input.key_schema.0.as_str(), input.value_schema.0.as_str()), ("text", "text"));
    let outputs: Vec<_> = descriptor.outputs.iter().map(|output| (output.name.as_str(), output.keyed)).collect();
    assert_eq!(outputs, [("counts", true), ("lines", false)]);
    let states: Vec<_> = descriptor.states.iter().map(|state| (state.name.as_str(), state.kind, state.version)).collect();
    assert_eq!(states, [("count", StateKind::Value, 1), ("seen", StateKind::List, 1), ("per", StateKind::Map, 1)]);
    assert_eq!(descriptor.states[2].field_schema.as_ref().map(|schema| schema.0.as_str()), Some("text"));
}

#[test]
fn an_impossible_description_is_refused_with_what_is_wrong_in_it() {
    let good = Described::default;
    let ports = |port| Described { inputs: vec![port], ..good() };
    let waits = |more: &[(&'static str, &'static str)]| Described {
        inputs: vec![["a", "any", "", "text"], ["b", "broadcast", "", "text"]],
        inputs_more: vec![more.to_vec()],
        ..good()
    };
    let state = |state| Described { states: vec![state], more: vec![], ..good() };
    let more =
        |more: &[(&'static str, &'static str)]| Described { states: vec![("s", "value", "bytes", 1)], more: vec![more.to_vec()], ..good() };
    let wrong = [
        (Described { name: "", ..good() }, "it has no name"),
        (Described { inputs: vec![], ..good() }, "it has no input"),
        (ports(["", "any", "", "text"]), "an input has no name"),
        (ports(["a.b", "any", "", "text"]), "input `a.b`: names consist of letters, digits, `-` and `_`"),
        (ports(["a", "hashed", "", "text"]), "input `a`: unknown partitioning `hashed`"),
        (ports(["a", "keyed", "", "text"]), "input `a` is keyed and has no key-schema"),
        (ports(["a", "any", "text", "text"]), "input `a` is not keyed and has a key-schema"),
        (ports(["a", "any", "", "avro"]), "input `a`: unknown schema `avro`"),
        (ports(["a", "any", "", "postcard:"]), "input `a`: unknown schema `postcard:`"),
        (ports(["a", "broadcast", "text", "text"]), "input `a` is not keyed and has a key-schema"),
        (
            Described { inputs: vec![["a", "keyed", "text", "text"], ["b", "keyed", "u64", "text"]], ..good() },
            "inputs `a` and `b` share the keyed state, but their keys are of different schemas: text and u64",
        ),
        (waits(&[("priority", "1")]), "input `a`: `priority` is unknown; known is waits-for"),
        (waits(&[("waits-for", "b"), ("waits-for", "b")]), "input `a`: `waits-for` is told twice"),
        (waits(&[("waits-for", "c")]), "input `a` waits for `c`, which is no broadcast input"),
        (waits(&[("waits-for", "a")]), "input `a` waits for `a`, which is no broadcast input"),
        (
            Described { inputs_more: vec![vec![("waits-for", "b")], vec![("waits-for", "b")]], ..waits(&[]) },
            "input `a` would wait for ever: inputs wait in a circle",
        ),
        (Described { outputs: vec![["a", "any", "", "text"]; 2], ..good() }, "output `a` is there twice"),
        (Described { outputs: vec![["a", "broadcast", "", "text"]], ..good() }, "output `a`: unknown partitioning `broadcast`"),
        (Described { outputs: vec![["a", "keyed", "", "text"]], ..good() }, "output `a` is keyed and has no key-schema"),
        (state(("s", "set", "bytes", 1)), "state `s`: unknown kind `set`"),
        (state(("s", "map", "bytes", 1)), "state `s`: kind `map` needs a `field-schema`"),
        (
            Described { more: vec![vec![("field-schema", "text")]], ..state(("s", "broadcast", "bytes", 1)) },
            "state `s`: broadcast state is written on broadcast inputs, and there is none",
        ),
        (more(&[("ttl-ms", "soon")]), "state `s`: `ttl-ms` can't be `soon`"),
        (more(&[("secret", "yes")]), "state `s`: `secret` is unknown; known are field-schema, ttl-ms and ttl-from"),
        (state(("s", "value", "", 1)), "state `s`: unknown schema ``"),
        (state(("s", "value", "bytes", 0)), "state `s`: versions count from 1 on"),
        (state(("", "value", "bytes", 1)), "a state has no name"),
        (
            Described { states: vec![("s", "value", "bytes", 1), ("s", "list", "bytes", 1)], more: vec![], ..good() },
            "state `s` is there twice",
        ),
    ];
    for (description, cause) in wrong {
        let refusal = refusal(described(description).load());
        assert_eq!(refusal, format!("it describes an operator that can't be: {cause}"));
    }
}

#[test]
fn inputs_may_share_keys_be_broadcast_and_wait() {
    let inputs = [["flights", "keyed", "text", "text"], ["late", "keyed", "text", "json"], ["airlines", "broadcast", "", "text"]];
    let inputs_more = vec![vec![("waits-for", "airlines")]];
    let component = described(Described { inputs: inputs.to_vec(), inputs_more, ..Described::default() }).load().unwrap();
    let told = component.descriptor().inputs.iter().map(|input| (input.partitioning, input.waits_for.as_deref()));
    let expected = [(Partitioning::Keyed, Some("airlines")), (Partitioning::Keyed, None), (Partitioning::Broadcast, None)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn describing_calls_nothing_and_is_limited() {
    let refused = |describe| refusal(Guest { describe, ..Guest::default() }.load());
    assert_eq!(
        refused("(drop (call $processing-time))"),
        "asked to describe itself, it misused the host: runtime.processing-time: `describe` must not call imports of cofferdam:operator"
    );
    assert!(refused("(call $get (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64))").contains("keyed-state.get: `describe` must"));
    assert!(refused("unreachable").starts_with("asked to describe itself, it trapped: aborted"));
    let panics = "(call $panicked (i32.const 0) (i32.const 0) (i32.const 8192) (i32.const 0)) unreachable";
    assert_eq!(refused(panics), "asked to describe itself, it panicked: (no message)");
    let greedy = "(drop (memory.grow (i32.const 4096))) unreachable";
    assert_eq!(refused(greedy), "asked to describe itself, it used more than its memory limit of 4 MiB (limits.memory)");
    let text = Guest { describe: "(loop $on (br $on))", ..Guest::default() }.text();
    assert_eq!(refusal(load_text(&text, soon())), "asked to describe itself, it ran longer than its time limit of 300ms (limits.time)");
}

#[test]
fn describing_is_interrupted() {
    let bytes = wat::parse_str(Guest { describe: "(loop $on (br $on))", ..Guest::default() }.text()).unwrap();
    let (interrupt, for_hours) = (Interrupt::default(), Limits { time: Duration::from_secs(3600), ..limits() });
    let described = std::thread::scope(|scope| {
        scope.spawn(|| interrupt.interrupt());
        Component::new(engine(), Path::new("o"), &bytes, for_hours, &interrupt)
    });
    let error = described.expect_err("it has not described itself");
    assert_eq!(error.message(), "asked to describe itself, it was interrupted, because the attempt has ended");
}
