//! The life of checkpoints, minute by minute.

use super::*;
use crate::clock;

const SECOND: Duration = Duration::from_secs(1);

/// A cycle, and the clock that it sees, in seconds since its start.
struct Life {
    cycle: Cycle,
    start: Instant,
}

/// With a checkpoint each 10 seconds, which may take 30, and some other settings.
fn life(change: fn(&mut CheckpointSettings)) -> Life {
    let mut settings = CheckpointSettings::new(std::path::PathBuf::from("/c").into());
    (settings.interval, settings.timeout) = (Some(SECOND * 10), SECOND * 30);
    change(&mut settings);
    let start = clock::now();
    Life { cycle: Cycle::new(settings, start, None, Streak::default()), start }
}

impl Life {
    fn at(&self, second: u32) -> Instant {
        self.start + SECOND * second
    }

    fn wake(&self, second: u32, wishes: Wishes) -> Option<u64> {
        self.cycle.wake(self.at(second), wishes).map(|wake| (wake - self.start).as_secs())
    }

    fn is_due(&self, second: u32) -> bool {
        self.cycle.due(self.at(second), Wishes::default()).is_some()
    }

    fn trigger(&mut self, second: u32, epoch: u64, trigger: Trigger) {
        self.cycle.triggered(epoch, trigger, self.at(second), String::new());
    }

    fn triggers(&mut self, second: u32, epoch: u64) {
        assert!(self.is_due(second));
        self.trigger(second, epoch, Trigger::Interval);
    }

    fn commits(&mut self, second: u32, epoch: u64) -> u64 {
        self.cycle.committed(epoch, self.at(second)).unwrap_or_default()
    }

    /// Whether it is tolerated and whether it is given up.
    fn fails(&mut self, second: u32, epoch: u64, committing: bool) -> Option<(bool, bool)> {
        let failure = self.cycle.failed(epoch, committing, self.at(second), "no disk")?;
        Some((failure.is_tolerated, failure.is_given_up))
    }
}

#[test]
fn one_comes_after_the_other_from_trigger_to_trigger() {
    let mut life = life(|_| ());
    assert_eq!((life.is_due(9), life.wake(0, Wishes::default())), (false, Some(10)));
    life.triggers(12, 1);
    // Not while it is under way; what is to be watched is its time.
    assert_eq!((life.is_due(40), life.wake(12, Wishes::default())), (false, Some(27)));
    assert_eq!(life.commits(15, 1), 0);
    assert_eq!((life.is_due(21), life.wake(15, Wishes::default())), (false, Some(22)));
    life.triggers(22, 2);
    life.commits(40, 2);
    // One that took longer than the interval is followed at once.
    assert!(life.is_due(40));
}

#[test]
fn one_that_has_taken_half_its_time_is_late_until_it_is_committed_and_told_of_once() {
    let mut life = life(|_| ());
    let late = |life: &Life, second| life.cycle.late(life.at(second)).map(|(epoch, taken)| (epoch, taken.as_secs()));
    life.triggers(12, 1);
    assert_eq!((late(&life, 26), late(&life, 27)), (None, Some((1, 15))));
    assert_eq!((life.cycle.newly_late(life.at(27)), life.cycle.newly_late(life.at(28))), (Some((1, SECOND * 15)), None));
    // What is to be watched now is its end.
    assert_eq!((late(&life, 30), life.wake(28, Wishes::default())), (Some((1, 18)), Some(42)));
    // None has failed, and yet all is well only from now on.
    assert_eq!((life.cycle.committed(1, life.at(31)), late(&life, 60)), (Some(0), None));
    life.triggers(31, 2);
    assert_eq!(life.cycle.committed(2, life.at(32)), None);
}

#[test]
fn all_is_well_only_when_none_is_late_any_more() {
    let mut life = life(|settings| settings.max_concurrent = 3);
    (1..=3).for_each(|epoch| life.triggers(epoch * 10, u64::from(epoch)));
    assert_eq!([25, 35].map(|second| life.cycle.newly_late(life.at(second)).map(|(epoch, _)| epoch)), [Some(1), Some(2)]);
    assert_eq!((life.cycle.committed(1, life.at(36)), life.cycle.committed(2, life.at(37))), (None, Some(0)));
    assert_eq!(life.cycle.committed(3, life.at(38)), None);
}

#[test]
fn without_an_interval_nothing_comes_by_itself() {
    let life = life(|settings| settings.interval = None);
    assert_eq!((life.is_due(100_000), life.wake(0, Wishes::default())), (false, None));
}

#[test]
fn a_pause_is_kept_after_each() {
    let mut life = life(|settings| (settings.min_pause, settings.tolerable_failures) = (SECOND * 7, 1));
    life.triggers(10, 1);
    life.commits(18, 1);
    assert_eq!((life.is_due(24), life.wake(18, Wishes::default())), (false, Some(25)));
    life.triggers(25, 2);
    life.fails(30, 2, false);
    assert_eq!((life.is_due(36), life.wake(30, Wishes::default())), (false, Some(37)));
}

#[test]
fn several_are_under_way_up_to_a_number() {
    let mut life = life(|settings| settings.max_concurrent = 3);
    (1..=3).for_each(|epoch| life.triggers(epoch * 10, u64::from(epoch)));
    assert_eq!((life.is_due(39), life.wake(30, Wishes::default())), (false, Some(25)), "watching the first");
    life.commits(39, 1);
    life.triggers(40, 4);
    assert!(!life.is_due(50));
}

#[test]
fn what_takes_too_long_is_told_one_by_one_and_makes_room() {
    let mut life = life(|settings| (settings.max_concurrent, settings.tolerable_failures) = (2, 9));
    life.triggers(10, 1);
    life.triggers(20, 2);
    let overdue = |life: &Life, second| life.cycle.overdue(life.at(second)).map(|(epoch, taken)| (epoch, taken.as_secs()));
    assert_eq!((overdue(&life, 39), overdue(&life, 55)), (None, Some((1, 45))));
    assert_eq!(life.fails(55, 1, false), Some((true, true)));
    assert_eq!(overdue(&life, 55), Some((2, 35)));
    life.triggers(55, 3);
    assert!(!life.is_due(70));
    assert_eq!(life.fails(70, 1, false), None, "it has failed before");
}

#[test]
fn more_failures_in_a_row_than_are_tolerated_end_the_attempt() {
    let mut life = life(|settings| settings.tolerable_failures = 2);
    let mut epoch = 0;
    let mut fail = |life: &mut Life| {
        epoch += 1;
        life.trigger(0, epoch, Trigger::Interval);
        life.fails(0, epoch, false)
    };
    assert_eq!([fail(&mut life), fail(&mut life)], [Some((true, true)); 2]);
    life.trigger(0, 50, Trigger::Interval);
    assert_eq!(life.cycle.tally(), Tally { in_a_row: 2, failed: 2, good: None });
    assert_eq!(life.commits(1, 50), 2);
    assert_eq!(life.cycle.tally(), Tally { in_a_row: 0, failed: 2, good: Some((50, life.at(1))) });
    epoch = 50;
    let mut fail = |life: &mut Life| {
        epoch += 1;
        life.trigger(0, epoch, Trigger::Interval);
        life.fails(0, epoch, false)
    };
    assert_eq!([fail(&mut life), fail(&mut life), fail(&mut life)], [Some((true, true)), Some((true, true)), Some((false, true))]);
}

#[test]
fn by_default_no_failure_is_tolerated() {
    let mut life = life(|_| ());
    life.triggers(10, 1);
    assert_eq!(life.fails(11, 1, false), Some((false, true)));
}

#[test]
fn one_whose_commit_is_in_doubt_counts_once_and_may_still_succeed() {
    let mut life = life(|settings| settings.tolerable_failures = 5);
    life.triggers(10, 1);
    assert_eq!(life.fails(12, 1, true), Some((true, false)));
    assert_eq!(life.fails(50, 1, true), None);
    assert_eq!(life.cycle.overdue(life.at(100)), None);
    // The next one need not wait for it.
    life.triggers(20, 2);
    assert_eq!(life.commits(21, 1), 1);
}

#[test]
fn the_last_one_waits_for_no_other_and_has_no_limit_of_time() {
    for (ended, trigger) in [(true, Trigger::EndOfInput), (false, Trigger::Stop)] {
        let mut life = life(|settings| (settings.min_pause, settings.tolerable_failures) = (SECOND * 99, 1));
        life.triggers(10, 1);
        let wishes = Wishes { ended, stop: true, savepoint: true, awaited: Some(1), swap: true, probation: true, ..Wishes::default() };
        assert_eq!(life.cycle.due(life.at(11), wishes), Some(trigger));
        life.trigger(11, 2, trigger);
        // Nor has one that becomes part of it.
        assert_eq!((life.cycle.overdue(life.at(1000)), life.wake(11, wishes)), (None, None));
        assert_eq!(life.cycle.due(life.at(1000), wishes), None, "nothing follows");
        assert_eq!(life.fails(12, 2, false), Some((true, false)), "it is not given up: nothing would come after it");
    }
}

#[test]
fn sources_that_wait_get_theirs_at_once_and_again_when_it_fails() {
    let mut life = life(|settings| (settings.interval, settings.tolerable_failures) = (None, 5));
    let wishes = Wishes { awaited: Some(7), ..Wishes::default() };
    assert_eq!(life.cycle.due(life.at(0), wishes), Some(Trigger::Interval));
    life.trigger(0, 7, Trigger::Interval);
    assert_eq!((life.cycle.due(life.at(1), wishes), life.wake(1, wishes)), (None, Some(15)));
    life.fails(2, 7, false);
    assert_eq!((life.cycle.due(life.at(2), wishes), life.wake(2, wishes)), (None, Some(3)));
    assert_eq!(life.cycle.due(life.at(3), wishes), Some(Trigger::Interval));
    life.trigger(3, 8, Trigger::Interval);
    assert_eq!(life.wake(3, wishes), Some(18), "it is under way again");
}

#[test]
fn a_savepoint_is_due_at_once_and_its_failure_is_no_failure_of_the_job() {
    let mut life = life(|settings| settings.min_pause = SECOND * 99);
    life.triggers(10, 1);
    let wishes = Wishes { savepoint: true, ..Wishes::default() };
    assert_eq!(life.cycle.due(life.at(11), wishes), Some(Trigger::Savepoint));
    life.trigger(11, 2, Trigger::Savepoint);
    assert_eq!(life.fails(12, 2, false), Some((true, true)), "what it brought belongs to the next one");
    assert_eq!((life.cycle.tally().failed, life.commits(13, 1)), (0, 0));
}

#[test]
fn while_the_job_holds_still_for_a_savepoint_nothing_is_triggered() {
    let life = life(|_| ());
    let wishes = Wishes { hold: true, ended: true, stop: true, savepoint: true, awaited: Some(1), swap: true, probation: true };
    assert_eq!((life.cycle.due(life.at(50), wishes), life.wake(50, wishes)), (None, None));
}

#[test]
fn a_swap_has_its_checkpoint_at_once_and_others_wait_while_it_can_be_undone() {
    let mut life = life(|settings| (settings.min_pause, settings.tolerable_failures) = (SECOND * 99, 1));
    life.triggers(10, 1);
    let swap = Wishes { swap: true, probation: true, ..Wishes::default() };
    assert_eq!(life.cycle.due(life.at(11), swap), Some(Trigger::Swap), "whatever else is under way");
    life.trigger(11, 2, Trigger::Swap);
    life.commits(12, 2);
    let probation = Wishes { swap: false, ..swap };
    assert_eq!((life.cycle.due(life.at(500), probation), life.wake(12, probation)), (None, None));
    assert_eq!(life.cycle.due(life.at(500), Wishes { stop: true, ..probation }), Some(Trigger::Stop));
    assert_eq!(life.cycle.due(life.at(500), Wishes::default()), Some(Trigger::Interval), "nothing is closed");
}

#[test]
fn what_only_a_swap_may_bring_is_not_given_up() {
    let mut life = life(|settings| settings.tolerable_failures = 1);
    life.trigger(10, 1, Trigger::Swap);
    assert_eq!(life.cycle.overdue(life.at(40)), Some((1, SECOND * 30)));
    assert_eq!(life.fails(40, 1, false), Some((true, false)), "no other epoch belongs to the old component");
}

#[test]
fn a_streak_lasts_over_attempts_until_one_is_committed_and_what_is_tolerated_counts_anew() {
    let mut life = life(|settings| settings.tolerable_failures = 1);
    life.cycle.streak = Streak { failed: 2, reason: Some("no network".into()) };
    life.triggers(10, 1);
    assert_eq!(life.fails(11, 1, false), Some((true, true)), "the first of this attempt");
    assert_eq!(life.cycle.streak(), &Streak { failed: 3, reason: Some("no disk".into()) });
    life.triggers(20, 2);
    assert_eq!((life.commits(21, 2), life.cycle.streak()), (3, &Streak::default()));
    life.trigger(30, 3, Trigger::Savepoint);
    life.fails(31, 3, false);
    assert_eq!(life.cycle.streak(), &Streak::default(), "whoever has asked for it is told");
}
