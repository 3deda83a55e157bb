//! The end of input for an operator: its finish hook gets the keys that have state, some at a time, and fewer where those together come to
//! more than a limit allows.

use std::time::Duration;

use super::failing::{Blame, preview};
use super::operator::{Emitted, OperatorStage};
use crate::clock;
use crate::error::Result;
use crate::record::{Batch, Column};
use crate::state::{KeyedState, Keys};
use crate::wasm::PROBE_TIME;

/// Keys handed to the finish hook at a time.
const FINISH_KEYS: usize = 1024;

/// How far the finish hook is.
#[derive(Debug)]
pub(super) enum Finish {
    NotYet,
    Keys(Handing),
    Done,
}

/// Keys on their way to the hook.
#[derive(Debug)]
pub(super) struct Handing {
    /// Keys that are still to be listed.
    keys: Keys,
    /// How many of the listed keys are handed over at once, at most.
    most: usize,
    /// Parts of what was together too much, the next one last.
    parts: Vec<Batch>,
}

impl OperatorStage {
    /// All its input has ended: calls the finish hook for some more keys. Returns whether it is done.
    ///
    /// # Errors
    /// Why the hook has failed; where that is because of a single key, which one it is.
    pub(super) fn finish(&mut self, emitted: &mut Emitted) -> Result<bool> {
        let mut handing = match std::mem::replace(&mut self.finish, Finish::Done) {
            Finish::NotYet if self.place.component.descriptor().finish_hook => {
                let keys = self.instance().state().keys(clock::wall_ms());
                Handing { keys, most: FINISH_KEYS, parts: Vec::new() }
            }
            Finish::NotYet | Finish::Done => return Ok(true),
            Finish::Keys(handing) => handing,
        };
        let limit = self.place.settings.limits.time;
        let (mut call, time) = handing.next(self.instance().state(), limit);
        self.instance().set_time(time);
        let mut finished = self.instance().finish(&mut call);
        // Other hooks may be called before the next part.
        self.instance().set_time(limit);
        if let Err(failure) = &finished
            && self.trial.is_some()
            && !failure.cause.ends_attempt()
        {
            let error = self.place.error("its finish hook", failure, Blame::Operator);
            self.fail_trial(error)?;
            finished = self.instance().finish(&mut call);
        }
        match finished {
            Err(failure) if call.keys.len() > 1 && self.may_be_the_sum(&failure) => {
                self.ready(true, limit)?;
                handing.halve(&call);
            }
            Err(failure) => {
                let key = if call.keys.len() == 1 { format!(" for key {}", preview(call.keys.get(0))) } else { String::new() };
                return Err(self.place.error(&format!("its finish hook{key}"), &failure, Blame::Operator));
            }
            Ok(()) if call.keys.is_empty() => {
                self.drain(emitted);
                return Ok(true);
            }
            Ok(()) => {
                self.drain(emitted);
                handing.most = FINISH_KEYS.min(handing.most + 1);
            }
        }
        self.finish = Finish::Keys(handing);
        Ok(false)
    }
}

impl Handing {
    /// The keys for the next call, and how long it may take; none after the last ones.
    fn next(&mut self, state: &mut KeyedState, limit: Duration) -> (Batch, Duration) {
        match self.parts.pop() {
            Some(part) if part.keys.len() > 1 => (part, limit.min(PROBE_TIME)),
            Some(part) => (part, limit),
            None => {
                let mut call = Batch::default();
                state.next_keys(&mut self.keys, self.most, &mut call);
                (call, limit)
            }
        }
    }

    /// Splits a call whose keys were too much for one call.
    fn halve(&mut self, call: &Batch) {
        let (middle, end) = (call.keys.len() / 2, call.keys.len());
        self.most = middle;
        self.parts.extend([part(call, middle, end), part(call, 0, middle)]);
    }
}

/// Keys `from..to` of those for a call.
fn part(call: &Batch, from: usize, to: usize) -> Batch {
    let keys = (from..to).map(|index| call.keys.get(index)).collect::<Column>();
    Batch { keys, hashes: call.hashes[from..to].to_vec(), ..Batch::default() }
}
