//! Operator state and the life of an operator: what belongs to a subtask survives kills, traps and changes of the parallelism, each
//! element once; and the guest is called at the barrier, after a commit and at its end.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{JobFile, Moment, Place, Random, kill_and_resume};
use crate::sums;

/// Lines `key,number` are counted per key and per subtask, and told at the end.
pub fn counts(component: &str, source: &str, lines: &str) -> JobFile {
    JobFile::new("40ms")
        .source("lines", &format!("type = \"file\"\npath = \"input\"\n{source}"))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator("counts", component, &["pairs"], lines)
        .file_sink("out", &["counts"])
}

/// Checks each key's count, and that the counts of the subtasks come to the same in sum.
#[track_caller]
pub fn check(lines: &[String], input: &[String], is_left_out: fn(u64) -> bool) {
    let mut oracle: BTreeMap<&str, u64> = BTreeMap::new();
    for line in input {
        let (key, number) = line.split_once(',').expect("a pair");
        *oracle.entry(key).or_default() += u64::from(!is_left_out(number.parse().expect("a number")));
    }
    oracle.retain(|_, count| *count > 0);
    let (mut of_key, mut of_subtask) = (BTreeMap::new(), BTreeMap::new());
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |field: usize| fields[field].parse::<u64>().expect("a number");
        assert!(of_key.insert(fields[0], number(1)).is_none(), "{line}: the key is there twice");
        let same = *of_subtask.entry(fields[2]).or_insert(number(3));
        assert_eq!(same, number(3), "{line}: a subtask has one count");
    }
    assert_eq!(of_key, oracle, "counts of the keys");
    assert_eq!(of_subtask.values().sum::<u64>(), oracle.values().sum::<u64>(), "counts of the subtasks: {of_subtask:?}");
}

/// Killed on one, three and two subtasks, each again and again, and ended on three.
fn survives(component: &str, seed: u64, lines: &str, is_left_out: fn(u64) -> bool) {
    let mut random = Random::new(seed);
    let input = sums::input(&mut random, 0, 60_000);
    let place = Place::new(&counts(component, "rate = 4000", lines));
    place.write_lines("input/a", &input);
    let draw = |random: &mut Random| match random.below(4) {
        0 => Moment::Claimed,
        _ => Moment::Checkpoints(1 + random.below(4)),
    };
    for parallelism in ["1", "3", "2", "3"] {
        kill_and_resume(&place, &mut random, 3, &[parallelism], draw);
    }
    place.set_job(&counts(component, "", lines));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    check(&place.lines("out"), &input, is_left_out);
}

#[test]
fn counts_written_with_each_batch_agree_through_kills_traps_and_rescaling() {
    survives("fixture-local-count", 1, "on-error = \"skip\"\nmax-errors = 1000000", |number| number % 100 == 57);
}

#[test]
fn counts_kept_in_memory_and_saved_at_barriers_agree_too() {
    survives("fixture-local-memory", 2, "", |_| false);
}

/// What was in memory goes with the instance, and the next attempt, in the same process, begins with what was saved.
#[test]
fn counts_kept_in_memory_agree_when_attempts_fail() {
    let input = sums::input(&mut Random::new(4), 0, 12_000);
    let config = "config = { fatal = [3000, 6000, 9000] }";
    let restart = "strategy = \"fixed-delay\"\nattempts = 3\ndelay = \"1ms\"";
    for parallelism in ["1", "3"] {
        let place = Place::new(&counts("fixture-local-memory", "rate = 8000", config).restart(restart));
        place.write_lines("input/a", &input);
        let ended = place.run(&["-p", parallelism]).succeeds();
        let ended = ended.says(&["attempt 3 has failed, another follows", "(attempt 4)", "resuming run 1 from checkpoint "]);
        assert_eq!(ended.stderr.matches("another follows in 1ms: operator `counts`, subtask").count(), 3, "{}", ended.stderr);
        check(&place.lines("out"), &input, |_| false);
    }
}

#[test]
fn memory_kept_from_batch_to_batch_can_only_fail() {
    for policy in ["skip", "dead-letter"] {
        let job = counts("fixture-local-memory", "", &format!("on-error = {policy:?}")).file_sink("dead", &["counts.dead-letter"]);
        let job = if policy == "skip" { counts("fixture-local-memory", "", "on-error = \"skip\"") } else { job };
        let place = Place::new(&job);
        place.write_lines("input/a", ["a,1"]);
        for command in ["validate", "run"] {
            let ended = place.cofferdam(&[command, "job.toml"]);
            ended.ends_with(4).says(&["operator `counts` can only have `on-error = \"fail\"`", "snapshot hook"]);
        }
        assert!(!place.path("checkpoints").exists() || place.manifests(1).is_empty());
    }
}

/// Lines pass through an operator that tells of its life in the log.
fn life(source: &str, config: &str) -> JobFile {
    JobFile::new("20ms")
        .source("lines", &format!("type = \"file\"\npath = \"input\"\n{source}"))
        .operator("life", "fixture-life", &["lines"], &format!("config = {{ {config} }}\nlimits = {{ log-lines = 100000 }}"))
        .file_sink("out", &["life"])
}

fn place_of_life(source: &str, config: &str) -> Place {
    let place = Place::new(&life(source, config));
    place.write_lines("input/a", (0..20_000).map(|number| format!("line {number}")));
    place
}

/// What a subtask of the operator has told of its life, in order.
pub fn told(stderr: &str, subtask: u16) -> Vec<&str> {
    let told = stderr.lines().filter_map(|line| line.split_once(&format!("life {subtask}: ")));
    told.map(|(_, told)| told.split(" operator=").next().unwrap_or_default()).collect()
}

/// How many elements each of the lists has, over all subtasks, in the newest checkpoint.
fn elements(place: &Place) -> BTreeMap<String, u64> {
    let manifest = place.manifests(1).pop().expect("a checkpoint");
    let mut elements = BTreeMap::new();
    for file in manifest.json["operators"][0]["operator-state"].as_array().expect("operator state") {
        let path = place.run_dir(1).join(file["path"].as_str().expect("a path"));
        let inspected = place.cofferdam(&["inspect", path.to_str().unwrap(), "--output", "json"]).succeeds().json();
        assert_eq!((&inspected["file"], &inspected["operator"]), (&"operator-state-file".into(), &"life".into()), "{inspected}");
        for state in inspected["states"].as_array().expect("states") {
            let count = state["elements"].as_u64().expect("a number");
            *elements.entry(state["name"].as_str().expect("a name").to_owned()).or_default() += count;
        }
    }
    elements
}

/// The hooks are called in their order: the commit is told after it, the close comes last and once.
#[test]
fn an_operator_lives_from_open_to_close() {
    let place = place_of_life("rate = 100000", "");
    let ended = place.run(&["-p", "2", "--log", "info"]).succeeds();
    let last = place.manifests(1).pop().unwrap().checkpoint;
    for subtask in 0..2 {
        let told = told(&ended.stderr, subtask);
        let (first, rest) = told.split_first().expect("it was opened");
        let (close, rest) = rest.split_last().expect("it was closed");
        assert_eq!((*first, *close), ("restored false with []", "close"), "{}", ended.stderr);
        let each = |what: &'static str| (1..=last).map(move |number| format!("{what} {number}"));
        let (barriers, commits): (Vec<&str>, Vec<&str>) = rest.iter().partition(|told| told.starts_with("barrier "));
        assert_eq!(barriers, each("barrier").collect::<Vec<_>>());
        assert_eq!(commits, each("complete").collect::<Vec<_>>(), "the last commit is told too");
        let place = |text: &str| rest.iter().position(|told| *told == text);
        assert!(each("barrier").zip(each("complete")).all(|(barrier, commit)| place(&barrier) < place(&commit)), "{rest:?}");
    }
    // One of the first subtask for each barrier.
    assert_eq!(elements(&place), BTreeMap::from([("checkpoints".into(), last), ("names".into(), 2)]));
}

#[test]
fn an_operator_is_closed_when_the_job_is_stopped_or_fails() {
    let place = place_of_life("rate = 2000", "");
    let mut running = place.start(&["-p", "1", "--log", "info"]);
    running.wait_until("a commit", || place.newest(1) > 0);
    running.signal("INT");
    let ended = running.wait().ends_with(130);
    let last = place.manifests(1).pop().unwrap().checkpoint;
    let (before, after) = ended.stderr.split_once(&format!("life 0: complete {last}")).expect("the commit of the stop is told");
    assert!(after.contains("life 0: close") && !before.contains("close"), "{}", ended.stderr);

    let place = place_of_life("rate = 2000", "fails_at = 2");
    let ended = place.run(&["-p", "2", "--log", "info"]).ends_with(1);
    let ended =
        ended.says(&["operator `life`, subtask ", "its snapshot hook, for checkpoint 2: failed: no more checkpoints", "life 0: close"]);
    assert!(ended.stderr.contains("life 1: close"));
    assert_eq!(elements(&place)["checkpoints"], 1, "nothing of the failed barrier is kept");
}

#[test]
fn a_hook_that_traps_fails_the_attempt_but_for_close() {
    let trap = |hook: &str| {
        let place = place_of_life("rate = 20000", &format!("panics = {hook:?}"));
        let ended = place.run(&["-p", "1"]);
        let newest = place.newest(1);
        (ended, newest)
    };
    let (ended, newest) = trap("snapshot");
    assert!(ended.stderr.contains("its snapshot hook, for checkpoint 1: panicked: "), "{}", ended.stderr);
    assert_eq!((ended.code(), newest), (Some(1), 0));
    let (ended, newest) = trap("checkpoint-complete");
    assert!(ended.stderr.contains("told that checkpoint 1 is complete: panicked: "), "{}", ended.stderr);
    assert_eq!(ended.code(), Some(1));
    assert!(newest >= 1);
    let (ended, _) = trap("close");
    assert!(ended.stderr.contains("its close hook: panicked: "), "{}", ended.stderr);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
}

/// Ten times killed and resumed, on other numbers of subtasks: no list grows by it, and every subtask sees the whole union.
#[test]
fn restores_do_not_multiply_what_nobody_writes() {
    let mut random = Random::new(3);
    let place = place_of_life("rate = 1000", "");
    kill_and_resume(&place, &mut random, 1, &["3"], |_| Moment::Checkpoints(2));
    assert_eq!(elements(&place)["names"], 3);
    for _ in 0..10 {
        kill_and_resume(&place, &mut random, 1, &["1", "2", "3", "4"], |random| Moment::Checkpoints(1 + random.below(3)));
        let found = elements(&place);
        assert_eq!(found["names"], 3);
        // A barrier that was not committed has left nothing.
        assert!(found["checkpoints"] <= place.newest(1), "{found:?}");
    }
    let mut running = place.start(&["-p", "4", "--log", "info"]);
    running.wait_for_stderr("life 3: restored true with [0of3 1of3 2of3]");
    running.kill();
}

/// Where each subtask makes its name its own, the next restart sees the names of the last, whatever their number was.
#[test]
fn a_union_list_has_what_the_subtasks_have_made_their_own() {
    let place = place_of_life("rate = 2000", "rename = true");
    let mut before = String::new();
    for parallelism in [2, 3, 3, 1] {
        let newest = place.newest(1);
        let mut running = place.start(&["-p", &parallelism.to_string(), "--log", "info"]);
        let restored = !before.is_empty();
        for subtask in 0..parallelism {
            running.wait_for_stderr(&format!("life {subtask}: restored {restored} with [{before}]"));
        }
        running.wait_until("a commit", || place.newest(1) > newest);
        running.kill();
        let names: Vec<String> = (0..parallelism).map(|subtask| format!("{subtask}of{parallelism}")).collect();
        before = names.join(" ");
    }
}

/// The files of operator state that a restore needs are checked as all others are.
#[test]
fn a_damaged_file_of_operator_state_is_named() {
    let place = place_of_life("rate = 2000", "");
    let mut running = place.start(&["-p", "1"]);
    running.wait_until("a commit", || place.newest(1) > 1);
    running.kill();
    let manifest = place.manifests(1).pop().unwrap();
    let file = &manifest.json["operators"][0]["operator-state"][0];
    let name = file["path"].as_str().unwrap();
    assert!(name.ends_with("/life-0.operator.state"), "{name}");
    let path = place.run_dir(1).join(name);
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (content, complaint) in [(&damaged[..], "is damaged"), (&whole[..whole.len() - 1], "bytes and should have")] {
        std::fs::write(&path, content).unwrap();
        place.run(&[]).ends_with(5).says(&["life-0.operator.state", complaint]);
    }
    std::fs::remove_file(&path).unwrap();
    place.run(&[]).ends_with(5).says(&["life-0.operator.state", "is missing"]);
    std::fs::write(&path, &whole).unwrap();
    place.set_job(&life("", ""));
    place.run(&["-p", "2"]).succeeds();
    let lines: Value = place.lines("out").len().into();
    assert_eq!(lines, 20_000);
}
