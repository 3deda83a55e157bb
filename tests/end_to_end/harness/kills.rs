//! Kills a job with `kill -9` again and again, and lets it go on.

use super::place::names;
use super::{Place, Random};

/// When to kill, counted from where the job stood when it was started.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// The attempt has claimed the run.
    Claimed,
    /// So many checkpoints more have been committed.
    Checkpoints(u64),
    /// So many lines more are visible in the sink `out`.
    Lines(u64),
    /// A file is being written for the sink `out`, or waits for its checkpoint.
    Unpublished,
}

/// Starts the job `kills` times, kills it each time at a moment that `draw` draws, and resumes it with one of `parallelisms`, as drawn.
/// The job must be too long to end in between. Its run is the first.
pub fn kill_and_resume(place: &Place, random: &mut Random, kills: usize, parallelisms: &[&str], draw: fn(&mut Random) -> Moment) {
    for kill in 1..=kills {
        let (moment, parallelism) = (draw(random), *random.pick(parallelisms));
        println!("kill {kill}: -p {parallelism}, at {moment:?}");
        let visible = || place.lines("out").len() as u64;
        let (slot, newest, lines) = (place.last_slot(1), place.newest(1), visible());
        let mut running = place.start(&["-p", parallelism]);
        running.wait_until("the moment to kill", || match moment {
            Moment::Claimed => place.last_slot(1) > slot,
            Moment::Checkpoints(more) => place.newest(1) >= newest + more,
            Moment::Lines(more) => visible() >= lines + more,
            // What older attempts have left is cleared away after the claim, at last by the first file of this one.
            Moment::Unpublished => place.last_slot(1) > slot && !names(&place.path("out/.staging")).is_empty(),
        });
        running.kill();
    }
}
