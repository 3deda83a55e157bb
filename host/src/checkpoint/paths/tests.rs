//! Paths: each is taken apart into what it was made of, and nothing else is taken for one.

use proptest::prelude::*;

use super::*;

#[test]
fn paths_look_as_documented() {
    assert_eq!(run_dir(1), "run-0001");
    assert_eq!(run_dir(12_345), "run-12345");
    assert_eq!(entry(42), "log/00000000000000000042.json");
    assert_eq!(snapshot(3, 41, "count", 0, 0), "state/3-41/count-0.state");
    assert_eq!(snapshot(3, 41, "count", 0, 1), "state/3-41/count-0.1.part.state");
    assert_eq!(operator_state(3, 41, "count", Some(0)), "state/3-41/count-0.operator.state");
    assert_eq!(operator_state(3, 41, "count", None), "state/3-41/count.broadcast.state");
    assert_eq!(classify("published"), RunPath::Published);
    assert_eq!(merged(3, Epochs { first: 33, last: 41 }, "count", 7), "state/3-41/count.33-41.7.merged.state");
}

#[test]
fn names_that_mean_something_to_file_systems_are_escaped() {
    assert_eq!(job_dir("word count/1"), "word%20count%2F1");
    assert_eq!(job_dir(".."), "%2E%2E");
    assert_eq!(job_dir("."), "%2E");
    assert_eq!(job_dir("a%b"), "a%25b");
    assert_eq!(snapshot(1, 2, "../x", 0, 0), "state/1-2/..%2Fx-0.state");
}

#[test]
fn foreign_paths_are_foreign() {
    for path in [
        "",
        "notes.txt",
        "log/42.json",
        "log/00000000000000000000.json",
        "log/00000000000000000042.json.bak",
        "log/00000000000000000042.json#1",
        "log/+0000000000000000042.json",
        "log/99999999999999999999.json",
        "log/x/00000000000000000042.json",
        "state/count-0.state",
        "state/3-41/count.state",
        "state/3-41/count-00.state",
        "state/3-41/count-+1.state",
        "state/03-41/count-0.state",
        "state/3-41/count-70000.state",
        "state/3-41/count-0.state/x",
        "state/3-41/sub/count-0.state",
        "state/3-41/co%75nt-0.state",
        "state/3-41/co%2fnt-0.state",
        "state/3-41/co%FFnt-0.state",
        "state/3-41/co%4",
        "state/3-41/count.33-40.7.merged.state",
        "state/3-41/count.merged.state",
        "state/3-41/count.operator.state",
        "state/3-41/count-00.operator.state",
        "state/3-41/co%75nt.broadcast.state",
        "State/3-41/count-0.state",
    ] {
        assert_eq!(classify(path), RunPath::Foreign, "{path}");
    }
    for name in ["run-1", "run-0000", "run-00001", "run-", "Run-0001", "run-0001x"] {
        assert_eq!(parse_run_dir(name), None, "{name}");
    }
}

/// Names that look like parts of paths, so that taking a path apart can go wrong.
fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9._-]{0,12}",
        "\\PC{0,8}",
        Just("a-1".to_string()),
        Just("a.1-2.merged".to_string()),
        Just("a.1-2.3.merged".to_string()),
        Just("a.state".to_string()),
        Just("a-1.operator".to_string()),
        Just("a-1.2.part".to_string()),
        Just("a.broadcast".to_string()),
        Just("%2F".to_string()),
    ]
}

proptest! {
    #[test]
    fn a_path_says_what_it_was_made_from(attempt: u32, epoch: u64, uid in names(), subtask: u16, part: u32, first: u64, serial: u64) {
        for part in [0, part] {
            let expected = StatePath { attempt, epoch, uid: uid.clone(), origin: Origin::Snapshot { subtask, part } };
            prop_assert_eq!(classify(&snapshot(attempt, epoch, &uid, subtask, part)), RunPath::State(expected));
        }
        let expected = StatePath { attempt, epoch, uid: uid.clone(), origin: Origin::Lists { subtask } };
        prop_assert_eq!(classify(&operator_state(attempt, epoch, &uid, Some(subtask))), RunPath::State(expected));
        let expected = StatePath { attempt, epoch, uid: uid.clone(), origin: Origin::Broadcast };
        prop_assert_eq!(classify(&operator_state(attempt, epoch, &uid, None)), RunPath::State(expected));
        let expected = StatePath { attempt, epoch, uid: uid.clone(), origin: Origin::Merged { first, serial } };
        prop_assert_eq!(classify(&merged(attempt, Epochs { first, last: epoch }, &uid, serial)), RunPath::State(expected));
    }

    #[test]
    fn slots_and_runs_come_back(slot in 1u64.., run in 1u32..) {
        prop_assert_eq!(classify(&entry(slot)), RunPath::Entry(slot));
        prop_assert_eq!(parse_run_dir(&run_dir(run)), Some(run));
    }

    #[test]
    fn different_jobs_have_different_directories(one in names(), other in names()) {
        prop_assert_eq!(one == other, job_dir(&one) == job_dir(&other));
    }

    #[test]
    fn any_text_is_classified(path in "\\PC{0,40}") {
        match classify(&path) {
            RunPath::Entry(slot) => prop_assert_eq!(entry(slot), path),
            RunPath::State(state) => prop_assert_eq!(state.render(), path),
            RunPath::Published => prop_assert_eq!(PUBLISHED, path),
            RunPath::Failed => prop_assert_eq!(FAILED, path),
            RunPath::Foreign => {}
        }
    }
}
