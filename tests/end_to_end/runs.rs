//! Runs: what resumes, what begins anew, and from which checkpoint.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::flights;
use crate::harness::{JobFile, Place, assert_lines, until};

/// The flights job, stopped after some checkpoints, of which the last one has output; from now on without a limit of its rate.
pub fn stopped() -> Place {
    // Most epochs have some, but not all.
    until("a last checkpoint with output", || {
        let place = flights::place("rate = 4000");
        let mut running = place.start(&["-p", "2"]);
        running.wait_until("some checkpoints and lines", || place.newest(1) >= 5 && place.lines("out").len() >= 20);
        running.signal("INT");
        running.wait().ends_with(130);
        place.set_job(&flights::job(""));
        (!staged(&place).is_empty()).then_some(place)
    })
}

/// What the newest checkpoint of the first run has staged in the sink `out`: paths before and after publication.
fn staged(place: &Place) -> Vec<(PathBuf, PathBuf)> {
    let manifests = place.manifests(1);
    let staged = manifests.last().and_then(|newest| newest.json["sinks"][0]["staged"].as_array()).into_iter().flatten();
    let path = |file: &serde_json::Value, end: &str| place.path("out").join(file[end].as_str().expect("a path"));
    staged.map(|file| (path(file, "from"), path(file, "to"))).collect()
}

/// What must be visible when a part of the output may have been published twice.
#[track_caller]
pub fn complete_with_duplicates(place: &Place) {
    let lines = place.lines("out");
    let distinct: BTreeSet<&String> = lines.iter().collect();
    assert!(distinct.into_iter().eq(&flights::oracle()), "each line is there, once or more often");
    assert!(lines.len() > flights::oracle().len(), "the case is one in which lines come twice");
}

#[test]
fn a_finished_job_leaves_nothing_to_resume_and_its_output_stays() {
    let place = flights::place("");
    place.run(&[]).succeeds().says(&["starting run 1\n"]);
    let first = place.visible("out");
    let summary = place.run(&["--output", "json"]).succeeds().says(&["starting run 2\n"]).json();
    assert_eq!((&summary["attempt"]["run"], &summary["restored"]), (&2.into(), &serde_json::Value::Null));
    let both = place.visible("out");
    assert!(first.iter().all(|(name, text)| both.get(name) == Some(text)), "the files of run 1 are as they were");
    assert_lines(place.lines("out"), [flights::oracle(), flights::oracle()].concat(), "both runs");
}

#[test]
fn fresh_begins_beside_an_unfinished_run() {
    let place = stopped();
    let (first, checkpoints) = (place.visible("out"), place.manifests(1).len());
    place.run(&["--fresh"]).succeeds().says(&["starting run 2\n"]);
    let both = place.visible("out");
    assert!(first.iter().all(|(name, text)| both.get(name) == Some(text)), "the files of run 1 are as they were");
    let second = both.iter().filter(|(name, _)| !first.contains_key(*name)).flat_map(|(_, text)| text.lines().map(str::to_owned));
    assert_lines(second, flights::oracle(), "run 2");
    assert_eq!(place.manifests(1).len(), checkpoints, "the checkpoints of run 1 are there");
}

#[test]
fn what_a_committed_checkpoint_names_as_staged_is_published_first() {
    for finished in [false, true] {
        let place = stopped();
        if finished {
            place.run(&[]).succeeds();
        }
        // As after a crash between the commit and the publication.
        let staged = staged(&place);
        assert!(!staged.is_empty());
        staged.iter().for_each(|(from, to)| fs::rename(to, from).unwrap());
        fs::remove_file(place.run_dir(1).join("published")).unwrap();
        place.run(&["-p", "1"]).succeeds();
        let first: String =
            place.visible("out").iter().filter(|(name, _)| name.contains("-0001-")).map(|(_, text)| text.as_str()).collect();
        assert_lines(first.lines(), flights::oracle().iter().map(String::as_str), &format!("finished: {finished}"));
    }
}

#[test]
fn staged_output_that_is_lost_is_an_error_unless_it_was_being_published() {
    let place = stopped();
    let note = place.run_dir(1).join("published");
    let text = fs::read_to_string(&note).unwrap();
    let (from, to) = staged(&place).swap_remove(0);
    let taken = fs::read_to_string(&to).unwrap();
    fs::remove_file(&to).unwrap();
    // As after a crash before the publication, and a loss: the rest of the output would not make it good.
    fs::remove_file(&note).unwrap();
    let name = from.file_name().unwrap().to_str().unwrap();
    place.run(&[]).ends_with(6).says(&["sink `out`", name, "was staged by a committed checkpoint and is gone"]);
    // As after a crash in the middle of the publication: somebody has taken the file away since.
    fs::write(&note, text.replace("published", "publishing")).unwrap();
    place.run(&[]).succeeds();
    let taken = taken.lines().map(str::to_owned);
    assert_lines(place.lines("out").into_iter().chain(taken), flights::oracle(), "taken and left");
}

#[test]
fn a_checkpoint_is_chosen_by_number_or_by_path_and_an_older_one_needs_a_word() {
    let base = stopped();
    let manifests = base.manifests(1);
    let [oldest, before, newest] = manifests.as_slice() else { panic!("{} checkpoints are kept", manifests.len()) };
    let inside = |place: &Place, path: &std::path::Path| place.path("").join(path.strip_prefix(base.path("")).unwrap());
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();

    let place = base.copy();
    let content = place.content();
    for (older, newer) in [(oldest, 2), (before, 1)] {
        for wanted in [older.checkpoint.to_string(), text(inside(&place, &older.path))] {
            place.run(&["-s", &wanted]).ends_with(5).says(&[
                &format!("checkpoint {} is not the newest", older.checkpoint),
                &format!("{newer} newer"),
                "--allow-duplicates",
            ]);
        }
    }
    place.run(&["-s", "999"]).ends_with(5).says(&["no checkpoint 999", &format!("{}, {}", before.checkpoint, newest.checkpoint)]);
    assert_eq!(place.content(), content, "nothing has changed on disk");
    place.run(&["-s", &newest.checkpoint.to_string()]).succeeds().says(&[&format!("from checkpoint {} ", newest.checkpoint)]);
    assert_lines(place.lines("out"), flights::oracle(), "the whole output");

    let place = base.copy();
    place.run(&["-s", &text(inside(&place, &newest.path))]).succeeds();
    assert_lines(place.lines("out"), flights::oracle(), "the whole output");

    let place = base.copy();
    let said = format!("from checkpoint {} ", oldest.checkpoint);
    place.run(&["-s", &oldest.checkpoint.to_string(), "--allow-duplicates", "-p", "3"]).succeeds().says(&[&said]);
    complete_with_duplicates(&place);
}

#[test]
fn a_checkpoint_of_another_place_begins_a_run_of_its_own() {
    let origin = stopped();
    let before = origin.lines("out");
    let place = flights::place("");
    let wanted = origin.manifests(1).pop().unwrap().path;
    place.run(&["-s", wanted.to_str().unwrap()]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_eq!(origin.lines("out"), before, "the origin is not touched");
    // What was published there and what is published here make the whole.
    assert_lines([before, place.lines("out")].concat(), flights::oracle(), "both places");
}

#[test]
fn a_finished_checkpoint_that_is_asked_for_publishes_nothing_again() {
    let place = flights::place("");
    place.run(&[]).succeeds();
    let newest = place.newest(1).to_string();
    let content = place.content();
    place.run(&["-s", &newest]).ends_with(5).says(&["nothing is left to resume", "--allow-duplicates"]);
    assert_eq!(place.content(), content, "nothing has changed on disk");
    // With the word, operators finish again, over the same state.
    place.run(&["-s", &newest, "--allow-duplicates"]).succeeds();
    let totals = flights::oracle().into_iter().filter(|line| line.starts_with("total,"));
    assert_lines(place.lines("out"), flights::oracle().into_iter().chain(totals), "the last lines twice");
}

#[test]
fn a_job_without_checkpoints_in_between_is_exact_too() {
    let job = |rate: &str| {
        JobFile::new("1s")
            .checkpoint("dir = \"checkpoints\"")
            .source("lines", &format!("type = \"file\"\npath = \"input.txt\"\n{rate}"))
            .file_sink("out", &["lines"])
    };
    let place = Place::new(&job("rate = 1000"));
    let lines: Vec<String> = (0..2000).map(|number| format!("{number:04}")).collect();
    place.write_lines("input.txt", &lines);
    let mut running = place.start(&[]);
    running.wait_until("a file in the making", || fs::read_dir(place.path("out/.staging")).into_iter().flatten().next().is_some());
    running.kill();
    assert!(place.lines("out").is_empty());
    place.set_job(&job(""));
    let said =
        ["checkpoints are off, because [checkpoint] has no `interval`", "starting run 1 again (attempt 2): it has no checkpoint yet"];
    place.run(&[]).succeeds().says(&said);
    assert_lines(place.lines("out"), lines, "all of it");
    assert_eq!(place.manifests(1).len(), 1, "the last one");
}
