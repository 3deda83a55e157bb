//! Components that a host keeps and whose files are lost.

use serde_json::Value;

use crate::flights;
use crate::harness::{guest, until};

#[test]
fn a_component_whose_file_is_lost_is_told_and_mended_by_a_push() {
    let place = flights::place("");
    let mut host = place.host();
    let parse = guest("flights-parse");
    let push = ["component", "push", parse.to_str().unwrap()];
    let digest = host.json(&push)["digest"].as_str().unwrap().to_owned();
    let file = place.path(&format!("data/components/{digest}.wasm"));
    let whole = std::fs::read(&file).unwrap();
    for cut in [0, 1000] {
        match cut {
            0 => std::fs::remove_file(&file).unwrap(),
            _ => std::fs::write(&file, &whole[..cut]).unwrap(),
        }
        assert_eq!(host.json(&["component", "list"])["components"], Value::Array(vec![]), "it lacks it");
        let lost = format!("component `flights-parse@0.1.0` is lost: {} is missing, or not as long as it was", file.display());
        for named in [&digest, "flights-parse@0.1.0"] {
            host.cofferdam(&["component", "inspect", named]).ends_with(9).says(&[&lost, "push it again"]);
        }
        // A host that begins tells of it as well.
        host.end().succeeds();
        host = place.host();
        until("it is told", || host.running().stderr().contains(&lost).then_some(()));
        host.json(&push);
        assert!(std::fs::read(&file).unwrap() == whole, "the push has mended it");
        host.cofferdam(&["component", "inspect", "flights-parse@0.1.0"]).succeeds();
    }
    // By a deployment too; and what nobody can mend can be removed.
    std::fs::remove_file(&file).unwrap();
    host.cofferdam(&["deploy", "job.toml"]).succeeds();
    host.wait_for("job", "FINISHED");
    host.cofferdam(&["forget", "job"]).succeeds();
    std::fs::remove_file(&file).unwrap();
    host.cofferdam(&["component", "rm", &digest]).succeeds();
    host.cofferdam(&["component", "inspect", &digest]).ends_with(9).says(&["the host has no component"]);
}
