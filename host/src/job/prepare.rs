//! [`Prepared`]: a plan with everything that it needs opened and checked, before anything of the job itself is touched.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::connectors::{self, Sink, Source};
use crate::dataflow::Splits;
use crate::error::{Error, Kind, Result};
use crate::plan::{ComponentRef, Descriptor, Layout, Location, NodeKind, Plan, fit};
use crate::wasm::{Component, Engine, Interrupt};

/// A plan with its components, sources and sinks; vectors have an entry for each node.
#[derive(Clone)]
pub struct Prepared {
    pub(super) plan: Arc<Plan>,
    pub(super) layout: Layout,
    pub(super) components: Vec<Option<Arc<Component>>>,
    pub(super) sources: Vec<Option<Splits>>,
    pub(super) sinks: Vec<Option<Arc<dyn Sink>>>,
}

impl Prepared {
    /// Loads the components, checks that they fit together, and looks at the sources. Writes nothing but the compile cache. Takes its time,
    /// and runs guests, whose calls end with `interrupt`: not for a thread that others wait for.
    ///
    /// # Errors
    /// What is not in order.
    pub fn new(plan: &Plan, engine: &Engine, interrupt: &Interrupt) -> Result<Self> {
        let plan = grant(plan.clone())?;
        let components = load_components(&plan, engine, interrupt)?;
        let descriptors = descriptors(&components);
        fit(&plan, &descriptors)?;
        let layout = Layout::new(&plan, &descriptors);
        let (mut sources, mut sinks) = (Vec::new(), Vec::new());
        for node in &plan.nodes {
            sources.push(match &node.kind {
                NodeKind::Source(settings) => {
                    let source: Arc<dyn Source> = connectors::source(&node.uid, settings).into();
                    let names = source.splits()?;
                    Some(Splits { source, names })
                }
                _ => None,
            });
            sinks.push(match &node.kind {
                NodeKind::Sink(settings) => Some(connectors::sink(&node.uid, settings).into()),
                _ => None,
            });
        }
        Ok(Prepared { plan: Arc::new(plan), layout, components, sources, sinks })
    }

    /// What the components say about themselves.
    pub(super) fn descriptors(&self) -> Vec<Option<Descriptor>> {
        descriptors(&self.components)
    }

    /// The same with another component for an operator, which has been found to fit.
    pub(super) fn with(&self, node: usize, component: &Arc<Component>) -> Self {
        let mut changed = self.clone();
        changed.components[node] = Some(Arc::clone(component));
        changed.layout.set_outputs(node, component.descriptor().outputs.len());
        changed
    }
}

fn descriptors(components: &[Option<Arc<Component>>]) -> Vec<Option<Descriptor>> {
    components.iter().map(|component| component.as_ref().map(|component| component.descriptor().clone())).collect()
}

/// The plan with the values of all variables that it grants.
fn grant(mut plan: Plan) -> Result<Plan> {
    for node in &mut plan.nodes {
        let NodeKind::Operator(settings) = &mut node.kind else { continue };
        settings.grants.fill_in(|name| std::env::var(name).ok()).map_err(|name| {
            let uid = &node.uid;
            let why = if std::env::var_os(&name).is_some() { "is not UTF-8" } else { "is not set" };
            let message = format!("operator `{uid}`: it is granted the host's environment variable `{name}`, which {why}");
            let help =
                format!("set `{name}` where cofferdam is started, or give its value in the job file: `environment = [\"{name}=…\"]`");
            Error::new(Kind::Config, message).help(help)
        })?;
    }
    Ok(plan)
}

/// Each component once, however many operators it serves.
fn load_components(plan: &Plan, engine: &Engine, interrupt: &Interrupt) -> Result<Vec<Option<Arc<Component>>>> {
    let mut loaded: HashMap<&Path, Arc<Component>> = HashMap::new();
    let mut components = Vec::new();
    for node in &plan.nodes {
        let NodeKind::Operator(settings) = &node.kind else {
            components.push(None);
            continue;
        };
        let named = |error: Error| error.context(format!("operator `{}`", node.uid));
        let path = file(&settings.component).map_err(named)?;
        let component = match loaded.get(path) {
            Some(component) => Arc::clone(component),
            None => Arc::new(Component::load(engine, path, settings.limits, interrupt).map_err(named)?),
        };
        loaded.insert(path, Arc::clone(&component));
        components.push(Some(component));
    }
    Ok(components)
}

/// The file of a component.
fn file(component: &ComponentRef) -> Result<&Path> {
    match component {
        ComponentRef::File(path) => Ok(path),
        kept => Err(Error::new(Kind::Component, format!("component `{kept}` is one that a host keeps"))
            .help("deploy the job to a host that has it, or give the path of its file")),
    }
}

/// Where compiled components are kept, by the XDG base directory specification.
pub fn cache_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("cofferdam"))
}

/// What `validate` tells of a job that is in order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The job's name.
    pub job: String,
    /// Worker threads.
    pub parallelism: u16,
    /// Key groups.
    pub max_parallelism: u16,
    /// Where its checkpoints go.
    pub checkpoint_dir: Location,
    /// Chains: uids of the nodes that run without an exchange between them.
    pub chains: Vec<Vec<String>>,
    /// The operators' components.
    pub operators: Vec<OperatorReport>,
    /// How many splits each source has.
    pub sources: Vec<SourceReport>,
}

/// What `validate` tells of an operator.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OperatorReport {
    /// Its uid.
    pub uid: String,
    /// Its component.
    pub component: PathBuf,
    /// BLAKE3 of the component's file.
    pub digest: String,
    /// What the component says about itself.
    pub descriptor: Descriptor,
}

/// What `validate` tells of a source.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SourceReport {
    /// Its uid.
    pub uid: String,
    /// How many splits it has.
    pub splits: usize,
}

impl Prepared {
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn report(&self) -> Report {
        let plan = &self.plan;
        let uid = |node: usize| plan.nodes[node].uid.clone();
        let operator = |(node, component): (usize, &Option<Arc<Component>>)| {
            let component = component.as_ref()?;
            let (path, digest, descriptor) = (component.path().into(), component.digest().into(), component.descriptor().clone());
            Some(OperatorReport { uid: uid(node), component: path, digest, descriptor })
        };
        let source = |(node, source): (usize, &Option<Splits>)| Some(SourceReport { uid: uid(node), splits: source.as_ref()?.names.len() });
        Report {
            job: plan.name.clone(),
            parallelism: plan.parallelism,
            max_parallelism: plan.max_parallelism,
            checkpoint_dir: plan.checkpoint.dir.clone(),
            chains: self
                .layout
                .chains
                .iter()
                .filter(|chain| !chain.nodes().is_empty())
                .map(|chain| chain.nodes().iter().map(|&node| uid(node)).collect())
                .collect(),
            operators: self.components.iter().enumerate().filter_map(operator).collect(),
            sources: self.sources.iter().enumerate().filter_map(source).collect(),
        }
    }
}
