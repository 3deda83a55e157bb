//! [`Host`]: the jobs and components of a data directory, and what can be asked of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::components::{Components, Kept};
use super::data_dir::{DataDir, names};
use super::deployment::{Begin, Deployment, Wanted};
use super::disposals::Disposals;
use super::event::{Event, Happened};
use super::job::Job;
use super::journal::Entry;
use super::life::{self, Surroundings};
use super::log::{LogLine, LogReader};
use super::swap::Intended;
use super::view::{JobDetails, JobOverview};
use crate::clock;
use crate::config::{self, Defaults, Overrides};
use crate::error::{Error, Kind, Result};
use crate::job::{self, ComponentFacts, ComponentInspection, Listing, SwapReport, WayBack};
use crate::plan::{ComponentRef, NodeKind, Plan, Role, is_digest};
use crate::record::AttemptId;
use crate::wasm::{Engine, Interrupt};

/// Jobs by name.
type Jobs = Arc<Mutex<BTreeMap<String, Arc<Job>>>>;

/// Nobody waits longer than that for a host's end.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A running host.
pub struct Host {
    data: DataDir,
    around: Arc<Surroundings>,
    jobs: Jobs,
    /// Held by whoever changes which jobs or components there are.
    changing: Mutex<()>,
    disposals: Arc<Disposals>,
}

/// A job to deploy.
#[derive(Clone, Debug, Default)]
pub struct Deploy {
    /// The job file.
    pub text: String,
    /// Where it lies: paths in it count from there. None: in the directory that the host was started in.
    pub file: Option<PathBuf>,
    /// In place of the job file's.
    pub parallelism: Option<u16>,
    /// Digests of operators' components, by uid. Those of others are found as the job file names them.
    pub components: BTreeMap<String, String>,
    /// A new run without state, beside what is there.
    pub fresh: bool,
    /// The checkpoint or savepoint to begin from, as in [`job::Options`].
    pub from: Option<String>,
    /// If the newest checkpoint is damaged, begin from the newest one that is whole.
    pub fallback: bool,
    /// Begin from `from` even if output of newer checkpoints is published already.
    pub allow_duplicates: bool,
    /// Leave out state of operators and sources that the job has no longer.
    pub allow_non_restored_state: bool,
    /// `from` is a savepoint, and belongs to the job from now on.
    pub claim: bool,
}

/// A component that is to take an operator over.
#[derive(Clone, Debug)]
pub struct Swap {
    /// One that the host keeps.
    pub component: ComponentRef,
    /// Only find out whether it fits.
    pub dry_run: bool,
    /// How long the old one stays at hand.
    pub probation: Duration,
    /// What follows if the new one fails meanwhile.
    pub way_back: WayBack,
    /// It fails when the share of its records that fail is more than this many times that of the old one.
    pub error_factor: f64,
}

impl Host {
    /// Opens a data directory and has all jobs go on that should run. One that can't is told to have failed. What `log` brings is kept
    /// by job; `defaults` are for what job files leave out.
    ///
    /// # Errors
    /// Kind `Storage`: the directory can't be used. Nothing has changed then.
    pub fn open(data: &Path, defaults: Defaults, log: LogReader) -> Result<Arc<Host>> {
        let data = DataDir::open(data)?;
        let components = Components::new(data.components());
        components.tell_lost();
        let cache = job::cache_dir().unwrap_or_else(|| data.cache());
        let around = Surroundings { engine: Engine::new(Some(cache))?, components, defaults, closing: AtomicBool::new(false) };
        let around = Arc::new(around);
        let mut jobs = BTreeMap::new();
        for name in names(&data.jobs())? {
            let dir = data.jobs().join(&name);
            let deployment = match Deployment::read(&dir) {
                Ok(Some(deployment)) => Deployment { defaults: around.defaults.clone(), ..deployment },
                // Left from a deployment that was not written down.
                Ok(None) => continue,
                Err(error) => {
                    tracing::error!("{error}");
                    Deployment::unreadable(&name, &error)
                }
            };
            jobs.insert(name, Arc::new(Job::new(dir, deployment)));
        }
        let running: Vec<Arc<Job>> = jobs.values().filter(|job| !job.is_ended()).cloned().collect();
        let jobs: Jobs = Arc::new(Mutex::new(jobs));
        let found = Arc::clone(&jobs);
        log.run(move |name| lock(&found).get(name).cloned())?;
        lock(&jobs).values().for_each(Job::clear_interrupted_beside);
        running.iter().for_each(|job| life::begin(job, &around, None));
        Ok(Arc::new(Host { data, around, jobs, changing: Mutex::default(), disposals: Arc::default() }))
    }

    /// Has all jobs take a last checkpoint, and waits for that, but no longer than `limit` in all. They go on when the host is started again;
    /// one that has not come so far, from its newest checkpoint, as if the host had been killed.
    ///
    /// # Errors
    /// Kind `Job`, naming those that have not come to an end. They still run.
    pub fn close(&self, limit: Duration) -> Result<()> {
        {
            // No job begins any more.
            let _changing = lock(&self.changing);
            self.around.closing.store(true, Ordering::SeqCst);
        }
        let jobs = self.all_jobs();
        jobs.iter().for_each(|job| job.suspend());
        let until = clock::now() + limit.min(LONGEST);
        let running: Vec<String> = jobs.iter().filter(|job| !job.rest(until)).map(|job| format!("`{}`", job.name())).collect();
        if running.is_empty() {
            return Ok(());
        }
        let limit = humantime::format_duration(limit);
        let message = format!("no last checkpoint of job {} within {limit}", running.join(", "));
        Err(Error::new(Kind::Job, message)
            .help("nothing is lost: it goes on from its newest checkpoint. Raise `--stop-timeout`, or find out what it waits for"))
    }

    /// All jobs, by name.
    pub fn jobs(&self) -> Vec<JobOverview> {
        self.all_jobs().iter().map(|job| job.overview()).collect()
    }

    /// All about all jobs, by name.
    pub fn all_details(&self) -> Vec<JobDetails> {
        self.all_jobs().iter().map(|job| job.details()).collect()
    }

    /// A job.
    ///
    /// # Errors
    /// Kind `NotFound`.
    pub fn job(&self, name: &str) -> Result<JobDetails> {
        Ok(self.find(name)?.details())
    }

    /// What has happened to a job: up to `limit` events from number `from` on, or the last ones.
    ///
    /// # Errors
    /// Kind `NotFound`; `Storage` if they can't be read.
    pub fn events(&self, name: &str, from: Option<u64>, limit: usize) -> Result<Vec<Entry<Event>>> {
        self.find(name)?.events().read(from, limit)
    }

    /// What was logged about a job, as [`Host::events`].
    ///
    /// # Errors
    /// As [`Host::events`].
    pub fn log(&self, name: &str, from: Option<u64>, limit: usize) -> Result<Vec<Entry<LogLine>>> {
        self.find(name)?.log().read(from, limit)
    }

    /// The checkpoints of a job, as they lie where the job file says.
    ///
    /// # Errors
    /// Kind `NotFound`; `Checkpoint` if no run of it has begun; `Storage` if they can't be read.
    pub fn checkpoints(&self, name: &str) -> Result<Listing> {
        let plan = self.find(name)?.deployed().plan(|digest| self.around.components.path(digest))?;
        job::checkpoints(&plan.checkpoint.dir, &plan.checkpoint.access, &plan.name)
    }

    /// Deploys a job: checks everything, writes it down, and begins.
    ///
    /// # Errors
    /// What is not in order; kind `Conflict` if a job of this name has not ended, or a savepoint of it is being taken. Nothing has changed then.
    pub fn deploy(&self, wanted: Deploy) -> Result<JobDetails> {
        let file = match wanted.file.clone() {
            Some(file) if file.is_absolute() => file,
            Some(file) => {
                let message = format!("the job file's path {} is relative, and to what is not known here", file.display());
                return Err(Error::new(Kind::Request, message).help("give the absolute path from which paths in the job file count"));
            }
            None => std::path::absolute("job.toml").map_err(|error| Error::new(Kind::Internal, error.to_string()))?,
        };
        if wanted.fallback && (wanted.fresh || wanted.from.is_some()) {
            let message = "`fallback` is about the newest checkpoint, and the job is to begin from another or without one";
            return Err(Error::new(Kind::Request, message).help("leave out `fallback`, or else `fresh` and `from`"));
        }
        self.require_open()?;
        let overrides = Overrides { parallelism: wanted.parallelism, defaults: self.around.defaults.clone() };
        let plan = config::parse(&file, wanted.text.clone(), &overrides)?;
        self.existing(&plan.name).map_or(Ok(()), |job| job.require_end())?;
        let named = |error: Error| error.context(format!("job `{}`", plan.name));
        let components = self.components_of(&plan, &wanted.components).map_err(named)?;
        let Deploy { fresh, from, fallback, allow_duplicates, allow_non_restored_state, claim, .. } = wanted;
        let begin = Begin { fresh, from, fallback, allow_duplicates, allow_non_restored_state, claim, since: AttemptId::NONE };
        let mut deployment = Deployment::new(&plan, wanted.text, wanted.parallelism, begin, clock::wall_text());
        (deployment.components, deployment.defaults) = (components, overrides.defaults);
        let prepared = self.around.prepare(&deployment, &Interrupt::default()).map_err(named)?;
        deployment.begin.since = job::block_on(job::newest_attempt(&plan)).map_err(named)?;

        let _changing = lock(&self.changing);
        self.require_open()?;
        deployment.components.values().try_for_each(|digest| self.component(&ComponentRef::Digest(digest.clone())).map(drop))?;
        let job = match self.existing(&plan.name) {
            Some(job) => {
                // It may have been deployed, and have ended, since that was looked up.
                job.require_end()?;
                deployment.begin.since = job::block_on(job::newest_attempt(&plan)).map_err(named)?;
                job.deploy_again(deployment)?;
                job
            }
            None => {
                let dir = self.data.jobs().join(&plan.name);
                deployment.write(&dir)?;
                let job = Arc::new(Job::new(dir, deployment));
                self.all().insert(plan.name.clone(), Arc::clone(&job));
                job
            }
        };
        job.note(Happened::Deployed, format!("from {}", plan.file.display()));
        life::begin(&job, &self.around, Some(prepared));
        Ok(job.details())
    }

    /// The digest of each operator's component. One that is named by a file which nobody has pushed is pushed from here.
    fn components_of(&self, plan: &Plan, pushed: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
        let is_operator = |uid: &str| plan.nodes.iter().any(|node| node.uid == uid && node.kind.role() == Role::Operator);
        for (uid, digest) in pushed {
            let message = match (is_operator(uid), is_digest(digest)) {
                (true, true) => continue,
                (true, false) => format!("operator `{uid}`: `{digest}` is no component's digest"),
                (false, _) => format!("the job has no operator `{uid}` that could have a component"),
            };
            return Err(Error::new(Kind::Request, message).help("`components` has uids of operators, and BLAKE3 in hexadecimal of files"));
        }
        let mut digests = BTreeMap::new();
        for node in &plan.nodes {
            let NodeKind::Operator(settings) = &node.kind else { continue };
            let named = |error: Error| error.context(format!("operator `{}`", node.uid));
            let wanted = pushed.get(&node.uid).map_or_else(|| settings.component.clone(), |digest| ComponentRef::Digest(digest.clone()));
            let kept = match &wanted {
                ComponentRef::File(path) => {
                    let content = std::fs::read(path).map_err(|error| {
                        named(Error::new(Kind::Component, format!("component `{}` can't be read: {error}", path.display())))
                    })?;
                    self.push(&content, None).map_err(|error| error.context(format!("component `{}`", path.display())))
                }
                kept => self.component(kept),
            };
            digests.insert(node.uid.clone(), kept.map_err(named)?.digest);
        }
        Ok(digests)
    }

    /// Has a job stop with a last checkpoint, or, if it is to be drained, end as if all its input ended here.
    ///
    /// # Errors
    /// Kind `NotFound` or `Conflict`; `Storage` if it can't be written down.
    pub fn stop(&self, name: &str, drain: bool) -> Result<JobDetails> {
        self.end(name, if drain { Wanted::Drained } else { Wanted::Stopped })
    }

    /// Has a job end at once.
    ///
    /// # Errors
    /// As [`Host::stop`].
    pub fn cancel(&self, name: &str) -> Result<JobDetails> {
        self.end(name, Wanted::Cancelled)
    }

    fn end(&self, name: &str, wanted: Wanted) -> Result<JobDetails> {
        let job = self.find(name)?;
        job.end(wanted)?;
        Ok(job.details())
    }

    /// Has a job stop with a last checkpoint and go on with another parallelism.
    ///
    /// # Errors
    /// As [`Host::stop`]; kind `Config` if the job can't have that parallelism.
    pub fn rescale(&self, name: &str, parallelism: u16) -> Result<JobDetails> {
        let job = self.find(name)?;
        job.rescale(parallelism)?;
        Ok(job.details())
    }

    /// Has an operator of a job run another component, from a barrier on, and waits until it does.
    ///
    /// # Errors
    /// Kind `NotFound`, `Conflict` or `Storage`; else why the component does not fit. The job runs on with the one that it had then.
    pub fn swap(&self, name: &str, operator: &str, wanted: Swap) -> Result<SwapReport> {
        let Swap { component, dry_run, probation, way_back, error_factor } = wanted;
        let job = self.find(name)?;
        let (swap, answer) = {
            // So that the component is not removed before it is written down that it is needed.
            let _changing = lock(&self.changing);
            let Kept { digest, name, version, .. } = self.component(&component)?;
            let (path, to) = (self.around.components.path(&digest), ComponentFacts { digest, name, version });
            let (probation_ms, asked) = (probation.as_millis() as u64, clock::wall_text());
            let swap = Intended { operator: operator.into(), to, asked, probation_ms, way_back, error_factor };
            let answer = job.order_swap(swap.clone(), path, dry_run)?;
            (swap, answer)
        };
        job.await_swap(&swap, dry_run, answer)
    }

    /// Forgets a job that has ended. Its checkpoints and output stay where they are.
    ///
    /// # Errors
    /// Kind `NotFound`; `Conflict` if it has not ended, or a savepoint of it is being taken; `Storage` if it can't be removed.
    pub fn forget(&self, name: &str) -> Result<()> {
        let _changing = lock(&self.changing);
        self.find(name)?.forget()?;
        self.all().remove(name);
        Ok(())
    }

    /// Keeps a component.
    ///
    /// # Errors
    /// Kind `Component` if this host can't run it, without a name for it; `Storage` if it can't be written.
    pub fn push(&self, content: &[u8], name: Option<String>) -> Result<Kept> {
        self.around.components.push(&self.around.engine, content, name)
    }

    /// The components that it keeps, from the first pushed to the last.
    ///
    /// # Errors
    /// Kind `Storage` if they can't be read.
    pub fn components(&self) -> Result<Vec<Kept>> {
        self.around.components.list()
    }

    /// The component that is meant.
    ///
    /// # Errors
    /// Kind `NotFound`; `Storage` if it can't be read.
    pub fn component(&self, wanted: &ComponentRef) -> Result<Kept> {
        self.around.components.find(wanted)
    }

    /// What is to be known about a component.
    ///
    /// # Errors
    /// As [`Host::component`].
    pub fn inspect(&self, wanted: &ComponentRef) -> Result<(Kept, ComponentInspection)> {
        let kept = self.component(wanted)?;
        let inspection = self.around.components.inspect(&self.around.engine, &kept)?;
        Ok((kept, inspection))
    }

    /// Removes a component.
    ///
    /// # Errors
    /// Kind `NotFound`; `Conflict` while there is a job that is deployed with it, also if that has ended: it may go on, and savepoints of
    /// its end hold the component.
    pub fn remove(&self, wanted: &ComponentRef) -> Result<Kept> {
        let _changing = lock(&self.changing);
        let kept = self.around.components.find_noted(wanted)?;
        let jobs = self.all_jobs();
        if let Some(job) = jobs.iter().find(|job| job.deployed().digests().any(|digest| *digest == kept.digest)) {
            let (name, state) = (job.name(), job.live().state.name());
            let message = format!("component `{wanted}` is in use by job `{name}`, which is {state}");
            let help = format!("once the job has ended, `cofferdam forget {name}` first, or deploy it with another component");
            return Err(Error::new(Kind::Conflict, message).help(help));
        }
        self.around.components.remove(&kept.digest)?;
        Ok(kept)
    }

    /// Refuses what is of no use any more, because the host ends.
    ///
    /// # Errors
    /// Kind `Conflict`.
    pub fn require_open(&self) -> Result<()> {
        match self.around.closing.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(Error::new(Kind::Conflict, "the host is about to end").help("try again when it has been started again")),
        }
    }

    fn existing(&self, name: &str) -> Option<Arc<Job>> {
        self.all().get(name).cloned()
    }

    pub(super) fn around(&self) -> &Arc<Surroundings> {
        &self.around
    }

    pub(super) fn disposals(&self) -> &Arc<Disposals> {
        &self.disposals
    }

    pub(super) fn find(&self, name: &str) -> Result<Arc<Job>> {
        self.existing(name).ok_or_else(|| {
            Error::new(Kind::NotFound, format!("the host has no job `{name}`")).help("`cofferdam list` lists those that it has")
        })
    }

    pub(super) fn all_jobs(&self) -> Vec<Arc<Job>> {
        self.all().values().cloned().collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Job>>> {
        lock(&self.jobs)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
