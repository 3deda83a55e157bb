//! Builds a plan's chains as a timely dataflow, the same on every worker thread, and runs it.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{Scope, Stream};
use timely::scheduling::SyncActivator;

use super::backlog::Backlog;
use super::chain::{ChainTask, Input, Output, Role, Stage, Surroundings};
use super::control::Control;
use super::credit::Credit;
use super::event::{Event, Events};
use super::flood::Flood;
use super::metrics::Metrics;
use super::operator::{OperatorPlace, OperatorStage};
use super::parcel::Parcel;
use super::sink::{SinkPlace, SinkStage};
use super::source::SourceStage;
use super::splits::SharedSplits;
use super::trial::Trial;
use crate::connectors::{Sink, Source};
use crate::error::{Error, Kind, Result};
use crate::plan::{self, Chain, Layout, NodeKind, OperatorSettings, Plan, Route, Work};
use crate::record::{AttemptId, Outbox, Position, Shape, Spread};
use crate::state::SubtaskState;
use crate::wasm::{Component, Context, GuestLog, GuestMetrics, Interrupt};

/// Everything that one attempt of a job is built from. Vectors have an entry for each node of the plan.
pub struct Blueprint {
    /// The job.
    pub plan: Arc<Plan>,
    /// Its chains.
    pub layout: Layout,
    /// The operators' components.
    pub components: Vec<Option<Arc<Component>>>,
    /// The sources.
    pub sources: Vec<Option<Splits>>,
    /// The sinks.
    pub sinks: Vec<Option<Arc<dyn Sink>>>,
    /// Which attempt it is.
    pub attempt: AttemptId,
    /// The checkpoint that it begins from.
    pub restored_from: Option<u64>,
    /// The first epoch.
    pub epoch: u64,
    /// The operator whose component is on probation, if one is.
    pub trial: Option<(usize, Arc<Trial>)>,
    /// Restored state, by node and subtask; subtasks without begin empty.
    pub states: Mutex<HashMap<(usize, u16), SubtaskState>>,
    /// Restored positions, by node and split; splits without begin at their start.
    pub positions: HashMap<(usize, String), Position>,
    /// What the controller will ask of it.
    pub control: Arc<Control>,
    /// Whom it tells.
    pub events: Events,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
}

impl Blueprint {
    /// Whether a split is for whichever subtask comes first: it is at its start, and the source reads some splits after others.
    fn is_unread(&self, node: usize, split: &str) -> bool {
        let some_wait = self.sources[node].as_ref().is_some_and(|splits| splits.source.read_in_turn() < usize::MAX);
        some_wait && self.positions.get(&(node, split.to_owned())).is_none_or(|position| *position == Position::default())
    }

    /// What the subtasks of a source share; none of other nodes.
    fn shared_splits(&self, node: usize) -> Option<Arc<SharedSplits>> {
        let NodeKind::Source(settings) = &self.plan.nodes[node].kind else { return None };
        let names = self.sources[node].iter().flat_map(|splits| &splits.names);
        let unread = names.filter(|split| self.is_unread(node, split)).map(|split| split.as_str().into());
        Some(Arc::new(SharedSplits::new(unread, settings.rate)))
    }

    /// What the subtasks of an operator count records in that fail; none of other nodes.
    fn flood(&self, node: usize) -> Option<Arc<Flood>> {
        let NodeKind::Operator(settings) = &self.plan.nodes[node].kind else { return None };
        Some(Arc::new(Flood::new(settings.max_errors)))
    }
}

/// A source with the names of all its splits.
#[derive(Clone)]
pub struct Splits {
    /// The source.
    pub source: Arc<dyn Source>,
    /// The names, in the source's order.
    pub names: Vec<String>,
}

/// A dataflow that runs on its worker threads.
pub struct Running {
    /// None only once they are being waited for.
    workers: Option<timely::communication::WorkerGuards<()>>,
    control: Arc<Control>,
}

impl Drop for Running {
    /// Dropping the workers waits for them, so they must not go on.
    fn drop(&mut self) {
        if self.workers.is_some() {
            self.control.cancel();
        }
    }
}

impl Running {
    /// Waits until all workers have ended, which they do after the last epoch, or when cancelled.
    ///
    /// # Errors
    /// When a worker panicked.
    pub fn join(mut self) -> Result<()> {
        let ended = self.workers.take().map(timely::communication::WorkerGuards::join).unwrap_or_default();
        match ended.into_iter().find_map(std::result::Result::err) {
            Some(panic) => Err(Error::new(Kind::Internal, format!("a worker thread panicked: {panic}"))),
            None => Ok(()),
        }
    }
}

/// Starts a dataflow on `parallelism` threads. What can't be opened comes as [`Event::Failed`].
///
/// # Errors
/// When the threads can't be started.
pub fn start(blueprint: Blueprint) -> Result<Running> {
    let parallelism = blueprint.plan.parallelism;
    let subtasks = || (0..parallelism).map(|_| Arc::default()).collect();
    let credits: Arc<Vec<Vec<Arc<Credit>>>> = Arc::new(blueprint.layout.chains.iter().map(|_| subtasks()).collect());
    let control = Arc::clone(&blueprint.control);
    let nodes = 0..blueprint.plan.nodes.len();
    let shared: Vec<_> = nodes.clone().map(|node| blueprint.shared_splits(node)).collect();
    let floods: Vec<_> = nodes.map(|node| blueprint.flood(node)).collect();
    let blueprint = Arc::new(blueprint);
    let span = tracing::Span::current();
    let workers = timely::execute(timely::Config::process(usize::from(parallelism)), move |worker| {
        // Lines of the log say which job they are about.
        let _span = span.enter();
        let _panics = Panics(Arc::clone(&blueprint));
        // There are `parallelism` workers, a u16.
        let subtask = worker.index() as u16;
        worker.dataflow::<u64, _, _>(|scope| {
            let (backlog, streams) = (Rc::default(), HashMap::new());
            Builder { blueprint: &blueprint, credits: &credits, shared: &shared, floods: &floods, backlog, subtask, streams }.build(scope)
        });
        while worker.has_dataflows() && !blueprint.control.is_cancelled() {
            worker.step_or_park(None);
        }
        worker.installed_dataflows().into_iter().for_each(|dataflow| worker.drop_dataflow(dataflow));
    });
    let workers = workers.map_err(|error| {
        // Those that have been started are on their own.
        control.cancel();
        Error::new(Kind::Internal, format!("worker threads could not be started: {error}"))
    })?;
    Ok(Running { workers: Some(workers), control })
}

/// Tells of a worker that panics, and ends the others, which would wait for it.
struct Panics(Arc<Blueprint>);

impl Drop for Panics {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0.events)(Event::Failed(Error::new(Kind::Internal, "a worker thread panicked")));
            self.0.control.cancel();
        }
    }
}

/// Builds one worker's copy of the dataflow.
struct Builder<'a, 's> {
    blueprint: &'a Blueprint,
    credits: &'a Arc<Vec<Vec<Arc<Credit>>>>,
    /// For each node, if it is a source.
    shared: &'a [Option<Arc<SharedSplits>>],
    /// For each node, if it is an operator.
    floods: &'a [Option<Arc<Flood>>],
    backlog: Rc<Backlog>,
    subtask: u16,
    /// Edges whose receiving chain is still to be built.
    streams: HashMap<usize, Stream<'s, u64, Vec<Parcel>>>,
}

impl<'s> Builder<'_, 's> {
    fn build(&mut self, scope: Scope<'s, u64>) {
        for (index, chain) in self.blueprint.layout.chains.iter().enumerate() {
            self.chain(&scope, index, chain);
        }
    }

    fn chain(&mut self, scope: &Scope<'s, u64>, index: usize, chain: &Chain) {
        let mut builder = OperatorBuilder::new(self.name(chain), *scope);
        let address = builder.operator_info().address;
        let waker = || scope.worker().sync_activator_for(address.to_vec());
        self.blueprint.control.register(waker());
        self.credits[index][self.subtask as usize].wakes(waker());
        let activator = scope.worker().activator_for(address.clone());
        let inputs: Vec<Input> = chain.inputs.iter().map(|&edge| self.input(&mut builder, edge)).collect();
        let outputs: Vec<Output> = chain.outputs.iter().map(|&edge| self.output(&mut builder, edge)).collect();
        let around = Surroundings {
            // A plan has far fewer chains than a u16 counts.
            chain: index as u16,
            subtask: self.subtask,
            mode: self.blueprint.plan.checkpoint.mode,
            control: Arc::clone(&self.blueprint.control),
            events: Arc::clone(&self.blueprint.events),
            metrics: Arc::clone(&self.blueprint.metrics),
            credits: Arc::clone(self.credits),
            backlog: Rc::clone(&self.backlog),
            activator,
        };
        let epoch = self.blueprint.epoch;
        let stages = self.stages(index, chain, &waker).unwrap_or_else(|error| {
            (self.blueprint.events)(Event::Failed(error));
            self.blueprint.control.cancel();
            Vec::new()
        });
        builder.build_reschedule(move |capabilities| {
            let mut task = ChainTask::new(around, stages, inputs, outputs, capabilities, epoch);
            move |frontiers| task.step(frontiers)
        });
    }

    fn name(&self, chain: &Chain) -> String {
        let uid = |node: usize| self.blueprint.plan.nodes[node].uid.as_str();
        match &chain.work {
            Work::Run(nodes) => nodes.iter().map(|&node| uid(node)).collect::<Vec<_>>().join(" → "),
            Work::Sequence(node) => format!("sequencer of {}", uid(*node)),
        }
    }

    fn input(&mut self, builder: &mut OperatorBuilder<'s, u64>, edge: usize) -> Input {
        let stream = self.streams.remove(&edge).expect("chains stand in topological order");
        if self.blueprint.layout.edges[edge].exchange != plan::Exchange::None {
            let mut input = builder.new_input(stream, Exchange::new(|parcel: &Parcel| u64::from(parcel.target)));
            Box::new(move |take| input.for_each(|at, parcels| drain(at.least().copied(), parcels, take)))
        } else {
            let mut input = builder.new_input(stream, Pipeline);
            Box::new(move |take| input.for_each(|at, parcels| drain(at.least().copied(), parcels, take)))
        }
    }

    fn output(&mut self, builder: &mut OperatorBuilder<'s, u64>, edge: usize) -> Output {
        let (port, stream) = builder.new_output::<Vec<Parcel>>();
        self.streams.insert(edge, stream);
        let port = OutputBuilder::<_, CapacityContainerBuilder<Vec<Parcel>>>::from(port);
        Output { edge: self.blueprint.layout.edges[edge], waiting: Vec::new(), port }
    }

    fn stages(&self, index: usize, chain: &Chain, waker: &dyn Fn() -> SyncActivator) -> Result<Vec<Stage>> {
        let nodes = match &chain.work {
            Work::Run(nodes) => nodes,
            Work::Sequence(node) => return Ok(vec![Stage { node: *node, role: Role::Sequencer, routes: Vec::new(), emitted: Vec::new() }]),
        };
        let stage = |&node: &usize| {
            let role = match &self.blueprint.plan.nodes[node].kind {
                NodeKind::Source(_) => Role::Source(self.source(node)?),
                NodeKind::Operator(settings) => Role::Operator(Box::new(self.operator(node, settings, waker)?)),
                NodeKind::Sink(_) => Role::Sink(self.sink(index, node)?),
            };
            let local = |route: &Route| match *route {
                Route::Chained(to) => Route::Chained(nodes.iter().position(|&at| at == to).expect("it is in this chain")),
                Route::Edge(edge) => Route::Edge(chain.outputs.iter().position(|&at| at == edge).expect("it leaves this chain")),
            };
            let routes = self.blueprint.layout.routes[node].iter().map(|port| port.iter().map(local).collect()).collect();
            Ok(Stage { node, role, routes, emitted: Vec::new() })
        };
        nodes.iter().map(stage).collect()
    }

    /// Of the splits that are begun already, each belongs to a subtask, which keeps it.
    fn source(&self, node: usize) -> Result<SourceStage> {
        let Splits { source, names } = self.blueprint.sources[node].as_ref().expect("every source node has its source");
        let shared = self.shared[node].as_ref().expect("every source node has them");
        let begun = names.iter().filter(|split| !self.blueprint.is_unread(node, split));
        let own = begun.skip(usize::from(self.subtask)).step_by(usize::from(self.blueprint.plan.parallelism));
        let position = |split: &String| self.blueprint.positions.get(&(node, split.clone())).cloned().unwrap_or_default();
        let splits = own.map(|split| (split.as_str().into(), position(split))).collect();
        SourceStage::new(Arc::clone(source), splits, Arc::clone(shared), self.blueprint.layout.waits[node].clone())
    }

    fn operator(&self, node: usize, settings: &OperatorSettings, waker: &dyn Fn() -> SyncActivator) -> Result<OperatorStage> {
        let Blueprint { plan, components, attempt, restored_from, trial, control, events, metrics, .. } = self.blueprint;
        let component = components[node].as_ref().expect("every operator node has its component");
        let own = Arc::clone(metrics.counts(node, self.subtask).own());
        let context = Context {
            restored_from: *restored_from,
            interrupt: control.interrupt(),
            ..context(plan, node, settings, self.subtask, *attempt, own)
        };
        let restored = self.blueprint.states.lock().unwrap_or_else(PoisonError::into_inner).remove(&(node, self.subtask));
        let state = restored.unwrap_or_else(|| SubtaskState::new(&component.descriptor().states, plan.max_parallelism));
        let ports = &self.blueprint.layout.routes[node];
        // The last port is for dead letters, which come from the host.
        let dead_letters = ports.len() - 1;
        let outboxes = ports[..dead_letters].iter().map(|routes| Outbox::new(self.shape(routes))).collect();
        let (events, metrics, component) = (Arc::clone(events), Arc::clone(metrics), Arc::clone(component));
        let (control, subtask, settings) = (Arc::clone(control), self.subtask, settings.clone());
        let handing_over = settings.state.snapshot_file(plan.parallelism).map(|file| {
            // One that is being written, and the next.
            let credit = Arc::new(Credit::up_to(2 * file));
            credit.wakes(waker());
            credit
        });
        let place = OperatorPlace { node, subtask, dead_letters, control, events, metrics, component, context, settings, handing_over };
        let trial = trial.as_ref().filter(|(at, _)| *at == node).map(|(_, trial)| Arc::clone(trial));
        let flood = self.floods[node].as_ref().expect("every operator node has one");
        OperatorStage::open(place, state, outboxes, Arc::clone(flood), trial)
    }

    /// The forms in which a port's records are needed.
    fn shape(&self, routes: &[Route]) -> Shape {
        let Plan { parallelism, max_parallelism, .. } = *self.blueprint.plan;
        let keyed =
            |route: &Route| matches!(route, Route::Edge(edge) if self.blueprint.layout.edges[*edge].exchange == plan::Exchange::Key);
        let spread = Spread { parallelism, max_parallelism };
        Shape { plain: routes.iter().any(|route| !keyed(route)), keyed: routes.iter().any(keyed).then_some(spread) }
    }

    fn sink(&self, chain: usize, node: usize) -> Result<SinkStage> {
        let Blueprint { plan, sinks, attempt, events, metrics, .. } = self.blueprint;
        let sink = sinks[node].as_ref().expect("every sink node has its sink");
        let writer = sink.open(*attempt, self.subtask)?;
        let (uid, subtask) = (plan.nodes[node].uid.clone(), self.subtask);
        let place = SinkPlace { node, uid, subtask, events: Arc::clone(events), metrics: Arc::clone(metrics) };
        SinkStage::new(place, writer, sink.blocks(), Arc::clone(&self.credits[chain][subtask as usize]))
    }
}

/// What a subtask of an operator may know of where it runs.
pub fn context(
    plan: &Plan,
    node: usize,
    settings: &OperatorSettings,
    subtask: u16,
    attempt: AttemptId,
    metrics: Arc<GuestMetrics>,
) -> Context {
    let uid = &plan.nodes[node].uid;
    Context {
        job: plan.name.clone(),
        operator: uid.clone(),
        subtask,
        parallelism: plan.parallelism,
        max_parallelism: plan.max_parallelism,
        attempt,
        restored_from: None,
        config: settings.config.to_string(),
        environment: settings.grants.environment.clone().into(),
        log: GuestLog::new(uid, subtask, settings.limits.log_lines),
        metrics,
        interrupt: Interrupt::default(),
    }
}

fn drain(at: Option<u64>, parcels: &mut Vec<Parcel>, take: &mut dyn FnMut(u64, Parcel)) {
    let at = at.expect("every parcel is sent at an epoch");
    parcels.drain(..).for_each(|parcel| take(at, parcel));
}
