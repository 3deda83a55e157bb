//! A bucket that is slow, throttles, loses requests and answers, or is not fit to keep checkpoints: what can be waited for is waited
//! for, what can't be known is found out, and what is wrong is said.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use serde_json::Value;

use crate::flights;
use crate::harness::s3::{Bucket, Fault, Moto, Request, SECRET, Server};
use crate::harness::{Manifest, Random, Running, assert_lines};
use crate::s3::{job, place};

/// Settings that shorten what a test would have to wait for.
const IMPATIENT: &str = "request-timeout = \"400ms\"\n";

fn impatient(bucket: &Bucket, rate: &str) -> crate::harness::JobFile {
    flights::job(rate).checkpoint(&format!("{}{IMPATIENT}", bucket.settings("40ms")))
}

/// How long every other request is throttled.
const THROTTLED: Duration = Duration::from_secs(20);

/// Every other request is throttled for a while, and some are slow, break off or are answered to nobody. Meanwhile the job is killed, and
/// then survives it.
#[test]
fn throttled_slow_and_lost_requests_delay_a_job_and_change_nothing() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = place(bucket, "");
    // There is input left when the throttling ends.
    place.set_job(&impatient(bucket, "rate = 500"));
    let (random, first) = (Mutex::new(Random::new(32)), Once::new());
    let is_over = Arc::<AtomicBool>::default();
    let ends = Arc::clone(&is_over);
    server.misbehaves(move |request| {
        first.call_once(|| {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || {
                std::thread::sleep(THROTTLED);
                ends.store(true, SeqCst);
            });
        });
        if request.number.is_multiple_of(2) && !ends.load(SeqCst) {
            return Some(Fault::Refused(503));
        }
        match random.lock().ok()?.below(50) {
            0..10 => Some(Fault::Slow),
            10..14 => Some(Fault::Cut),
            14..17 => Some(Fault::Unheard),
            17..19 if request.method == "PUT" => Some(Fault::Silence),
            _ => None,
        }
    });
    let start_and_commit = || {
        let newest = bucket.newest(1);
        let mut running = place.start(&["-p", "2"]);
        running.wait_until("a checkpoint", || bucket.newest(1) > newest);
        running
    };
    for _ in 0..2 {
        start_and_commit().kill();
    }
    let mut running = start_and_commit();
    running.wait_until("the end of the throttling", || is_over.load(SeqCst));
    let newest = bucket.newest(1);
    running.wait_until("a checkpoint after it", || bucket.newest(1) > newest);
    running.kill();
    place.set_job(&impatient(bucket, ""));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), flights::oracle(), "through all faults");
    let throttled = server.faults().iter().filter(|fault| fault.starts_with("Refused(503)")).count();
    assert!(throttled >= 50, "{:?}", server.faults());
    server.misbehaves(|_| None);
    // What could not be deleted is deleted later; a finished job leaves it. So only what is named must be there.
    for manifest in bucket.manifests(1) {
        assert!(manifest.state_files().is_subset(&bucket.files(1)), "{}", manifest.path.display());
    }
}

/// No failure is tolerated here, so that a job which goes on has had none.
#[test]
fn throttling_delays_a_checkpoint_and_fails_it_only_at_its_timeout() {
    let server = Server::start();
    let bucket = &server.bucket;
    // There is input left whatever the pauses between tries come to: the last checkpoint knows no timeout.
    let slowly = "rate = 500";
    let place = place(bucket, slowly);
    let mut running = place.start(&[]);
    running.wait_until("a checkpoint", || bucket.newest(1) >= 1);
    let throttles = AtomicUsize::new(8);
    let less = |left: usize| left.checked_sub(1);
    server.misbehaves(move |_| throttles.fetch_update(SeqCst, SeqCst, less).is_ok().then_some(Fault::Refused(503)));
    running.wait_until("the end of the throttling", || server.faults().len() >= 8);
    let newest = bucket.newest(1);
    running.wait_until("the next checkpoint", || bucket.newest(1) > newest);
    running.kill();

    let settings = format!("timeout = \"1s\"\n{}retry-timeout = \"1m\"\n", bucket.settings("40ms"));
    place.set_job(&flights::job(slowly).checkpoint(&settings));
    server.misbehaves(|request| (request.method == "PUT" && request.key.contains("/state/")).then_some(Fault::Refused(503)));
    place.run(&[]).ends_with(1).says(&["its `timeout` is over", "`delays`", "a slow store"]);
    server.misbehaves(|_| None);
    place.set_job(&job(bucket, ""));
    place.run(&[]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_lines(place.lines("out"), flights::oracle(), "after the throttling");
}

/// Within the time that a checkpoint may take neither would be found out without the setting that says how long it is waited or tried.
#[test]
fn a_request_is_waited_for_and_tried_as_long_as_is_set() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = place(bucket, "");
    let writes_state = |request: &Request| request.method == "PUT" && request.key.contains("/state/");
    let settings = |lines: &str| format!("{lines}\n{}", bucket.settings("40ms"));
    place.set_job(&flights::job("rate = 500").checkpoint(&(settings("timeout = \"20s\"") + "request-timeout = \"300ms\"\n")));
    let seen = Mutex::new(BTreeSet::new());
    server.misbehaves(move |request| (writes_state(request) && seen.lock().ok()?.insert(request.key.clone())).then_some(Fault::Silence));
    let mut running = place.start(&[]);
    running.wait_until("checkpoints of which each first put stays without an answer", || bucket.newest(1) >= 2);
    running.kill();

    place.set_job(&flights::job("rate = 500").checkpoint(&(settings("timeout = \"1h\"") + "retry-timeout = \"300ms\"\n")));
    server.misbehaves(move |request| writes_state(request).then_some(Fault::Refused(503)));
    place.run(&[]).ends_with(6).says(&["checkpoint ", " has failed: ", "bucket/check/points/job/run-0001/state/", "503", "SlowDown"]);
}

/// Each request takes as long as three intervals. What is measured of a checkpoint tells so.
#[test]
fn a_store_slower_than_the_interval_only_delays_checkpoints() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = place(bucket, "");
    let at = |rate: &str| flights::job(rate).checkpoint(&bucket.settings("10ms"));
    place.set_job(&at("rate = 2000"));
    server.misbehaves(|_| Some(Fault::Slow));
    let mut random = Random::new(34);
    for _ in 0..3 {
        let newest = bucket.newest(1);
        let mut running = place.start(&["-p", *random.pick(&["1", "2", "3"])]);
        running.wait_until("checkpoints", || bucket.newest(1) >= newest + 4);
        let ended = running.kill();
        assert!(!ended.stderr.contains("degraded"), "{}", ended.stderr);
    }
    let measured = bucket.manifests(1);
    let parts: Vec<&Value> = measured.iter().flat_map(|manifest| manifest.json["snapshots"].as_array().expect("parts")).collect();
    let number = |json: &Value, field: &str| json[field].as_u64().unwrap_or_else(|| panic!("no {field} in {json}"));
    let written: Vec<&Value> = parts.iter().copied().filter(|part| number(part, "files") > 0).collect();
    assert!(!written.is_empty() && written.iter().all(|part| number(part, "upload-ms") >= 30), "{written:?}");
    let sum = |field: &str| written.iter().map(|part| number(part, field)).sum::<u64>();
    assert!(sum("froze-us") < 1000 * sum("upload-ms"), "{written:?}");
    let mut with_files = measured.iter().filter(|manifest| number(&manifest.json, "new-bytes") > 0);
    assert!(with_files.all(|manifest| number(&manifest.json, "duration-ms") >= 30));
    place.set_job(&at(""));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), flights::oracle(), "with a slow store");
    bucket.holds_only_what_is_needed();
}

/// The first put of each entry of the log and of each state file happens although nobody hears of it or the answer says the contrary, or
/// is refused because of another one at the same time.
#[test]
fn what_became_of_a_put_is_found_out() {
    for fault in [Fault::Silence, Fault::Unheard, Fault::Denied(503), Fault::Refused(409)] {
        let server = Server::start();
        let bucket = &server.bucket;
        let place = place(bucket, "");
        place.set_job(&impatient(bucket, "").checkpoint(&format!("{}{IMPATIENT}", bucket.settings("1h"))));
        let seen = Mutex::new(BTreeSet::new());
        server.misbehaves(move |request| {
            let first = request.method == "PUT" && request.key.contains("run-0001/") && seen.lock().ok()?.insert(request.key.clone());
            first.then_some(fault)
        });
        place.run(&[]).succeeds();
        assert_lines(place.lines("out"), flights::oracle(), &format!("{fault:?}"));
        let log: Vec<String> = bucket.files(1).into_iter().filter(|file| file.starts_with("log/")).collect();
        assert_eq!(log.len(), 2, "a claim and a checkpoint, {fault:?}: {log:?}");
        assert!(server.faults().len() >= 4, "{:?}", server.faults());
    }
}

/// A merge that waits for the bucket keeps no job from its end; and when its file arrives after that, it does no harm.
#[test]
fn a_stop_does_not_wait_for_a_merge_that_the_bucket_does_not_answer() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = place(bucket, "");
    let patient = format!("{}request-timeout = \"1h\"\n", bucket.settings("40ms"));
    place.set_job(&flights::job("rate = 500").checkpoint(&patient));
    server.misbehaves(|request| (request.method == "PUT" && request.key.contains(".merged.")).then_some(Fault::Held));
    let mut running = place.start(&[]);
    running.wait_until("a merge", || server.waiting() > 0);
    running.signal("INT");
    running.wait().ends_with(130);
    server.misbehaves(|_| None);
    server.let_go();
    place.set_job(&job(bucket, ""));
    place.run(&[]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_lines(place.lines("out"), flights::oracle(), "after a merge that came to nothing");
}

#[test]
fn a_listing_that_says_not_found_is_not_taken_for_an_empty_one() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = place(bucket, "rate = 1000");
    let mut running = place.start(&[]);
    running.wait_until("a checkpoint", || bucket.newest(1) >= 1 && place.lines("out").len() >= 4);
    running.kill();
    let before = bucket.keys();
    place.set_job(&job(bucket, ""));
    for part in ["run-0001/log", "run-0001", "job/"] {
        server.misbehaves(move |request| request.lists(part).then_some(Fault::Refused(404)));
        place.run(&[]).ends_with(6).says(&["s3://bucket/check/points/job"]);
        assert_eq!(bucket.keys(), before, "nothing has changed, {part}");
    }
    server.misbehaves(|_| None);
    place.run(&[]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_lines(place.lines("out"), flights::oracle(), "as if nothing had been");
}

/// A job lists its log at each commit, and at its first collection all that there is.
#[test]
fn nor_is_one_while_a_job_commits_and_collects() {
    let server = Server::start();
    let bucket = &server.bucket;
    let place = place(bucket, "");
    place.set_job(&flights::job("rate = 500").checkpoint(&format!("tolerable-failures = 1000\n{}", bucket.settings("40ms"))));
    let all_is_there = || {
        // What is named may go with its manifest between two looks.
        let has_gone = |manifest: &Manifest| bucket.manifests(1).iter().all(|kept| kept.checkpoint != manifest.checkpoint);
        bucket.manifests(1).iter().all(|manifest| manifest.state_files().is_subset(&bucket.files(1)) || has_gone(manifest))
    };
    // First of what there is in all, without which nothing is deleted, and then also of the log, without which nothing is committed.
    server.misbehaves(|request| (request.lists("run-0001") && !request.lists("/log")).then_some(Fault::Refused(404)));
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("commits", || bucket.newest(1) >= 5);
    assert!(all_is_there() && bucket.manifests(1).len() >= 5, "nothing is deleted");
    server.misbehaves(|_| None);
    running.wait_until("collections", || bucket.newest(1) >= 10 && bucket.manifests(1).len() <= 4);
    let before = server.faults().len();
    server.misbehaves(|request| request.lists("run-0001").then_some(Fault::Refused(404)));
    running.wait_for_stderr("degraded: checkpoint ");
    running.wait_until("tries", || server.faults().len() >= before + 3);
    assert!(all_is_there());
    server.misbehaves(|_| None);
    running.wait_for_stderr("healthy again: checkpoint ");
    let newest = bucket.newest(1);
    running.wait_until("commits", || bucket.newest(1) >= newest + 5);
    running.kill();
    place.set_job(&job(bucket, ""));
    place.run(&["-p", "1"]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_lines(place.lines("out"), flights::oracle(), "as if nothing had been");
    bucket.holds_only_what_is_needed();
}

/// A key that is not to be told either, although it opens nothing.
const WRONG: &str = "je7MtGbClwBF-this-is-secret-as-well";

#[test]
fn a_bucket_that_cannot_be_used_is_refused_with_what_to_change() {
    let server = Server::start();
    let place = place(&server.bucket, "");
    let settings = server.bucket.settings("40ms") + "retry-timeout = \"300ms\"\n";
    let refused = |settings: &str, says: &[&str]| {
        place.set_job(&flights::job("").checkpoint(settings));
        // All that any library has to say.
        let ended = place.run(&["--log", "trace,cofferdam=trace"]).ends_with(6).says(says);
        let is_told = |secret: &str| ended.stderr.contains(secret) || ended.stdout.contains(secret);
        assert!(!is_told(SECRET) && !is_told(WRONG), "a secret is told: {}", ended.stderr);
        assert_eq!(server.bucket.keys(), BTreeSet::new(), "nothing is left there");
    };
    let moto = Moto::start();
    for settings in [&settings, &settings.replace(&server.bucket.address.to_string(), &moto.bucket.address.to_string())] {
        refused(&settings.replace("s3://bucket", "s3://nothing"), &["bucket `nothing`", "404", "NoSuchBucket", "create the bucket"]);
    }
    server.misbehaves(|_| Some(Fault::Overwrites));
    refused(&settings, &["bucket `bucket`", "lets a put go through where something is", "If-None-Match", "`[checkpoint] dir`"]);
    server.misbehaves(|request| (request.method == "PUT").then_some(Fault::Refused(501)));
    refused(&settings, &["bucket `bucket`", "501", "If-None-Match"]);
    // It may be read only.
    server.misbehaves(|request| (request.method == "PUT").then_some(Fault::Refused(403)));
    refused(&settings, &["bucket `bucket`", "403", "list, read, write and delete"]);
    server.misbehaves(|_| None);
    // Nobody there has the one, and the other is not that one's.
    for (access, secret, code) in [("other", SECRET, "InvalidAccessKeyId"), ("test", WRONG, "SignatureDoesNotMatch")] {
        place.write("credentials", format!("[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n"));
        refused(&settings, &["bucket `bucket`", "403", code, "`profile` and `credentials-file` below `[checkpoint]`"]);
    }
    refused(&format!("{settings}profile = \"none\"\n"), &["credentials has no key of profile `none`"]);
    // Nobody listens at this port, since nobody may.
    let unreachable = settings.replace(&server.bucket.address.to_string(), "127.0.0.1:1");
    refused(&unreachable, &["bucket `bucket`", "refused", "endpoint"]);
}

#[test]
fn a_bucket_that_deletes_one_object_at_a_time_serves_once_that_is_said() {
    let server = Server::start();
    let place = place(&server.bucket, "");
    server.misbehaves(|request| request.query.contains_key("delete").then_some(Fault::Refused(501)));
    place.run(&[]).ends_with(6).says(&["bucket `bucket`", "501", "AWS_DISABLE_BULK_DELETE=true"]);
    let probe = server.bucket.keys();
    let mut command = place.command(&["run", "job.toml"]);
    command.env("AWS_DISABLE_BULK_DELETE", "true");
    Running::start(command).wait().succeeds();
    assert_lines(place.lines("out"), flights::oracle(), "one at a time");
    let left: BTreeSet<String> = server.bucket.keys().into_iter().filter(|key| key.contains("probe")).collect();
    assert_eq!(left, probe, "of the first start, which could not delete it");
}

#[test]
fn a_system_without_certificates_reaches_what_needs_none_and_says_what_is_missing_for_the_rest() {
    let server = Server::start();
    let place = place(&server.bucket, "");
    let run = || {
        let mut command = place.command(&["run", "job.toml"]);
        command.env("SSL_CERT_FILE", place.path("nothing")).env("SSL_CERT_DIR", place.path("nothing"));
        Running::start(command).wait()
    };
    run().succeeds();
    assert_lines(place.lines("out"), flights::oracle(), "over http");
    let encrypted = server.bucket.settings("40ms").replace("http://", "https://").replace("allow-http = true\n", "");
    place.set_job(&flights::job("").checkpoint(&encrypted));
    run().ends_with(6).says(&["bucket `bucket`", "certificate", "SSL_CERT_FILE"]);
}
