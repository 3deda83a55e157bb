//! Checkpoints in a bucket: everything that holds on a disk holds there, with servers of S3 that others have written and with our own.

use crate::flights;
use crate::harness::s3::{Bucket, Fault, Moto, SECRET, Server};
use crate::harness::{JobFile, Place, Random, Running, assert_lines};
use crate::sums;

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
    kill_and_go_on(&moto.bucket, &place(&moto.bucket, "rate = 4000"), &mut Random::new(31), 3);
}

#[test]
fn a_second_process_takes_over_in_a_bucket() {
    let server = Server::start();
    let bucket = &server.bucket;
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

#[test]
fn a_bucket_of_google_serves_as_well() {
    let server = Server::start();
    let bucket = &server.bucket;
    let settings = format!(
        "interval = \"40ms\"\ndir = \"gs://bucket/check/points\"\n\n[checkpoint.gs]\nendpoint = \"http://{}\"\nallow-http = true",
        bucket.address
    );
    let place = flights::place("");
    let start = |rate: &str| {
        place.set_job(&flights::job(rate).checkpoint(&settings));
        let mut command = place.command(&["run", "job.toml"]);
        command.env("GOOGLE_BEARER_TOKEN", "Credential=test/");
        Running::start(command)
    };
    let mut running = start("rate = 4000");
    running.wait_until("a checkpoint", || bucket.newest(1) >= 2);
    running.kill();
    start("").wait().succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_lines(place.lines("out"), flights::oracle(), "killed and resumed");
    bucket.holds_only_what_is_needed();
}

/// State of several parts' size, of which some get lost, as does the word that they are whole; and it is read back although answers break
/// off.
#[test]
fn large_state_is_written_in_parts_and_read_whole() {
    let mut random = Random::new(33);
    let keys: Vec<String> = (0..1500).map(|_| (0..500).map(|_| format!("{:016x}", random.below(u64::MAX))).collect()).collect();
    let input: Vec<String> = (0..3000).map(|number| format!("{},{number}", keys[number * 7 % keys.len()])).collect();
    let server = Server::start();
    let source = "type = \"file\"\npath = \"input.txt\"\n";
    let job = |rate: &str| sums::job(&format!("{source}{rate}")).checkpoint(&server.bucket.settings("300ms"));
    let place = Place::new(&job("rate = 2000"));
    Bucket::give_credentials(&place);
    place.write_lines("input.txt", &input);
    server.misbehaves(|request| {
        let part = request.query.get("partNumber").map(String::as_str);
        let completes = request.method == "POST" && request.query.contains_key("uploadId");
        let odd = request.number % 2 == 1;
        match (request.method.as_str(), part) {
            ("PUT", Some("1" | "2")) if odd => Some(Fault::Cut),
            ("POST", None) if completes && odd => Some(Fault::Unheard),
            ("GET", None) if request.key.ends_with(".state") && odd => Some(Fault::Cut),
            _ => None,
        }
    });
    let mut running = place.start(&[]);
    running.wait_until("a checkpoint", || server.bucket.newest(1) >= 1);
    running.signal("INT");
    running.wait().ends_with(130);
    let largest = server.bucket.manifests(1).pop().unwrap().json["total-bytes"].as_u64();
    assert!(largest > Some(16 << 20), "{largest:?}");
    place.set_job(&job(""));
    place.run(&["-p", "2"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    sums::check(&place.lines("out"), &[input]);
    let faults = server.faults();
    for fault in ["Cut PUT", "Unheard POST", "Cut GET"] {
        assert!(faults.iter().any(|told| told.starts_with(fault)), "{fault}: {faults:?}");
    }
    assert_eq!(server.open_uploads(), 0, "every upload is ended");
}
