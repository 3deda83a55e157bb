//! [`Deployment`]: a job as it was deployed, and what is wanted of it. Its file is written before anything is done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::data_dir::unusable;
use super::savepoints::Saving;
use super::state::{Fault, JobState};
use super::swap::{Intended, TakenBack};
use super::unfinished::Unfinished;
use crate::clock;
use crate::config::{self, Defaults, Overrides};
use crate::durable;
use crate::error::{Error, Kind, Result};
use crate::job;
use crate::plan::{ComponentRef, NodeKind, Plan};
use crate::record::AttemptId;
use crate::wasm::Interrupt;

/// The format of the file that this version reads and writes.
const FORMAT: u32 = 1;

const FILE: &str = "job.json";

/// A job as it was deployed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Deployment {
    pub(super) format: u32,
    pub(super) name: String,
    /// What tells the job from others of its name, on other hosts or before it was forgotten.
    #[serde(default = "new_id")]
    pub(super) id: String,
    /// Where the job file lay; paths in it count from there.
    pub(super) file: PathBuf,
    /// The job file.
    pub(super) text: String,
    /// In place of the job file's.
    pub(super) parallelism: Option<u16>,
    /// The digest of each operator's component, by uid.
    pub(super) components: BTreeMap<String, String>,
    pub(super) begin: Begin,
    /// When it was deployed, RFC 3339.
    pub(super) deployed: String,
    pub(super) wanted: Wanted,
    /// The savepoint after which it has stopped, if that is whole.
    #[serde(default)]
    pub(super) saving: Option<Saving>,
    /// Savepoints of which it is not known what has come of them.
    #[serde(default)]
    pub(super) unfinished: Vec<Unfinished>,
    /// A swap of which it is not known what has come of it.
    #[serde(default)]
    pub(super) swap: Option<Intended>,
    /// The last component that was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) taken_back: Option<TakenBack>,
    /// How it has ended, once it has.
    pub(super) ended: Option<Ended>,
    /// For what the job file leaves out. They are the host's own and not written down with the job.
    #[serde(skip)]
    pub(super) defaults: Defaults,
}

/// How a job is to begin, if it has not begun yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Begin {
    pub(super) fresh: bool,
    pub(super) from: Option<String>,
    #[serde(default)]
    pub(super) fallback: bool,
    pub(super) allow_duplicates: bool,
    pub(super) allow_non_restored_state: bool,
    pub(super) claim: bool,
    /// The newest attempt before it was deployed.
    pub(super) since: AttemptId,
}

/// What a user wants of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Wanted {
    /// That it runs until its input ends.
    Running,
    /// That it ends with a last checkpoint.
    Stopped,
    /// That it ends as if all its input ended.
    Drained,
    /// That it ends at once.
    Cancelled,
}

impl Wanted {
    /// For people.
    pub(super) fn text(self) -> &'static str {
        match self {
            Wanted::Running => "to run",
            Wanted::Stopped => "to stop with a last checkpoint",
            Wanted::Drained => "to drain: to end as if all input ended here",
            Wanted::Cancelled => "to end at once",
        }
    }

    /// What to tell the job.
    pub(super) fn order(self) -> Option<job::End> {
        match self {
            Wanted::Running => None,
            Wanted::Stopped => Some(job::End::Stop { signal: None }),
            Wanted::Drained => Some(job::End::Drain),
            Wanted::Cancelled => Some(job::End::Cancel),
        }
    }
}

/// How a job has ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Ended {
    /// Finished, stopped, cancelled or failed.
    pub state: JobState,
    /// When, RFC 3339.
    pub time: String,
    /// Why, if it has failed.
    pub error: Option<Fault>,
    /// What its last process in the host was: records by node, checkpoints; of one that has failed, which attempts had failed before.
    #[schema(value_type = Option<Object>)]
    pub summary: Option<serde_json::Value>,
}

fn new_id() -> String {
    format!("{:016x}", clock::entropy())
}

impl Deployment {
    /// A job that is to run from now on.
    pub(super) fn new(plan: &Plan, text: String, parallelism: Option<u16>, begin: Begin, deployed: String) -> Self {
        Deployment {
            format: FORMAT,
            name: plan.name.clone(),
            id: new_id(),
            file: plan.file.clone(),
            text,
            parallelism,
            components: BTreeMap::new(),
            begin,
            deployed,
            wanted: Wanted::Running,
            saving: None,
            unfinished: Vec::new(),
            swap: None,
            taken_back: None,
            ended: None,
            defaults: Defaults::default(),
        }
    }

    /// The deployment in a job's directory; none if none is there.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(&path, &error)),
        };
        let broken = |why: String| {
            let message = format!("{} can't be understood: {why}", path.display());
            Error::new(Kind::Storage, message)
                .help("it was written by another version, or damaged: mend it and start the host again, or deploy the job again")
        };
        let read: Self = serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
        if read.format != FORMAT {
            return Err(broken(format!("it is of format {}, and this version reads {FORMAT}", read.format)));
        }
        Ok(Some(read))
    }

    /// What stands for a deployment that can't be understood: a job that has failed for that reason, and can be deployed again.
    pub(super) fn unreadable(name: &str, error: &Error) -> Self {
        Deployment {
            format: FORMAT,
            name: name.into(),
            id: new_id(),
            file: PathBuf::new(),
            text: String::new(),
            parallelism: None,
            components: BTreeMap::new(),
            begin: Begin {
                fresh: false,
                from: None,
                fallback: false,
                allow_duplicates: false,
                allow_non_restored_state: false,
                claim: false,
                since: AttemptId::NONE,
            },
            deployed: String::new(),
            wanted: Wanted::Running,
            saving: None,
            unfinished: Vec::new(),
            swap: None,
            taken_back: None,
            ended: Some(Ended { state: JobState::Failed, time: clock::wall_text(), error: Some(Fault::from(error)), summary: None }),
            defaults: Defaults::default(),
        }
    }

    /// Writes it into the job's directory, durably, in place of what is there.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        let path = dir.join(FILE);
        durable::create_dirs(dir).and_then(|()| durable::replace(&path, &text)).map_err(|error| unusable(&path, &error))
    }

    /// Removes the job's directory, or what is left of it.
    pub(super) fn remove(&self, dir: &Path) -> Result<()> {
        // First what makes it a job: if this ends in between, nothing of it is left that counts.
        let path = dir.join(FILE);
        let removed = match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => durable::sync_dir(dir).and_then(|()| std::fs::remove_dir_all(dir)),
        };
        removed.map_err(|error| unusable(&path, &error))
    }

    /// The plan, with each operator's component where `component` says that its digest lies.
    pub(super) fn plan(&self, component: impl Fn(&str) -> PathBuf) -> Result<Plan> {
        let overrides = Overrides { parallelism: self.parallelism, defaults: self.defaults.clone() };
        let mut plan = config::parse(&self.file, self.text.clone(), &overrides)?;
        for node in &mut plan.nodes {
            if let NodeKind::Operator(settings) = &mut node.kind {
                let digest = self
                    .components
                    .get(&node.uid)
                    .ok_or_else(|| Error::new(Kind::Internal, format!("operator `{}` was deployed without a component", node.uid)))?;
                settings.component = ComponentRef::File(component(digest));
            }
        }
        Ok(plan)
    }

    /// The plan, to know of the job what does not depend on its components, which it has nowhere.
    pub(super) fn plan_without_components(&self) -> Result<Plan> {
        self.plan(|_| PathBuf::new())
    }

    /// How its next attempt begins; `component` says where a digest lies.
    pub(super) fn options(&self, unattended: bool, component: impl Fn(&str) -> PathBuf) -> job::Options {
        let Begin { fresh, from, fallback, allow_duplicates, allow_non_restored_state, claim, since } = self.begin.clone();
        let swap = self.swap.as_ref().map(|swap| swap.resumed(component(&swap.to.digest)));
        let since = Some(since);
        let interrupt = Interrupt::default();
        job::Options { fresh, from, fallback, allow_duplicates, allow_non_restored_state, claim, since, unattended, swap, interrupt }
    }

    /// The digests of all components that it needs.
    pub(super) fn digests(&self) -> impl Iterator<Item = &String> {
        self.components.values().chain(self.swap.iter().map(|swap| &swap.to.digest))
    }
}
