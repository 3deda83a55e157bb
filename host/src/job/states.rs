//! What is kept of an operator's states, compared with what a component declares: at a restore and at a swap.

use crate::checkpoint::manifest::{Manifest, OperatorPart};
use crate::error::{Error, Kind, Result};
use crate::plan::{Descriptor, Schema, StateDescriptor};

/// When states are compared, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// A checkpoint is restored.
    Restore,
    /// A component takes over from another.
    Swap,
}

impl Occasion {
    pub(super) fn kind(self) -> Kind {
        match self {
            Occasion::Restore => Kind::Checkpoint,
            Occasion::Swap => Kind::Component,
        }
    }

    /// Where the old states are, and where the new.
    pub(super) fn places(self) -> [&'static str; 2] {
        match self {
            Occasion::Restore => ["in the checkpoint", "in the component"],
            Occasion::Swap => ["in the component that runs", "in the new one"],
        }
    }

    /// The way out where a migration is missing or fails.
    pub(super) fn way_out(self) -> &'static str {
        match self {
            Occasion::Restore => {
                "the checkpoint can still be restored with the component that wrote it; to begin a new run without state, run with `--fresh`"
            }
            Occasion::Swap => "the job goes on with the component that it has",
        }
    }

    /// The way out where no migration can help.
    fn advice(self) -> &'static str {
        match self {
            Occasion::Restore => "run the component that wrote the checkpoint, or begin a new run without state with `--fresh`",
            Occasion::Swap => "declare it as it was; the job goes on with the component that it has",
        }
    }
}

/// The states that a component declares, as they are kept since a checkpoint: what had expired when it was committed stays so.
pub(super) fn kept_since(manifest: &Manifest, part: &OperatorPart, declared: &[StateDescriptor]) -> Vec<StateDescriptor> {
    let created = humantime::parse_rfc3339_weak(&manifest.created).ok();
    let created = created.and_then(|created| created.duration_since(std::time::UNIX_EPOCH).ok());
    let created = created.map_or(i64::MIN, |created| i64::try_from(created.as_millis()).unwrap_or(i64::MAX));
    declared.iter().map(|state| state.after(&part.states, created)).collect()
}

/// A state that is there must still be declared, as what it is but for its values; a newly declared one begins empty. Returns those whose
/// values have to be migrated, by their places in the descriptor, as they are there.
///
/// # Errors
/// What has no place, or has become something else.
pub(super) fn compare(
    uid: &str,
    (kept, key_schema): (&[StateDescriptor], Option<&Schema>),
    descriptor: &Descriptor,
    occasion: Occasion,
) -> Result<Vec<(usize, StateDescriptor)>> {
    let [there, now] = occasion.places();
    let misfit = |what: String| Err(Error::new(occasion.kind(), format!("operator `{uid}`: {what}")).help(occasion.advice()));
    if let (Some(old), Some(new)) = (key_schema, descriptor.state_key_schema())
        && old != new
    {
        return misfit(format!("its state has keys of schema {old} {there} and {new} {now}"));
    }
    let mut migrating = Vec::new();
    for old in kept {
        let Some(place) = descriptor.states.iter().position(|new| new.name == old.name) else {
            return misfit(match occasion {
                Occasion::Restore => format!("state `{}` is in the checkpoint, but the component no longer declares it", old.name),
                Occasion::Swap => format!("state `{}` is there, but the new component does not declare it", old.name),
            });
        };
        let new = &descriptor.states[place];
        if !old.differs_in_values_only(new) {
            return misfit(format!("state `{}` {}", old.name, old.difference(new, there, now)));
        }
        if !old.is_kept_as(new) {
            migrating.push((place, old.clone()));
        }
    }
    Ok(migrating)
}
