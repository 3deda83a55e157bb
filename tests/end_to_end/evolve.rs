//! A component whose state's types change: state is migrated at a restore, automatically or by the component's functions, on any
//! parallelism and through kills; where there is no way, the restore is refused and nothing is touched.

use std::collections::BTreeMap;
use std::fs;

use crate::broken_job::refused;
use crate::harness::{JobFile, Manifest, Moment, Place, Random, kill_and_resume};
use crate::misfit::rewrite;
use crate::sums;

const REMAINDERS: u64 = 3;

/// How many subtasks there are before the first checkpoint.
const FIRST: &[&str] = &["2"];

/// Lines `key,number` and rules `name,number` go through a version of the operator.
pub fn job(version: &str, rates: [&str; 2]) -> JobFile {
    let file = |path: &str, rate: &str| format!("type = \"file\"\npath = {path:?}\n{rate}");
    JobFile::new("40ms")
        .source("lines", &file("input.txt", rates[0]))
        .source("rules", &file("rules.txt", rates[1]))
        .operator("pairs", "fixture-pairs", &["lines"], "")
        .operator_with_ports("evolve", &format!("fixture-evolve-{version}"), &[("numbers", &["pairs"]), ("rules", &["rules"])], "")
        .file_sink("out", &["evolve"])
}

const SLOW: [&str; 2] = ["rate = 1000", "rate = 50"];
pub const FAST: [&str; 2] = ["", ""];

fn place(input: &[String]) -> Place {
    let place = Place::new(&job("v1", SLOW));
    place.write_lines("input.txt", input);
    place.write_lines("rules.txt", rules());
    place
}

pub fn rules() -> Vec<String> {
    (0..3000).map(|number| format!("rule-{},{number}", number % 7)).collect()
}

/// How many lines, and how many rules, had been read in a checkpoint.
pub fn position_in(manifest: &Manifest) -> [usize; 2] {
    [0, 1].map(|source: usize| manifest.json["sources"][source]["splits"][0]["records"].as_u64().expect("a number") as usize)
}

/// How many had been in the newest one.
pub fn position(place: &Place) -> [usize; 2] {
    position_in(&place.manifests(1).pop().expect("a checkpoint"))
}

/// What a version has seen of numbers.
#[derive(Clone, Default)]
struct Seen {
    sum: u64,
    count: u64,
    greatest: Option<u64>,
    since: Option<&'static str>,
}

impl Seen {
    fn add(&mut self, number: u64, version: &str) {
        self.sum += number;
        self.count += 1;
        if version != "v1" {
            self.greatest = self.greatest.max(Some(number));
        }
        if version == "v3" {
            self.since.get_or_insert("v3");
        }
    }

    fn told(&self) -> String {
        let greatest = self.greatest.map_or("-".into(), |number| number.to_string());
        format!("{}/{}/{greatest}/{}", self.count, self.sum, self.since.unwrap_or("-"))
    }
}

/// A number as a version writes it.
fn written(number: u64, version: &str) -> String {
    if version.starts_with("v2") { format!("{number}:{}", 2 * number) } else { number.to_string() }
}

/// What there is of a key, or of what belongs to no key.
#[derive(Default)]
struct OfKey {
    seen: Seen,
    by: BTreeMap<String, Seen>,
    numbers: Vec<String>,
}

impl OfKey {
    /// The next version takes over.
    fn becomes(&mut self, version: &str) {
        for seen in self.by.values_mut().chain([&mut self.seen]) {
            seen.since = (version == "v3").then_some("v2");
        }
        if version == "v2-back" {
            self.numbers.iter_mut().for_each(|number| number.truncate(number.find(':').unwrap_or(number.len())));
        }
    }

    fn told_by(&self) -> String {
        self.by.iter().map(|(name, seen)| format!("{name}={}", seen.told())).collect::<Vec<_>>().join(";")
    }
}

/// Checks the lines at the end. Each version has worked on the lines and rules from where the one before it ended up to a place.
#[track_caller]
pub fn check(lines: &[String], input: &[String], versions: &[(&str, [usize; 2])]) {
    let rules = rules();
    let mut keys: BTreeMap<&str, OfKey> = BTreeMap::new();
    let mut all = OfKey { numbers: (0..2).map(|subtask| written(subtask, versions[0].0)).collect(), ..OfKey::default() };
    let mut start = [0; 2];
    for &(version, end) in versions {
        keys.values_mut().chain([&mut all]).for_each(|of_key| of_key.becomes(version));
        for rule in &rules[start[1]..end[1]] {
            let (name, number) = rule.split_once(',').expect("a rule");
            all.by.entry(name.into()).or_default().add(number.parse().expect("a number"), version);
        }
        for line in &input[start[0]..end[0]] {
            let (key, number) = line.split_once(',').expect("a pair");
            let of_key = keys.entry(key).or_default();
            let value: u64 = number.parse().expect("a number");
            of_key.seen.add(value, version);
            of_key.by.entry((value % REMAINDERS).to_string()).or_default().add(value, version);
            of_key.numbers.push(written(value, version));
        }
        start = end;
    }
    assert_eq!((start, lines.len()), ([input.len(), rules.len()], keys.len()), "each key has a line");
    let mut locals = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let of_key = &keys[fields[0]];
        let numbers = &of_key.numbers;
        let expected = [&of_key.seen.told(), &of_key.told_by(), &numbers.join(";"), numbers.last().expect("one")];
        assert_eq!(fields[1..5], expected, "{}", fields[0]);
        assert_eq!(fields[7..], [all.told_by(), all.numbers.join(";")], "rules and first subtasks, of subtask {}", fields[5]);
        locals.insert(fields[5], fields[6].parse::<usize>().expect("a number"));
    }
    assert_eq!(locals.values().sum::<usize>(), input.len(), "counts of the subtasks: {locals:?}");
}

/// The versions of the states of the operator in all files that a checkpoint names.
fn versions_in_files(place: &Place, manifest: &Manifest) -> Vec<u64> {
    let operators = manifest.json["operators"].as_array().expect("operators");
    let evolve = operators.iter().find(|operator| operator["uid"] == "evolve").expect("the operator");
    let mut versions = Vec::new();
    for file in ["files", "operator-state"].iter().flat_map(|kind| evolve[kind].as_array().cloned().unwrap_or_default()) {
        let path = place.run_dir(1).join(file["path"].as_str().expect("a path"));
        let inspected = place.cofferdam(&["inspect", path.to_str().unwrap(), "--output", "json"]).succeeds().json();
        versions.extend(inspected["states"].as_array().expect("states").iter().map(|state| state["version"].as_u64().expect("a version")));
    }
    versions.sort_unstable();
    versions.dedup();
    versions
}

fn some_checkpoints(random: &mut Random) -> Moment {
    Moment::Checkpoints(1 + random.below(3))
}

/// Killed, and then stopped once files have been merged, with one of some parallelisms. Returns how far it came.
fn work(place: &Place, random: &mut Random, version: &str, parallelisms: &[&str]) -> [usize; 2] {
    place.set_job(&job(version, SLOW));
    kill_and_resume(place, random, 2, parallelisms, some_checkpoints);
    let newest = place.newest(1);
    let parallelism = *random.pick(parallelisms);
    let mut running = place.start(&["-p", parallelism]);
    running.wait_until("more checkpoints than files are kept unmerged", || place.newest(1) > newest + 12);
    running.signal("INT");
    let ended = running.wait().ends_with(130);
    assert!(!ended.stderr.contains("could not be merged"), "{}", ended.stderr);
    position(place)
}

#[test]
fn state_goes_from_version_to_version_and_back_exactly() {
    let mut random = Random::new(41);
    let input = sums::input(&mut random, 0, 60_000);
    let place = place(&input);
    kill_and_resume(&place, &mut random, 1, FIRST, |_| Moment::Checkpoints(1));
    let v1 = work(&place, &mut random, "v1", &["1", "2"]);

    // Killed before it has a checkpoint of its own, it begins again from that of version 1.
    place.set_job(&job("v2", SLOW).checkpoint("dir = \"checkpoints\""));
    let newest = place.newest(1);
    let mut running = place.start(&["-p", "3", "--log", "info"]);
    for state in ["locals", "rules", "first"] {
        running.wait_for_stderr(&format!("of state `{state}` of operator `evolve` from version 1 to 2 in "));
    }
    running.wait_for_stderr("resuming run");
    running.kill();
    assert_eq!(place.newest(1), newest);

    place.set_job(&job("v2", SLOW));
    kill_and_resume(&place, &mut random, 1, &["3"], |_| Moment::Checkpoints(1));
    let first = place.manifests(1).into_iter().find(|manifest| manifest.checkpoint > newest).expect("a checkpoint of version 2");
    assert_eq!(versions_in_files(&place, &first), [2], "nothing of version 1 is named any more");
    let v2 = work(&place, &mut random, "v2", &["2", "3"]);
    work(&place, &mut random, "v3", &["1", "2"]);
    assert_eq!(versions_in_files(&place, &place.manifests(1).pop().unwrap()), [3]);

    // Without a way back it is refused, and version 3 goes on.
    place.set_job(&job("v2", SLOW));
    let schema = "postcard:{sum:i64,count:u64,greatest:option<u64>,since:text} (version 3) in the checkpoint";
    let words = [
        "job `job`: operator `evolve`: state `seen` has schema",
        schema,
        "postcard:{greatest:option<u64>,count:u64,sum:u64} (version 2) in the component: field `sum`: i64 → u64, field `since` is missing",
        "the component has no migration for it: asked for one, it failed: only added optional fields need no code, and field `sum` was i64",
        "can still be restored with the component that wrote it",
    ];
    refused(&place, &["-p", "2"], 5, "checkpoint", &words);
    let v3 = work(&place, &mut random, "v3", &["3"]);
    let back = work(&place, &mut random, "v2-back", &["3", "4"]);
    let end = [input.len(), rules().len()];
    for [one, next] in [v1, v2, v3, back, end].array_windows() {
        assert!(one[0] < next[0] && one[1] < next[1], "all versions have worked: {:?}", (v1, v2, v3, back));
    }

    place.set_job(&job("v3", FAST));
    place.run(&["-p", "2"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    check(&place.lines("out"), &input, &[("v1", v1), ("v2", v2), ("v3", v3), ("v2-back", back), ("v3", end)]);
}

#[test]
fn state_on_disk_goes_from_version_to_version_exactly() {
    let mut random = Random::new(43);
    let input = sums::input(&mut random, 0, 60_000);
    let place = place(&input);
    let on_disk = |version: &str, rates: [&str; 2]| job(version, rates).state("backend = \"disk\"\nmemory = \"64KiB\"");
    place.set_job(&on_disk("v1", SLOW));
    kill_and_resume(&place, &mut random, 2, FIRST, some_checkpoints);
    let migrated = position(&place);
    place.set_job(&on_disk("v2", SLOW));
    kill_and_resume(&place, &mut random, 2, &["2", "3"], some_checkpoints);
    place.set_job(&on_disk("v2", FAST));
    place.run(&["-p", "3"]).succeeds();
    check(&place.lines("out"), &input, &[("v1", migrated), ("v2", [input.len(), rules().len()])]);
}

/// The checkpoint stays what it was until there is a newer one, also when it was brought from another run.
#[test]
fn a_migration_that_leaves_no_checkpoint_leaves_no_trace() {
    let mut random = Random::new(42);
    let input = sums::input(&mut random, 0, 8000);
    let place = place(&input);
    kill_and_resume(&place, &mut random, 1, FIRST, |_| Moment::Checkpoints(3));
    let newest = place.manifests(1).pop().unwrap();
    let without_checkpoints = |version: &str| job(version, SLOW).checkpoint("dir = \"checkpoints\"");
    let kill_after_migration = |place: &Place, args: &[&str]| {
        place.set_job(&without_checkpoints("v2"));
        let mut running = place.start(&[args, &["--log", "info"]].concat());
        running.wait_for_stderr("resuming run");
        running.kill().says(&["of state `seen` of operator `evolve` from version 1 to 2 in "]);
    };
    for parallelism in ["1", "3"] {
        kill_after_migration(&place, &["-p", parallelism]);
    }
    assert_eq!(place.newest(1), newest.checkpoint);
    let elsewhere = place.copy();
    place.set_job(&job("v1", FAST));
    place.run(&["-p", "2"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    let end = [input.len(), rules().len()];
    check(&place.lines("out"), &input, &[("v1", end)]);

    // Into a run of its own, which takes nothing over of what it will not name.
    let manifest = elsewhere.manifests(1).pop().unwrap().path;
    fs::remove_dir_all(place.path("checkpoints")).unwrap();
    fs::remove_dir_all(place.path("out")).unwrap();
    kill_after_migration(&place, &["-s", manifest.to_str().unwrap()]);
    let state = place.state_files(1);
    assert!(state.iter().all(|file| file.contains("/pairs")), "{state:?}");
    place.set_job(&job("v2", FAST));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    check(&place.lines("out"), &input, &[("v1", position(&elsewhere)), ("v2", end)]);
}

#[test]
fn a_value_that_can_not_be_migrated_is_named_and_nothing_is_touched() {
    let mut random = Random::new(43);
    let mut input = sums::input(&mut random, 0, 3000);
    input.insert(100, "with one too large,5".into());
    input.insert(200, "with one too large,3000000000000000000".into());
    let place = place(&input);
    place.set_job(&job("v2", SLOW));
    let mut running = place.start(&["-p", FIRST[0]]);
    running.wait_until("both are in a checkpoint", || !place.manifests(1).is_empty() && position(&place)[0] > 200);
    running.signal("INT");
    running.wait().ends_with(130);
    place.set_job(&job("v3", FAST));
    let words = [
        "operator `evolve`: state `numbers`: migrating the value of key `with one too large` from version 2 to 3, the component failed: \
         3000000000000000000 is too large",
        "mend the component's migration",
    ];
    refused(&place, &[], 5, "checkpoint", &words);
    refused(&place, &["-p", "1"], 5, "checkpoint", &words);
    let end = position(&place);
    place.set_job(&job("v2", FAST));
    place.run(&["-p", "3"]).succeeds();
    check(&place.lines("out"), &input, &[("v2", end), ("v2", [input.len(), rules().len()])]);
}

/// As if the component that wrote the checkpoint had declared something else.
#[test]
fn what_no_migration_can_change_is_refused_with_what_differs() {
    let mut random = Random::new(44);
    let place = place(&sums::input(&mut random, 0, 3000));
    kill_and_resume(&place, &mut random, 1, &["2"], |_| Moment::Checkpoints(1));
    place.set_job(&job("v2", FAST));
    for (old, new, words) in [
        (
            "\"key-schema\": \"text\"",
            "\"key-schema\": \"u64\"",
            "its state has keys of schema u64 in the checkpoint and text in the component",
        ),
        ("\"field-schema\": \"u64\"", "\"field-schema\": \"u8\"", "state `by_remainder` has fields of schema u8 in the checkpoint and u64"),
        ("\"kind\": \"map\"", "\"kind\": \"list\"", "state `by_remainder` is of kind list in the checkpoint and map in the component"),
        ("\"ttl\": {", "\"tll\": {", "state `last` has no time to live in the checkpoint and a time to live in the component"),
        (
            "{sum:u64,",
            "{sum:u64",
            "asked for one, it failed: only added optional fields need no code, and the old schema can't be read: at byte 13",
        ),
        ("{sum:u64,", "{sum:i64,", "field `sum`: i64 → u64"),
    ] {
        let place = place.copy();
        rewrite(&place.manifests(1).pop().unwrap(), old, new);
        refused(&place, &[], 5, "checkpoint", &["operator `evolve`", words, "--fresh"]);
    }
}
