//! Records that fail: finding the guilty one in a batch, and what becomes of it.
//!
//! A guest that panics says which record it was at, one that rejects a record goes on by itself. One that only traps, or runs into a
//! limit, says nothing: then the batch is halved, on fresh instances, until the record is found. All others are worked on as if it had
//! not been there.

use std::time::Duration;

use serde_json::{Map, Value};

use super::operator::{Emitted, OperatorPlace, OperatorStage};
use super::source::Origin;
use crate::clock;
use crate::error::{Error, Kind, RecordId, RecordPlace, Result};
use crate::plan::OnError;
use crate::record::{Batch, Column, hash_record};
use crate::state::ColdFault;
use crate::wasm::{Cause, Failure, Instance, PROBE_TIME};

/// How many records of a batch that has failed are worked on at once. Where one fails there are often more, and with each that panics all
/// before it in the call are worked on again.
const PIECE: usize = 32;

/// A batch that is worked on in parts may emit this many times what a single call may: all of it waits until the batch is done.
const MOST_EMITTED: u64 = 4;

/// A batch at an input port.
pub(super) struct Arrived<'a> {
    pub(super) port: u16,
    pub(super) batch: &'a Batch,
    /// Where its records were read, if that is known.
    pub(super) origin: Option<&'a Origin>,
}

/// What is to blame for a failure.
#[derive(Clone, Copy)]
pub(super) enum Blame {
    Operator,
    Record,
    /// A record of a broadcast input.
    Broadcast,
}

/// Dead letters on their way out. A long key stands in each letter of its records, so all those of a batch may be too much for one column.
#[derive(Default)]
pub(super) struct Letters(Vec<Column>);

/// Bytes of dead letters that go together, unless a single one has more.
const LETTERS_BYTES: usize = 8 << 20;

impl Letters {
    fn push(&mut self, letter: &[u8]) {
        match self.0.last_mut() {
            Some(last) if last.bytes.len() + letter.len() <= LETTERS_BYTES => last.push(letter),
            _ => self.0.push(Column::from_iter([letter])),
        }
    }
}

impl OperatorStage {
    /// A call has succeeded on a batch that began as record `first` of `whole`: keeps what it emitted, and deals with what it rejected.
    pub(super) fn keep(&mut self, whole: &Arrived<'_>, first: usize, emitted: &mut Emitted) -> Result<()> {
        self.drain(emitted);
        // Mostly none, and then nothing is allocated.
        let rejected = self.instance().rejected().to_vec();
        for rejected in rejected {
            self.give_up(whole, first + rejected.record, &format!("rejected a record: {}", rejected.message))?;
        }
        Ok(())
    }

    /// A batch has failed: works on every record of it but those to blame. Where none may be left out, it works on all of them if what has
    /// failed may be their sum only, and otherwise finds the one to blame.
    ///
    /// # Errors
    /// What one record fails with that may not be left out, or the whole batch.
    pub(super) fn isolate(&mut self, whole: &Arrived<'_>, failure: Failure, emitted: &mut Emitted) -> Result<()> {
        let blame = match self.is_broadcast(whole.port) {
            true => Some(Blame::Broadcast),
            false => (self.place.settings.on_error == OnError::Fail).then_some(Blame::Record),
        };
        match blame {
            Some(_) if !self.may_be_the_sum(&failure) => Err(self.blame(whole, failure)),
            blame => self.work_in_parts(whole, &failure, blame, Some(emitted)),
        }
    }

    /// Whether a call may have failed only because of what all that was handed to it came to, and can be made again in parts. A guest that
    /// keeps memory has lost it with its instance.
    pub(super) fn may_be_the_sum(&self, failure: &Failure) -> bool {
        matches!(failure.cause, Cause::Limit(_)) && !self.place.component.descriptor().snapshot_hook
    }

    /// A batch has failed and so has the job: finds the record to blame.
    pub(super) fn blame(&mut self, whole: &Arrived<'_>, failure: Failure) -> Error {
        let blame = if self.is_broadcast(whole.port) { Blame::Broadcast } else { Blame::Record };
        let found = self.work_in_parts(whole, &failure, Some(blame), None);
        found.err().unwrap_or_else(|| self.place.error(&format!("a batch of {} records", whole.batch.len()), &failure, Blame::Operator))
    }

    /// Works on a batch that has failed in ever smaller parts, each a transaction, until all of it is done but the records that fail on
    /// their own. With `blame` the first of these is the error. Without `emitted`, nothing is kept of what the parts emit.
    ///
    /// # Errors
    /// Also when the parts together emit more than [`MOST_EMITTED`] times the limit of a call.
    fn work_in_parts(
        &mut self,
        whole: &Arrived<'_>,
        failure: &Failure,
        blame: Option<Blame>,
        mut emitted: Option<&mut Emitted>,
    ) -> Result<()> {
        let (mut todo, mut of_part, mut waiting) = (Vec::new(), Vec::new(), 0);
        self.split(whole, (0, whole.batch.len()), failure, blame, &mut todo)?;
        let mut spent = true;
        while let Some((from, to)) = todo.pop() {
            if from == to {
                continue;
            }
            let end = to.min(from + PIECE);
            todo.push((end, to));
            let attempted = self.attempt(whole, from, end, spent)?;
            spent = attempted.is_err();
            match attempted {
                Ok(()) => {
                    self.keep(whole, from, &mut of_part)?;
                    if let Some(emitted) = &mut emitted {
                        waiting += bytes(&of_part);
                        self.check_emitted(whole, waiting)?;
                        emitted.append(&mut of_part);
                    }
                    of_part.clear();
                }
                Err(failed) => self.split(whole, (from, end), &failed, blame, &mut todo)?,
            }
        }
        self.ready(spent, self.place.settings.limits.time)
    }

    /// The parts of a batch have emitted `waiting` bytes so far: what one operator may fill the host's memory with has an end.
    fn check_emitted(&self, whole: &Arrived<'_>, waiting: u64) -> Result<()> {
        let limits = self.place.settings.limits;
        if waiting <= limits.emitted.saturating_mul(MOST_EMITTED) {
            return Ok(());
        }
        let failure = Failure::emitted_in_parts(limits, MOST_EMITTED);
        Err(self.place.error(&format!("a batch of {} records", whole.batch.len()), &failure, Blame::Operator))
    }

    /// Records `from..to` have failed: leaves out the one to blame, unless that is the error, or halves. `todo` is a stack.
    fn split(
        &mut self,
        whole: &Arrived<'_>,
        (from, to): (usize, usize),
        failure: &Failure,
        blame: Option<Blame>,
        todo: &mut Vec<(usize, usize)>,
    ) -> Result<()> {
        let said = failure.guilty().map(|record| from + record).filter(|&record| record < to);
        match (said.or((to - from == 1).then_some(from)), blame) {
            (Some(record), Some(blame)) => Err(self.place.record_error(whole, record, failure, blame)),
            (Some(record), None) => {
                todo.push((record + 1, to));
                todo.push((from, record));
                self.give_up(whole, record, &failure.message)
            }
            (None, _) => {
                let middle = from + (to - from) / 2;
                todo.push((middle, to));
                todo.push((from, middle));
                Ok(())
            }
        }
    }

    /// A record can't be worked on: counts it, and writes its dead letter.
    fn give_up(&mut self, whole: &Arrived<'_>, record: usize, why: &str) -> Result<()> {
        self.counts().add_failed();
        let OperatorPlace { context, settings, subtask, .. } = &self.place;
        if self.flood.add(clock::now()) {
            let message = format!(
                "operator `{}`: more than {} records have failed within a minute; the last one, in subtask {subtask}, was {}, which {why}",
                context.operator,
                self.flood.limit(),
                whole.describe(record)
            );
            let error = Error::new(Kind::Job, message).help("mend the operator or its input, or raise the operator's `max-errors`");
            match &self.trial {
                None => return Err(error.for_people()),
                Some(trial) if trial.back.is_none() => return Err(error),
                // When the batch is worked on, the old component takes over.
                Some(_) => drop(self.flooded.get_or_insert(error)),
            }
        }
        if self.trial.is_some() {
            self.last_failed = Some(format!("{}, which {why}", whole.describe(record)));
        }
        tracing::debug!(operator = context.operator, subtask, record = whole.describe(record), "failed: {why}");
        if settings.on_error == OnError::DeadLetter {
            self.letters.push(letter(&self.place, whole, record, why).to_string().as_bytes());
        }
        Ok(())
    }

    /// Sends off the dead letters that have come together.
    pub(super) fn drain_letters(&mut self, emitted: &mut Emitted) {
        let port = self.place.dead_letters;
        emitted.extend(self.letters.0.drain(..).map(|values| (port, None, Batch { values, ..Batch::default() })));
    }

    /// Runs records `from..to`, on a fresh instance if the one at hand is `spent`: a call has failed on it. The outer error ends the
    /// search: the job is being cancelled, no instance could be opened, or the disk has failed.
    fn attempt(&mut self, whole: &Arrived<'_>, from: usize, to: usize, spent: bool) -> Result<Result<(), Failure>> {
        if self.place.control.is_cancelled() {
            return Err(Error::new(Kind::Job, "the job has ended while a record that fails was looked for"));
        }
        let limit = self.place.settings.limits.time;
        self.ready(spent, if to - from == 1 { limit } else { limit.min(PROBE_TIME) })?;
        match self.instance().process(u32::from(whole.port), &mut part(whole.batch, from, to)) {
            Err(failure) if failure.cause.ends_attempt() => Err(self.place.attempt_ended(&failure)),
            processed => Ok(processed),
        }
    }

    /// Has an instance ready whose calls may take as long as `time`: a fresh one if the one at hand is spent.
    pub(super) fn ready(&mut self, spent: bool, time: Duration) -> Result<()> {
        if spent {
            return self.renew(time);
        }
        self.instance().set_time(time);
        Ok(())
    }

    /// Has a fresh instance take over state and outputs; its calls may take as long as `time`.
    fn renew(&mut self, time: Duration) -> Result<()> {
        let (state, outputs) = self.instance.take().expect("there is an instance between calls").into_parts();
        let OperatorPlace { component, context, settings, .. } = &self.place;
        match Instance::open(component, context, settings.limits, settings.on_error, state, outputs) {
            Ok(instance) => {
                self.instance.insert(instance).set_time(time);
                Ok(())
            }
            // The job fails then, and its state is that of the last checkpoint.
            Err(unopened) => Err(self.place.error("opening it again", &unopened.failure, Blame::Operator)),
        }
    }
}

impl OperatorPlace {
    /// What failed, naming operator and subtask.
    pub(super) fn error(&self, what: &str, failure: &Failure, blame: Blame) -> Error {
        if failure.cause.ends_attempt() {
            return self.attempt_ended(failure);
        }
        let message = format!("operator `{}`, subtask {}: {what}: {}", self.context.operator, self.subtask, failure.message);
        let help = match failure.cause {
            Cause::Limit(limit) => {
                format!("raise `limits = {{ {} = … }}` of the operator if it needs more; otherwise mend the operator", limit.key())
            }
            _ => match blame {
                Blame::Record => "nothing of its batch was kept: mend the operator or its input and run the job again, or set `on-error = \"skip\"` or \"dead-letter\"",
                Blame::Broadcast => "it came to a broadcast input, where `on-error` does not count, because all subtasks must have the same: mend the operator or its input and run the job again",
                Blame::Operator => "mend the operator, then run the job again: it resumes from its last checkpoint",
            }
            .into(),
        };
        Error::new(Kind::Job, message).help(help)
    }

    /// The same of a record, by which that is known when it comes again.
    pub(super) fn record_error(&self, whole: &Arrived<'_>, record: usize, failure: &Failure, blame: Blame) -> Error {
        let error = self.error(&whole.describe(record), failure, blame);
        if failure.cause.ends_attempt() {
            return error;
        }
        error.about(RecordId { operator: self.context.operator.clone(), place: whole.place(record) })
    }

    /// State on the local disk can't be reached, or the attempt has ended already, which no record is to blame for.
    pub(super) fn attempt_ended(&self, failure: &Failure) -> Error {
        let message = format!("operator `{}`, subtask {}: {}", self.context.operator, self.subtask, failure.message);
        match failure.cause {
            Cause::Disk => Error::new(Kind::Storage, message).help(ColdFault::HELP),
            _ => Error::new(Kind::Job, message),
        }
    }
}

/// Bytes of memory that it takes.
fn bytes(emitted: &Emitted) -> u64 {
    emitted.iter().map(|(_, _, batch)| batch.bytes() as u64).sum()
}

/// Records `from..to` of a batch; its keys stay.
pub(super) fn part(batch: &Batch, from: usize, to: usize) -> Batch {
    let range = |length: usize| if length == 0 { 0..0 } else { from..to };
    Batch {
        keys: batch.keys.clone(),
        hashes: batch.hashes.clone(),
        key_of: batch.key_of[range(batch.key_of.len())].to_vec(),
        values: (from..to).map(|index| batch.values.get(index)).collect::<Column>(),
        timestamps: batch.timestamps[range(batch.timestamps.len())].to_vec(),
    }
}

/// The dead letter of a record: who could not work on it, where it came from if that is known, why, and its bytes.
fn letter(place: &OperatorPlace, whole: &Arrived<'_>, record: usize, why: &str) -> Value {
    let &Arrived { batch, origin, .. } = whole;
    let mut letter = Map::new();
    letter.insert("job".into(), place.context.job.clone().into());
    letter.insert("operator".into(), place.context.operator.clone().into());
    letter.insert("subtask".into(), place.subtask.into());
    if let Some(origin) = origin {
        letter.insert("split".into(), (*origin.split).into());
        letter.insert("record".into(), (origin.first + record as u64).into());
    }
    letter.insert("error".into(), why.into());
    if let Some(&key) = batch.key_of.get(record) {
        insert_bytes(&mut letter, "key", batch.keys.get(key as usize));
    }
    insert_bytes(&mut letter, "value", batch.values.get(record));
    if let Some(&timestamp) = batch.timestamps.get(record) {
        letter.insert("timestamp".into(), timestamp.into());
    }
    Value::Object(letter)
}

/// As text if it is text, else in hexadecimal under `NAME-hex`.
fn insert_bytes(letter: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => letter.insert(name.into(), text.into()),
        Err(_) => letter.insert(format!("{name}-hex"), hex(bytes).into()),
    };
}

impl Arrived<'_> {
    /// A record for a message: its value, its key if it has one, cut where they are long, and where it came from.
    pub(super) fn describe(&self, record: usize) -> String {
        let &Arrived { batch, origin, .. } = self;
        let mut text = format!("record {}", preview(batch.values.get(record)));
        if let Some(&key) = batch.key_of.get(record) {
            text += &format!(" with key {}", preview(batch.keys.get(key as usize)));
        }
        if let Some(origin) = origin {
            text += &format!(" (number {} of split `{}`)", origin.first + record as u64, origin.split);
        }
        text
    }

    /// Where a record was read; if that is not known, its content.
    fn place(&self, record: usize) -> RecordPlace {
        let &Arrived { batch, origin, .. } = self;
        if let Some(origin) = origin {
            return RecordPlace::Split { split: origin.split.to_string(), number: origin.first + record as u64 };
        }
        let key = batch.key_of.get(record).map(|&key| batch.keys.get(key as usize));
        RecordPlace::Content(hash_record(key, batch.values.get(record)))
    }
}

/// Bytes for a message: as text if it is text, else in hexadecimal, cut where they are long.
pub(super) fn preview(bytes: &[u8]) -> String {
    const LONGEST: usize = 160;
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => {
            let shown: String = text.chars().take(LONGEST).collect();
            let more = if shown.len() < text.len() { format!("… ({} bytes)", bytes.len()) } else { String::new() };
            format!("`{shown}{more}`")
        }
        _ => {
            let shown = &bytes[..bytes.len().min(LONGEST)];
            let more = if shown.len() < bytes.len() { format!("… ({} bytes)", bytes.len()) } else { String::new() };
            format!("0x{}{more}", hex(shown))
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_go_in_batches_of_bounded_size() {
        let mut letters = Letters::default();
        let (long, longest) = (vec![b'x'; LETTERS_BYTES / 2], vec![b'y'; 2 * LETTERS_BYTES]);
        for letter in [&long, &long, &long, &longest, &long] {
            letters.push(letter);
        }
        assert_eq!(letters.0.iter().map(Column::len).collect::<Vec<_>>(), [2, 1, 1, 1]);
    }
}
