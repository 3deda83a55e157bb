//! Beginning from a checkpoint that was asked for: what was asked for holds until it is done, and is done once.

use std::fs;
use std::path::PathBuf;

use crate::flights;
use crate::harness::{JobFile, Place, assert_lines, names};
use crate::runs::stopped;

/// The newest manifest of a copy of the job's checkpoints, as if brought from another machine.
fn elsewhere(place: &Place) -> (Place, PathBuf) {
    let backup = place.copy();
    let manifest = backup.manifests(1).pop().expect("it has checkpoints").path;
    // The job itself knows nothing of that run.
    fs::remove_dir_all(place.path("checkpoints")).unwrap();
    fs::remove_dir_all(place.path("out")).unwrap();
    (backup, manifest)
}

#[test]
fn a_run_that_began_from_elsewhere_is_gone_on_with_and_not_begun_again() {
    let place = stopped();
    let published = place.lines("out");
    let (_backup, manifest) = elsewhere(&place);
    let manifest = manifest.to_string_lossy().into_owned();
    place.set_job(&flights::job("rate = 4000"));
    let mut running = place.start(&["-s", &manifest]);
    running.wait_until("a checkpoint", || place.newest(1) > 0);
    running.kill();
    // As a supervisor does that starts the same command again.
    place.run(&["-s", &manifest]).ends_with(5).says(&["run 1 has begun from checkpoint", "--allow-duplicates"]);
    place.set_job(&flights::job(""));
    place.run(&[]).succeeds().says(&["resuming run 1"]);
    assert_lines([published, place.lines("out")].concat(), flights::oracle(), "before and after the move");
}

#[test]
fn what_was_asked_for_holds_until_something_is_committed() {
    let place = stopped();
    let published = place.lines("out");
    let (_backup, manifest) = elsewhere(&place);
    let asked = |place: &Place, checkpoint: &str| {
        place.set_job(&flights::job("rate = 1").checkpoint("dir = \"checkpoints\""));
        let mut running = place.start(&["-s", checkpoint, "--allow-duplicates"]);
        running.wait_for_stderr("resuming run");
        running.kill();
    };
    asked(&place, &manifest.to_string_lossy());
    place.set_job(&flights::job(""));
    place.run(&[]).succeeds().says(&["resuming run 1 from checkpoint"]);
    assert_lines([published, place.lines("out")].concat(), flights::oracle(), "from elsewhere");

    // The same within a run: an older checkpoint stays the one to begin from.
    let place = stopped();
    let oldest = place.manifests(1)[0].checkpoint.to_string();
    asked(&place, &oldest);
    place.set_job(&flights::job(""));
    place.run(&[]).succeeds().says(&[&format!("resuming run 1 from checkpoint {oldest} ")]);
}

#[test]
fn attempts_that_commit_nothing_leave_their_files_to_nobody() {
    let (_backup, manifest) = elsewhere(&stopped());
    let place = flights::place("");
    let more = "dir = \"checkpoints\"\nlocal-recovery = true\nlocal-recovery-dir = \"local\"";
    place.set_job(&flights::job("rate = 1").checkpoint(more));
    let from = ["-s", manifest.to_str().expect("a path"), "--allow-duplicates"];
    for (attempt, args) in (1..).zip([&from[..], &[], &[]]) {
        let mut running = place.start(args);
        running.wait_for_stderr("resuming run");
        running.kill();
        let files = place.state_files(1);
        let copied = names(&place.path("local/job/copies/run-0001/state"));
        let own = format!("state/{attempt}-");
        assert!(!files.is_empty() && files.iter().all(|path| path.starts_with(&own)), "attempt {attempt}: {files:?}");
        assert!(!copied.is_empty() && copied.iter().all(|dir| format!("state/{dir}").starts_with(&own)), "attempt {attempt}: {copied:?}");
    }
}

#[test]
fn another_jobs_checkpoint_restores_after_ten_newer_ones_of_which_one_is_kept() {
    // Of another name and in a place of its own.
    let origin = flights::place("");
    origin.write("job.toml", flights::job("rate = 4000").text().replace("name = \"job\"", "name = \"origin\""));
    let log = origin.path("checkpoints/origin/run-0001/log");
    let mut running = origin.start(&["-p", "2"]);
    running.wait_until("some checkpoints and lines", || names(&log).len() >= 3 && origin.lines("out").len() >= 20);
    running.signal("INT");
    running.wait().ends_with(130);
    let (published, content) = (origin.lines("out"), origin.content());
    let manifest = log.join(names(&log).pop().expect("the last checkpoint"));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let restored = json["checkpoint"].as_u64().expect("a number");

    let resuming = format!("resuming run 1 from checkpoint {restored} ");
    let from = ["-s", manifest.to_str().expect("a path")];
    let place = flights::place("");
    place.set_job(&flights::job("rate = 4000").checkpoint("interval = \"10ms\"\nnum-retained = 1\ndir = \"checkpoints\""));
    let mut running = place.start(&from);
    running.wait_until("ten checkpoints", || place.newest(1) >= restored + 10);
    running.kill().says(&[&resuming]);
    assert_eq!(origin.content(), content, "the origin is as it was");
    // It goes on by itself, and the other one's can be begun from once more.
    for (place, args) in [(place, &[][..]), (flights::place(""), &from[..])] {
        place.set_job(&flights::job(""));
        let ended = place.run(args).succeeds();
        assert_eq!(ended.stderr.contains(&resuming), !args.is_empty(), "{}", ended.stderr);
        assert_lines([published.clone(), place.lines("out")].concat(), flights::oracle(), "before and after");
    }
}

#[test]
fn a_split_that_was_read_and_comes_back_is_not_read_again() {
    let job = |rate: &str| {
        JobFile::new("20ms")
            .source("lines", &format!("type = \"file\"\npath = \"input\"\n{rate}"))
            .operator("pass", "fixture-misbehave", &["lines"], "config = { on = \"never\", how = \"panic\" }")
            .file_sink("out", &["pass"])
    };
    let place = Place::new(&job("rate = 400"));
    let lines = |file: &str, count: usize| (0..count).map(|number| format!("{file}-{number}")).collect::<Vec<_>>();
    place.write_lines("input/a", lines("a", 5));
    place.write_lines("input/b", lines("b", 400));
    let split_a = place.path("input/a");
    let aside = place.path("aside");
    for round in 0..3 {
        // Away in the second round, back in the third.
        let (before, newest) = (place.lines("out").len(), place.newest(1));
        let mut running = place.start(&[]);
        running.wait_until("more lines", || place.lines("out").len() > before + 20 && place.newest(1) > newest);
        running.kill();
        if round == 0 {
            fs::rename(&split_a, &aside).unwrap();
        } else if round == 1 {
            fs::rename(&aside, &split_a).unwrap();
        }
    }
    place.set_job(&job(""));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), [lines("a", 5), lines("b", 400)].concat(), "each line once");
}
