//! [`Pending`]: checkpoints that have been triggered and not yet committed: who still has to acknowledge, and what a commit will name.
//!
//! A commit counts from the commit before it, not from the barrier before it: what it names includes everything that belongs to epochs
//! in between which were given up. So no epoch is complete before all older ones are, and they commit in order only.

mod agree;
mod parts;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

pub use parts::{CommitFacts, OperatorFacts, Ready, build_manifest};

use super::manifest::{OperatorStateFile, SinkPart, StateFile, Trigger};
use super::paths::{self, Origin, RunPath, StatePath};
use crate::error::{Error, Kind, Result};
use crate::plan::Role;
use crate::record::{AttemptId, SplitPosition, Staged};

/// A node whose subtasks have to acknowledge every checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The node.
    pub uid: String,
    /// What it is: sources acknowledge with positions, operators with state files, sinks with staged output.
    pub role: Role,
    /// How many subtasks it has.
    pub subtasks: u16,
}

/// A subtask's word that its part of a checkpoint is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The attempt.
    pub attempt: AttemptId,
    /// The epoch that the barrier ended.
    pub epoch: u64,
    /// The node.
    pub uid: String,
    /// Its subtask.
    pub subtask: u16,
    /// Its part.
    pub part: Part,
}

/// A subtask's part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of a source: all its splits, with their positions.
    Positions(Vec<SplitPosition>),
    /// Of an operator.
    State {
        /// State files; none when nothing has changed.
        files: Vec<StateFile>,
        /// Operator state: the subtask's lists, and from subtask 0 what is the same on all; neither when it has not changed.
        operator_state: Vec<OperatorStateFile>,
        /// The digest of each broadcast state, by its name.
        digests: Vec<(String, u128)>,
    },
    /// Of a sink: what it has staged.
    Staged(Vec<Staged>),
}

impl Part {
    fn role(&self) -> Role {
        match self {
            Part::Positions(_) => Role::Source,
            Part::State { .. } => Role::Operator,
            Part::Staged(_) => Role::Sink,
        }
    }
}

/// Why an acknowledgement was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It comes from another attempt, and means nothing to this one.
    OtherAttempt(AttemptId),
    /// It breaks a rule of the protocol: a bug.
    Broken(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::OtherAttempt(AttemptId { run, attempt }) => write!(f, "it comes from attempt {attempt} of run {run}"),
            Refused::Broken(reason) => f.write_str(reason),
        }
    }
}

/// A checkpoint that has been triggered.
#[derive(Clone, Debug)]
struct Epoch {
    epoch: u64,
    trigger: Trigger,
    /// Not to be committed on its own.
    given_up: bool,
    /// Who has not acknowledged yet: node and subtask.
    missing: BTreeSet<(usize, u16)>,
    /// By node and subtask, so that equal facts give equal manifests.
    parts: BTreeMap<(usize, u16), Part>,
}

/// Checkpoints that have been triggered and not yet committed.
#[derive(Clone, Debug)]
pub struct Pending {
    attempt: AttemptId,
    nodes: Vec<Expected>,
    epochs: VecDeque<Epoch>,
    last: u64,
    /// What commits have named for publication and nobody has confirmed, by epoch.
    unpublished: Vec<(u64, Vec<SinkPart>)>,
}

impl Pending {
    /// No checkpoint yet. `last` is the number of the last checkpoint before; what it named has been published.
    pub fn new(attempt: AttemptId, nodes: Vec<Expected>, last: u64) -> Self {
        Pending { attempt, nodes, epochs: VecDeque::new(), last, unpublished: Vec::new() }
    }

    /// The checkpoint that ends `epoch` is triggered.
    ///
    /// # Errors
    /// [`Kind::Internal`] if it does not come after the one before it.
    pub fn open(&mut self, epoch: u64, trigger: Trigger) -> Result<()> {
        if epoch <= self.last {
            return Err(Error::new(Kind::Internal, format!("checkpoint {epoch} was triggered after {}", self.last)));
        }
        self.last = epoch;
        let subtasks = |(node, expected): (usize, &Expected)| (0..expected.subtasks).map(move |subtask| (node, subtask));
        let missing = self.nodes.iter().enumerate().flat_map(subtasks).collect();
        self.epochs.push_back(Epoch { epoch, trigger, given_up: false, missing, parts: BTreeMap::new() });
        Ok(())
    }

    /// Takes an acknowledgement.
    ///
    /// # Errors
    /// Why it was not taken; nothing has changed then.
    pub fn ack(&mut self, ack: Ack) -> Result<(), Refused> {
        if ack.attempt != self.attempt {
            return Err(Refused::OtherAttempt(ack.attempt));
        }
        let Ack { epoch, subtask, .. } = ack;
        let broken = |reason: &str| Refused::Broken(format!("subtask {subtask} of `{}` and checkpoint {epoch}: {reason}", ack.uid));
        let Some(node) = self.nodes.iter().position(|node| node.uid == ack.uid) else { return Err(broken("there is no such node")) };
        if self.nodes[node].role != ack.part.role() {
            return Err(broken("the acknowledgement is of another kind than the node"));
        }
        let Some(pending) = self.epochs.iter_mut().find(|pending| pending.epoch == epoch) else {
            return Err(broken("it is not pending"));
        };
        pending.check(node, &ack).map_err(|reason| broken(&reason))?;
        if !pending.missing.remove(&(node, subtask)) {
            return Err(broken("nobody waits for this acknowledgement, or it came twice"));
        }
        pending.parts.insert((node, subtask), ack.part);
        Ok(())
    }

    /// The checkpoint is not to be committed on its own any more, because it took too long. Its parts belong to the next one, which
    /// still waits for them.
    pub fn give_up(&mut self, epoch: u64) {
        self.epochs.iter_mut().filter(|pending| pending.epoch == epoch).for_each(|pending| pending.given_up = true);
    }

    /// The checkpoint to commit next, if one is complete, with everything that its manifest has to name. The same until
    /// [`Pending::committed`].
    ///
    /// # Errors
    /// [`Kind::Job`] if it must not be committed, because subtasks differ in what has to be the same on all.
    pub fn ready(&self) -> Result<Option<Ready>> {
        let mut complete = self.epochs.iter().take_while(|pending| pending.missing.is_empty());
        let Some(end) = complete.position(|pending| !pending.given_up) else { return Ok(None) };
        self.epochs.range(..=end).try_for_each(|epoch| agree::check(&self.nodes, epoch))?;
        let unpublished = self.unpublished.iter().flat_map(|(_, sinks)| sinks);
        Ok(Some(parts::gather(&self.nodes, self.epochs.range(..=end), unpublished)))
    }

    /// The manifest of `epoch` is durable.
    ///
    /// # Errors
    /// [`Kind::Internal`] if it is not the one that was ready.
    pub fn committed(&mut self, epoch: u64) -> Result<()> {
        let Some(ready) = self.ready()?.filter(|ready| ready.epoch == epoch) else {
            return Err(Error::new(Kind::Internal, format!("checkpoint {epoch} was committed without being ready")));
        };
        self.epochs.retain(|pending| pending.epoch > epoch);
        // `ready` includes what was unpublished before.
        self.unpublished = vec![(epoch, ready.sinks)];
        Ok(())
    }

    /// Everything that commits up to `epoch` have named is published.
    pub fn published(&mut self, epoch: u64) {
        self.unpublished.retain(|(committed, _)| *committed > epoch);
    }

    /// Numbers of the checkpoints that are pending, in order.
    pub fn epochs(&self) -> impl Iterator<Item = u64> {
        self.epochs.iter().map(|pending| pending.epoch)
    }

    /// Who has not acknowledged `epoch` yet, as node and subtask, for messages.
    pub fn missing(&self, epoch: u64) -> Vec<(&str, u16)> {
        let pending = self.epochs.iter().filter(|pending| pending.epoch == epoch);
        pending.flat_map(|pending| &pending.missing).map(|&(node, subtask)| (self.nodes[node].uid.as_str(), subtask)).collect()
    }
}

impl Epoch {
    /// Checks what a part says against who says it, and against the parts that are there.
    fn check(&self, node: usize, ack: &Ack) -> Result<(), String> {
        match &ack.part {
            Part::State { files, operator_state, .. } => {
                (0..)
                    .zip(files)
                    .try_for_each(|(part, file)| check_path(&file.path, Origin::Snapshot { subtask: ack.subtask, part }, ack))?;
                operator_state.iter().try_for_each(|file| {
                    // Broadcast state is the same on all, so the first subtask writes it.
                    let broadcast = file.subtask.is_none() && ack.subtask == 0;
                    check_path(&file.path, Origin::of_operator_state((!broadcast).then_some(ack.subtask)), ack)
                })
            }
            Part::Positions(splits) => {
                let others = self.parts.range((node, 0)..=(node, u16::MAX)).filter_map(|(_, part)| match part {
                    Part::Positions(splits) => Some(splits),
                    _ => None,
                });
                let mut seen: BTreeSet<&str> = others.flatten().map(|split| split.split.as_str()).collect();
                match splits.iter().find(|split| !seen.insert(&split.split)) {
                    Some(twice) => Err(format!("split `{}` is read by two", twice.split)),
                    None => Ok(()),
                }
            }
            Part::Staged(_) => Ok(()),
        }
    }
}

/// A path carries attempt and epoch, so that no file can be taken for another's.
fn check_path(path: &str, origin: Origin, ack: &Ack) -> Result<(), String> {
    let expected = StatePath { attempt: ack.attempt.attempt, epoch: ack.epoch, uid: ack.uid.clone(), origin };
    match paths::classify(path) {
        RunPath::State(found) if found == expected => Ok(()),
        _ => Err(format!("the state file `{path}` does not belong to it")),
    }
}
