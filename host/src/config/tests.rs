//! Job files in, plans or faults out.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::subsequence;

use super::*;
use crate::error::Problem;
use crate::plan::{
    Access, Backend, CheckpointSettings, ComponentRef, Compression, Distribution, Input, Limits, Mode, NodeKind, OnCancel, Restart,
    SinkSettings, SourceKind, StateSettings, Variable, WordsSettings,
};

const GOOD: &str = r#"format = 1

[job]
name = "flight-delays"
parallelism = 2
max-parallelism = 64

[checkpoint]
interval = "200ms"
dir = "state"

[[sink]]
uid = "out"
type = "file"
path = "out"
inputs = ["delays.late", "delays"]

[[operator]]
uid = "delays"
component = "delays.wasm"
inputs = ["parse"]
config = { by = "carrier", limits = [1, 2.5], since = 2013-01-01 }
limits = { memory = "64MiB", time = "5s" }

[[operator]]
uid = "parse"
component = "parse.wasm"
inputs = ["flights"]

[[source]]
uid = "flights"
type = "file"
path = "input/flights.csv"
skip-lines = 1
rate = 20_000
"#;

fn load_with(text: &str, overrides: &Overrides) -> Result<(Plan, PathBuf)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job.toml");
    std::fs::write(&path, text).unwrap();
    load(&path, overrides).map(|plan| (plan, dir.path().to_owned()))
}

fn problems(text: &str) -> Vec<Problem> {
    load_with(text, &Overrides::default()).map(|_| Vec::new()).unwrap_or_else(|error| error.all_problems().to_vec())
}

/// A good job file with the lines in the middle added to it.
fn with(lines: &str) -> String {
    format!(
        r#"format = 1
[job]
name = "j"
[[source]]
uid = "in"
type = "generator"
kind = "words"
[[operator]]
uid = "op"
component = "op.wasm"
inputs = ["in"]
[[sink]]
uid = "out"
type = "blackhole"
inputs = ["op"]
{lines}"#
    )
}

/// The line on which what was added by [`with`] begins.
const ADDED: usize = 16;

#[test]
fn every_setting_reaches_the_plan() {
    let (plan, dir) = load_with(GOOD, &Overrides::default()).unwrap();
    assert_eq!((plan.name.as_str(), plan.parallelism, plan.max_parallelism), ("flight-delays", 2, 64));
    let interval = Some(Duration::from_millis(200));
    assert_eq!(plan.checkpoint, CheckpointSettings { interval, ..CheckpointSettings::new(dir.join("state").into()) });

    let uids: Vec<&str> = plan.nodes.iter().map(|node| node.uid.as_str()).collect();
    assert_eq!(uids, ["flights", "parse", "delays", "out"], "in topological order");
    let NodeKind::Source(source) = &plan.nodes[0].kind else { panic!("{:?}", plan.nodes[0]) };
    assert_eq!(source.rate, Some(20_000));
    let SourceKind::File { path, skip_lines } = &source.kind else { panic!("{source:?}") };
    assert_eq!((path, *skip_lines), (&dir.join("input/flights.csv"), 1));

    let NodeKind::Operator(parse) = &plan.nodes[1].kind else { panic!("{:?}", plan.nodes[1]) };
    assert_eq!((&parse.config, parse.limits), (&serde_json::json!({}), crate::plan::Limits::default()));
    let NodeKind::Operator(delays) = &plan.nodes[2].kind else { panic!("{:?}", plan.nodes[2]) };
    assert_eq!(delays.component, ComponentRef::File(dir.join("delays.wasm")));
    assert_eq!(delays.config, serde_json::json!({ "by": "carrier", "limits": [1, 2.5], "since": "2013-01-01" }));
    assert_eq!((delays.limits.memory, delays.limits.time), (64 << 20, Duration::from_secs(5)));

    assert_eq!(plan.nodes[3].inputs, [Input { node: 2, port: Some("late".into()), to: None }, Input { node: 2, port: None, to: None }]);
    let NodeKind::Sink(SinkSettings::File { path }) = &plan.nodes[3].kind else { panic!("{:?}", plan.nodes[3]) };
    assert_eq!(path, &dir.join("out"));
}

#[test]
fn what_is_left_out_has_its_default() {
    let (plan, dir) = load_with(&with(""), &Overrides::default()).unwrap();
    assert_eq!((plan.parallelism, plan.max_parallelism), (1, 128));
    assert_eq!(plan.checkpoint, CheckpointSettings::new(dir.join("checkpoints").into()));
    let NodeKind::Source(source) = &plan.nodes[0].kind else { panic!("{:?}", plan.nodes[0]) };
    let SourceKind::Words(words) = &source.kind else { panic!("{source:?}") };
    let default = WordsSettings { keys: 10_000, words_per_line: 10, lines: None, seed: 1, distribution: Distribution::Zipf };
    assert_eq!((words, source.rate), (&default, None));
}

#[test]
fn an_operator_takes_all_its_limits_and_grants() {
    let written = "limits = { emitted = \"1MiB\", written = \"2MiB\", read = \"64KiB\", metrics = 0, log-lines = 7 }
grants = { environment = [\"REGION=eu=1\", \"TZ\"] }";
    let (plan, _) =
        load_with(&with("").replace("inputs = [\"in\"]", &format!("inputs = [\"in\"]\n{written}")), &Overrides::default()).unwrap();
    let NodeKind::Operator(operator) = &plan.nodes[1].kind else { panic!("{:?}", plan.nodes[1]) };
    let expected = Limits { emitted: 1 << 20, written: 2 << 20, read: 64 << 10, metrics: 0, log_lines: 7, ..Limits::default() };
    assert_eq!(operator.limits, expected);
    let variable = |name: &str, value: Option<&str>| Variable { name: name.into(), value: value.map(String::from) };
    assert_eq!(operator.grants.environment, [variable("REGION", Some("eu=1")), variable("TZ", None)]);
    assert!(!format!("{operator:?}").contains("eu=1"), "values are not shown");
}

#[test]
fn a_generator_takes_all_its_settings() {
    let words = "kind = \"words\"\nkeys = 7\nwords-per-line = 3\nlines = 0\nseed = 9\ndistribution = \"uniform\"";
    let (plan, _) = load_with(&with("").replace("kind = \"words\"", words), &Overrides::default()).unwrap();
    let NodeKind::Source(source) = &plan.nodes[0].kind else { panic!("{:?}", plan.nodes[0]) };
    let SourceKind::Words(words) = &source.kind else { panic!("{source:?}") };
    assert_eq!(words, &WordsSettings { keys: 7, words_per_line: 3, lines: Some(0), seed: 9, distribution: Distribution::Uniform });
}

#[test]
fn checkpoints_take_all_their_settings() {
    let checkpoint = |lines: &str| load_with(&with(&format!("[checkpoint]\n{lines}\n")), &Overrides::default()).unwrap().0.checkpoint;
    let lines = "mode = \"at-least-once\"\ntimeout = \"5s\"\nmin-pause = \"0s\"\nmax-concurrent = 3\ntolerable-failures = 7\nnum-retained = 1\n\
                 on-cancel = \"delete\"\nincremental = false\nmemory-threshold = \"0B\"\nmerge-rate = \"1MiB\"\n\
                 local-recovery = true\nlocal-recovery-dir = \"/l\"\ncompression = \"none\"\ndir = \"/c\"\n\
                 savepoint-dir = \"s3://bucket/s\"\ns3 = { region = \"eu\" }";
    let expected = CheckpointSettings {
        interval: None,
        mode: Mode::AtLeastOnce,
        timeout: Duration::from_secs(5),
        min_pause: Duration::ZERO,
        max_concurrent: 3,
        tolerable_failures: 7,
        num_retained: 1,
        on_cancel: OnCancel::Delete,
        incremental: false,
        memory_threshold: 0,
        merge_rate: 1 << 20,
        local_recovery: Some("/l".into()),
        compression: Compression::None,
        dir: PathBuf::from("/c").into(),
        savepoint_dir: Some("s3://bucket/s".parse().unwrap()),
        // What is throttled is tried again for as long as a checkpoint may take.
        access: Access { retry_timeout: Duration::from_secs(5), region: Some("eu".into()), ..Access::default() },
    };
    assert_eq!(checkpoint(lines), expected);
    let lines = "mode = \"exactly-once\"\nmin-pause = \"1m\"\nmax-concurrent = 1\ncompression = \"lz4\"\ndir = \"/c\"";
    assert_eq!(
        checkpoint(lines),
        CheckpointSettings { min_pause: Duration::from_secs(60), ..CheckpointSettings::new(PathBuf::from("/c").into()) }
    );
}

#[test]
fn a_pause_between_checkpoints_that_overlap_is_refused_at_both_lines() {
    let found = problems(&with("[checkpoint]\nmax-concurrent = 2\ninterval = \"1s\"\nmin-pause = \"1ms\"\n"));
    let told: Vec<_> = found.iter().map(|problem| (problem.line(), problem.message.as_str())).collect();
    let [(first, overlap), (second, pause)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((*first, *second), (ADDED + 1, ADDED + 3));
    assert!(overlap.starts_with("[checkpoint]: `max-concurrent` lets checkpoints overlap"), "{overlap}");
    assert!(pause.starts_with("[checkpoint]: `min-pause` is kept between one checkpoint and the next"), "{pause}");
}

#[test]
fn state_lies_where_the_job_says_or_the_operator() {
    let of = |lines: &str| {
        let (plan, dir) = load_with(&with(lines), &Overrides::default()).unwrap();
        let NodeKind::Operator(operator) = &plan.nodes[1].kind else { panic!("{:?}", plan.nodes[1]) };
        (operator.state, plan.state_dir.strip_prefix(&dir).unwrap().to_owned())
    };
    let (memory, disk) = (Backend::Memory, Backend::Disk);
    let settings = |backend, mib: u64| StateSettings { backend, memory: mib << 20 };
    assert_eq!(of(""), (settings(memory, 256), "local-state".into()));
    let section = "[state]\nbackend = \"disk\"\nmemory = \"1GiB\"\ndir = \"scratch\"\n[checkpoint]\ninterval = \"1s\"\n";
    assert_eq!(of(section), (settings(disk, 1024), "scratch".into()));
    let own = |lines: &str| {
        let text = with(section).replace("component = \"op.wasm\"\n", &format!("component = \"op.wasm\"\n{lines}\n"));
        let (plan, _) = load_with(&text, &Overrides::default()).unwrap();
        let NodeKind::Operator(operator) = &plan.nodes[1].kind else { panic!("{:?}", plan.nodes[1]) };
        operator.state
    };
    assert_eq!(own("state = { backend = \"memory\" }"), settings(memory, 1024));
    assert_eq!(own("state = { memory = \"2MiB\" }"), settings(disk, 2));
}

#[test]
fn a_job_has_a_restart_strategy() {
    let restart = |line: &str| load_with(&GOOD.replace("parallelism = 2\n", line), &Overrides::default()).unwrap().0.restart;
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    assert_eq!(restart(""), Restart::default());
    assert_eq!(restart("restart = { strategy = \"none\" }\n"), Restart::None);
    assert_eq!(restart("restart = { strategy = \"fixed-delay\", delay = \"1m\" }\n"), Restart::FixedDelay { attempts: 1, delay: minute });
    assert_eq!(
        restart("restart = { strategy = \"failure-rate\", max-failures-per-interval = 7 }\n"),
        Restart::FailureRate { failures: 7, interval: minute, delay: second }
    );
    let lines =
        "restart = { strategy = \"exponential-delay\", backoff-multiplier = 2, jitter-factor = 0.0, attempts-before-reset-backoff = 3 }\n";
    let expected =
        Restart::ExponentialDelay { initial: second, max: minute, multiplier: 2.0, jitter: 0.0, reset: minute * 60, attempts: Some(3) };
    assert_eq!(restart(lines), expected);
}

#[test]
fn inputs_may_be_named() {
    let named = "{ a = [\"parse\"], b = [\"parse\", \"flights\"] }";
    let (plan, _) = load_with(&GOOD.replace("[\"parse\"]", named), &Overrides::default()).unwrap();
    let to = |node, to: &str| Input { node, port: None, to: Some(to.into()) };
    assert_eq!(plan.nodes[2].inputs, [to(1, "a"), to(1, "b"), to(0, "b")]);
}

#[test]
fn paths_may_be_absolute_or_file_urls() {
    for (written, meant) in [("/data/x", "/data/x"), ("file:///data/my%20x", "/data/my x")] {
        let (plan, _) = load_with(&GOOD.replace("\"state\"", &format!("\"{written}\"")), &Overrides::default()).unwrap();
        assert_eq!(plan.checkpoint.dir, PathBuf::from(meant).into());
    }
}

#[test]
fn a_bucket_is_reached_as_its_table_says() {
    let settings = "\"s3://bucket/pre/fix/\"\n[checkpoint.s3]\nendpoint = \"http://minio:9000/\"\nallow-http = true\nregion = \"eu\"\n\
                    path-style = false\nprofile = \"p\"\ncredentials-file = \"keys\"\nrequest-timeout = \"1s\"\nretry-timeout = \"2s\"";
    let (plan, dir) = load_with(&GOOD.replace("\"state\"", settings), &Overrides::default()).unwrap();
    assert_eq!(plan.checkpoint.dir.to_string(), "s3://bucket/pre/fix");
    let expected = Access {
        endpoint: Some("http://minio:9000".into()),
        region: Some("eu".into()),
        path_style: false,
        allow_http: true,
        credentials_file: Some(dir.join("keys")),
        profile: Some("p".into()),
        account: None,
        request_timeout: Duration::from_secs(1),
        retry_timeout: Duration::from_secs(2),
    };
    assert_eq!(plan.checkpoint.access, expected);
    let (plan, _) = load_with(&GOOD.replace("\"state\"", "\"az://box\"\naz = { account = \"a\" }"), &Overrides::default()).unwrap();
    assert_eq!(plan.checkpoint.access, Access { account: Some("a".into()), ..Access::default() });
}

#[test]
fn the_flag_takes_the_place_of_the_parallelism_in_the_file() {
    let (plan, _) = load_with(GOOD, &Overrides { parallelism: Some(5), ..Overrides::default() }).unwrap();
    assert_eq!(plan.parallelism, 5);
    let error = load_with(GOOD, &Overrides { parallelism: Some(65), ..Overrides::default() }).unwrap_err();
    let [problem] = error.all_problems() else { panic!("{error}") };
    assert_eq!(problem.line(), 6, "where max-parallelism is");
    assert_eq!(problem.message, "[job]: parallelism 65 (-p on the command line) is above max-parallelism 64");
}

/// Text to replace in [`GOOD`] and by what, then of each fault its line, its message and a part of its help.
type Case<'a> = (&'a str, &'a str, &'a [(usize, &'a str, &'a str)]);

const CASES: &[Case<'_>] = &[
    // Keys.
    ("parallelism = 2", "paralelism = 2", &[(5, "[job]: unknown key `paralelism`", "did you mean `parallelism`?")]),
    ("skip-lines", "skip_lines", &[(34, "source `flights`: unknown key `skip_lines`", "did you mean `skip-lines`?")]),
    (
        "rate =",
        "colour =",
        &[(35, "source `flights`: unknown key `colour`", "known here: uid, renamed-from, inputs, rate, type, skip-lines, path")],
    ),
    ("[checkpoint]", "[checkpoints]", &[(8, "unknown key `checkpoints`", "did you mean `checkpoint`?")]),
    ("[[sink]]", "[[sinks]]", &[(12, "unknown key `sinks`", "did you mean `sink`?")]),
    ("time = \"5s\"", "tme = \"5s\"", &[(23, "operator `delays`: limits: unknown key `tme`", "did you mean `time`?")]),
    ("name = \"flight-delays\"\n", "", &[(3, "[job]: `name` is missing", "name = ")]),
    ("name =", "nam =", &[(4, "[job]: unknown key `nam`", "did you mean `name`?")]),
    ("uid = \"out\"\n", "", &[(12, "[[sink]]: `uid` is missing", "uid = ")]),
    ("component = \"parse.wasm\"\n", "", &[(25, "operator `parse`: `component` is missing", "component = ")]),
    ("type = \"file\"\npath = \"out\"\n", "", &[(12, "sink `out`: `type` is missing", "\"file\", \"stdout\", \"blackhole\"")]),
    ("path = \"out\"\n", "", &[(12, "sink `out`: `path` is missing", "path = ")]),
    ("inputs = [\"parse\"]\n", "", &[(18, "operator `delays`: `inputs` is missing", "inputs = ")]),
    ("format = 1\n", "", &[(1, "`format` is missing", "format = 1")]),
    (
        "dir = \"state\"",
        "mode = \"at-most-once\"\nnum-retained = 0",
        &[
            (10, "[checkpoint]: unknown mode \"at-most-once\"", "one of: \"exactly-once\", \"at-least-once\""),
            (11, "[checkpoint]: `num-retained` must be a whole number, at least 1, found 0", "num-retained = 1"),
        ],
    ),
    // Types.
    (
        "rate = 20_000",
        "rate = \"fast\"",
        &[(35, "source `flights`: `rate` must be a whole number, at least 1, found \"fast\"", "rate = 1")],
    ),
    ("rate = 20_000", "rate = 0", &[(35, "source `flights`: `rate` must be a whole number, at least 1, found 0", "rate = 1")]),
    ("rate = 20_000", "rate = 1.5", &[(35, "source `flights`: `rate` must be a whole number, at least 1, found 1.5", "")]),
    ("skip-lines = 1", "skip-lines = -1", &[(34, "source `flights`: `skip-lines` must be a whole number, found -1", "")]),
    ("[\"parse\"]", "\"parse\"", &[(21, "operator `delays`: `inputs` must be a list of strings, found \"parse\"", "inputs = [")]),
    ("[\"parse\"]", "[\"parse\", 3]", &[(21, "operator `delays`: `inputs` must be a list of strings, found 3 in it", "inputs = [")]),
    ("[\"parse\"]", "[]", &[(21, "operator `delays`: `inputs` is empty", "inputs = [")]),
    ("[[source]]", "[source]", &[(30, "`source` must be a list of tables, found a table", "[[source]]")]),
    ("[checkpoint]\n", "[[checkpoint]]\n", &[(8, "`checkpoint` must be a table, found a list", "")]),
    ("2.5", "inf", &[(22, "JSON has no number inf", "JSON")]),
    ("2.5", "99999999999999999999", &[(22, "JSON has no number 99999999999999999999", "")]),
    // Values.
    (
        "\"200ms\"",
        "\"5 parsecs\"",
        &[(9, "[checkpoint]: `interval` must be a duration from 1ms to 365days, found \"5 parsecs\"", "\"200ms\"")],
    ),
    ("\"200ms\"", "200", &[(9, "[checkpoint]: `interval` must be a duration from 1ms to 365days, found 200", "\"200ms\"")]),
    ("\"200ms\"", "\"0s\"", &[(9, "[checkpoint]: `interval` must be a duration from 1ms to 365days, found \"0s\"", "")]),
    ("\"5s\"", "\"900years\"", &[(23, "operator `delays`: limits: `time` must be a duration from 1ms to 365days, found \"900years\"", "")]),
    (
        "\"64MiB\"",
        "\"64MB!\"",
        &[(23, "operator `delays`: limits: `memory` must be a size from 64KiB to 1TiB, found \"64MB!\"", "\"256MiB\"")],
    ),
    ("time = \"5s\"", "emitted = \"2GiB\"", &[(23, "operator `delays`: limits: `emitted` must be a size from 64KiB to 1GiB", "")]),
    (
        "time = \"5s\"",
        "metrics = -1",
        &[(23, "operator `delays`: limits: `metrics` must be a whole number from 0 to 100000, found -1", "")],
    ),
    ("\"64MiB\"", "\"99999999999GiB\"", &[(23, "operator `delays`: limits: `memory` must be a size from 64KiB to 1TiB", "")]),
    ("parallelism = 2", "parallelism = 0", &[(5, "[job]: `parallelism` must be a whole number from 1 to 32768, found 0", "")]),
    ("parallelism = 2", "parallelism = 65", &[(5, "[job]: parallelism 65 is above max-parallelism 64", "raise")]),
    (
        "\"state\"",
        "\"ftp://x/y\"\ns3 = { region = \"eu\" }",
        &[(
            10,
            "[checkpoint]: `dir` must be a path, a file://, s3://, gs:// or az:// URL, or memory:, found \"ftp://x/y\"",
            "s3://bucket/prefix",
        )],
    ),
    ("\"state\"", "\"s3://bucket/../x\"", &[(10, "[checkpoint]: `dir` must be a path, a file://", "")]),
    (
        "\"state\"",
        "\"state\"\ns3 = { region = \"eu\" }",
        &[(11, "[checkpoint]: `s3` says how a bucket of s3:// is reached, but `dir` is no bucket", "`dir = \"s3://bucket/prefix\"`")],
    ),
    (
        "\"state\"",
        "\"gs://bucket\"\ns3 = { region = \"eu\" }",
        &[(11, "[checkpoint]: `s3` says how a bucket of s3:// is reached, but `dir` is in another store", "remove it")],
    ),
    (
        "\"state\"",
        "\"gs://bucket\"\ngs = { region = \"eu\" }",
        &[(
            11,
            "[checkpoint]: gs: unknown key `region`",
            "known here: endpoint, allow-http, request-timeout, retry-timeout, credentials-file",
        )],
    ),
    (
        "\"state\"",
        "\"s3://bucket\"\ns3 = { endpoint = \"http://m:9000\", path-style = 1 }",
        &[
            (11, "[checkpoint]: s3: `endpoint` is not encrypted", "allow-http = true"),
            (11, "[checkpoint]: s3: `path-style` must be true or false, found 1", "path-style = true"),
        ],
    ),
    (
        "\"state\"",
        "\"s3://bucket\"\ns3 = { endpoint = \"minio:9000\" }",
        &[(11, "[checkpoint]: s3: `endpoint` must be an http:// or https:// URL without user, query and fragment", "")],
    ),
    ("\"state\"", "\"state\"\nsavepoint-dir = \"memory:\"", &[(11, "[checkpoint]: `savepoint-dir` must be a path, or a file://", "")]),
    ("path = \"out\"", "path = \"\"", &[(15, "sink `out`: `path` must be a path or a file:// URL, found \"\"", "")]),
    (
        "\"file\"\npath = \"out\"",
        "\"fil\"\npath = \"out\"",
        &[(14, "sink `out`: unknown type \"fil\"", "did you mean \"file\"? type is one of: \"file\"")],
    ),
    ("\"file\"\npath = \"out\"", "\"kafka\"\ntopic = 1", &[(14, "sink `out`: unknown type \"kafka\"", "type is one of: \"file\"")]),
    ("format = 1", "format = 2", &[(1, "this version of cofferdam reads files of format 1, this one says 2", "version")]),
    ("\"flight-delays\"", "\"flight delays\"", &[(4, "[job]: `name` must be 1 to 100 of the characters", "")]),
    ("\"flight-delays\"", "\"..\"", &[(4, "[job]: `name` must be 1 to 100 of the characters", "")]),
    (
        "uid = \"flights\"",
        "uid = \"\"",
        &[(28, "operator `parse`: its input \"flights\" does not exist", ""), (31, "source ``: `uid` must be 1 to 100", "")],
    ),
    ("parallelism = 2", "restart = {}", &[(5, "[job]: restart: `strategy` is missing", "\"none\", \"fixed-delay\"")]),
    (
        "parallelism = 2",
        "restart = { strategy = \"fixed-delay\", backoff-multiplier = 2 }",
        &[(5, "[job]: restart: unknown key `backoff-multiplier`", "known here: strategy, attempts, delay")],
    ),
    (
        "parallelism = 2",
        "restart = { strategy = \"exponential-delay\", jitter-factor = 1.5 }",
        &[(5, "[job]: restart: `jitter-factor` must be a number from 0 to 1, found 1.5", "")],
    ),
    // Edges.
    ("\"parse\"]", "\"pase\"]", &[(21, "operator `delays`: its input \"pase\" does not exist", "did you mean \"parse\"?")]),
    (
        "[\"parse\"]",
        "[\"pase.late\"]",
        &[(21, "operator `delays`: its input \"pase.late\" does not exist", "did you mean \"parse.late\"?")],
    ),
    ("\"parse\"]", "\"nothing\"]", &[(21, "operator `delays`: its input \"nothing\" does not exist", "what can feed it: flights, parse")]),
    ("\"parse\"]", "\"parse\", \"parse\"]", &[(21, "operator `delays`: \"parse\" is twice among its inputs", "")]),
    ("[\"parse\"]", "{ a = [\"pase\"] }", &[(21, "operator `delays`: its input \"pase\" does not exist", "did you mean \"parse\"?")]),
    (
        "[\"parse\"]",
        "{ a = [\"parse\"], b = \"x\" }",
        &[(21, "operator `delays`: `inputs.b` must be a list of strings, found \"x\"", "{ flights = [\"parse\"]")],
    ),
    ("[\"parse\"]", "{}", &[(21, "operator `delays`: `inputs` is empty", "inputs = [")]),
    ("[\"parse\"]", "{ a = [\"parse\", \"parse\"] }", &[(21, "operator `delays`: \"parse\" is twice among its inputs", "")]),
    ("\"parse\"]", "\"out\"]", &[(21, "operator `delays`: its input \"out\" is a sink, which has no output", "")]),
    (
        "[\"flights\"]",
        "[\"flights.late\"]",
        &[(28, "operator `parse`: its input \"flights.late\" names an output, but a source has only one", "write \"flights\"")],
    ),
    ("[\"parse\"]", "[\"parse.\"]", &[(21, "operator `delays`: its input \"parse.\" names no output after the dot", "write \"parse\"")]),
    ("[\"flights\"]", "[\"flights\", \"parse\"]", &[(28, "operator `parse`: `parse` is an input of itself", "circle")]),
    ("[\"flights\"]", "[\"delays.x\"]", &[(21, "operator `delays`: its input closes a cycle: delays → parse → delays", "circle")]),
    ("rate = 20_000", "inputs = [\"x\"]", &[(35, "source `flights`: a source has no inputs", "")]),
    (
        "uid = \"delays\"",
        "uid = \"parse\"",
        &[
            (16, "sink `out`: its input \"delays.late\" does not exist", ""),
            (16, "sink `out`: its input \"delays\" does not exist", ""),
            (21, "operator `parse`: `parse` is an input of itself", ""),
            (26, "uid \"parse\" is taken: line 19 has it already", "owns the state"),
        ],
    ),
    ("[\"delays.late\", \"delays\"]", "{ a = [\"delays\"] }", &[(16, "sink `out`: a sink has one input, which has no name", "inputs = [")]),
    (
        "uid = \"delays\"",
        "uid = \"delays\"\nrenamed-from = \"parse\"",
        &[(20, "operator `delays`: `renamed-from` names \"parse\", whose state belongs to operator `parse`", "remove the line")],
    ),
    (
        "path = \"out\"",
        "path = \"out\"\nrenamed-from = \"out\"",
        &[(16, "sink `out`: `renamed-from` names \"out\", whose state belongs to sink `out`", "")],
    ),
    // Places.
    ("path = \"out\"", "path = \"x/../input/./flights.csv\"", &[(15, "sink `out`: source `flights` reads there too", "own")]),
    (
        "path = \"out\"",
        "path = \"state/flight-delays/out\"",
        &[(15, "sink `out`: its path lies in the directory of the job's checkpoints", "")],
    ),
    // TOML itself.
    ("[job]", "[job", &[(3, "unclosed table, expected `]`", "TOML")]),
    ("rate = 20_000", "path = \"x\"", &[(35, "duplicate key", "TOML")]),
    ("parallelism = 2", "parallelism =", &[(5, "", "TOML")]),
];

#[test]
fn each_fault_is_told_with_its_line_and_what_to_do() {
    for (old, new, expected) in CASES {
        assert!(GOOD.contains(old), "{old} is not in the job file");
        let found = problems(&GOOD.replacen(old, new, 1));
        let told: Vec<String> =
            found.iter().map(|p| format!("{}: {} ({})", p.line(), p.message, p.help.clone().unwrap_or_default())).collect();
        assert_eq!(found.len(), expected.len(), "{old} → {new}: {told:#?}");
        for (problem, (line, message, help)) in found.iter().zip(*expected) {
            assert_eq!(problem.line(), *line, "{old} → {new}: {told:#?}");
            assert!(problem.message.contains(message), "{old} → {new}: {told:#?}, expected {message}");
            assert!(problem.help.as_ref().is_some_and(|text| text.contains(help)), "{old} → {new}: {told:#?}, expected {help}");
            assert!(!problem.message.contains('\n') && problem.text.get(problem.span.clone()).is_some());
        }
    }
}

#[test]
fn a_job_needs_a_source_and_a_sink() {
    let found: Vec<String> = problems("format = 1\n[job]\nname = \"j\"\n").into_iter().map(|problem| problem.message).collect();
    assert_eq!(found, ["`source` is missing", "`sink` is missing"]);
    let found: Vec<String> = problems("sink = []").into_iter().map(|problem| problem.message).collect();
    assert_eq!(found, ["`format` is missing", "`job` is missing", "`source` is missing", "`sink` is empty"]);
}

#[test]
fn two_sinks_into_one_directory_are_one_too_many() {
    let sink = |uid| format!("[[sink]]\nuid = \"{uid}\"\ntype = \"file\"\npath = \"d\"\ninputs = [\"in\"]\n");
    let found = problems(&with(&(sink("a") + &sink("b"))));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].line(), found[0].message.as_str()), (ADDED + 8, "sink `b`: sink `a` writes there too"));
}

#[test]
fn a_long_cycle_is_told_once_and_so_is_each_further_one() {
    let operator = |uid: &str, input: &str| format!("[[operator]]\nuid = \"{uid}\"\ncomponent = \"c\"\ninputs = [\"{input}\"]\n");
    let found =
        problems(&with(&[operator("a", "c"), operator("b", "a"), operator("c", "b.x"), operator("d", "d"), operator("e", "c")].concat()));
    let told: Vec<_> = found.iter().map(|problem| (problem.line(), problem.message.as_str())).collect();
    assert_eq!(
        told,
        [(ADDED + 3, "operator `a`: its input closes a cycle: a → b → c → a"), (ADDED + 15, "operator `d`: `d` is an input of itself"),]
    );
}

#[test]
fn a_message_is_one_line_whatever_the_file_holds() {
    let text = with("").replace("\"in\"]", "\"\"\"a\nb\"\"\"]").replace("name = \"j\"", &format!("name = \"{}\"", "ä".repeat(500)));
    let found = problems(&text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|problem| !problem.message.contains('\n') && problem.message.chars().count() < 200));
}

#[test]
fn a_file_that_is_no_job_file_is_told_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nothing.toml");
    let (large, binary) = (dir.path().join("large"), dir.path().join("binary"));
    std::fs::write(&large, vec![b'#'; 2 << 20]).unwrap();
    std::fs::write(&binary, b"\0asm\xff").unwrap();
    for (path, message) in [
        (missing.as_path(), "can't read the job file"),
        (dir.path(), "can't read the job file"),
        (&large, "is no job file: it has more than 1048576 bytes"),
        (&binary, "is no job file: byte 4 is not UTF-8"),
    ] {
        let error = load(path, &Overrides::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().contains(message) && error.message().contains(&path.display().to_string()), "{error}");
        assert!(error.help_text().is_some());
    }
}

/// Faults that don't touch each other: a line of [`GOOD`], what is written in its place, and what must be told about it.
const FAULTS: &[(usize, &str, &str)] = &[
    (1, "format = \"1\"", "`format` must be"),
    (4, "name = 7", "`name` must be"),
    (5, "parallelism = 0", "`parallelism` must be"),
    (6, "max-paralellism = 64", "unknown key `max-paralellism`"),
    (9, "interval = \"soon\"", "`interval` must be"),
    (10, "dir = \"http://x\"", "`dir` must be"),
    (14, "type = \"files\"", "unknown type \"files\""),
    (16, "inputs = [\"delays\", \"delays\"]", "is twice among its inputs"),
    (20, "componet = \"delays.wasm\"", "unknown key `componet`"),
    (21, "inputs = [\"prase\"]", "its input \"prase\" does not exist"),
    (22, "config = 1", "`config` must be a table"),
    (23, "limits = { memory = 1, tme = 2 }", "`memory` must be"),
    (28, "inputs = [\"flights.x\"]", "names an output"),
    (33, "path = 1", "`path` must be"),
    (34, "skip-lines = \"1\"", "`skip-lines` must be"),
    (35, "inputs = []", "a source has no inputs"),
];

proptest! {
    #[test]
    fn whatever_faults_a_file_has_all_of_them_are_told_and_no_others(faults in subsequence(FAULTS, 0..=FAULTS.len())) {
        let mut lines: Vec<&str> = GOOD.lines().collect();
        faults.iter().for_each(|(line, text, _)| lines[line - 1] = text);
        let mut told: Vec<(usize, String)> = problems(&lines.join("\n")).into_iter().map(|problem| (problem.line(), problem.message)).collect();
        if faults.iter().any(|(line, _, _)| *line == 23) {
            let second = told.iter().position(|(line, message)| *line == 23 && message.contains("unknown key `tme`"));
            prop_assert!(second.is_some());
            second.map(|place| told.remove(place));
        }
        prop_assert_eq!(told.len(), faults.len(), "{:?}", told);
        for ((line, message), (at, _, expected)) in told.iter().zip(&faults) {
            prop_assert_eq!(line, at);
            prop_assert!(message.contains(expected), "{}: {}", line, message);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[a-z=\\[\\]\"'{}.,\n 0-9#]{0,80}", cut in 0..GOOD.len()) {
        problems(&text);
        problems(&(GOOD[..cut].to_owned() + &text));
        problems(&with(&text));
    }
}
