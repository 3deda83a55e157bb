//! Checkpoints in the memory of the process: for the attempts of this process, and for no other.

use crate::harness::{JobFile, Place, assert_lines};

#[test]
fn attempts_go_on_from_checkpoints_in_memory_and_nothing_is_left_on_disk() {
    // Some lines make attempts fail, far enough from each other that checkpoints lie between.
    let line = |number: u32| match number {
        1000 | 2000 | 3000 => format!("fail-{}", number / 1000),
        _ => format!("line {number}"),
    };
    let input: Vec<String> = (0..4000).map(line).collect();
    let job = JobFile::new("20ms")
        .checkpoint("interval = \"20ms\"\ndir = \"memory:\"")
        .restart("strategy = \"fixed-delay\"\nattempts = 3\ndelay = \"10ms\"")
        .source("lines", "type = \"file\"\npath = \"input\"\nrate = 5000")
        .operator("relapse", "fixture-relapse", &["lines"], "")
        .file_sink("out", &["relapse"]);
    let place = Place::new(&job);
    place.write_lines("input", &input);
    let ended = place.run(&["-p", "2"]).succeeds();
    let ended = ended.says(&["checkpoints are kept in memory: ", "resuming run 1 from checkpoint ", "(attempt 4)"]);
    assert_eq!(ended.stderr.matches("checkpoints are kept in memory").count(), 1, "{}", ended.stderr);
    assert_lines(place.lines("out"), input, "after three failures");
    let files: Vec<_> = std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files.len(), 3, "job file, input and output: {files:?}");

    place.cofferdam(&["checkpoints", "job.toml"]).ends_with(5).says(&["in memory:", "end with it"]);
    // Another process knows nothing of them, and publishes nothing over what is there.
    place.run(&[]).ends_with(6).says(&["published files are never replaced"]);
}
