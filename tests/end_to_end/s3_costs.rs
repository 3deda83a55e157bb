//! What a checkpoint costs in a bucket: requests follow what has changed, not what is kept.

use std::collections::BTreeMap;

use crate::harness::assert_lines;
use crate::harness::s3::{Bucket, Server};
use crate::{flights, harness::JobFile};

/// Over so many checkpoints requests are counted.
const COUNTED: u64 = 60;

/// Requests for a checkpoint in the mean, by kind, when as many are kept as `retained` says.
fn requests(retained: u64) -> BTreeMap<String, f64> {
    let server = Server::start();
    let bucket = &server.bucket;
    let job = |rate: &str| -> JobFile { flights::job(rate).checkpoint(&format!("num-retained = {retained}\n{}", bucket.settings("20ms"))) };
    let place = flights::place("");
    Bucket::give_credentials(&place);
    place.set_job(&job("rate = 1000"));
    let mut running = place.start(&["-p", "2"]);
    let mut counted_at = |checkpoint: u64| {
        running.wait_until("so many checkpoints", || server.kinds().get("PUT log").is_some_and(|&entries| entries > checkpoint));
        server.kinds()
    };
    // Some that are superseded are collected already.
    let begin = counted_at(retained + 10);
    let end = counted_at(retained + 10 + COUNTED);
    running.kill();
    place.set_job(&job(""));
    place.run(&[]).succeeds();
    assert_lines(place.lines("out"), flights::oracle(), "counted");
    let checkpoints = (end["PUT log"] - begin["PUT log"]) as f64;
    let mean = |(kind, count): (&String, &u64)| (kind.clone(), (count - begin.get(kind).unwrap_or(&0)) as f64 / checkpoints);
    let requests: BTreeMap<String, f64> = end.iter().map(mean).collect();
    println!("num-retained = {retained}: {:.1} requests for a checkpoint: {requests:.1?}", requests.values().sum::<f64>());
    requests
}

#[test]
fn requests_for_a_checkpoint_do_not_grow_with_how_many_are_kept() {
    for retained in [3, 100] {
        let requests = requests(retained);
        // What it takes to put state files, to merge them and to publish does not depend on what is kept, but on how much is done at once.
        let of = |kind: &str| requests.get(kind).copied().unwrap_or_default();
        assert!(of("PUT log") == 1.0, "{requests:?}");
        assert!(of("LIST") < 3.5, "whether there is a newer attempt, or run, and what has come since the last collection: {requests:?}");
        assert!(of("GET log") < 0.5, "what was written or read once is known: {requests:?}");
        assert!(of("POST objects") + of("DELETE log") + of("DELETE state") < 2.5, "many are deleted at once: {requests:?}");
    }
}
