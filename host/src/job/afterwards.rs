//! What can be done about a job that does not run: to find a savepoint that was taken before, to take one of its last checkpoint, to find
//! out which component that names.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::checkpoint::decide::newest_point;
use crate::checkpoint::manifest::{ComponentFacts, Manifest, OperatorPart};
use crate::checkpoint::store::{Saved, Store, job_of};
use crate::error::{Error, Kind, Result};
use crate::plan::{Location, Plan};
use crate::record::AttemptId;

use super::SavepointOrder;
use super::attempt::newest;
use super::choice::unfulfilled;
use super::prepare::Prepared;
use super::savepoint::Writing;
use super::swap::newest_digest;

/// The whole savepoint in `target` that was asked for as `trigger_id` for the job with this id, if there is one.
///
/// # Errors
/// Kind `Storage` if the directory can't be used; `Checkpoint` if the savepoint's manifest is broken.
pub async fn find_savepoint(plan: &Plan, id: &str, target: &Location, trigger_id: &str) -> Result<Option<Saved>> {
    store(plan).await?.savepoint_target(target).await?.find(&plan.name, id, trigger_id).await
}

/// Takes a savepoint of a job that has stopped or finished, as `order` says, unless it was taken before. Nothing else may happen to the job
/// meanwhile. `component` says where the component with a digest lies, or would.
///
/// # Errors
/// Kind `Checkpoint` if the job has no checkpoint, or its newest one is broken; `Conflict` if it would go on from another one;
/// `Component` if one is missing that the checkpoint names; `Storage` if something can't be read or written.
pub async fn savepoint_of_ended(prepared: &Arc<Prepared>, order: &SavepointOrder, component: impl Fn(&str) -> PathBuf) -> Result<Saved> {
    let SavepointOrder { trigger_id, writer, target, with_components, .. } = order;
    let plan = &prepared.plan;
    let store = store(plan).await?;
    let target = store.savepoint_target(target).await?;
    if let Some(saved) = target.find(&plan.name, job_of(writer), trigger_id).await? {
        return Ok(saved);
    }
    let nothing = || Error::new(Kind::Checkpoint, format!("job `{}` has no checkpoint", plan.name));
    let log = store.newest_log().await?.ok_or_else(nothing)?;
    if let Some(from) = unfulfilled(&log).next() {
        let message = format!("job `{}` goes on from {}, and has no checkpoint of its own since", plan.name, from.manifest);
        return Err(Error::new(Kind::Conflict, message).help("deploy it again, and ask when it has one"));
    }
    let point = newest_point(&log)?.ok_or_else(nothing)?;
    let from = super::savepoint::origin(&store, log.run, point.slot);
    let (prepared, manifest) = (Arc::clone(prepared), Arc::new(point.manifest));
    let components = if *with_components { Some(components_of(&manifest, component)?) } else { None };
    let (trigger_id, writer, given_up) = (trigger_id.clone(), writer.clone(), Arc::default());
    Writing { store, prepared, manifest, target, trigger_id, writer, given_up, from, components }.run().await
}

/// The files of the components that a manifest names, by digest: the job may have been deployed with others since.
fn components_of(manifest: &Manifest, file: impl Fn(&str) -> PathBuf) -> Result<BTreeMap<String, PathBuf>> {
    let found = |operator: &OperatorPart| {
        let (uid, ComponentFacts { digest, name, version }) = (&operator.uid, &operator.component);
        let path = file(digest);
        if path.is_file() {
            return Ok((digest.clone(), path));
        }
        let message =
            format!("checkpoint {} names component {digest} ({name}@{version}) of operator `{uid}`, which is missing", manifest.checkpoint);
        Err(Error::new(Kind::Component, message)
            .help("push it again with `cofferdam component push`, or ask for a savepoint `--without-components`"))
    };
    manifest.operators.iter().map(found).collect()
}

/// Removes what `writer`, who is gone, has left in `target` of the savepoint that was asked for as `trigger_id`, unless it is whole.
///
/// # Errors
/// Kind `Storage` if something can't be read or removed.
pub async fn clear_savepoint(plan: &Plan, target: &Location, trigger_id: &str, writer: &str) -> Result<()> {
    store(plan).await?.clear_savepoint(target, trigger_id, writer).await
}

/// The digest of an operator's component in the job's newest checkpoint, if it has one.
///
/// # Errors
/// Kind `Storage` if that can't be read; `Checkpoint` if its manifest is broken.
pub async fn newest_component(plan: &Plan, operator: &str) -> Result<Option<String>> {
    newest_digest(&store(plan).await?, operator).await
}

/// Whether a job has still to begin from the savepoint in a directory: it was told to, and no attempt of it has begun that is newer than
/// `since`; or one has, whoever told it, and none has committed a checkpoint. Without `since` it was not told.
///
/// # Errors
/// Kind `Storage` if the job's log can't be read.
pub async fn begins_from(plan: &Plan, since: Option<AttemptId>, savepoint: &Location) -> Result<bool> {
    let store = store(plan).await?;
    let newest = newest(&store).await?;
    if since.is_some_and(|since| newest <= since) {
        return Ok(true);
    }
    let Some(log) = store.newest_log().await? else { return Ok(since.is_some()) };
    let from = unfulfilled(&log).next().and_then(|from| from.manifest.parse::<Location>().ok());
    Ok(from.and_then(|manifest| manifest.parent()).as_ref() == Some(savepoint))
}

async fn store(plan: &Plan) -> Result<Store> {
    Store::open(&plan.checkpoint.dir, &plan.checkpoint.access, &plan.name).await
}
