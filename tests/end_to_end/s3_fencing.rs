//! A process that is stopped in the midst of a commit, and goes on when another has taken over: it commits and publishes nothing more,
//! and says who has. Neither does a put that is still on its way when its process has died.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::flights;
use crate::harness::s3::{Fault, Server};
use crate::harness::{Place, Running, assert_lines};
use crate::s3::place;

/// What becomes of the slot that the older process is about to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Whoever takes over has put its claim there, and commits once.
    Taken,
    /// Whoever takes over has committed often since and keeps its newest checkpoint only, so nothing is there any more.
    Emptied,
}

/// Starts the job, and waits until a put to a key with `part` in it is held as `fault` says. Returns that key.
fn start_and_hold(server: &Server, place: &Place, fault: Fault, part: &'static str) -> (Running, String) {
    let mut running = place.start(&["-p", "2"]);
    running.wait_until("the first lines", || place.lines("out").len() >= 4);
    let armed = AtomicBool::new(true);
    server.misbehaves(move |request| {
        let is_meant = request.method == "PUT" && request.key.contains(part);
        (is_meant && armed.swap(false, SeqCst)).then_some(fault)
    });
    running.wait_until("the put", || server.waiting() == 1);
    let told = server.faults().pop().expect("it is told");
    (running, told.rsplit(' ').next().expect("a key").to_owned())
}

/// Sets the job of whoever takes over.
fn set_newer(server: &Server, place: &Place, slot: Slot) {
    let (rate, settings) = match slot {
        Slot::Taken => ("", server.bucket.settings("1h")),
        Slot::Emptied => ("rate = 20000", format!("num-retained = 1\n{}", server.bucket.settings("20ms"))),
    };
    place.set_job(&flights::job(rate).checkpoint(&settings));
}

/// Stops a process while a put of its commit is held, has another take over and come to its end, and lets both go on.
fn is_stopped_at(fault: Fault, part: &'static str, slot: Slot) {
    println!("{fault:?} {part}, {slot:?}");
    let server = Server::start();
    let bucket = &server.bucket;
    let place = place(bucket, "rate = 1000");
    let (older, key) = start_and_hold(&server, &place, fault, part);
    older.signal("STOP");
    let newest = bucket.newest(1);
    set_newer(&server, &place, slot);
    place.run(&["-p", "3"]).succeeds().says(&[&format!("resuming run 1 from checkpoint {newest} of"), "(attempt 2)"]);
    let is_there = bucket.keys().contains(&key);
    assert_eq!(is_there, slot == Slot::Taken || !part.contains("log"), "{key}");
    let (visible, newest) = (place.visible("out"), bucket.manifests(1).pop().expect("it has finished").path);

    server.let_go();
    older.signal("CONT");
    older.wait().ends_with(7).says(&["attempt 2 of job `job`, run 1, has taken over"]);
    assert_eq!(place.visible("out"), visible, "the older one has published nothing more");
    assert_eq!(bucket.manifests(1).pop().expect("as before").path, newest, "the older one has committed nothing that counts");
    assert_lines(place.lines("out"), flights::oracle(), "both together");
    // Nor does the next one see anything of it, also if readers have taken away what they found: there is nothing left to do.
    visible.keys().for_each(|name| std::fs::remove_file(place.path("out").join(name)).expect("it is there"));
    place.run(&[]).succeeds().says(&["starting run 2"]);
}

#[test]
fn a_process_stopped_before_its_manifest_is_there_commits_nothing_any_more() {
    is_stopped_at(Fault::Held, "/log/", Slot::Taken);
    is_stopped_at(Fault::Held, "/log/", Slot::Emptied);
}

#[test]
fn a_process_stopped_before_it_hears_of_its_commit_publishes_nothing_any_more() {
    is_stopped_at(Fault::Unanswered, "/log/", Slot::Taken);
    is_stopped_at(Fault::Unanswered, "/log/", Slot::Emptied);
}

#[test]
fn a_process_stopped_between_its_commit_and_its_publication_publishes_nothing_twice() {
    is_stopped_at(Fault::Held, "/published", Slot::Taken);
    is_stopped_at(Fault::Held, "/published", Slot::Emptied);
}

/// The process has died, and its put comes while another one, which has taken over, runs.
#[test]
fn a_manifest_that_arrives_after_the_death_of_its_process_does_no_harm() {
    for slot in [Slot::Taken, Slot::Emptied] {
        let server = Server::start();
        let bucket = &server.bucket;
        let place = place(bucket, "rate = 1000");
        let (older, key) = start_and_hold(&server, &place, Fault::Held, "/log/");
        older.kill();
        set_newer(&server, &place, slot);
        let mut newer = place.start(&["-p", "3"]);
        newer.wait_until("what becomes of the slot", || match slot {
            Slot::Taken => bucket.keys().contains(&key),
            Slot::Emptied => {
                bucket.manifests(1).iter().any(|manifest| manifest.json["attempt"]["attempt"] == 2) && !bucket.keys().contains(&key)
            }
        });
        let there = bucket.get(&key);
        server.let_go();
        if slot == Slot::Taken {
            assert_eq!(bucket.get(&key), there, "the claim is as it was");
        }
        newer.wait().succeeds();
        assert_lines(place.lines("out"), flights::oracle(), "both together");
        assert_eq!(bucket.keys().contains(&key), slot == Slot::Taken, "what came to an empty slot is deleted");
        place.run(&[]).succeeds().says(&["starting run 2"]);
    }
}
