//! `[state]`, and `state` of an operator.

use std::path::{Path, PathBuf};

use super::section::Section;
use super::setting::{LocalPath, Size, SizeUpTo};
use crate::plan::{Backend, StateSettings};

/// What holds for all operators that say nothing else.
#[derive(Clone, Default)]
pub(super) struct Defaults {
    pub(super) settings: StateSettings,
    /// The directory for state on disk, absolute, if one was said.
    pub(super) dir: Option<PathBuf>,
    /// Whether checkpoints are taken while the job runs.
    checkpoints: bool,
}

/// `[state]`, over what the host file says; `checkpoints` says whether any are taken while the job runs.
pub(super) fn read(root: &mut Section<'_>, base: &Path, host: Defaults, checkpoints: bool) -> Defaults {
    let mut defaults = Defaults { checkpoints, ..host };
    if let Some(mut section) = root.section("state") {
        if let Some(dir) = section.optional::<LocalPath>("dir") {
            defaults.dir = Some(base.join(dir.into_inner().0));
        }
        defaults.settings = settings(section, &defaults);
    }
    defaults
}

/// `state` of an operator.
pub(super) fn read_operator(operator: &mut Section<'_>, defaults: &Defaults) -> StateSettings {
    operator.section("state").map_or(defaults.settings, |section| settings(section, defaults))
}

fn settings(mut section: Section<'_>, defaults: &Defaults) -> StateSettings {
    let chosen = section.choice("backend", &[("memory", Backend::Memory), ("disk", Backend::Disk)]);
    if chosen == Some(Backend::Disk) && !defaults.checkpoints {
        section.fault(
            section.span(),
            "state leaves memory for the disk once it is in a checkpoint, and none is taken before the job ends",
            "set `interval` in [checkpoint], or `backend = \"memory\"`",
        );
    }
    let StateSettings { backend, memory } = defaults.settings;
    let memory = section.optional::<Size>("memory").map_or(memory, |size| {
        let SizeUpTo(bytes) = size.into_inner();
        bytes
    });
    section.finish();
    StateSettings { backend: chosen.unwrap_or(backend), memory }
}
