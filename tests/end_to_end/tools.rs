//! `validate` and `inspect`: what they tell of jobs, components, checkpoints and of what is neither.

use std::fs;

use crate::flights;
use crate::harness::guest;
use crate::runs;

#[test]
fn validate_describes_a_job_and_touches_nothing() {
    let place = flights::place("");
    let content = place.content();
    let json = place.cofferdam(&["validate", "job.toml", "-p", "3", "--output", "json"]).succeeds().json();
    assert_eq!((&json["job"], &json["parallelism"], &json["max-parallelism"]), (&"job".into(), &3.into(), &128.into()));
    assert_eq!(json["chains"], serde_json::json!([["flights", "parse"], ["delays", "out"]]));
    assert_eq!(json["sources"], serde_json::json!([{ "uid": "flights", "splits": 1 }]));
    let delays = &json["operators"][1];
    assert_eq!((&delays["uid"], &delays["descriptor"]["name"]), (&"delays".into(), &"flights-delays".into()));
    let inspected = place.cofferdam(&["inspect", guest("flights-delays").to_str().unwrap(), "--output", "json"]).succeeds().json();
    assert_eq!((&inspected["descriptor"], &inspected["digest"]), (&delays["descriptor"], &delays["digest"]));
    let text = place.cofferdam(&["validate", "job.toml"]).succeeds().stdout;
    assert!(text.contains("job `job` in job.toml is valid") && text.contains("flights-delays"), "{text}");
    assert_eq!(place.content(), content, "nothing has changed on disk");
}

#[test]
fn inspect_describes_a_component() {
    let place = flights::place("");
    let json = |name: &str| place.cofferdam(&["inspect", guest(name).to_str().unwrap(), "--output", "json"]).succeeds().json();
    let delays = json("flights-delays");
    let bytes = fs::metadata(guest("flights-delays")).unwrap().len();
    assert_eq!((&delays["file"], &delays["bytes"]), (&"component".into(), &bytes.into()));
    assert_eq!(delays["digest"].as_str().map(str::len), Some(64));
    assert!(delays["imports"].as_array().unwrap().contains(&"cofferdam:operator/keyed-state@0.1.0".into()), "{delays}");
    assert!(delays["exports"].as_array().unwrap().contains(&"cofferdam:operator/operator@0.1.0".into()), "{delays}");
    let descriptor = &delays["descriptor"];
    assert_eq!((&descriptor["inputs"][0]["partitioning"], &descriptor["finish_hook"]), (&"keyed".into(), &true.into()), "{descriptor}");
    assert_eq!((&descriptor["states"][0]["name"], &descriptor["states"][0]["kind"]), (&"stats".into(), &"value".into()));
    // Of every operator, whether or not it has state.
    assert!(delays["exports"].as_array().unwrap().contains(&"cofferdam:operator/migration@0.1.0".into()), "{delays}");
    assert_eq!(descriptor["migration"], true);
    let kinds: Vec<_> = json("fixture-sum")["descriptor"]["states"].as_array().unwrap().iter().map(|state| state["kind"].clone()).collect();
    assert_eq!(kinds, ["value", "reducing", "list"]);
    assert_ne!(json("fixture-sum")["digest"], delays["digest"]);
    let text = place.cofferdam(&["inspect", guest("flights-delays").to_str().unwrap()]).succeeds().stdout;
    assert!(text.contains("flights-delays") && text.contains("stats"), "{text}");
}

#[test]
fn inspect_describes_the_files_of_a_checkpoint() {
    let place = runs::stopped();
    let inspect = |path: &std::path::Path| {
        let path = path.to_str().unwrap();
        assert!(!place.cofferdam(&["inspect", path]).succeeds().stdout.is_empty());
        place.cofferdam(&["inspect", path, "--output", "json"]).succeeds().json()
    };
    let newest = place.manifests(1).pop().unwrap();
    let manifest = inspect(&newest.path);
    assert_eq!((&manifest["file"], &manifest["trigger"]), (&"manifest".into(), &"stop".into()), "{manifest}");
    for part in ["checkpoint", "attempt", "sources", "operators", "sinks", "total-bytes"] {
        assert_eq!(manifest[part], newest.json[part], "{part}");
    }
    for file in newest.json["operators"][1]["files"].as_array().unwrap() {
        let state = inspect(&place.run_dir(1).join(file["path"].as_str().unwrap()));
        assert_eq!((&state["file"], &state["operator"]), (&"state-file".into(), &"delays".into()), "{state}");
        for part in ["entries", "bytes", "groups", "epochs", "base"] {
            assert_eq!(state[part], file[part], "{part}");
        }
        assert_eq!((&state["states"][0]["name"], &state["states"][0]["puts"]), (&"stats".into(), &file["entries"]), "{state}");
    }
    let log = place.run_dir(1).join("log");
    // With fewer checkpoints than are kept, the claim is still there; else a new attempt leaves one.
    let mut running = place.start(&[]);
    running.wait_for_stderr("resuming run 1");
    running.kill();
    let claim = fs::read_dir(log).unwrap().map(|entry| inspect(&entry.unwrap().path())).find(|entry| entry["file"] == "claim").unwrap();
    assert_eq!((&claim["job"], &claim["attempt"]["attempt"]), (&"job".into(), &2.into()), "{claim}");
}

#[test]
fn inspect_tells_what_is_broken_and_what_is_foreign() {
    let place = runs::stopped();
    place.write("garbage", [0xde, 0xad, 0xbe, 0xef].repeat(100));
    place.write("other.json", "{\"job\": \"of someone else\"}\n");
    place.write("empty", "");
    place.write("empty.wasm", "");
    let whole = fs::read(guest("flights-parse")).unwrap();
    place.write("half", &whole[..whole.len() / 2]);
    place.write("half.wasm", &whole[..whole.len() / 2]);
    let state = place.state_files(1).pop_last().unwrap();
    let bytes = fs::read(place.run_dir(1).join(&state)).unwrap();
    place.write("half.state", &bytes[..bytes.len() / 2]);
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    place.write("damaged.state", damaged);
    let manifest = fs::read(place.manifests(1).pop().unwrap().path).unwrap();
    place.write("half.json", &manifest[..manifest.len() / 2]);
    for (file, code) in [
        ("garbage", 5),
        ("other.json", 5),
        ("empty", 5),
        ("half.state", 5),
        ("damaged.state", 5),
        ("half.json", 5),
        (".", 5),
        ("half", 4),
        ("half.wasm", 4),
        ("empty.wasm", 4),
        ("nothing.wasm", 4),
        ("nothing", 6),
    ] {
        println!("{file}");
        place.cofferdam(&["inspect", file]).ends_with(code).says(&[file]);
        let json = place.cofferdam(&["inspect", file, "--output", "json"]).ends_with(code).json();
        let message = json["error"]["message"].as_str().unwrap();
        assert!(message.contains(file) && !message.contains('\n'), "{message}");
    }
}
