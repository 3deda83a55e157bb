//! [`ChainTask`]: one chain on one worker: one timely operator. Takes batches, aligns barriers, hands records down the chain and over
//! its edges.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::progress::frontier::MutableAntichain;
use timely::scheduling::Activator;

use super::backlog::Backlog;
use super::control::Control;
use super::credit::Credit;
use super::event::{Event, Events};
use super::metrics::Metrics;
use super::operator::{Emitted, OperatorStage};
use super::parcel::Parcel;
use super::sink::SinkStage;
use super::source::{Origin, Read, SourceStage};
use crate::clock;
use crate::error::Result;
use crate::plan::{Edge, Exchange, Mode, Route};
use crate::record::Batch;

/// Batches worked off before other chains of the worker get their turn.
const BATCHES_PER_STEP: usize = 8;

/// An input: hands every parcel that has arrived, with its epoch, to the given function.
pub(super) type Input = Box<dyn FnMut(&mut dyn FnMut(u64, Parcel))>;

/// An output: parcels that wait to be sent, and where to.
pub(super) struct Output {
    pub(super) edge: Edge,
    pub(super) waiting: Vec<Parcel>,
    pub(super) port: OutputBuilder<u64, CapacityContainerBuilder<Vec<Parcel>>>,
}

/// A node in a chain.
pub(super) struct Stage {
    pub(super) node: usize,
    pub(super) role: Role,
    /// For each output port where records go: to stages and outputs of this chain by index.
    pub(super) routes: Vec<Vec<Route>>,
    pub(super) emitted: Emitted,
}

/// What a stage does.
pub(super) enum Role {
    Source(SourceStage),
    Operator(Box<OperatorStage>),
    Sink(SinkStage),
    /// Hands what comes to broadcast inputs on to all subtasks, in the order in which it comes.
    Sequencer,
}

/// What a chain shares with the rest of the worker and the process.
pub(super) struct Surroundings {
    pub(super) chain: u16,
    pub(super) subtask: u16,
    pub(super) mode: Mode,
    pub(super) control: Arc<Control>,
    pub(super) events: Events,
    pub(super) metrics: Arc<Metrics>,
    /// For each chain, for each of its subtasks.
    pub(super) credits: Arc<Vec<Vec<Arc<Credit>>>>,
    /// Of the worker.
    pub(super) backlog: Rc<Backlog>,
    pub(super) activator: Activator,
}

impl Surroundings {
    /// What the subtask has sent and nobody has worked off yet.
    fn credit(&self) -> &Arc<Credit> {
        &self.credits[usize::from(self.chain)][usize::from(self.subtask)]
    }
}

/// One chain on one worker.
pub(super) struct ChainTask {
    around: Surroundings,
    stages: Vec<Stage>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// One for each output, at the current epoch.
    capabilities: Vec<Capability<u64>>,
    epoch: u64,
    /// Parcels to work on, each with its epoch: of the current one, and of later ones where these need not wait for a barrier.
    ready: VecDeque<(u64, Parcel)>,
    /// Parcels of later epochs, each with its epoch, that are held back while the barrier aligns.
    held: VecDeque<(u64, Parcel)>,
    /// Since when parcels are held back; none while none is.
    holding: Option<Instant>,
    phase: Phase,
}

/// Where in its life a chain is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Its input has ended; the stage at this index is finishing.
    Finishing(usize),
    /// The last barrier is behind it; snapshots are being handed over.
    Draining,
    Done,
}

/// What there is to do next.
enum Work {
    /// For an input port of the head.
    Batch(u16, Batch, Option<Origin>),
    Barrier,
    Finish,
    Wait,
}

impl ChainTask {
    pub(super) fn new(
        around: Surroundings,
        stages: Vec<Stage>,
        inputs: Vec<Input>,
        outputs: Vec<Output>,
        mut capabilities: Vec<Capability<u64>>,
        epoch: u64,
    ) -> Self {
        capabilities.iter_mut().for_each(|capability| capability.downgrade(&epoch));
        let (ready, held) = (VecDeque::new(), VecDeque::new());
        ChainTask { around, stages, inputs, outputs, capabilities, epoch, ready, held, holding: None, phase: Phase::Running }
    }

    /// Does some of what there is to do. Returns whether it must be kept.
    pub(super) fn step(&mut self, frontiers: &[MutableAntichain<u64>]) -> bool {
        let active = !self.around.control.is_cancelled() && self.phase != Phase::Done;
        if active && let Err(error) = self.work(frontiers) {
            (self.around.events)(Event::Failed(error));
            self.around.control.cancel();
        }
        if self.around.control.is_cancelled() {
            self.phase = Phase::Done;
        }
        if self.phase == Phase::Done {
            self.capabilities.clear();
            self.ready.clear();
            self.held.clear();
            self.stages.clear();
        }
        self.phase != Phase::Done
    }

    fn work(&mut self, frontiers: &[MutableAntichain<u64>]) -> Result<()> {
        self.receive();
        self.hear()?;
        for _ in 0..BATCHES_PER_STEP {
            match self.phase {
                Phase::Running => match self.next(frontiers)? {
                    Work::Batch(port, batch, origin) => {
                        let start = clock::now();
                        self.head(port, batch, origin.as_ref())?;
                        self.advance(clock::now() - start)?;
                    }
                    Work::Barrier => self.barrier()?,
                    Work::Finish => self.phase = Phase::Finishing(0),
                    Work::Wait => return self.idle(),
                },
                Phase::Finishing(stage) => {
                    if self.around.credit().is_used_up() {
                        return Ok(());
                    }
                    self.finish(stage)?;
                }
                Phase::Draining => {
                    if self.advance(Duration::ZERO)? {
                        continue;
                    }
                    if self.is_freezing() || self.awaits_commit() {
                        // It is woken when what it has handed over is stored, and by the commit.
                        return Ok(());
                    }
                    self.phase = Phase::Done;
                }
                Phase::Done => return Ok(()),
            }
        }
        self.around.activator.activate();
        Ok(())
    }

    /// Nothing to do for now but what is left of snapshots.
    fn idle(&mut self) -> Result<()> {
        if self.advance(Duration::ZERO)? {
            self.around.activator.activate();
        }
        Ok(())
    }

    /// Takes in what has arrived.
    fn receive(&mut self) {
        let ChainTask { around, stages, inputs, ready, held, holding, epoch, .. } = self;
        // What is broadcast waits even where nothing else does: at a barrier all subtasks must have the same of it.
        let waits = |at: u64, port: u16| match &stages[0].role {
            Role::Operator(operator) if around.mode == Mode::AtLeastOnce => operator.is_broadcast(port) || around.control.parts(*epoch, at),
            _ => around.mode == Mode::ExactlyOnce || around.control.parts(*epoch, at),
        };
        for input in inputs {
            input(&mut |at, parcel| {
                if at == *epoch || !waits(at, parcel.port) {
                    around.backlog.add(parcel.records.bytes());
                    ready.push_back((at, parcel));
                } else {
                    holding.get_or_insert_with(clock::now);
                    held.push_back((at, parcel));
                }
            });
        }
    }

    fn next(&mut self, frontiers: &[MutableAntichain<u64>]) -> Result<Work> {
        if let Role::Source(_) = self.stages[0].role {
            return self.next_of_source();
        }
        // Where nothing is held back, parcels of later epochs may stand before those of this one.
        let is_current = |(at, _): &(u64, Parcel)| *at == self.epoch;
        let has_come = || frontiers.iter().all(|frontier| !frontier.less_equal(&self.epoch));
        if !self.ready.front().is_some_and(is_current) && has_come() && !self.ready.iter().any(is_current) {
            return Ok(if self.around.control.is_last(self.epoch) { Work::Finish } else { Work::Barrier });
        }
        if self.ready.is_empty() || self.around.credit().is_used_up() {
            return Ok(Work::Wait);
        }
        let (_, parcel) = self.ready.pop_front().expect("it was not empty");
        self.around.backlog.take(parcel.records.bytes());
        self.around.credits[parcel.chain as usize][parcel.sender as usize].give_back(parcel.records.bytes());
        Ok(Work::Batch(parcel.port, Arc::unwrap_or_clone(parcel.records), None))
    }

    fn next_of_source(&mut self) -> Result<Work> {
        let Surroundings { control, events, subtask, backlog, activator, .. } = &self.around;
        if control.is_due(self.epoch) {
            return Ok(Work::Barrier);
        }
        let Stage { role: Role::Source(source), node, .. } = &mut self.stages[0] else { return Ok(Work::Wait) };
        if source.is_ended() || control.is_drained() {
            if !source.reported {
                source.reported = true;
                events(Event::Ended { node: *node, subtask: *subtask });
            }
            return Ok(if control.is_last(self.epoch) { Work::Finish } else { Work::Wait });
        }
        let credit = &self.around.credits[self.around.chain as usize][*subtask as usize];
        if !control.may_read(self.epoch)
            || credit.is_used_up()
            || source.has_to_wait(control)
            || backlog.is_high(self.around.chain, activator)
        {
            return Ok(Work::Wait);
        }
        match source.read(self.epoch)? {
            Read::Batch(batch, origin) => {
                self.around.metrics.counts(*node, *subtask).add_in(batch.len() as u64);
                Ok(Work::Batch(0, batch, Some(origin)))
            }
            Read::Later(time) => {
                activator.activate_after(time);
                Ok(Work::Wait)
            }
            Read::Ended => self.next_of_source(),
        }
    }

    /// Gives a batch to the chain's head.
    fn head(&mut self, port: u16, batch: Batch, origin: Option<&Origin>) -> Result<()> {
        match &self.stages[0] {
            Stage { role: Role::Source(_), node, .. } => {
                self.around.metrics.counts(*node, self.around.subtask).add_out(batch.len() as u64);
                self.route(0, 0, None, batch, origin)?;
            }
            Stage { role: Role::Sequencer, .. } => self.broadcast(port, batch),
            _ => self.deliver(0, port, batch, origin)?,
        }
        self.flush();
        Ok(())
    }

    /// Gives a batch to an input port of a stage, and what comes of it to those behind it. `origin` is known right behind a source only.
    fn deliver(&mut self, stage: usize, port: u16, batch: Batch, origin: Option<&Origin>) -> Result<()> {
        let mut emitted = std::mem::take(&mut self.stages[stage].emitted);
        match &mut self.stages[stage].role {
            Role::Operator(operator) => operator.process(port, batch, origin, &mut emitted)?,
            Role::Sink(sink) => sink.write(batch, self.around.credit())?,
            Role::Source(_) | Role::Sequencer => unreachable!("nothing is routed to a source, and what comes to a sequencer is broadcast"),
        }
        self.route_all(stage, emitted)
    }

    fn route_all(&mut self, stage: usize, mut emitted: Emitted) -> Result<()> {
        for (port, target, batch) in emitted.drain(..) {
            self.route(stage, port, target, batch, None)?;
        }
        self.stages[stage].emitted = emitted;
        Ok(())
    }

    /// Sends a batch wherever its port's records go in the batch's form: spread by key if it has a target, else as it is.
    fn route(&mut self, stage: usize, port: usize, target: Option<u16>, batch: Batch, origin: Option<&Origin>) -> Result<()> {
        let records = Arc::new(batch);
        for route in 0..self.stages[stage].routes[port].len() {
            match (self.stages[stage].routes[port][route], target) {
                (Route::Edge(output), _) => match (self.outputs[output].edge, target) {
                    (Edge { exchange: Exchange::Key, port }, Some(target)) => self.send(output, port, target, &records),
                    (Edge { exchange: Exchange::None, port }, None) => self.send(output, port, self.around.subtask, &records),
                    (Edge { exchange: Exchange::First, port }, None) => self.send(output, port, 0, &records),
                    _ => (),
                },
                // A node that is chained has one input.
                (Route::Chained(next), None) if route + 1 == self.stages[stage].routes[port].len() => {
                    return self.deliver(next, 0, Arc::unwrap_or_clone(records), origin);
                }
                (Route::Chained(next), None) => self.deliver(next, 0, Batch::clone(&records), origin)?,
                (Route::Chained(_), Some(_)) => (),
            }
        }
        Ok(())
    }

    /// Sends a batch to every subtask, over the one edge of a sequencer.
    fn broadcast(&mut self, port: u16, batch: Batch) {
        let records = Arc::new(batch);
        for target in 0..self.around.credits[self.around.chain as usize].len() {
            self.send(0, port, target as u16, &records);
        }
    }

    fn send(&mut self, output: usize, port: u16, target: u16, records: &Arc<Batch>) {
        self.around.credit().take(records.bytes());
        let Surroundings { chain, subtask: sender, .. } = self.around;
        self.outputs[output].waiting.push(Parcel { target, port, sender, chain, records: Arc::clone(records) });
    }

    /// Sends off the parcels that wait.
    fn flush(&mut self) {
        for (output, capability) in self.outputs.iter_mut().zip(&self.capabilities) {
            if !output.waiting.is_empty() {
                output.port.activate().session(capability).give_iterator(output.waiting.drain(..));
            }
        }
    }

    /// The barrier that ends the current epoch: to each stage in turn, then on to the next epoch.
    fn barrier(&mut self) -> Result<()> {
        let epoch = self.epoch;
        let aligned = self.holding.take().map_or(Duration::ZERO, |since| clock::now() - since);
        for stage in &mut self.stages {
            match &mut stage.role {
                Role::Source(source) => {
                    let (node, subtask, splits) = (stage.node, self.around.subtask, source.positions(epoch, self.around.subtask));
                    (self.around.events)(Event::Positions { node, subtask, epoch, splits });
                }
                Role::Operator(operator) => operator.barrier(epoch, aligned)?,
                Role::Sink(sink) => sink.barrier(epoch)?,
                Role::Sequencer => {}
            }
        }
        self.epoch += 1;
        self.capabilities.iter_mut().for_each(|capability| capability.downgrade(&self.epoch));
        let held = std::mem::take(&mut self.held);
        for (at, parcel) in held {
            if at == self.epoch {
                self.around.backlog.add(parcel.records.bytes());
                self.ready.push_back((at, parcel));
            } else {
                self.held.push_back((at, parcel));
            }
        }
        self.holding = (!self.held.is_empty()).then(clock::now);
        Ok(())
    }

    /// Lets a stage finish a little more; after the last one the last barrier falls.
    fn finish(&mut self, stage: usize) -> Result<()> {
        let mut emitted = std::mem::take(&mut self.stages[stage].emitted);
        let done = match &mut self.stages[stage].role {
            Role::Operator(operator) => operator.finish(&mut emitted)?,
            _ => true,
        };
        self.route_all(stage, emitted)?;
        self.flush();
        if done && stage + 1 < self.stages.len() {
            self.phase = Phase::Finishing(stage + 1);
        } else if done {
            self.barrier()?;
            self.capabilities.clear();
            self.phase = Phase::Draining;
        }
        Ok(())
    }

    /// Hands over a little more of the snapshots that wait, after a batch that took so long, for all operators together. Returns whether it can do
    /// more at once.
    fn advance(&mut self, worked: Duration) -> Result<bool> {
        let (mut more, start) = (false, clock::now());
        for stage in &mut self.stages {
            if let Role::Operator(operator) = &mut stage.role {
                more |= operator.advance(worked.saturating_sub(clock::now() - start))?;
            }
        }
        Ok(more)
    }

    /// Has operators hear what has become of a component on probation, and those that want to know what has become of checkpoints.
    fn hear(&mut self) -> Result<()> {
        for stage in &mut self.stages {
            if let Role::Operator(operator) = &mut stage.role {
                operator.heed_verdict()?;
                operator.notify()?;
            }
        }
        Ok(())
    }

    fn awaits_commit(&self) -> bool {
        self.stages.iter().any(|stage| matches!(&stage.role, Role::Operator(operator) if operator.awaits_commit()))
    }

    fn is_freezing(&self) -> bool {
        self.stages.iter().any(|stage| matches!(&stage.role, Role::Operator(operator) if operator.is_freezing()))
    }
}
