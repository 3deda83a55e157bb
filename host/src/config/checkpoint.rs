//! `[checkpoint]`, apart from the bucket that checkpoints may lie in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;

use super::bucket;
use super::section::Section;
use super::setting::{AtLeast, Flag, LocalPath, Pause, Setting, Size, Threshold, Time};
use crate::plan::{CheckpointSettings, Compression, Location, Mode, OnCancel};

/// `[checkpoint]` as far as it has been read: of the host file first, then of the job file.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// What needs no more than to be put in the place of its default.
    pub(super) settings: CheckpointSettings,
    pub(super) dir: Option<Location>,
    /// How long a bucket is tried, if that is said; else for as long as a checkpoint may take.
    pub(super) retry_timeout: Option<Duration>,
    local_recovery: bool,
    local_recovery_dir: Option<PathBuf>,
}

impl Default for Draft {
    /// Nothing is set as yet.
    fn default() -> Self {
        let settings = CheckpointSettings::new(PathBuf::new().into());
        Draft { settings, dir: None, retry_timeout: None, local_recovery: false, local_recovery_dir: None }
    }
}

impl Draft {
    /// Puts what is set in the place of what was there. `base` is the directory that paths count from.
    pub(super) fn read(&mut self, section: &mut Section<'_>, base: &Path) {
        let settings = &mut self.settings;
        settings.interval = value::<Time>(section, "interval").map_or(settings.interval, |time| Some(time.0));
        let modes = [("exactly-once", Mode::ExactlyOnce), ("at-least-once", Mode::AtLeastOnce)];
        put(&mut settings.mode, section.choice("mode", &modes));
        put(&mut settings.timeout, value::<Time>(section, "timeout").map(|time| time.0));
        pace(section, settings);
        put(&mut settings.tolerable_failures, value::<AtLeast<0>>(section, "tolerable-failures").map(|failures| failures.0));
        put(&mut settings.num_retained, value::<AtLeast<1>>(section, "num-retained").as_ref().map(count));
        put(&mut settings.on_cancel, section.choice("on-cancel", &[("retain", OnCancel::Retain), ("delete", OnCancel::Delete)]));
        put(&mut settings.incremental, value::<Flag>(section, "incremental").map(|flag| flag.0));
        put(&mut settings.memory_threshold, value::<Threshold>(section, "memory-threshold").map(|size| size.0));
        put(&mut settings.merge_rate, value::<Size>(section, "merge-rate").map(|size| size.0));
        put(&mut settings.compression, section.choice("compression", &[("lz4", Compression::Lz4), ("none", Compression::None)]));
        put(&mut self.local_recovery, value::<Flag>(section, "local-recovery").map(|flag| flag.0));
        put(&mut self.local_recovery_dir, value::<LocalPath>(section, "local-recovery-dir").map(|path| Some(base.join(path.0))));
        bucket::read(section, base, self);
    }

    /// The settings, now that all has been read. What has no place lies in the job file's directory, `base`.
    pub(super) fn finish(self, base: &Path) -> CheckpointSettings {
        let mut settings = self.settings;
        settings.dir = self.dir.unwrap_or_else(|| base.join("checkpoints").into());
        settings.access.retry_timeout = self.retry_timeout.unwrap_or(settings.timeout);
        let copies = self.local_recovery_dir.unwrap_or_else(|| base.join("local-recovery"));
        settings.local_recovery = self.local_recovery.then_some(copies);
        settings
    }
}

/// A pause after each checkpoint and several of them at once exclude each other.
fn pace(section: &mut Section<'_>, settings: &mut CheckpointSettings) {
    let pause = section.optional::<Pause>("min-pause");
    let concurrent = section.optional::<AtLeast<1>>("max-concurrent");
    put(&mut settings.min_pause, pause.as_ref().map(|pause| pause.get_ref().0));
    put(&mut settings.max_concurrent, concurrent.as_ref().map(|concurrent| count(concurrent.get_ref())));
    if settings.min_pause.is_zero() || settings.max_concurrent == 1 {
        return;
    }
    // What is not in this file is in the host file.
    let help = match (&pause, &concurrent) {
        (Some(_), Some(_)) => "remove one of the two lines",
        (Some(_), None) => "set `max-concurrent = 1`, or remove the line: the host file lets them overlap",
        _ => "set `min-pause = \"0s\"`, or remove the line: the host file has a pause",
    };
    if let Some(pause) = pause {
        let message = "`min-pause` is kept between one checkpoint and the next, but `max-concurrent` lets them overlap";
        section.fault(pause.span(), message, help);
    }
    if let Some(concurrent) = concurrent {
        section.fault(concurrent.span(), "`max-concurrent` lets checkpoints overlap, but `min-pause` is to be kept between them", help);
    }
}

/// Puts what was written, if anything was, in the place of what was there.
pub(super) fn put<T>(setting: &mut T, written: Option<T>) {
    if let Some(written) = written {
        *setting = written;
    }
}

fn value<T: Setting>(section: &mut Section<'_>, key: &'static str) -> Option<T> {
    section.optional::<T>(key).map(Spanned::into_inner)
}

fn count(number: &AtLeast<1>) -> usize {
    usize::try_from(number.0).unwrap_or(usize::MAX)
}
