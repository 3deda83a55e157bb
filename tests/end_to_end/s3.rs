//! Checkpoints in a bucket: everything that holds on a disk holds there, with servers of S3 that others have written and with our own.

use crate::flights;
use crate::harness::s3::{Bucket, Fault, GOOGLE_ACCOUNT, GOOGLE_TOKEN, Moto, Request, SECRET, Server, give_google_credentials};
use crate::harness::{JobFile, Manifest, Place, Random, Running, assert_lines};
use crate::sums;

/// The account of the containers of Azure, and its key.
const AZURE_ACCOUNT: &str = "account = \"test\"\n";
const AZURE_KEY: (&str, &str) = ("AZURE_STORAGE_ACCOUNT_KEY", "dGhpcyBpcyBhIGtleQ==");

/// The flights job with checkpoints in a bucket.
pub fn place(bucket: &Bucket, rate: &str) -> Place {
    let place = flights::place("");
    Bucket::give_credentials(&place);
    place.set_job(&job(bucket, rate));
    place
}

pub fn job(bucket: &Bucket, rate: &str) -> JobFile {
    flights::job(rate).checkpoint(&bucket.settings("40ms"))
}

/// Kills the job again and again while it runs, lets it go on to its end, and compares.
fn kill_and_go_on(bucket: &Bucket, place: &Place, random: &mut Random, kills: usize) {
    for kill in 1..=kills {
        let more = 1 + random.below(3);
        println!("kill {kill}: after {more} checkpoints");
        let newest = bucket.newest(1);
        let mut running = place.start(&["-p", *random.pick(&["1", "2", "3"])]);
        running.wait_until("checkpoints", || bucket.newest(1) >= newest + more);
        running.kill();
    }
    place.set_job(&job(bucket, ""));
    let summary = place.run(&["--output", "json"]).succeeds().json();
    assert_eq!(summary["attempt"]["attempt"], kills + 1, "{summary}");
    assert_lines(place.lines("out"), flights::oracle(), "killed and resumed");
    bucket.holds_only_what_is_needed();
    assert!(!place.path("checkpoints").exists() && !place.path("s3:").exists(), "nothing on the disk");
}

#[test]
fn a_job_with_its_checkpoints_in_moto_is_exact_through_kills() {
    let moto = Moto::start();
    kill_and_go_on(&moto.bucket, &place(&moto.bucket, "rate = 400"), &mut Random::new(31), 3);
}

#[test]
fn a_second_process_takes_over_in_a_bucket() {
    let server = Server::start();
    // Where each answer takes its time, a claim has to be faster than the next commit.
    server.misbehaves(|_| Some(Fault::Slow));
    for bucket in [&server.bucket, &Moto::start().bucket] {
        is_taken_over(bucket);
    }
}

fn is_taken_over(bucket: &Bucket) {
    let place = place(bucket, "rate = 1000");
    let mut first = place.start(&["-p", "2"]);
    first.wait_until("the first lines", || place.lines("out").len() >= 4);
    let mut sleeper = place.start(&[]);
    sleeper.wait_until("a commit of its own", || bucket.manifests(1).iter().any(|manifest| manifest.json["attempt"]["attempt"] == 2));
    first.wait().ends_with(7).says(&["attempt 2 of job `job`, run 1, has taken over"]);
    sleeper.signal("STOP");
    place.set_job(&job(bucket, ""));
    place.run(&["-p", "3"]).succeeds().says(&["resuming run 1 from checkpoint ", "(attempt 3)"]);
    let (visible, newest) = (place.visible("out"), bucket.manifests(1).pop().unwrap().path);
    sleeper.signal("CONT");
    sleeper.wait().ends_with(7).says(&["attempt 3 of job `job`, run 1, has taken over"]);
    assert_eq!(place.visible("out"), visible, "the sleeper has published nothing");
    assert_eq!(bucket.manifests(1).pop().unwrap().path, newest, "the sleeper has committed nothing that counts");
    assert_lines(place.lines("out"), flights::oracle(), "all attempts together");
}

#[test]
fn a_checkpoint_is_looked_into_and_begun_from_by_its_url() {
    let server = Server::start();
    let bucket = &server.bucket;
    let there = place(bucket, "rate = 1000");
    let mut running = there.start(&[]);
    running.wait_until("lines and a checkpoint", || bucket.newest(1) >= 2 && there.lines("out").len() >= 4);
    running.signal("INT");
    running.wait().ends_with(130);
    let manifest = bucket.manifests(1).pop().unwrap();
    let url = manifest.path.to_string_lossy().into_owned();

    // Without a job file the environment says how the bucket is reached.
    let inspect = |url: &str| {
        let mut command = there.command(&["inspect", url, "--output", "json"]);
        command.env("AWS_ENDPOINT_URL", format!("http://{}", bucket.address)).env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", SECRET);
        Running::start(command).wait()
    };
    assert_eq!(inspect(&url).succeeds().json()["checkpoint"], manifest.checkpoint);
    let state = manifest.state_files().pop_first().expect("it has state");
    let run = url.split_once("/log/").expect("it lies in the log").0;
    assert_eq!(inspect(&format!("{run}/{state}")).succeeds().json()["file"], "state-file");
    inspect(&format!("{run}/log/nothing.json")).ends_with(6);

    // The same job at another place of the bucket begins from there, and what it began from is told by the same URL.
    let here = place(bucket, "");
    here.set_job(&flights::job("").checkpoint(&bucket.settings("40ms").replace("check/points", "elsewhere")));
    here.run(&["-s", &url]).succeeds().says(&["resuming run 1 from checkpoint"]);
    assert_lines([there.lines("out"), here.lines("out")].concat(), flights::oracle(), "there and here");
    let last = bucket.keys().into_iter().rfind(|key| key.starts_with("elsewhere/job/run-0001/log/")).expect("a checkpoint");
    let last: serde_json::Value = serde_json::from_slice(&bucket.get(&last).unwrap()).unwrap();
    assert_eq!(last["origin"], url, "{last}");
    here.run(&["-s", "s3://bucket/check/points/job"]).ends_with(6);
}

/// Kills and resumes the flights job with checkpoints in a bucket of another service than Amazon's.
fn serves_as_well(place: &Place, service: &str, lines: &str, environment: Option<(&str, &str)>) {
    let server = Server::start();
    let bucket = &server.bucket;
    let settings = bucket.settings_of(service, lines, "40ms");
    let start = |rate: &str| {
        place.set_job(&flights::job(rate).checkpoint(&settings));
        let mut command = place.command(&["run", "job.toml"]);
        command.envs(environment);
        Running::start(command)
    };
    let mut running = start("rate = 400");
    running.wait_until("checkpoints", || bucket.newest(1) >= 5);
    running.kill();
    start("").wait().succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_lines(place.lines("out"), flights::oracle(), "killed and resumed");
    bucket.holds_only_what_is_needed();
}

#[test]
fn a_bucket_of_google_serves_as_well() {
    serves_as_well(&flights::place(""), "gs", "", Some(("GOOGLE_BEARER_TOKEN", GOOGLE_TOKEN)));
}

#[test]
fn and_so_it_does_with_a_file_of_an_accounts_credentials() {
    let place = flights::place("");
    give_google_credentials(&place, "google.json", GOOGLE_ACCOUNT);
    serves_as_well(&place, "gs", "credentials-file = \"google.json\"\n", None);

    let server = Server::start();
    give_google_credentials(&place, "google.json", "nobody@example.test");
    place.set_job(&flights::job("").checkpoint(&server.bucket.settings_of("gs", "credentials-file = \"google.json\"\n", "40ms")));
    let ended = place.run(&["--log", "trace,cofferdam=trace"]).ends_with(6).says(&["bucket `bucket`", "403", "`credentials-file`"]);
    assert!(!ended.stderr.contains("PRIVATE KEY"), "{}", ended.stderr);
}

#[test]
fn a_container_of_azure_serves_as_well() {
    serves_as_well(&flights::place(""), "az", AZURE_ACCOUNT, Some(AZURE_KEY));
}

/// Large state is written and read back although parts get lost, and words that they are whole, and answers break off in the midst. Requests
/// with a part, and those which say that all have come, are told by `is_part` and `completes`.
fn is_written_in_parts(server: &Server, settings: &str, is_part: fn(&Request) -> bool, completes: fn(&Request) -> bool) {
    let mut random = Random::new(33);
    let keys: Vec<String> = (0..1500).map(|_| (0..500).map(|_| format!("{:016x}", random.below(u64::MAX))).collect()).collect();
    let input: Vec<String> = (0..8000).map(|number| format!("{},{number}", keys[number * 7 % keys.len()])).collect();
    let source = "type = \"file\"\npath = \"input.txt\"\n";
    let job = |rate: &str| sums::job(&format!("{source}{rate}")).checkpoint(settings);
    let place = Place::new(&job("rate = 1000"));
    Bucket::give_credentials(&place);
    place.write_lines("input.txt", &input);
    server.misbehaves(move |request| match request.number % 2 == 1 {
        true if is_part(request) => Some(Fault::Cut),
        true if completes(request) => Some(Fault::Unheard),
        true if request.method == "GET" && request.key.ends_with(".state") => Some(Fault::Cut),
        _ => None,
    });
    let start = |args: &[&str]| {
        let mut command = place.command(&[&["run", "job.toml"], args].concat());
        command.env(AZURE_KEY.0, AZURE_KEY.1);
        Running::start(command)
    };
    let mut running = start(&[]);
    let is_large = |file: &serde_json::Value| file["bytes"].as_u64() > Some(8 << 20);
    let has_large = |manifest: &Manifest| {
        let operators = manifest.json["operators"].as_array().into_iter().flatten();
        operators.flat_map(|operator| operator["files"].as_array().into_iter().flatten()).any(is_large)
    };
    running.wait_until("a checkpoint with a large file", || server.bucket.manifests(1).iter().any(has_large));
    running.signal("INT");
    running.wait().ends_with(130);
    place.set_job(&job(""));
    start(&["-p", "2"]).wait().succeeds().says(&["resuming run 1 from checkpoint "]);
    sums::check(&place.lines("out"), &[input]);
    let faults = server.faults();
    for fault in ["Cut PUT", "Unheard", "Cut GET"] {
        assert!(faults.iter().any(|told| told.starts_with(fault)), "{fault}: {faults:?}");
    }
}

/// Until the first checkpoint there is time for a thousand keys, and after it for their upload.
const TIME_FOR_MUCH: &str = "1s";

#[test]
fn large_state_is_written_in_parts_and_read_whole() {
    let server = Server::start();
    let is_part = |request: &Request| request.query.get("partNumber").is_some_and(|part| part == "1" || part == "2");
    let completes = |request: &Request| request.method == "POST" && request.query.contains_key("uploadId");
    is_written_in_parts(&server, &server.bucket.settings(TIME_FOR_MUCH), is_part, completes);
    assert_eq!(server.open_uploads(), 0, "every upload is ended");
}

#[test]
fn so_it_is_in_a_container_of_azure() {
    let server = Server::start();
    let is_block = |request: &Request| request.query.get("comp").is_some_and(|comp| comp == "block");
    let completes = |request: &Request| request.query.get("comp").is_some_and(|comp| comp == "blocklist");
    let settings = server.bucket.settings_of("az", AZURE_ACCOUNT, TIME_FOR_MUCH);
    is_written_in_parts(&server, &settings, is_block, completes);
}
