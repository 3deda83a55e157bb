//! [`Savepoints`]: what becomes of savepoints that are asked for: the place is looked at, a checkpoint is triggered at once, and when it
//! is committed its state is copied into files of its own, beside everything else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::{JoinError, JoinSet};

use crate::checkpoint::manifest::{Manifest, Trigger};
use crate::checkpoint::paths;
use crate::checkpoint::store::{Contents, Saved, Store, Target, canonical, job_of};
use crate::clock;
use crate::error::{Error, Kind, Result};
use crate::threads::blocking;
use crate::wasm::Component;

use super::controller::{Controller, Done, joined};
use super::prepare::Prepared;
use super::{End, SavepointOrder, Then};

/// How long an attempt that ends waits for those who write savepoints to clear away what they have written. A disk answers within this time.
const CLEARING: Duration = Duration::from_secs(5);

/// The savepoints that are asked for and not done.
#[derive(Default)]
pub(super) struct Savepoints {
    asked: Vec<Asked>,
    /// Write those whose checkpoint is committed, each known by its trigger id.
    pub(super) writers: JoinSet<(String, Result<Saved>)>,
    /// Set when the attempt ends without them.
    given_up: Arc<AtomicBool>,
    /// One is whole after which the job was to end.
    stopped: bool,
    /// The job is draining for nothing but one.
    pub(super) is_drain: bool,
}

struct Asked {
    order: SavepointOrder,
    stage: Stage,
}

enum Stage {
    /// It is found out whether it can be written.
    Opening,
    /// Its checkpoint is not triggered yet.
    Waiting(Target),
    /// Its checkpoint is under way.
    Triggered(u64, Target),
    /// It is being written; what it is made of must not be deleted.
    Writing(Arc<Manifest>),
}

/// What looking at the place of a savepoint gave.
pub(super) enum Opened {
    /// It can be written.
    Target(Target),
    /// It was written before.
    There(Saved),
}

impl Savepoints {
    /// Whether a checkpoint is to be triggered for one.
    pub(super) fn wanted(&self) -> bool {
        self.asked.iter().any(|asked| matches!(asked.stage, Stage::Waiting(_)) && asked.order.then != Then::Drain)
    }

    /// Whether the job holds still, because it is to end once one is whole: then nothing may come after its checkpoint.
    pub(super) fn hold(&self) -> bool {
        let holds = |asked: &Asked| matches!(asked.stage, Stage::Triggered(..) | Stage::Writing(_)) && asked.order.then == Then::Stop;
        self.asked.iter().any(holds)
    }

    /// Whether one is whole after which the job was to end.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// What must not be deleted.
    pub(super) fn pinned(&self) -> impl Iterator<Item = &str> {
        let written = self.asked.iter().filter_map(|asked| match &asked.stage {
            Stage::Writing(manifest) => Some(manifest.state_files()),
            _ => None,
        });
        written.flatten()
    }

    /// A checkpoint is triggered: it serves all that wait for one.
    pub(super) fn triggered(&mut self, epoch: u64, trigger: Trigger) {
        for asked in &mut self.asked {
            let serves = asked.order.then != Then::Drain || trigger == Trigger::EndOfInput;
            if let (Stage::Waiting(target), true) = (&asked.stage, serves) {
                asked.stage = Stage::Triggered(epoch, target.clone());
            }
        }
    }

    /// Takes out those that are meant.
    fn take(&mut self, is_meant: impl Fn(&Asked) -> bool) -> Vec<SavepointOrder> {
        self.asked.extract_if(.., |asked| is_meant(asked)).map(|asked| asked.order).collect()
    }

    /// None of them will be taken any more.
    pub(super) fn refuse_all(&mut self, error: &Error) {
        self.take(|_| true).into_iter().for_each(|order| order.refuse(error.clone()));
    }

    fn named(&mut self, trigger_id: &str) -> Option<&mut Asked> {
        self.asked.iter_mut().find(|asked| asked.order.trigger_id == trigger_id)
    }
}

impl Controller {
    /// A savepoint is asked for. Before anything of the job changes, it is found out whether it can be written.
    pub(super) fn ask_savepoint(&mut self, order: SavepointOrder) {
        if self.savepoints.named(&order.trigger_id).is_some() {
            let error = Error::new(Kind::Conflict, format!("savepoint `{}` is under way already", order.trigger_id));
            return order.refuse(error);
        }
        let (store, job, trigger_id) = (self.store.clone(), self.prepared.plan.name.clone(), order.trigger_id.clone());
        let (dir, then, id) = (order.target.clone(), order.then, job_of(&order.writer).to_owned());
        self.savepoints.asked.push(Asked { order, stage: Stage::Opening });
        self.tasks.spawn(async move {
            let opened = async {
                let target = store.savepoint_target(&dir).await?;
                // One that is asked for again because the answer was lost. A job that is to stop has gone on since.
                let found = if then == Then::GoOn { target.find(&job, &id, &trigger_id).await? } else { None };
                Ok(found.map_or(Opened::Target(target), Opened::There))
            };
            let opened = opened.await;
            Ok(Done::Opened(trigger_id, opened))
        });
    }

    /// The place of a savepoint has been looked at.
    pub(super) fn opened(&mut self, trigger_id: &str, opened: Result<Opened>) {
        let target = match opened {
            Ok(Opened::Target(target)) => target,
            Ok(Opened::There(saved)) => return self.saved(trigger_id, Ok(saved)),
            Err(error) => return self.saved(trigger_id, Err(error)),
        };
        let is_ending = self.ending.is_some() || self.savepoints.hold();
        let on_probation = self.swaps.may_rewind().map(str::to_owned);
        let Some(asked) = self.savepoints.named(trigger_id) else { return };
        match asked.order.then {
            Then::Drain if self.ending == Some(End::Drain) => asked.stage = Stage::Waiting(target),
            _ if is_ending => {
                let error = Error::new(Kind::Conflict, format!("job `{}` is about to end", self.prepared.plan.name));
                self.saved(trigger_id, Err(error));
            }
            // Once the job ends, so does the probation.
            Then::GoOn if let Some(operator) = on_probation => {
                let message = format!("the swap of operator `{operator}` could not be undone once a savepoint's checkpoint is committed");
                let error = Error::new(Kind::Conflict, message);
                self.saved(trigger_id, Err(error.help("ask again when its probation is over, of which the job's log tells")));
            }
            then => {
                asked.stage = Stage::Waiting(target);
                if then == Then::Drain {
                    self.savepoints.is_drain = self.ending.is_none();
                    self.end_by(End::Drain);
                }
            }
        }
    }

    /// A checkpoint is committed in `slot`: the savepoints for which it was triggered are written, with the components that it names.
    pub(super) fn write_savepoints(&mut self, manifest: &Arc<Manifest>, slot: u64, components: &[Arc<Component>]) {
        let from = origin(&self.store, self.attempt.run, slot);
        let file = |component: &Arc<Component>| (component.digest().to_owned(), component.path().to_owned());
        for asked in &mut self.savepoints.asked {
            let Stage::Triggered(epoch, target) = &asked.stage else { continue };
            if *epoch != manifest.checkpoint {
                continue;
            }
            let writing = Writing {
                store: self.store.clone(),
                prepared: Arc::clone(&self.prepared),
                manifest: Arc::clone(manifest),
                target: target.clone(),
                trigger_id: asked.order.trigger_id.clone(),
                writer: asked.order.writer.clone(),
                given_up: Arc::clone(&self.savepoints.given_up),
                from: from.clone(),
                components: asked.order.with_components.then(|| components.iter().map(file).collect()),
            };
            asked.stage = Stage::Writing(Arc::clone(manifest));
            self.savepoints.writers.spawn(async move { (writing.trigger_id.clone(), writing.run().await) });
        }
    }

    /// A checkpoint has failed, and with it the savepoints for which it was triggered.
    pub(super) fn fail_savepoints(&mut self, epoch: u64, cause: &Error) {
        let is_of = |asked: &Asked| matches!(asked.stage, Stage::Triggered(of, _) if of == epoch);
        let failed: Vec<String> =
            self.savepoints.asked.iter().filter(|asked| is_of(asked)).map(|asked| asked.order.trigger_id.clone()).collect();
        let error = cause.clone().context(format!("checkpoint {epoch} has failed, and so the savepoint"));
        failed.iter().for_each(|trigger_id| self.saved(trigger_id, Err(error.clone())));
    }

    /// One who writes a savepoint has come to an end.
    ///
    /// # Errors
    /// Kind `Internal` if it has panicked.
    pub(super) fn written(&mut self, written: std::result::Result<(String, Result<Saved>), JoinError>) -> Result<()> {
        let (trigger_id, saved) = joined(written.map(Ok))?;
        self.saved(&trigger_id, saved);
        Ok(())
    }

    /// The attempt ends: whoever writes a savepoint stops, and removes what it has written. One that comes to be whole all the same is; the
    /// others are still to be refused. After a while they are not waited for any more.
    pub(super) async fn give_up_savepoints(&mut self) {
        self.savepoints.given_up.store(true, Ordering::SeqCst);
        let over = clock::now() + CLEARING;
        while let Ok(Some(written)) = tokio::time::timeout_at(over.into(), self.savepoints.writers.join_next()).await {
            if let Ok((trigger_id, Ok(saved))) = written {
                self.saved(&trigger_id, Ok(saved));
            }
        }
        self.savepoints.writers.abort_all();
    }

    /// A savepoint is done, or will not be.
    pub(super) fn saved(&mut self, trigger_id: &str, saved: Result<Saved>) {
        let held = self.savepoints.hold();
        for order in self.savepoints.take(|asked| asked.order.trigger_id == trigger_id) {
            self.savepoints.stopped |= order.then == Then::Stop && saved.is_ok();
            // The receiver may be gone.
            order.reply.send(saved.clone()).unwrap_or(());
        }
        if held && !self.savepoints.hold() && !self.savepoints.stopped {
            self.control.go_on();
        }
    }
}

/// Where a checkpoint's manifest lies, as its savepoints remember it.
pub(super) fn origin(store: &Store, run: u32, slot: u64) -> String {
    canonical(&store.run_dir(run)).join(&paths::entry(slot)).to_string()
}

/// A savepoint that is being written.
pub(super) struct Writing {
    pub(super) store: Store,
    pub(super) prepared: Arc<Prepared>,
    pub(super) manifest: Arc<Manifest>,
    pub(super) target: Target,
    pub(super) trigger_id: String,
    pub(super) writer: String,
    pub(super) given_up: Arc<AtomicBool>,
    pub(super) from: String,
    /// The files of the components that the manifest names, by digest, if they are to be in it.
    pub(super) components: Option<BTreeMap<String, PathBuf>>,
}

impl Writing {
    pub(super) async fn run(self) -> Result<Saved> {
        let plan = &self.prepared.plan;
        let components = match self.components {
            Some(components) => Some(read(components).await?),
            None => None,
        };
        let contents = Contents {
            trigger_id: self.trigger_id,
            writer: self.writer,
            given_up: self.given_up,
            from: self.from,
            job_file: plan.text.to_string(),
            directory: plan.base.display().to_string(),
            components,
        };
        self.store.save(&self.manifest, &self.target, contents).await
    }
}

/// Components by digest, each out of its file.
async fn read(files: BTreeMap<String, PathBuf>) -> Result<BTreeMap<String, Bytes>> {
    let read = |(digest, file): (String, PathBuf)| Component::read(&file, &digest).map(|bytes| (digest, bytes.into()));
    blocking("reading components", move || files.into_iter().map(read).collect()).await
}
