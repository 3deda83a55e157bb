//! Manifests: what they hold comes back, and damage is noticed.

use super::*;
use crate::plan::{Schema, StateKind};
use crate::record::Position;

pub(crate) fn claim(attempt: u32) -> LogEntry {
    LogEntry::Claim(Claim {
        job: "words".into(),
        attempt: AttemptId { run: 1, attempt },
        by: "host, process 7".into(),
        created: "2026-11-30T07:00:00.000Z".into(),
        token: "00ff".into(),
        from: None,
        owns: false,
        passes_over: None,
    })
}

pub(crate) fn state_file(attempt: u32, epoch: u64, uid: &str, subtask: u16) -> StateFile {
    StateFile {
        path: crate::checkpoint::paths::snapshot(attempt, epoch, uid, subtask, 0),
        groups: KeyGroups::of_subtask(subtask, 2, 128),
        epochs: Epochs::only(epoch),
        entries: 10,
        bytes: 1000,
        checksum: "0123abcd".into(),
        base: false,
        inline: None,
    }
}

pub(crate) fn operator_state_file(attempt: u32, epoch: u64, uid: &str, subtask: impl Into<Option<u16>>) -> OperatorStateFile {
    let subtask = subtask.into();
    let path = crate::checkpoint::paths::operator_state(attempt, epoch, uid, subtask);
    OperatorStateFile { path, subtask, epoch, elements: 3, bytes: 100, checksum: "0123abcd".into(), inline: None }
}

pub(crate) fn manifest(attempt: u32, checkpoint: u64, files: Vec<StateFile>) -> Manifest {
    let position = Position { offset: 1234, records: 56, ended: false };
    let state = StateDescriptor::new("n", StateKind::Value, Schema::text(), 1);
    Manifest {
        job: "words".into(),
        attempt: AttemptId { run: 1, attempt },
        checkpoint,
        trigger: Trigger::Interval,
        triggered: format!("2026-11-30T07:00:{:02}.000Z", checkpoint % 60),
        created: format!("2026-11-30T07:00:{:02}.000Z", checkpoint % 60),
        finished: false,
        parallelism: 2,
        max_parallelism: 128,
        duration_ms: 17,
        new_bytes: 2000,
        total_bytes: 9000,
        origin: None,
        owned: None,
        savepoint: None,
        sources: vec![SourcePart { uid: "lines".into(), splits: vec![SplitPosition { split: "a.txt".into(), position }] }],
        operators: vec![OperatorPart {
            uid: "count".into(),
            component: ComponentFacts { digest: "blake3:00".into(), name: "count".into(), version: "0.1.0".into() },
            states: vec![state],
            key_schema: Some(crate::plan::Schema::text()),
            files,
            operator_state: vec![],
        }],
        sinks: vec![SinkPart {
            uid: "out".into(),
            staged: vec![Staged { from: "a.tmp".into(), to: "a.txt".into(), bytes: 5, records: 1 }],
        }],
        snapshots: vec![],
        history: vec![],
    }
}

fn entry() -> LogEntry {
    LogEntry::Checkpoint(manifest(3, 41, vec![state_file(2, 40, "count", 0), state_file(3, 41, "count", 1)]))
}

/// Text as a hand would have written it: with a right checksum, whatever it says.
fn sealed(body: &str) -> Vec<u8> {
    format!("{body},\n  \"crc32c\": \"{:08x}\"\n}}\n", crc32c::crc32c(body.as_bytes())).into_bytes()
}

#[test]
fn what_was_written_is_read() {
    let mut with_lists = manifest(3, 41, vec![]);
    with_lists.operators[0].operator_state =
        vec![operator_state_file(1, 39, "count", None), operator_state_file(2, 40, "count", 0), operator_state_file(3, 41, "count", 1)];
    let part = SnapshotPart { operator: "count".into(), subtask: 1, files: 2, bytes: 9, aligned_us: 1, froze_us: 2, upload_ms: 3 };
    let failed = Past { state: Fate::Failed, reason: Some("no disk".into()), ..Past::of(&with_lists) };
    let remembers = Manifest { snapshots: vec![part], history: vec![Past::of(&with_lists), failed], ..with_lists.clone() };
    let mut holds =
        manifest(3, 41, vec![StateFile { bytes: 4, inline: Some(Inline(vec![0, 255, 7, 9].into())), ..state_file(3, 41, "count", 0) }]);
    holds.operators[0].operator_state =
        vec![OperatorStateFile { bytes: 0, inline: Some(Inline(bytes::Bytes::new())), ..operator_state_file(3, 41, "count", 1) }];
    for entry in [entry(), claim(7), LogEntry::Checkpoint(with_lists), LogEntry::Checkpoint(remembers), LogEntry::Checkpoint(holds)] {
        let text = render(&entry).unwrap();
        assert_eq!(parse(&text).unwrap(), entry);
        assert_eq!(render(&entry).unwrap(), text);
    }
}

#[test]
fn it_is_json_that_says_its_format_and_what_it_is_first() {
    let text = String::from_utf8(render(&entry()).unwrap()).unwrap();
    assert!(text.starts_with("{\n  \"format\": 1,\n  \"entry\": \"checkpoint\",\n  \"job\": \"words\",\n"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["max-parallelism"], 128);
    assert_eq!(json["sources"][0]["splits"][0]["offset"], 1234);
    assert_eq!(json["operators"][0]["files"][0]["path"], "state/2-40/count-0.state");
    assert_eq!(json["trigger"], "interval");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut with_lists = manifest(3, 41, vec![]);
    with_lists.operators[0].operator_state = vec![operator_state_file(2, 40, "count", 0), operator_state_file(3, 41, "count", 1)];
    for entry in [entry(), claim(7), LogEntry::Checkpoint(with_lists)] {
        let good = render(&entry).unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let error = parse(&bad).expect_err("a flipped bit");
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

#[test]
fn every_truncation_is_named_as_one() {
    let good = render(&entry()).unwrap();
    assert_eq!(parse(b""), Err(ManifestError::Empty));
    for length in 1..good.len() {
        let error = parse(&good[..length]).unwrap_err();
        // Without the last line break the JSON is whole, so that nobody can tell.
        let expected = if length == good.len() - 1 { ManifestError::Altered } else { ManifestError::Truncated };
        assert_eq!(error, expected, "at {length}");
    }
}

#[test]
fn text_that_goes_on_is_altered() {
    let mut text = render(&entry()).unwrap();
    text.push(b'\n');
    assert_eq!(parse(&text), Err(ManifestError::Altered));
}

#[test]
fn an_edited_manifest_is_refused() {
    let text = String::from_utf8(render(&entry()).unwrap()).unwrap();
    assert_eq!(parse(text.replace("\"finished\": false", "\"finished\": true").as_bytes()), Err(ManifestError::Altered));
}

#[test]
fn a_format_from_the_future_is_refused_by_name() {
    let expected = "the manifest was written by a newer Cofferdam: format 2, this one reads up to 1";
    // Sealed as ours are, and in a way that is not known yet.
    for text in [sealed("{\n  \"format\": 2,\n  \"entry\": \"epic\""), b"{\n  \"format\": 2,\n  \"blake3\": \"ff\"\n}\n".to_vec()] {
        assert_eq!(parse(&text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn foreign_files_are_named_as_such() {
    for text in ["hello", "[]", "{\"a\": 1}", "\u{7f}ELF", "CFDM\0\0"] {
        assert_eq!(parse(text.as_bytes()), Err(ManifestError::Foreign), "{text}");
    }
}

#[test]
fn an_entry_of_an_unknown_kind_is_malformed() {
    assert!(matches!(parse(&sealed("{\n  \"format\": 1,\n  \"entry\": \"epic\"")), Err(ManifestError::Malformed(_))));
    assert!(matches!(parse(&sealed("{\n  \"format\": 0")), Err(ManifestError::Malformed(_))));
}

#[test]
fn what_breaks_a_rule_is_neither_written_nor_read() {
    let base = || {
        let mut base = manifest(3, 41, vec![state_file(3, 41, "count", 0)]);
        base.operators[0].operator_state = vec![operator_state_file(2, 40, "count", 0), operator_state_file(3, 41, "count", 1)];
        base
    };
    type Break = fn(&mut Manifest);
    let broken: [(&str, Break); 28] = [
        ("count from 1", |m| m.attempt.attempt = 0),
        ("count from 1", |m| m.attempt.run = 0),
        ("parallelism", |m| m.parallelism = 0),
        ("parallelism", |m| m.parallelism = 129),
        ("`count` occurs twice", |m| m.sinks[0].uid = "count".into()),
        ("split `a.txt`", |m| m.sources[0].splits = vec![m.sources[0].splits[0].clone(); 2]),
        ("no path", |m| m.operators[0].files[0].path = "state/../../etc/passwd".into()),
        ("no path", |m| m.operators[0].files[0].path = "/etc/passwd".into()),
        ("another operator", |m| m.operators[0].uid = "other".into()),
        ("key groups", |m| m.operators[0].files[0].groups.end = 129),
        ("key groups", |m| m.operators[0].files[0].groups = KeyGroups { start: 5, end: 5 }),
        ("epochs", |m| m.operators[0].files[0].epochs.last = 42),
        ("epochs", |m| m.operators[0].files[0].epochs = Epochs { first: 9, last: 8 }),
        ("checksum", |m| m.operators[0].files[0].checksum = "x".into()),
        ("holds operator state", |m| m.operators[0].files[0].path = m.operators[0].operator_state[0].path.clone()),
        ("no path", |m| m.operators[0].operator_state[0].path = "/etc/passwd".into()),
        ("is not the operator state of", |m| m.operators[0].operator_state[0].path = m.operators[0].files[0].path.clone()),
        ("is not the operator state of", |m| m.operators[0].operator_state[0].epoch = 39),
        ("order of subtask", |m| m.operators[0].operator_state.reverse()),
        ("order of subtask", |m| m.operators[0].operator_state[1] = m.operators[0].operator_state[0].clone()),
        ("does not exist", |m| m.operators[0].operator_state = vec![operator_state_file(3, 42, "count", 0)]),
        ("is not the broadcast state of", |m| m.operators[0].operator_state[0].subtask = None),
        ("order of subtask", |m| m.operators[0].operator_state.push(operator_state_file(3, 41, "count", None))),
        ("order of subtask", |m| m.operators[0].operator_state = vec![operator_state_file(3, 41, "count", None); 2]),
        ("checksum", |m| m.operators[0].operator_state[0].checksum = "x".into()),
        ("2 are kept in the manifest", |m| m.operators[0].files[0].inline = Some(Inline(vec![1, 2].into()))),
        ("2 are kept in the manifest", |m| m.operators[0].operator_state[1].inline = Some(Inline(vec![1, 2].into()))),
        ("occurs twice", |m| m.operators[0].files = vec![m.operators[0].files[0].clone(); 2]),
    ];
    for (expected, breaks) in broken {
        let mut manifest = base();
        breaks(&mut manifest);
        let entry = LogEntry::Checkpoint(manifest);
        let error = render(&entry).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
        // And from a hand that knows how to seal.
        let text = serde_json::to_string_pretty(&serde_json::json!({ "format": 1 })).unwrap();
        let fields = serde_json::to_string_pretty(&entry).unwrap();
        let body = format!("{},{}", text.strip_suffix("\n}").unwrap(), fields[1..].strip_suffix("\n}").unwrap());
        assert_eq!(parse(&sealed(&body)).unwrap_err(), error);
    }
}
