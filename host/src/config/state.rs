//! `[state]`, and `state` of an operator.

use std::path::{Path, PathBuf};

use super::section::Section;
use super::setting::{LocalPath, Size, SizeUpTo};
use crate::plan::{Backend, StateSettings};

/// What holds for all operators that say nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults {
    pub(super) settings: StateSettings,
    /// The directory for state on disk, absolute, if one was said.
    pub(super) dir: Option<PathBuf>,
}

/// `[state]`, over what the host file says.
pub(super) fn read(root: &mut Section<'_>, base: &Path, host: Defaults) -> Defaults {
    let mut defaults = host;
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
    let StateSettings { backend, memory } = defaults.settings;
    let memory = section.optional::<Size>("memory").map_or(memory, |size| {
        let SizeUpTo(bytes) = size.into_inner();
        bytes
    });
    section.finish();
    StateSettings { backend: chosen.unwrap_or(backend), memory }
}
