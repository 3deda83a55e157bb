//! `checkpoints`: what there is, what it took, and what is amiss among the files.

use std::fs;

use crate::harness::{JobFile, Place};
use crate::{flights, runs};

#[test]
fn the_checkpoints_of_all_runs_are_listed_with_what_they_took() {
    let place = runs::stopped();
    place.run(&["-p", "1"]).succeeds();
    place.run(&["-p", "1"]).succeeds();
    let content = place.content();
    let json = place.cofferdam(&["checkpoints", "job.toml", "--output", "json"]).succeeds().json();
    let dir = place.path("checkpoints/job");
    assert_eq!(place.cofferdam(&["checkpoints", dir.to_str().unwrap(), "--output", "json"]).succeeds().json(), json);
    assert_eq!(place.content(), content, "nothing has changed on disk");
    assert_eq!((&json["broken"], &json["foreign"]), (&serde_json::json!([]), &serde_json::json!([])));

    let listed = json["checkpoints"].as_array().unwrap();
    for run in [1, 2] {
        let kept: Vec<_> = listed.iter().filter(|one| one["run"] == run && !one["manifest"].is_null()).collect();
        let manifests = place.manifests(run);
        assert_eq!(kept.len(), manifests.len());
        for (one, manifest) in kept.iter().zip(&manifests) {
            assert_eq!((&one["manifest"], &one["state"]), (&manifest.path.to_str().unwrap().into(), &"completed".into()));
            for field in ["checkpoint", "trigger", "triggered", "duration-ms", "new-bytes", "total-bytes"] {
                assert_eq!(one[field], manifest.json[field], "{field}");
            }
            assert_eq!(one["files"], manifest.state_files().len());
            let parts = one["snapshots"].as_array().unwrap().iter().map(|part| (part["operator"].as_str(), part["subtask"].as_u64()));
            let subtasks = |uid| (0..manifest.json["parallelism"].as_u64().unwrap()).map(move |subtask| (Some(uid), Some(subtask)));
            assert!(parts.eq(["delays", "parse"].into_iter().flat_map(subtasks)), "{one}");
        }
    }
    // A checkpoint was taken each 40 ms; of those before the kept ones the newest ten are remembered.
    let of_first = listed.iter().filter(|one| one["run"] == 1).count();
    assert!(of_first > place.manifests(1).len(), "{json}");
    let text = place.cofferdam(&["checkpoints", "job.toml"]).succeeds().stdout;
    for part in ["end-of-input", "completed", "snapshots of checkpoint ", "aligned"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(!text.contains("because"), "nothing has failed:\n{text}");
    // Of one that is chosen the details are shown, and nothing else.
    let oldest = &place.manifests(2)[0];
    let text = place.cofferdam(&["checkpoints", "job.toml", "--checkpoint", &oldest.checkpoint.to_string()]).succeeds().stdout;
    assert!(text.contains(&format!("snapshots of checkpoint {}:", oldest.checkpoint)), "{text}");
    let parts = oldest.json["snapshots"].as_array().unwrap();
    let count = |field: &str| parts.iter().filter_map(|part| part[field].as_u64()).sum::<u64>();
    let of_its_epoch = |files: &serde_json::Value| {
        let files = files.as_array().cloned().unwrap_or_default();
        files.iter().filter(|file| file["epochs"]["first"] == oldest.checkpoint).count() as u64
    };
    let files: u64 = oldest.json["operators"].as_array().unwrap().iter().map(|operator| of_its_epoch(&operator["files"])).sum();
    assert_eq!(count("files"), files, "{parts:?}");
}

/// One of two subtasks works on a record for two seconds, while the other one goes on beyond the barrier with records for itself too.
#[test]
fn what_barriers_take_is_measured() {
    let job = JobFile::new("50ms")
        .checkpoint("interval = \"50ms\"\nnum-retained = 200\ndir = \"checkpoints\"")
        .source("lines", "type = \"file\"\npath = \"input\"\nrate = 1000")
        .operator("slow", "fixture-slow", &["lines"], "config = { sleep = 2000, on = \"a0,100\" }")
        .operator("life", "fixture-life", &["slow"], "")
        .operator("pairs", "fixture-pairs", &["life"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .file_sink("out", &["totals"]);
    let place = Place::new(&job);
    for file in ["a", "b"] {
        place.write_lines(&format!("input/{file}"), (0..1000).map(|number| format!("{file}{},{number}", number % 10)));
    }
    place.run(&["-p", "2"]).succeeds();
    let listed = place.cofferdam(&["checkpoints", "job.toml", "--output", "json"]).succeeds().json();
    let parts = listed["checkpoints"].as_array().unwrap().iter().flat_map(|one| one["snapshots"].as_array().unwrap().clone());
    let longest =
        |uid: &str, field: &str| parts.clone().filter(|part| part["operator"] == uid).filter_map(|part| part[field].as_u64()).max();
    // The checkpoint that has met the record was triggered within it.
    assert!(longest("totals", "aligned-us") >= Some(500_000), "{listed}");
    // Those before the exchange have one input, of which nothing is held back.
    assert_eq!(["slow", "life", "pairs"].map(|uid| longest(uid, "aligned-us")), [Some(0); 3]);
    // It has a hook, which takes longer than to freeze state.
    assert!(longest("life", "froze-us") > Some(0), "{listed}");
}

#[test]
fn broken_and_foreign_files_are_named_and_the_rest_is_listed() {
    let place = runs::stopped();
    let manifests = place.manifests(1);
    let [oldest, before, newest] = manifests.as_slice() else { panic!("{} are kept", manifests.len()) };
    let half = fs::read(&oldest.path).unwrap();
    fs::write(&oldest.path, &half[..half.len() / 2]).unwrap();
    // One that only the newest names.
    let gone = newest.state_files().difference(&before.state_files()).last().cloned().expect("its last epoch has changes");
    fs::remove_file(place.run_dir(1).join(&gone)).unwrap();
    for foreign in ["notes.txt", "run-1/log/00000000000000000001.json", "run-0001/notes.txt"] {
        place.write(&format!("checkpoints/job/{foreign}"), "mine");
    }
    let ended = place.cofferdam(&["checkpoints", "job.toml"]).succeeds();
    let named = [
        format!("broken: {}: the file is truncated", oldest.path.display()),
        format!("{gone}: it is missing, and checkpoint {} needs it", newest.checkpoint),
        "foreign: notes.txt\n".into(),
        "foreign: run-1/log/00000000000000000001.json\n".into(),
        "foreign: run-0001/notes.txt\n".into(),
    ];
    for part in named {
        assert!(ended.stdout.contains(&part), "{part:?} is missing in:\n{}", ended.stdout);
    }
    let json = place.cofferdam(&["checkpoints", "job.toml", "--output", "json"]).succeeds().json();
    let kept = json["checkpoints"].as_array().unwrap().iter().filter(|one| !one["manifest"].is_null());
    assert_eq!(kept.map(|one| one["checkpoint"].as_u64().unwrap()).collect::<Vec<_>>(), [before.checkpoint, newest.checkpoint]);
}

#[test]
fn where_no_job_has_run_there_is_nothing_to_list() {
    let place = flights::place("");
    place.cofferdam(&["checkpoints", "job.toml"]).ends_with(6).says(&["job `job` has no checkpoints", "[checkpoint] dir"]);
    place.write("checkpoints/notes.txt", "mine");
    place.cofferdam(&["checkpoints", "checkpoints"]).ends_with(5).says(&["no run of job `checkpoints` has begun"]);
    place.cofferdam(&["checkpoints", "nothing.toml"]).ends_with(3).says(&["nothing.toml"]);
}
