//! A disk that is full: the job fails with a clear error, and goes on exactly once there is room. Needs to mount a small file system.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{JobFile, Place, Random, assert_lines, until};
use crate::sums;

/// A small file system, unmounted when dropped.
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts one with room for some KiB. None, with the reason printed, where that is not allowed.
    pub fn mount(path: PathBuf, room: usize) -> Option<Disk> {
        fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "cofferdam-test"]).arg(&path).output();
        match mounted {
            Ok(output) if output.status.success() => {
                let ballast = (4 << 20) - (room << 10);
                fs::write(path.join("ballast"), vec![0; ballast]).unwrap();
                Some(Disk(path))
            }
            Ok(output) => {
                println!("skipped, no file system can be mounted: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                println!("skipped, there is no `mount`: {error}");
                None
            }
        }
    }

    /// Makes it read-only, or writable again. Files that are just being written put that off.
    fn remount(&self, how: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{how}")]).arg(&self.0);
        until(how, || mount.output().expect("it was mounted by the same").status.success().then_some(()));
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

const SOURCE: &str = "type = \"file\"\npath = \"input.txt\"\n";

#[test]
fn no_room_for_checkpoints() {
    let input = sums::input(&mut Random::new(13), 0, 60_000);
    let place = Place::new(&sums::job(&format!("{SOURCE}rate = 20000")));
    let Some(disk) = Disk::mount(place.path("checkpoints"), 200) else { return };
    place.write_lines("input.txt", &input);
    let ended = place.run(&["-p", "2"]).ends_with(6).says(&["checkpoints", "can't be written: No space left on device"]);
    println!("{}", ended.stderr);
    // It says so again, and harms nothing.
    place.set_job(&sums::job(SOURCE));
    place.run(&[]).ends_with(6).says(&["No space left on device"]);
    disk.make_room();
    place.run(&[]).succeeds().says(&["resuming run 1 from checkpoint "]);
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn no_room_for_checkpoints_is_waited_out_where_failures_are_tolerated() {
    let input = sums::input(&mut Random::new(14), 0, 60_000);
    let job = sums::job(&format!("{SOURCE}rate = 20000"));
    let place = Place::new(&job.checkpoint("interval = \"40ms\"\ntolerable-failures = 1000\ndir = \"checkpoints\""));
    let Some(disk) = Disk::mount(place.path("checkpoints"), 200) else { return };
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2", "--output", "json"]);
    running.wait_for_stderr("degraded: checkpoint ");
    disk.make_room();
    let ended = running.wait().succeeds().says(&["No space left on device", "healthy again: checkpoint "]);
    println!("{}", ended.stderr);
    assert_eq!(ended.json()["failures"], serde_json::json!([]));
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn a_file_system_that_is_read_only_for_a_while_degrades_the_job_and_costs_nothing() {
    let input = sums::input(&mut Random::new(15), 0, 40_000);
    let job = sums::job(&format!("{SOURCE}rate = 8000"));
    let place = Place::new(&job.checkpoint("interval = \"40ms\"\ntolerable-failures = 1000\ndir = \"checkpoints\""));
    let Some(disk) = Disk::mount(place.path("checkpoints"), 3 << 10) else { return };
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2", "--output", "json"]);
    running.wait_until("some checkpoints", || place.newest(1) >= 3);
    disk.remount("ro");
    running.wait_for_stderr("degraded: checkpoint ");
    let newest = place.newest(1);
    disk.remount("rw");
    running.wait_for_stderr("healthy again: checkpoint ");
    let ended = running.wait().succeeds().says(&["Read-only file system"]);
    println!("{}", ended.stderr);
    assert_eq!(ended.json()["failures"], serde_json::json!([]));
    assert!(place.newest(1) > newest);
    sums::check(&place.lines("out"), &[input]);
}

#[test]
fn attempts_without_room_for_output_follow_each_other_until_there_is_some() {
    let restart = "strategy = \"fixed-delay\"\nattempts = 1000000\ndelay = \"10ms\"";
    let source = format!("{SOURCE}rate = 20000");
    let place = Place::new(&JobFile::new("20ms").restart(restart).source("lines", &source).file_sink("out", &["lines"]));
    let Some(disk) = Disk::mount(place.path("out"), 200) else { return };
    let input: Vec<String> = (0..20_000).map(|number| format!("{number:050}")).collect();
    place.write_lines("input.txt", &input);
    let mut running = place.start(&["-p", "2", "--output", "json"]);
    running.wait_for_stderr("attempt 2 has failed, another follows in 10ms: sink `out`");
    disk.make_room();
    let ended = running.wait().succeeds();
    let summary = ended.json();
    let (failures, count) = (summary["failures"].as_array().expect("failures"), summary["failed-attempts"].as_u64());
    assert!(count >= Some(2) && failures.len() as u64 == count.unwrap_or(0).min(20), "{summary}");
    assert!(failures.iter().all(|failed| failed["error"].as_str().is_some_and(|error| error.contains("No space left"))), "{summary}");
    assert_lines(place.lines("out"), input, "in the same process");
}

#[test]
fn no_room_for_output() {
    let job = |rate: &str| JobFile::new("20ms").source("lines", &format!("{SOURCE}{rate}")).file_sink("out", &["lines"]);
    let place = Place::new(&job("rate = 20000"));
    let Some(disk) = Disk::mount(place.path("out"), 200) else { return };
    let input: Vec<String> = (0..20_000).map(|number| format!("{number:050}")).collect();
    place.write_lines("input.txt", &input);
    let ended = place.run(&[]).ends_with(6).says(&["sink `out`", "out/.staging", "No space left on device", "make room"]);
    println!("{}", ended.stderr);
    place.set_job(&job(""));
    place.run(&[]).ends_with(6).says(&["No space left on device"]);
    disk.make_room();
    place.run(&[]).succeeds().says(&["resuming run 1 from checkpoint "]);
    assert_lines(place.lines("out"), input, "after room was made");
}
