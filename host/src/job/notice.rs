//! What a running job tells whoever watches it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::checkpoint::manifest::ComponentFacts;
use crate::dataflow::Metrics;
use crate::record::AttemptId;

use super::{End, Health, Progress, Restored, SwapReport, WayBack};

/// Something worth a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A run begins without state.
    Starting {
        /// The attempt.
        attempt: AttemptId,
    },
    /// An attempt begins from a checkpoint.
    Resuming {
        /// The attempt.
        attempt: AttemptId,
        /// The checkpoint.
        restored: Restored,
    },
    /// An attempt has failed, and another follows.
    Restarting {
        /// The one that failed.
        attempt: AttemptId,
        /// Why.
        error: String,
        /// When the other begins.
        delay: Duration,
    },
    /// An attempt could not go on after nothing but a savepoint that an operator refused, and another follows at once.
    BeginningAgain {
        /// The one that could not.
        attempt: AttemptId,
        /// Why there is no savepoint.
        error: String,
    },
    /// An attempt has ended, and is not torn down yet.
    Lingering {
        /// Which.
        attempt: AttemptId,
        /// Why it has failed, if it has.
        error: Option<String>,
    },
    /// There are no checkpoints but the last one.
    Unchecked,
    /// Checkpoints are kept in memory.
    InMemory,
    /// The newest checkpoint is damaged, and an older one is taken, as it was asked for.
    FellBack {
        /// What is wrong with the newest.
        damage: String,
        /// Whether output of newer ones is published already, and comes again.
        doubles: bool,
    },
    /// A checkpoint has failed, and the attempt goes on.
    Degraded {
        /// Which.
        checkpoint: u64,
        /// Why.
        reason: String,
        /// How many checkpoints of this attempt have failed in a row, this one included.
        in_a_row: u64,
        /// How many checkpoints may fail in a row.
        tolerable: u64,
        /// How checkpoints fare, this one included.
        health: Health,
    },
    /// A checkpoint has taken half of what it may, and is not committed yet.
    Late {
        /// Which.
        checkpoint: u64,
        /// For how long it has been under way.
        taken: Duration,
        /// For how long it may be under way.
        timeout: Duration,
        /// What it waits for.
        missing: String,
        /// How checkpoints fare, this one included.
        health: Health,
    },
    /// A merge has come upon a state file that is missing or damaged.
    Damaged {
        /// The operator.
        operator: String,
        /// Which file it is, and what is wrong with it.
        damage: String,
        /// How checkpoints fare.
        health: Health,
    },
    /// A checkpoint is committed after some that have failed or were late.
    Healthy {
        /// Which.
        checkpoint: u64,
        /// How many had failed in a row.
        failed: u64,
    },
    /// The job was cancelled, and its checkpoints are deleted.
    Discarded,
    /// The job was cancelled, and its checkpoints were to be deleted.
    NotDiscarded {
        /// Why they are not, or not all of them.
        error: String,
    },
    /// A component has taken an operator over.
    Swapped {
        /// From which to which, and how.
        report: Box<SwapReport>,
    },
    /// A component that was to take an operator over has failed, and the one before it goes on.
    TakenBack {
        /// The operator.
        operator: String,
        /// The component that has failed.
        component: ComponentFacts,
        /// Why, naming the record if it was one.
        reason: String,
    },
    /// A component that has taken an operator over stays.
    Kept {
        /// The operator.
        operator: String,
        /// The component.
        component: ComponentFacts,
    },
    /// The job was told to end, with a last checkpoint.
    Ending {
        /// How.
        end: End,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Starting { attempt: AttemptId { run, attempt: 1 } } => write!(f, "starting run {run}"),
            Notice::Starting { attempt: AttemptId { run, attempt } } => {
                write!(f, "starting run {run} again (attempt {attempt}): it has no checkpoint yet")
            }
            Notice::Resuming { attempt: AttemptId { run, attempt }, restored } => {
                let Restored { checkpoint, created, path, savepoint, empty, left_out } = restored;
                match savepoint {
                    true => write!(f, "starting run {run} from savepoint {path} of {created} (attempt {attempt})")?,
                    false => write!(f, "resuming run {run} from checkpoint {checkpoint} of {created} (attempt {attempt})")?,
                }
                let listed = [("; without state in it, and so beginning empty: ", empty), ("; left out for good: ", left_out)];
                listed.iter().filter(|(_, uids)| !uids.is_empty()).try_for_each(|(what, uids)| write!(f, "{what}{}", uids.join(", ")))
            }
            Notice::Restarting { attempt: AttemptId { attempt, .. }, error, delay } => {
                let delay = humantime::format_duration(Duration::from_millis(delay.as_millis() as u64));
                write!(f, "attempt {attempt} has failed, another follows in {delay}: {error}")
            }
            Notice::BeginningAgain { attempt: AttemptId { attempt, .. }, error } => {
                write!(f, "another attempt than {attempt} goes on with the job, of which no savepoint could be taken: {error}")
            }
            Notice::Lingering { attempt: AttemptId { attempt, .. }, error } => {
                let failed = error.as_ref().map(|error| format!(" has failed ({error}) and")).unwrap_or_default();
                write!(f, "attempt {attempt}{failed} waits for its workers and its last commit to end")
            }
            Notice::Unchecked => f.write_str(
                "checkpoints are off, because [checkpoint] has no `interval`: after a failure the job begins again from where it begins now",
            ),
            Notice::InMemory => f.write_str(
                "checkpoints are kept in memory: later attempts of this process begin from them, and when it ends they are gone",
            ),
            Notice::FellBack { damage, doubles } => {
                let published = if *doubles { "; output that newer ones have published comes again" } else { "" };
                write!(f, "falling back to the newest checkpoint that is whole: {damage}{published}")
            }
            Notice::Degraded { checkpoint, reason, in_a_row, tolerable, health: Health { failed_in_a_row, last_good, .. } } => {
                write!(f, "degraded: checkpoint {checkpoint} has failed ({in_a_row} in a row, {tolerable} are tolerated): {reason}")?;
                if failed_in_a_row > in_a_row {
                    write!(f, "; with those of attempts before {failed_in_a_row} have failed")?;
                }
                match last_good {
                    Some((good, age)) => write!(f, "; the last good one is {good}, {} old", in_seconds(*age)),
                    None => f.write_str("; there is no good one yet"),
                }
            }
            Notice::Late { checkpoint, taken, timeout, missing, .. } => {
                let (taken, timeout) = (in_milliseconds(*taken), humantime::format_duration(*timeout));
                write!(f, "degraded: checkpoint {checkpoint} has taken {taken} so far, and `timeout` is {timeout}: {missing}")
            }
            Notice::Damaged { operator, damage, .. } => write!(
                f,
                "degraded: the newest checkpoint can't be restored, because of operator `{operator}`: {damage}; put the file back while the \
                 job runs, or it can go on only from an older checkpoint, with `--fallback`"
            ),
            Notice::Healthy { checkpoint, failed } => {
                write!(f, "healthy again: checkpoint {checkpoint} is committed")?;
                if *failed > 0 { write!(f, ", after {failed} that failed") } else { Ok(()) }
            }
            Notice::Discarded => f.write_str("cancelled: its checkpoints are deleted, as `on-cancel` says"),
            Notice::NotDiscarded { error } => write!(f, "cancelled, but its checkpoints could not be deleted: {error}"),
            Notice::Swapped { report } => {
                let SwapReport { operator, from, to, probation_ms, way_back, subtasks_us, migrated, .. } = &**report;
                write!(f, "operator `{operator}` runs {} instead of {}", named(to), named(from))?;
                // None where another process has seen to it.
                if let Some(pause) = subtasks_us.iter().copied().max().map(Duration::from_micros) {
                    write!(f, ", after a pause of {pause:?}")?;
                }
                if *migrated > 0 {
                    write!(f, "; {migrated} values were migrated")?;
                }
                if *probation_ms == 0 {
                    return Ok(());
                }
                let probation = humantime::format_duration(Duration::from_millis(*probation_ms));
                match way_back {
                    WayBack::Forward => write!(f, "; on probation for {probation}"),
                    WayBack::Rewind => write!(f, "; on probation for {probation}, in which no checkpoint is committed"),
                }
            }
            Notice::TakenBack { operator, component, reason } => {
                write!(f, "operator `{operator}` goes on with the component that it had instead of {}: {reason}", named(component))
            }
            Notice::Kept { operator, component } => write!(f, "operator `{operator}` stays with {}", named(component)),
            Notice::Ending { end: End::Stop { signal: Some(_) } } => {
                f.write_str("stopping with a last checkpoint; the signal once more ends the process at once")
            }
            Notice::Ending { end: End::Drain } => f.write_str("draining: sources read nothing more, operators finish"),
            Notice::Ending { .. } => f.write_str("stopping with a last checkpoint"),
        }
    }
}

/// A component, for people: its name and version, and the beginning of its digest.
fn named(ComponentFacts { digest, name, version }: &ComponentFacts) -> String {
    format!("`{name}` {version} ({:.8})", digest)
}

/// A length of time in whole seconds, for people.
pub fn in_seconds(time: Duration) -> impl fmt::Display {
    humantime::format_duration(Duration::from_secs(time.as_secs()))
}

/// A length of time in whole milliseconds, for people.
pub(super) fn in_milliseconds(time: Duration) -> impl fmt::Display {
    humantime::format_duration(Duration::from_millis(time.as_millis() as u64))
}

/// Watches a running job. Called on the job's own threads: must return soon.
pub trait Observer: Send + Sync {
    /// Something worth a line has happened.
    fn notice(&self, notice: &Notice);
    /// Where the job stands; about five times a second.
    fn progress(&self, progress: &Progress);
    /// An attempt has begun, which counts here.
    fn began(&self, _metrics: &Arc<Metrics>) {}
}
