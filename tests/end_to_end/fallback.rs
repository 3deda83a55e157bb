//! `--fallback`: where the newest checkpoint is damaged, the newest one that is whole is taken, if the user has said so.

use std::collections::BTreeSet;
use std::fs;

use crate::harness::{Manifest, Place, Random, until};
use crate::{runs, sums};

/// A job that publishes nothing before its end, stopped after some checkpoints, of which the kept ones have added state; from now on without
/// a limit of its rate.
fn stopped(input: &[String]) -> Place {
    let job = |rate: &str| sums::job(&format!("type = \"file\"\npath = \"input.txt\"\n{rate}"));
    until("checkpoints that have all added state", || {
        let place = Place::new(&job("rate = 4000"));
        place.write_lines("input.txt", input);
        let mut running = place.start(&["-p", "2"]);
        running.wait_until("some checkpoints", || place.newest(1) >= 5);
        running.signal("INT");
        running.wait().ends_with(130);
        place.set_job(&job(""));
        let kept = place.manifests(1);
        (!added(&kept[2..], &kept[1]).is_empty() && !added(&kept[1..], &kept[0]).is_empty()).then_some(place)
    })
}

/// The state files that all of these checkpoints need and the one before does not.
fn added(checkpoints: &[Manifest], before: &Manifest) -> BTreeSet<String> {
    let common = checkpoints.iter().map(Manifest::state_files).reduce(|one, other| &one & &other).expect("there is one");
    &common - &before.state_files()
}

/// Damages a manifest.
fn cut(manifest: &Manifest) {
    let bytes = fs::read(&manifest.path).unwrap();
    fs::write(&manifest.path, &bytes[..bytes.len() / 2]).unwrap();
}

/// Takes away a state file that all of these checkpoints need and the one before does not.
fn thin(place: &Place, checkpoints: &[Manifest], before: &Manifest) {
    let gone = added(checkpoints, before).pop_first().expect("they have added state");
    fs::remove_file(place.run_dir(1).join(gone)).unwrap();
}

#[test]
fn the_newest_whole_one_is_taken_where_nothing_is_published_past_it() {
    let input = sums::input(&mut Random::new(81), 0, 8000);
    type Damage = fn(&Place, &[Manifest]);
    let cases: [(&str, usize, Damage); 4] = [
        ("the newest manifest", 1, |_, kept| cut(&kept[2])),
        ("a file of the newest", 1, |place, kept| thin(place, &kept[2..], &kept[1])),
        ("the two newest", 0, |place, kept| {
            cut(&kept[2]);
            thin(place, &kept[1..2], &kept[0]);
        }),
        ("a file that both of the newest need", 0, |place, kept| thin(place, &kept[1..], &kept[0])),
    ];
    for (case, whole, damage) in cases {
        println!("{case}");
        let place = stopped(&input);
        let kept = place.manifests(1);
        damage(&place, &kept);
        place.run(&[]).ends_with(5).says(&["can't be restored", "`--fallback`"]);
        let resuming = format!("resuming run 1 from checkpoint {} ", kept[whole].checkpoint);
        let ended = place.run(&["--fallback", "-p", "1"]).succeeds();
        let ended = ended.says(&["falling back to the newest checkpoint that is whole: ", "can't be restored", &resuming]);
        assert!(!ended.stderr.contains("comes again"), "{}", ended.stderr);
        sums::check(&place.lines("out"), std::slice::from_ref(&input));
    }
}

#[test]
fn what_is_published_past_it_comes_again_only_if_that_is_accepted() {
    let place = runs::stopped();
    let kept = place.manifests(1);
    cut(&kept[2]);
    let visible = place.visible("out");
    let ended = place.run(&["--fallback"]).ends_with(5);
    ended.says(&[
        "the newest checkpoint can't be restored",
        &format!("checkpoint {} is not the newest", kept[1].checkpoint),
        "--allow-duplicates",
    ]);
    assert_eq!(place.visible("out"), visible);
    // Where the note of it is damaged as well, nobody knows.
    place.write("checkpoints/job/run-0001/published", "");
    place.run(&["--fallback"]).ends_with(5).says(&["--allow-duplicates"]);
    let resuming = format!("resuming run 1 from checkpoint {} ", kept[1].checkpoint);
    let ended = place.run(&["--fallback", "--allow-duplicates"]).succeeds();
    ended.says(&["falling back to the newest checkpoint that is whole: ", "newer ones have published comes again", &resuming]);
    runs::complete_with_duplicates(&place);
}

#[test]
fn a_host_falls_back_if_it_is_told_to() {
    let place = runs::stopped();
    cut(&place.manifests(1)[2]);
    let host = place.host();
    host.cofferdam(&["deploy", "job.toml"]).ends_with(5).says(&["can't be restored"]);
    host.cofferdam(&["deploy", "job.toml", "--fallback", "--allow-duplicates"]).succeeds();
    host.wait_for("job", "FINISHED");
    runs::complete_with_duplicates(&place);
}

#[test]
fn what_is_whole_is_not_fallen_back_from() {
    let input = sums::input(&mut Random::new(82), 0, 8000);
    let place = stopped(&input);
    let newest = place.newest(1);
    // It does not fit the job, and neither do older ones.
    let ended = |job: &str| {
        place.set_job(&sums::job("type = \"file\"\npath = \"input.txt\"").job(job));
        place.run(&["--fallback"])
    };
    ended("max-parallelism = 64").ends_with(5).says(&[&format!("checkpoint {newest} was taken with max-parallelism 128")]);
    let ended = ended("").succeeds().says(&[&format!("resuming run 1 from checkpoint {newest} ")]);
    assert!(!ended.stderr.contains("falling back"), "{}", ended.stderr);
    sums::check(&place.lines("out"), &[input]);
}
