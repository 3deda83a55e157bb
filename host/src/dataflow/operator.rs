//! [`OperatorStage`]: one subtask of an operator: its instance, its state, and what a barrier and the end of input mean for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::event::{Event, Events};
use super::metrics::Metrics;
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::plan::{Limits, OperatorSettings};
use crate::record::{Batch, Column};
use crate::wasm::{Cause, Component, Context, Failure, Instance};

/// Entries of frozen state that are serialised between two batches.
const SLICE_ENTRIES: usize = 4096;

/// Keys handed to the finish hook at a time.
const FINISH_KEYS: usize = 1024;

/// The longest that a single call may take while the guilty record of a failed batch is looked for.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// Which subtask of which operator, and whom it tells.
pub(super) struct OperatorPlace {
    pub(super) node: usize,
    pub(super) subtask: u16,
    pub(super) events: Events,
    pub(super) metrics: Arc<Metrics>,
    pub(super) component: Arc<Component>,
    pub(super) context: Context,
    pub(super) settings: OperatorSettings,
}

/// One subtask of an operator.
pub(super) struct OperatorStage {
    place: OperatorPlace,
    /// None only while a fresh one takes over.
    instance: Option<Instance>,
    /// Epochs whose snapshots are not yet handed over, oldest first.
    freezing: VecDeque<u64>,
    finish: Finish,
}

/// How far the finish hook is.
enum Finish {
    NotYet,
    /// Keys still to be handed to it.
    Keys(std::vec::IntoIter<(u16, u32)>),
    Done,
}

/// Records on their way out: port, target subtask if spread by key, batch.
pub(super) type Emitted = Vec<(usize, Option<u16>, Batch)>;

impl OperatorStage {
    /// Opens the first instance, over `state`.
    pub(super) fn open(place: OperatorPlace, state: crate::state::KeyedState, outboxes: Vec<crate::record::Outbox>) -> Result<Self> {
        let instance = Instance::open(&place.component, &place.context, place.settings.limits, state, outboxes)
            .map_err(|unopened| place.error("opening it", &unopened.failure, None))?;
        Ok(OperatorStage { place, instance: Some(instance), freezing: VecDeque::new(), finish: Finish::NotYet })
    }

    fn instance(&mut self) -> &mut Instance {
        self.instance.as_mut().expect("there is an instance between calls")
    }

    /// Hands it a batch; what it emits is appended to `emitted`.
    pub(super) fn process(&mut self, mut batch: Batch, emitted: &mut Emitted) -> Result<()> {
        self.counts().add_in(batch.len() as u64);
        match self.instance().process(0, &mut batch) {
            Ok(()) => self.drain(emitted),
            Err(failure) => return Err(self.blame(&batch, failure)),
        }
        Ok(())
    }

    /// The barrier that ends `epoch`.
    pub(super) fn barrier(&mut self, epoch: u64) {
        let start = clock::now();
        self.instance().state().freeze();
        self.freezing.push_back(epoch);
        self.place.metrics.froze(clock::now() - start);
    }

    /// Whether snapshots wait to be handed over.
    pub(super) fn is_freezing(&self) -> bool {
        !self.freezing.is_empty()
    }

    /// Hands over a little more of the oldest snapshot that waits.
    pub(super) fn advance(&mut self) {
        let Some(&epoch) = self.freezing.front() else { return };
        let start = clock::now();
        let slice = self.instance().state().advance(SLICE_ENTRIES);
        if let Some(slice) = slice {
            if slice.last {
                self.freezing.pop_front();
            }
            let OperatorPlace { node, subtask, .. } = self.place;
            (self.place.events)(Event::Snapshot { node, subtask, epoch, slice });
        }
        self.place.metrics.sliced(clock::now() - start);
    }

    /// All its input has ended: calls the finish hook for some more keys. Returns whether it is done.
    pub(super) fn finish(&mut self, emitted: &mut Emitted) -> Result<bool> {
        let mut keys = match std::mem::replace(&mut self.finish, Finish::Done) {
            Finish::NotYet if self.place.component.descriptor().finish_hook => self.instance().state().keys().into_iter(),
            Finish::NotYet | Finish::Done => return Ok(true),
            Finish::Keys(keys) => keys,
        };
        let mut call = Batch::default();
        for place in keys.by_ref().take(FINISH_KEYS) {
            let (key, hash) = self.instance().state().key(place);
            call.keys.push(key);
            call.hashes.push(hash);
        }
        let last = call.keys.is_empty();
        let finished = self.instance().finish(&mut call);
        finished.map_err(|failure| self.place.error("its finish hook", &failure, None))?;
        self.drain(emitted);
        if !last {
            self.finish = Finish::Keys(keys);
        }
        Ok(last)
    }

    fn counts(&self) -> &super::metrics::Counts {
        self.place.metrics.counts(self.place.node, self.place.subtask)
    }

    fn drain(&mut self, emitted: &mut Emitted) {
        let mut records = 0;
        for (port, outbox) in self.instance().outputs().iter_mut().enumerate() {
            records += outbox.drain(|target, batch| emitted.push((port, target, batch)));
        }
        self.counts().add_out(records);
    }

    /// A batch has failed: finds the record that is to blame, by halving where the guest did not say.
    fn blame(&mut self, batch: &Batch, failure: Failure) -> Error {
        let found = match failure.record {
            Some(record) => Some((record, failure.clone())),
            None if failure.cause == Cause::Error => None,
            None => self.halve(batch),
        };
        match found {
            Some((record, failure)) => self.place.error("processing", &failure, Some((batch, record))),
            None => self.place.error(&format!("processing a batch of {} records", batch.len()), &failure, None),
        }
    }

    /// Runs ever smaller parts of a batch on fresh instances until the one record is found at which they fail. What the good parts
    /// write stays, so that every record meets the state that it met before.
    fn halve(&mut self, batch: &Batch) -> Option<(usize, Failure)> {
        let probe = Limits { time: self.place.settings.limits.time.min(PROBE_TIME), ..self.place.settings.limits };
        let (mut from, mut to) = (0, batch.len());
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            match self.attempt(batch, from, middle, probe)? {
                Ok(()) => from = middle,
                Err(Failure { record: Some(record), .. }) if record < middle - from => (from, to) = (from + record, from + record + 1),
                Err(_) => to = middle,
            }
        }
        // Under the full limit, so that a record is not blamed for what only the sum of them took.
        match self.attempt(batch, from, to, self.place.settings.limits)? {
            Ok(()) => None,
            Err(failure) => Some((from, failure)),
        }
    }

    /// Runs records `from..to` on a fresh instance. None: no instance could be opened.
    fn attempt(&mut self, batch: &Batch, from: usize, to: usize, limits: Limits) -> Option<Result<(), Failure>> {
        let (state, outboxes) = self.instance.take()?.into_parts();
        let opened = Instance::open(&self.place.component, &self.place.context, limits, state, outboxes);
        let instance = self.instance.insert(opened.ok()?);
        let done = instance.process(0, &mut part(batch, from, to));
        if done.is_ok() {
            instance.outputs().iter_mut().for_each(crate::record::Outbox::discard);
        }
        Some(done)
    }
}

/// Records `from..to` of a batch; its keys stay.
fn part(batch: &Batch, from: usize, to: usize) -> Batch {
    let range = |length: usize| if length == 0 { 0..0 } else { from..to };
    Batch {
        keys: batch.keys.clone(),
        hashes: batch.hashes.clone(),
        key_of: batch.key_of[range(batch.key_of.len())].to_vec(),
        values: (from..to).map(|index| batch.values.get(index)).collect::<Column>(),
        timestamps: batch.timestamps[range(batch.timestamps.len())].to_vec(),
    }
}

impl OperatorPlace {
    /// What failed, naming operator, subtask and record.
    fn error(&self, doing: &str, failure: &Failure, record: Option<(&Batch, usize)>) -> Error {
        let what = match record {
            None => doing.to_string(),
            Some((batch, record)) => describe(batch, record),
        };
        let message = format!("operator `{}`, subtask {}: {what}: {}", self.context.operator, self.subtask, failure.message);
        let error = Error::new(Kind::Job, message);
        match failure.cause {
            Cause::Deadline => error.help("raise `limits = { time = … }` of the operator if it needs longer; otherwise mend the operator"),
            Cause::Memory => error.help("raise `limits = { memory = … }` of the operator if it needs more; otherwise mend the operator"),
            _ => error.help("nothing of this batch was kept; mend the operator or its input, then run the job again: it resumes from its last checkpoint"),
        }
    }
}

/// A record for a message: its value, its key if it has one, cut where they are long.
fn describe(batch: &Batch, record: usize) -> String {
    let value = preview(batch.values.get(record));
    match batch.key_of.get(record) {
        Some(&key) => format!("record {value} with key {}", preview(batch.keys.get(key as usize))),
        None => format!("record {value}"),
    }
}

fn preview(bytes: &[u8]) -> String {
    const LONGEST: usize = 160;
    let shown = &bytes[..bytes.len().min(LONGEST)];
    let more = if shown.len() < bytes.len() { format!("… ({} bytes)", bytes.len()) } else { String::new() };
    match std::str::from_utf8(shown) {
        Ok(text) if !text.chars().any(char::is_control) => format!("`{text}{more}`"),
        _ => format!("0x{}{more}", shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}
