//! Which edges fit and which don't.

use std::path::PathBuf;

use super::*;
use crate::plan::{
    CheckpointSettings, ComponentRef, Distribution, Grants, Limits, OperatorSettings, Restart, SourceKind, SourceSettings, StateSettings,
    WordsSettings,
};

fn schema(text: &str) -> Schema {
    Schema(text.into())
}

/// An input port from "name:key:value"; keyed when there is a key.
fn input(text: &str) -> InputPort {
    let [name, key, value] = text.split(':').collect::<Vec<_>>().try_into().unwrap();
    let partitioning = if key.is_empty() { Partitioning::Any } else { Partitioning::Keyed };
    InputPort { name: name.into(), partitioning, key_schema: schema(key), value_schema: schema(value), waits_for: None }
}

/// An output port from "name:key:value"; keyed when there is a key.
fn output(text: &str) -> OutputPort {
    let InputPort { name, partitioning, key_schema, value_schema, .. } = input(text);
    OutputPort { name, keyed: partitioning == Partitioning::Keyed, key_schema, value_schema }
}

fn component(inputs: &[&str], outputs: &[&str]) -> Option<Descriptor> {
    Some(Descriptor {
        name: "component".into(),
        version: "1".into(),
        inputs: inputs.iter().map(|text| input(text)).collect(),
        outputs: outputs.iter().map(|text| output(text)).collect(),
        states: vec![],
        finish_hook: false,
        snapshot_hook: false,
        checkpoint_hooks: false,
        checkpoint_aborted_hook: false,
        close_hook: false,
        migration: false,
    })
}

fn operator() -> NodeKind {
    let settings = OperatorSettings {
        component: ComponentRef::File("c.wasm".into()),
        config: serde_json::json!({}),
        limits: Limits::default(),
        state: StateSettings::default(),
        grants: Grants::default(),
        on_error: OnError::Fail,
        max_errors: 1,
    };
    NodeKind::Operator(settings)
}

/// Nodes as (uid, kind, inputs as "index" or "index.output", and " input" if that is named).
fn plan(nodes: Vec<(&str, NodeKind, &[&str])>) -> Plan {
    let edge = |text: &str| {
        let (from, to) = text.split_once(' ').map_or((text, None), |(from, to)| (from, Some(to.to_owned())));
        let (node, port) = from.split_once('.').map_or((from, None), |(node, port)| (node, Some(port.to_owned())));
        Input { node: node.parse().unwrap(), port, to }
    };
    Plan {
        file: "job.toml".into(),
        text: "".into(),
        base: "/".into(),
        name: "j".into(),
        parallelism: 1,
        max_parallelism: 128,
        restart: Restart::None,
        checkpoint: CheckpointSettings::new(PathBuf::from("/c").into()),
        state_dir: "/s".into(),
        nodes: (nodes.into_iter())
            .map(|(uid, kind, inputs)| Node {
                uid: uid.into(),
                renamed_from: None,
                kind,
                inputs: inputs.iter().map(|text| edge(text)).collect(),
            })
            .collect(),
    }
}

fn source() -> NodeKind {
    NodeKind::Source(SourceSettings { rate: None, kind: SourceKind::File { path: "/in".into(), skip_lines: 0 } })
}

fn file_sink() -> NodeKind {
    NodeKind::Sink(SinkSettings::File { path: "/out".into() })
}

/// A source, `up` with one output and `down` with one input.
fn edge(gives: &str, takes: &str) -> Result<()> {
    let plan = plan(vec![("s", source(), &[]), ("up", operator(), &["0"]), ("down", operator(), &["1"])]);
    fit(&plan, &[None, component(&["lines::text"], &[gives]), component(&[takes], &[])])
}

#[test]
fn edges_fit_when_keys_and_values_are_of_the_same_schema() {
    for (gives, takes) in [
        ("o::text", "i::text"),
        ("o:text:json", "i:text:json"),
        ("o:text:json", "i::json"), // an input that wants no key drops it
        ("o::text", "i::bytes"),
        ("o:text:postcard{a}", "i:text:bytes"),
    ] {
        assert!(edge(gives, takes).is_ok(), "{gives} → {takes}: {:?}", edge(gives, takes));
    }
}

#[test]
fn a_misfit_names_both_ends_and_both_schemas() {
    for (gives, takes, message) in [
        ("o::text", "i::json", "input `i` of operator `down` takes values of schema json, but output `o` of operator `up` gives text"),
        ("o::bytes", "i::text", "input `i` of operator `down` takes values of schema text, but output `o` of operator `up` gives bytes"),
        (
            "o::text",
            "i:u64:text",
            "input `i` of operator `down` takes records keyed by schema u64, but output `o` of operator `up` gives records without keys",
        ),
        (
            "o:text:text",
            "i:u64:text",
            "input `i` of operator `down` takes records keyed by schema u64, but output `o` of operator `up` gives keys of schema text",
        ),
    ] {
        let error = edge(gives, takes).unwrap_err();
        assert_eq!((error.message(), error.kind()), (message, Kind::Component), "{gives} → {takes}");
        assert!(error.help_text().is_some());
    }
}

#[test]
fn a_source_gives_text_without_keys() {
    let plan = plan(vec![("s", source(), &[]), ("a", operator(), &["0"]), ("b", operator(), &["0"]), ("c", operator(), &["0"])]);
    let descriptors = [None, component(&["i::text"], &[]), component(&["i::bytes"], &[]), component(&["i:text:text"], &[])];
    let error = fit(&plan, &descriptors).unwrap_err();
    assert_eq!(error.message(), "input `i` of operator `c` takes records keyed by schema text, but source `s` gives records without keys");
}

#[test]
fn sinks_of_lines_take_text_and_json_and_the_blackhole_takes_all() {
    for (gives, lines) in [("o::text", true), ("o:text:json", true), ("o::bytes", false), ("o::postcard{u64}", false)] {
        for (sink, fits) in
            [(file_sink(), lines), (NodeKind::Sink(SinkSettings::Stdout), lines), (NodeKind::Sink(SinkSettings::Blackhole), true)]
        {
            let plan = plan(vec![("s", source(), &[]), ("up", operator(), &["0"]), ("out", sink, &["1"])]);
            let fitted = fit(&plan, &[None, component(&["i::text"], &[gives]), None]);
            assert_eq!(fitted.is_ok(), fits, "{gives}");
            if let Err(error) = fitted {
                assert!(error.message().starts_with("sink `out` writes lines"), "{error}");
                assert!(error.message().ends_with(gives.rsplit(':').next().unwrap()), "{error}");
            }
        }
    }
}

#[test]
fn a_named_output_must_exist_and_the_nearest_one_is_suggested() {
    let plan = plan(vec![("s", source(), &[]), ("up", operator(), &["0"]), ("out", file_sink(), &["1.lat"])]);
    let error = fit(&plan, &[None, component(&["i::text"], &["main::text", "late::text"]), None]).unwrap_err();
    assert_eq!(error.message(), "operator `up` has no output `lat`");
    assert_eq!(error.help_text(), Some("did you mean `up.late`? its outputs: `main`, `late`"));

    let error = fit(&plan, &[None, component(&["i::text"], &[]), None]).unwrap_err();
    assert_eq!(error.help_text(), Some("it has no outputs"));
}

#[test]
fn an_operator_without_outputs_feeds_nothing() {
    let plan = plan(vec![("s", source(), &[]), ("up", operator(), &["0"]), ("out", file_sink(), &["1"])]);
    let error = fit(&plan, &[None, component(&["i::text"], &[]), None]).unwrap_err();
    assert_eq!(error.message(), "operator `up` feeds others, but its component `component` has no output");
}

#[test]
fn the_first_output_by_name_and_without_one_is_the_same_output() {
    let plan = plan(vec![("s", source(), &[]), ("up", operator(), &["0"]), ("out", file_sink(), &["1", "1.late", "1.main"])]);
    let error = fit(&plan, &[None, component(&["i::text"], &["main::text", "late::text"]), None]).unwrap_err();
    assert_eq!(error.message(), "sink `out` has output `main` of operator `up` twice among its inputs");
}

#[test]
fn an_edge_says_which_of_several_inputs_it_feeds() {
    let fitted = |edges: &[&str]| {
        let plan = plan(vec![("s", source(), &[]), ("op", operator(), edges)]);
        fit(&plan, &[None, component(&["a::text", "b::text"], &[])])
    };
    assert!(fitted(&["0 a", "0 b"]).is_ok());
    for (edges, message, help) in [
        (
            &["0"][..],
            "operator `op` doesn't say which of its inputs source `s` feeds: its component `component` has the inputs `a`, `b`",
            "name the input: `inputs = { a = [\"…\"], … }`",
        ),
        (&["0 a", "0 bb"], "operator `op` has no input `bb`", "did you mean `b`? its component `component` has the inputs `a`, `b`"),
        (&["0 a"], "nothing feeds input `b` of operator `op`", "feed it: `inputs = { b = [\"…\"], … }`"),
    ] {
        let error = fitted(edges).unwrap_err();
        assert_eq!((error.message(), error.help_text()), (message, Some(help)), "{edges:?}");
    }
}

/// An operator with the inputs `first` and `second`, which waits for `first`, each fed by a source.
fn waiting(sources: [NodeKind; 2], edges: &[&str]) -> (Plan, Vec<Option<Descriptor>>) {
    let [a, b] = sources;
    let plan = plan(vec![("a", a, &[]), ("b", b, &[]), ("op", operator(), edges)]);
    let mut operator = component(&["first::text", "second::text"], &[]).unwrap();
    operator.inputs[0].partitioning = Partitioning::Broadcast;
    operator.inputs[1].waits_for = Some("first".into());
    (plan, vec![None, None, Some(operator)])
}

#[test]
fn an_input_waits_for_sources_that_end_and_are_not_its_own() {
    let fitted = |sources, edges: &[&str]| {
        let (plan, descriptors) = waiting(sources, edges);
        fit(&plan, &descriptors).map(|()| waits(&plan, &descriptors))
    };
    let endless = NodeKind::Source(SourceSettings {
        rate: None,
        kind: SourceKind::Words(WordsSettings { keys: 1, words_per_line: 1, lines: None, seed: 1, distribution: Distribution::Zipf }),
    });
    assert_eq!(fitted([source(), endless.clone()], &["0 first", "1 second"]).unwrap(), [vec![], vec![0], vec![]]);
    assert_eq!(
        fitted([endless, source()], &["0 first", "1 second"]).unwrap_err().message(),
        "input `second` of operator `op` waits for the end of input `first`, but source `a` has no end"
    );
    assert_eq!(
        fitted([source(), source()], &["0 first", "0 second", "1 second"]).unwrap_err().message(),
        "input `second` of operator `op` waits for the end of input `first`, but source `a` feeds both"
    );
}

#[test]
fn what_is_sent_at_the_end_of_the_job_is_not_waited_for() {
    let (mut plan, mut descriptors) = waiting([source(), source()], &["0 first", "1 second"]);
    let mut between = component(&["i::text"], &["o::text"]);
    between.iter_mut().for_each(|operator| operator.finish_hook = true);
    plan.nodes.insert(
        2,
        Node { uid: "late".into(), renamed_from: None, kind: operator(), inputs: vec![Input { node: 0, port: None, to: None }] },
    );
    plan.nodes[3].inputs[0].node = 2;
    descriptors.insert(2, between);
    assert_eq!(
        fit(&plan, &descriptors).unwrap_err().message(),
        "input `second` of operator `op` waits for the end of input `first`, but operator `late` may send to it when all input of the job has ended"
    );
}

#[test]
fn sources_that_wait_for_each_other_are_refused() {
    let (mut plan, mut descriptors) = waiting([source(), source()], &["0 first", "1 second"]);
    let mut other = plan.nodes[2].clone();
    other.uid = "other".into();
    (other.inputs[0].node, other.inputs[1].node) = (1, 0);
    plan.nodes.push(other);
    descriptors.push(descriptors[2].clone());
    assert_eq!(fit(&plan, &descriptors).unwrap_err().message(), "source `a` and source `b` wait for each other to end");
}

#[test]
fn all_misfits_are_told_at_once() {
    let plan = plan(vec![("s", source(), &[]), ("up", operator(), &["0"]), ("a", operator(), &["1"]), ("b", file_sink(), &["1.x"])]);
    let error = fit(&plan, &[None, component(&["i::json"], &["o::json"]), component(&["i::text"], &[]), None]).unwrap_err();
    assert!(error.message().starts_with("3 misfits in job `j`: input `i` of operator `up`"), "{error}");
    assert!(error.message().contains("; input `i` of operator `a`") && error.message().ends_with("; operator `up` has no output `x`"));
}

#[test]
fn nothing_is_said_about_an_operator_that_is_not_described() {
    let plan = plan(vec![("s", source(), &[]), ("up", operator(), &["0"]), ("out", file_sink(), &["1.x"])]);
    assert!(fit(&plan, &[None, None, None]).is_ok());
}
