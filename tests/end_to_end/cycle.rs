//! The life of checkpoints, setting by setting.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{JobFile, Manifest, Moment, Place, Random, kill_and_resume, until};
use crate::sums;

const SOURCE: &str = "type = \"file\"\npath = \"input.txt\"\n";

/// The sums job with these settings of its checkpoints, and some lines of input.
fn place(settings: &str, rate: &str, input: &[String]) -> Place {
    let place = Place::new(&job(settings, rate));
    place.write_lines("input.txt", input);
    place
}

fn job(settings: &str, rate: &str) -> JobFile {
    sums::job(&format!("{SOURCE}{rate}")).checkpoint(&format!("{settings}\ndir = \"checkpoints\""))
}

fn text<'a>(manifest: &'a Manifest, field: &str) -> &'a str {
    manifest.json[field].as_str().unwrap_or_else(|| panic!("no {field} in {}", manifest.path.display()))
}

/// Milliseconds of the day in a text such as 2026-11-30T07:00:00.123Z.
fn millis(time: &str) -> i64 {
    let part = |range: std::ops::Range<usize>| time[range].parse::<i64>().expect("digits");
    ((part(11..13) * 60 + part(14..16)) * 60 + part(17..19)) * 1000 + part(20..23)
}

#[test]
fn as_many_are_kept_as_are_to_be_and_a_pause_lies_between_them() {
    let input = sums::input(&mut Random::new(31), 0, 20_000);
    let settings = "interval = \"1ms\"\nmin-pause = \"25ms\"\nnum-retained = 7";
    let place = place(settings, "rate = 2000", &input);
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("more checkpoints than are kept", || place.newest(1) >= 12);
    running.signal("INT");
    running.wait().ends_with(130);
    let manifests = place.manifests(1);
    assert_eq!(manifests.len(), 7);
    for [one, next] in manifests.array_windows().filter(|[_, next]| next.json["trigger"] == "interval") {
        let pause = (millis(text(next, "triggered")) - millis(text(one, "created"))).rem_euclid(86_400_000);
        assert!(pause >= 25, "{pause} ms between {} and {}", one.checkpoint, next.checkpoint);
    }
    place.set_job(&job(settings, ""));
    place.run(&["-p", "2"]).succeeds();
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn checkpoints_that_overlap_are_exact_through_kills() {
    let mut random = Random::new(32);
    let input = sums::input(&mut random, 0, 24_000);
    let settings = "interval = \"1ms\"\nmax-concurrent = 3\nnum-retained = 50";
    let place = place(settings, "rate = 3000", &input);
    kill_and_resume(&place, &mut random, 6, &["1", "2", "3"], |random| match random.below(4) {
        0 => Moment::Claimed,
        _ => Moment::Checkpoints(1 + random.below(12)),
    });
    place.set_job(&job(settings, ""));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    let manifests = place.manifests(1);
    // Of one attempt, since otherwise the first was given up.
    let pairs = manifests.array_windows().filter(|[one, next]| one.json["attempt"] == next.json["attempt"]);
    let overlap = pairs.filter(|[one, next]| text(next, "triggered") < text(one, "created")).count();
    println!("{overlap} of {} were triggered before the one before them was complete", manifests.len());
    assert!(overlap > 0);
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn state_files_are_packed_as_the_job_says_and_read_however_they_are() {
    let input = sums::input(&mut Random::new(33), 0, 8000);
    let place = place("interval = \"20ms\"\ncompression = \"none\"", "rate = 4000", &input);
    let packed = |place: &Place| -> BTreeSet<String> {
        let inspect = |file: &String| {
            let path = place.run_dir(1).join(file);
            let told = place.cofferdam(&["inspect", path.to_str().expect("a path"), "--output", "json"]).succeeds().json();
            told["compression"].as_str().expect("how it is packed").to_owned()
        };
        place.manifests(1).pop().expect("a checkpoint").state_files().iter().map(inspect).collect()
    };
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("some checkpoints", || place.newest(1) >= 3);
    running.signal("INT");
    running.wait().ends_with(130);
    assert_eq!(packed(&place), ["none".to_owned()].into());
    let newest = place.newest(1);
    place.set_job(&job("interval = \"20ms\"", "rate = 4000"));
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("some more checkpoints", || place.newest(1) >= newest + 3);
    running.kill();
    assert!(packed(&place).contains("lz4"));
    place.set_job(&job("interval = \"20ms\"\ncompression = \"lz4\"", ""));
    place.run(&["-p", "1"]).succeeds();
    sums::check(&place.lines("out"), &[input]);
}

/// A fast source beside an operator that does not come back from a record; both feed a sink, in which barriers align.
fn beside_a_stuck_one(settings: &str) -> Place {
    let job = JobFile::new("20ms")
        .checkpoint(&format!("interval = \"20ms\"\ntimeout = \"100ms\"\n{settings}"))
        .source("flood", "type = \"generator\"\nkind = \"words\"")
        .source("lines", "type = \"file\"\npath = \"input.txt\"")
        .operator("stuck", "fixture-misbehave", &["lines"], "config = { on = \"b\", how = \"loop\" }\nlimits = { time = \"5s\" }")
        .sink("seen", &["flood", "stuck"], "type = \"stdout\"");
    let place = Place::new(&job);
    place.write_lines("input.txt", ["a", "b"]);
    place
}

/// Far more than waits between the source and the screen at any time.
const MUCH: usize = 40 << 20;

#[test]
fn exactly_once_holds_back_what_is_ahead_of_the_barrier() {
    let place = beside_a_stuck_one("tolerable-failures = 8");
    let mut running = place.start(&["-p", "2"]);
    running.wait_for_stderr("degraded: checkpoint ");
    let seen = running.stdout_len();
    let ended = running.wait().ends_with(1);
    assert!(ended.stdout.len() < seen + MUCH, "{} bytes came after the first {seen}", ended.stdout.len() - seen);
}

#[test]
fn at_least_once_holds_nothing_back() {
    let place = beside_a_stuck_one("tolerable-failures = 1000000\nmode = \"at-least-once\"");
    let mut running = place.start(&["-p", "2"]);
    running.wait_for_stderr("degraded: checkpoint ");
    let (seen, newest) = (running.stdout_len(), place.newest(1));
    running.wait_for_stdout_beyond(seen + MUCH);
    running.kill();
    assert_eq!(place.newest(1), newest, "no checkpoint was complete meanwhile");
}

#[test]
fn at_least_once_doubles_only_after_a_failure_and_loses_nothing() {
    let mut random = Random::new(34);
    let input: Vec<Vec<String>> = (0..3).map(|file| sums::input(&mut random, file, 6000)).collect();
    let job = |rate: &str| {
        let source = format!("type = \"file\"\npath = \"input\"\n{rate}");
        sums::job(&source).checkpoint("interval = \"10ms\"\nmode = \"at-least-once\"\ndir = \"checkpoints\"")
    };
    let filled = |rate: &str| {
        let place = Place::new(&job(rate));
        input.iter().enumerate().for_each(|(number, lines)| place.write_lines(&format!("input/{number}.txt"), lines));
        place
    };
    let place = filled("");
    place.run(&["-p", "3"]).succeeds();
    sums::check(&place.lines("out"), &input);

    let place = filled("rate = 6000");
    kill_and_resume(&place, &mut random, 4, &["2", "3"], |random| Moment::Checkpoints(1 + random.below(10)));
    place.set_job(&job(""));
    place.run(&["-p", "2"]).succeeds();
    let numbers = |list: &str| list.split(';').map(str::to_owned).collect::<Vec<_>>();
    let found: Vec<String> = place.lines("out").iter().flat_map(|line| numbers(line.rsplit(',').next().expect("a list"))).collect();
    let expected: BTreeSet<&str> = input.iter().flatten().map(|line| line.split_once(',').expect("a pair").1).collect();
    let distinct: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(distinct, expected, "each number is there, once or more often");
    println!("{} of {} came again", found.len() - expected.len(), expected.len());
}

/// A record that takes long among many that don't; the sums job behind it.
fn with_a_slow_record(settings: &str, spins: u64, input: &[String]) -> JobFile {
    let slow = &input[input.len() / 8];
    // What comes after it is to last, however busy the machine is.
    let rate = if spins > 0 { "rate = 8000" } else { "" };
    JobFile::new("20ms")
        .checkpoint(&format!("{settings}\ndir = \"checkpoints\""))
        .source("lines", &format!("{SOURCE}{rate}"))
        .operator(
            "slow",
            "fixture-slow",
            &["lines"],
            &format!("config = {{ spins = {spins}, on = {slow:?} }}\nlimits = {{ time = \"1h\" }}"),
        )
        .operator("pairs", "fixture-pairs", &["slow"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .file_sink("out", &["totals"])
}

/// So many rounds take some seconds, on any machine.
const LONG: u64 = 15_000_000_000;

/// Whether one subtask of `slow` is named as late: either may have begun the file.
fn waits_for_the_slow_record(text: &str) -> bool {
    ["`slow` (subtask 0)", "`slow` (subtask 1)"].iter().any(|late| text.contains(late))
}

#[test]
fn a_checkpoint_that_takes_too_long_fails_the_attempt_and_names_who_is_late() {
    let input = sums::input(&mut Random::new(35), 0, 32_000);
    let place = Place::new(&with_a_slow_record("interval = \"20ms\"\ntimeout = \"400ms\"", LONG, &input));
    place.write_lines("input.txt", &input);
    // On a busy machine one may be late before that record.
    let ended = until("a checkpoint that waits for the slow record", || {
        let ended = place.run(&["-p", "2"]).ends_with(1).says(&["job `job`: checkpoint ", " has failed: it has taken ", "`timeout`"]);
        waits_for_the_slow_record(&ended.stderr).then_some(ended)
    });
    println!("{}", ended.stderr);
    place.set_job(&with_a_slow_record("interval = \"20ms\"", 0, &input));
    place.run(&["-p", "2"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn what_checkpoints_that_took_too_long_have_brought_is_in_the_next_one() {
    let input = sums::input(&mut Random::new(36), 0, 80_000);
    let settings = "interval = \"50ms\"\ntimeout = \"600ms\"\ntolerable-failures = 1000";
    let place = Place::new(&with_a_slow_record(settings, LONG, &input));
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2", "--output", "json"]);
    let late = |past: &Value| past["reason"].as_str().is_some_and(waits_for_the_slow_record);
    let mut failed: Vec<u64> = Vec::new();
    running.wait_until("a checkpoint after two that failed", || {
        let Some(newest) = place.manifests(1).pop() else { return false };
        let history = newest.json["history"].as_array().cloned().unwrap_or_default();
        failed = history.iter().filter(|past| late(past)).filter_map(|past| past["checkpoint"].as_u64()).collect();
        failed.len() >= 2
    });
    running.wait_for_stderr("healthy again: checkpoint ");
    let ended = running.kill().says(&["degraded: checkpoint ", "1000 are tolerated): it has taken ", "healthy again: checkpoint "]);
    println!("{}", ended.stderr);
    // Those that failed leave no manifest of their own.
    assert!(place.manifests(1).iter().all(|manifest| !failed.contains(&manifest.checkpoint)));

    let listed = place.cofferdam(&["checkpoints", "job.toml", "--output", "json"]).succeeds().json();
    let listed = listed["checkpoints"].as_array().expect("checkpoints");
    let told: Vec<u64> =
        listed.iter().filter(|one| late(one) && one["state"] == "failed").filter_map(|one| one["checkpoint"].as_u64()).collect();
    assert_eq!(told, failed);
    place.cofferdam(&["checkpoints", "job.toml"]).succeeds().stdout.lines().for_each(|line| println!("{line}"));

    place.set_job(&with_a_slow_record("interval = \"50ms\"", 0, &input));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    sums::check(&place.lines("out"), &[input]);
}

/// Of the failed checkpoints that are listed those that were late: attempt, number, and for which operators there are snapshots.
fn listed_as_late(place: &Place) -> Vec<(u64, u64, BTreeSet<String>)> {
    let listed = place.cofferdam(&["checkpoints", "job.toml", "--output", "json"]).succeeds().json();
    assert_eq!((&listed["broken"], &listed["foreign"]), (&serde_json::json!([]), &serde_json::json!([])));
    let checkpoints = listed["checkpoints"].as_array().expect("checkpoints").clone();
    let is_late =
        |one: &Value| one["state"] == "failed" && one["reason"].as_str().is_some_and(|reason| reason.contains("`timeout` is over"));
    let told = |one: &Value| {
        let parts = one["snapshots"].as_array().cloned().unwrap_or_default();
        let operators = parts.iter().filter_map(|part| part["operator"].as_str().map(str::to_owned)).collect();
        (one["attempt"].as_u64().expect("an attempt"), one["checkpoint"].as_u64().expect("a number"), operators)
    };
    checkpoints.iter().filter(|one| is_late(one)).map(told).collect()
}

#[test]
fn checkpoints_whose_failure_ends_the_job_are_listed_and_the_next_manifest_remembers_them() {
    let input = sums::input(&mut Random::new(37), 0, 8000);
    let settings = "interval = \"50ms\"\ntimeout = \"400ms\"\ntolerable-failures = 1";
    let place = Place::new(&with_a_slow_record(settings, LONG, &input));
    place.write_lines("input.txt", &input);
    let ended = place.run(&["-p", "2"]).ends_with(1).says(&["(2 have failed in a row, and `tolerable-failures` is 1)"]);
    println!("{}", ended.stderr);
    let late = listed_as_late(&place);
    assert!(late.len() >= 2, "{late:?}");
    let (_, number, _) = &late[late.len() - 1];
    assert!(ended.stderr.contains(&format!("checkpoint {number} has failed")));
    let text = place.cofferdam(&["checkpoints", "job.toml", "--checkpoint", &number.to_string()]).succeeds().stdout;
    assert!(text.contains("`timeout` is over") && text.contains("`slow`"), "{text}");
    place.cofferdam(&["checkpoints", "job.toml", "--checkpoint", "99999"]).ends_with(5).says(&["nothing is known of a checkpoint 99999"]);

    // Only the last checkpoint is taken then, so all of them are among those that it remembers.
    place.set_job(&with_a_slow_record("interval = \"1h\"", 0, &input));
    place.run(&["-p", "2"]).succeeds();
    let places = |late: &[(u64, u64, BTreeSet<String>)]| late.iter().map(|(attempt, number, _)| (*attempt, *number)).collect::<Vec<_>>();
    assert_eq!(places(&listed_as_late(&place)), places(&late));
    std::fs::remove_file(place.run_dir(1).join("failed.json")).expect("there is a note");
    assert_eq!(places(&listed_as_late(&place)), places(&late));
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn a_note_of_failed_checkpoints_that_is_broken_is_named_and_keeps_nobody_from_going_on() {
    let input = sums::input(&mut Random::new(38), 0, 2000);
    let place = place("interval = \"20ms\"", "rate = 2000", &input);
    let mut running = place.start(&[]);
    running.wait_until("a checkpoint", || place.newest(1) >= 1);
    running.kill();
    place.write("checkpoints/job/run-0001/failed.json", "{");
    place.run(&[]).succeeds().says(&["which checkpoints have failed before is not known"]);
    let text = place.cofferdam(&["checkpoints", "job.toml"]).succeeds().stdout;
    assert!(text.contains("broken: ") && text.contains("run-0001/failed.json: "), "{text}");
    sums::check(&place.lines("out"), &[input]);
}

/// Each takes as long as it says, however fast the machine is.
#[test]
fn a_record_that_takes_two_intervals_fails_fewer_checkpoints_in_a_row_than_are_tolerated() {
    let input = sums::input(&mut Random::new(39), 0, 4000);
    let settings = "interval = \"2s\"\ntimeout = \"1s\"\ntolerable-failures = 5";
    let slow = &input[input.len() / 2];
    let job = JobFile::new("20ms")
        .checkpoint(&format!("{settings}\ndir = \"checkpoints\""))
        .source("lines", &format!("{SOURCE}rate = 1000"))
        .operator("slow", "fixture-slow", &["lines"], &format!("config = {{ sleep = 4000, on = {slow:?} }}"))
        .operator("pairs", "fixture-pairs", &["slow"], "")
        .operator("totals", "fixture-sum", &["pairs"], "")
        .file_sink("out", &["totals"]);
    let place = Place::new(&job);
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2"]);
    running.wait_for_stderr("healthy again: checkpoint ");
    let ended = running.kill();
    let after = |text: &str| ended.stderr.split(text).nth(1).and_then(|rest| rest.split([' ', ',']).next()).expect("a word").to_owned();
    let healthy = after("healthy again: checkpoint ");
    let taken = ended.stderr.split("it has taken ").nth(1).and_then(|rest| rest.split(" so far").next()).expect("a time");
    assert!(humantime::parse_duration(taken).expect("a time") >= Duration::from_secs(1), "{taken}");
    assert!(waits_for_the_slow_record(&ended.stderr), "{}", ended.stderr);
    let failed = listed_as_late(&place).len();
    assert!((1..=5).contains(&failed), "{failed} failed\n{}", ended.stderr);

    // The next one holds what was written before the record, and what was read until its own barrier.
    let newest = place.manifests(1).pop().expect("a checkpoint");
    let position = newest.json["sources"][0]["splits"][0]["records"].as_u64().expect("a number of records");
    assert!(position > input.len() as u64 / 2, "{}", newest.json["sources"]);
    place.set_job(&with_a_slow_record("interval = \"1h\"", 0, &input));
    place.run(&["-p", "2", "-s", &healthy, "--allow-duplicates"]).succeeds().says(&[&format!("resuming run 1 from checkpoint {healthy} ")]);
    sums::check(&place.lines("out"), &[input]);
}
