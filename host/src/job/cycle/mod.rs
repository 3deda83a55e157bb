//! [`Cycle`]: the life of an attempt's checkpoints: when the next one is due, which are under way, which have taken too long, and what
//! failures come to. Facts in, decision out.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::checkpoint::manifest::{SnapshotPart, Streak, Trigger};
use crate::plan::CheckpointSettings;

/// Where sources wait for a checkpoint and one has failed, the next one comes after this time, if not before.
const REST: Duration = Duration::from_secs(1);

/// The life of an attempt's checkpoints.
pub(super) struct Cycle {
    settings: CheckpointSettings,
    /// When the interval is over.
    due: Option<Instant>,
    /// When the last one ended.
    ended: Option<Instant>,
    /// When the last one failed.
    failed: Option<Instant>,
    under_way: BTreeMap<u64, UnderWay>,
    /// The last one has been triggered, at a stop or at the end of input.
    closing: bool,
    tally: Tally,
    streak: Streak,
    /// It is still to be said that all is well again after so many failures, or after one that was late.
    owed: Option<u64>,
}

/// A checkpoint that is under way.
pub(super) struct UnderWay {
    pub(super) trigger: Trigger,
    pub(super) since: Instant,
    /// The same, as people read it.
    pub(super) triggered: String,
    /// What its snapshots took that are durable.
    pub(super) snapshots: Vec<SnapshotPart>,
    /// It counts as failed, and may be committed all the same.
    failed: bool,
    /// It was said that it takes long.
    late: bool,
}

/// How checkpoints fare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Checkpoints of the attempt that have failed since the last good one.
    pub(super) in_a_row: u64,
    /// Checkpoints of the attempt that have failed in all.
    pub(super) failed: u64,
    /// The last good one, and when it was committed.
    pub(super) good: Option<(u64, Instant)>,
}

/// What asks for a checkpoint, besides the interval.
#[derive(Clone, Copy, Default)]
pub(super) struct Wishes {
    /// All input has ended.
    pub(super) ended: bool,
    /// The job is to stop.
    pub(super) stop: bool,
    /// A savepoint was asked for.
    pub(super) savepoint: bool,
    /// Nothing is to come after a savepoint that is under way.
    pub(super) hold: bool,
    /// Sources wait for one with this number or a higher one.
    pub(super) awaited: Option<u64>,
    /// A swap is to fall, or to be settled.
    pub(super) swap: bool,
    /// A component is on probation that can be undone only as long as nothing is committed.
    pub(super) probation: bool,
}

/// What a failure comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Whether the next one takes over what it has brought; else it may be committed all the same, or there is no next one.
    pub(super) is_given_up: bool,
    /// Whether the attempt goes on.
    pub(super) is_tolerated: bool,
    /// Whether it counts. That of a savepoint is told to whoever asked for it.
    pub(super) counts: bool,
}

impl Cycle {
    /// For an attempt that begins `now`; `good` is the checkpoint that it begins from, and when that was committed, and `streak` what has
    /// failed since.
    pub(super) fn new(settings: CheckpointSettings, now: Instant, good: Option<(u64, Instant)>, streak: Streak) -> Self {
        let due = settings.interval.map(|interval| now + interval);
        let tally = Tally { good, ..Tally::default() };
        Cycle { settings, due, ended: None, failed: None, under_way: BTreeMap::new(), closing: false, tally, streak, owed: None }
    }

    /// What to trigger now, if anything. The last one waits for no other: what is under way then becomes part of it.
    pub(super) fn due(&self, now: Instant, wishes: Wishes) -> Option<Trigger> {
        match wishes {
            _ if self.closing || wishes.hold => None,
            Wishes { ended: true, .. } => Some(Trigger::EndOfInput),
            Wishes { stop: true, .. } => Some(Trigger::Stop),
            // Whoever asks for one has reasons not to wait.
            Wishes { savepoint: true, .. } => Some(Trigger::Savepoint),
            Wishes { swap: true, .. } => Some(Trigger::Swap),
            _ => self.next(now, wishes).is_some_and(|next| next <= now).then_some(Trigger::Interval),
        }
    }

    /// When there may be something to do by itself: a checkpoint to trigger, or one that has taken too long.
    pub(super) fn wake(&self, now: Instant, wishes: Wishes) -> Option<Instant> {
        let limits =
            self.limited().map(|(_, under_way)| under_way.since + if under_way.late { self.settings.timeout } else { self.patience() });
        limits.chain(self.next(now, wishes)).min()
    }

    /// After this time a checkpoint is late: half of what it may take.
    fn patience(&self) -> Duration {
        self.settings.timeout / 2
    }

    /// The oldest checkpoint that is late, and for how long it is under way.
    pub(super) fn late(&self, now: Instant) -> Option<(u64, Duration)> {
        let mut taken = self.limited().map(|(epoch, under_way)| (epoch, now - under_way.since));
        taken.find(|(_, taken)| *taken >= self.patience())
    }

    /// The oldest checkpoint that is late of those of which that was not told yet; it is from now on.
    pub(super) fn newly_late(&mut self, now: Instant) -> Option<(u64, Duration)> {
        let patience = self.patience();
        let mut limited = self.under_way.iter_mut().filter(|(_, under_way)| !under_way.failed && !under_way.late && !self.closing);
        let (epoch, under_way) = limited.find(|(_, under_way)| now - under_way.since >= patience)?;
        under_way.late = true;
        Some((*epoch, now - under_way.since))
    }

    /// The checkpoint that has taken too long, the oldest if there are several, and for how long it is under way.
    pub(super) fn overdue(&self, now: Instant) -> Option<(u64, Duration)> {
        let mut taken = self.limited().map(|(epoch, under_way)| (epoch, now - under_way.since));
        taken.find(|(_, taken)| *taken >= self.settings.timeout)
    }

    /// A checkpoint was triggered.
    pub(super) fn triggered(&mut self, epoch: u64, trigger: Trigger, now: Instant, triggered: String) {
        // From trigger to trigger, as in Flink; one that is late does not make the next one come sooner.
        self.due = self.settings.interval.map(|interval| now + interval);
        self.closing |= matches!(trigger, Trigger::Stop | Trigger::EndOfInput);
        self.under_way.insert(epoch, UnderWay { trigger, since: now, triggered, snapshots: Vec::new(), failed: false, late: false });
    }

    /// A snapshot of a checkpoint is durable.
    pub(super) fn took(&mut self, epoch: u64, snapshot: SnapshotPart) {
        if let Some(under_way) = self.under_way.get_mut(&epoch) {
            under_way.snapshots.push(snapshot);
        }
    }

    /// Whether another makes up for a checkpoint that was triggered for this reason.
    pub(super) fn may_be_given_up(trigger: Trigger) -> bool {
        matches!(trigger, Trigger::Interval | Trigger::Savepoint)
    }

    /// A checkpoint has failed for this reason; `committing`: its manifest may be durable all the same. None if it has failed before.
    pub(super) fn failed(&mut self, epoch: u64, committing: bool, now: Instant, reason: &str) -> Option<Failure> {
        let under_way = self.under_way.get_mut(&epoch).filter(|under_way| !under_way.failed)?;
        under_way.failed = true;
        let counts = under_way.trigger != Trigger::Savepoint;
        let is_given_up = !committing && Self::may_be_given_up(under_way.trigger);
        (self.ended, self.failed) = (Some(now), Some(now));
        self.tally.in_a_row += u64::from(counts);
        self.tally.failed += u64::from(counts);
        if counts {
            self.streak = Streak { failed: self.streak.failed + 1, reason: Some(reason.into()) };
        }
        let is_tolerated = !counts || self.tally.in_a_row <= self.settings.tolerable_failures;
        Some(Failure { is_given_up, is_tolerated, counts })
    }

    /// A checkpoint is committed, and with it those before it that were given up. If all is well again, returns how many had failed in a
    /// row until then; none had where one was late only.
    pub(super) fn committed(&mut self, epoch: u64, now: Instant) -> Option<u64> {
        let later = self.under_way.split_off(&(epoch + 1));
        let was_late = std::mem::replace(&mut self.under_way, later).values().any(|under_way| under_way.late);
        self.ended = Some(now);
        (self.tally.good, self.tally.in_a_row) = (Some((epoch, now)), 0);
        let failed = std::mem::take(&mut self.streak).failed;
        if was_late || failed > 0 {
            self.owed = Some(self.owed.unwrap_or(0) + failed);
        }
        let is_late = self.running().any(|(_, under_way)| under_way.late);
        if is_late { None } else { self.owed.take() }
    }

    /// A checkpoint that is not committed yet.
    pub(super) fn get(&self, epoch: u64) -> Option<&UnderWay> {
        self.under_way.get(&epoch)
    }

    /// Those that are neither committed nor have failed.
    pub(super) fn running(&self) -> impl Iterator<Item = (u64, &UnderWay)> {
        let running = self.under_way.iter().filter(|(_, under_way)| !under_way.failed);
        running.map(|(&epoch, under_way)| (epoch, under_way))
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// What has failed since the last good one, also in attempts before.
    pub(super) fn streak(&self) -> &Streak {
        &self.streak
    }

    /// When the next one is to be triggered, as far as that is known.
    fn next(&self, now: Instant, wishes: Wishes) -> Option<Instant> {
        if self.closing || wishes.hold || wishes.probation || self.running().count() >= self.settings.max_concurrent {
            return None;
        }
        // What sources wait for may be under way.
        let awaited = wishes.awaited.filter(|&awaited| self.running().all(|(epoch, _)| epoch < awaited));
        let awaited = awaited.map(|_| self.failed.map_or(now, |failed| failed + REST));
        let next = self.due.into_iter().chain(awaited).min()?;
        Some(self.ended.map_or(next, |ended| next.max(ended + self.settings.min_pause)))
    }

    /// Those that may take too long. Before the last one there is no use in giving up another.
    fn limited(&self) -> impl Iterator<Item = (u64, &UnderWay)> {
        self.running().filter(|_| !self.closing)
    }
}
