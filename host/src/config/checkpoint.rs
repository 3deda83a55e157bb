//! `[checkpoint]`, apart from where checkpoints go.

use toml::Spanned;

use super::section::Section;
use super::setting::{AtLeast, Pause, Setting, Threshold, Time};
use crate::plan::{CheckpointSettings, Compression, Mode, OnCancel};

/// Puts what is set in the place of the defaults.
pub(super) fn read(section: &mut Section<'_>, settings: &mut CheckpointSettings) {
    settings.interval = value::<Time>(section, "interval").map(|time| time.0);
    let modes = [("exactly-once", Mode::ExactlyOnce), ("at-least-once", Mode::AtLeastOnce)];
    settings.mode = section.choice("mode", &modes).unwrap_or_default();
    settings.timeout = value::<Time>(section, "timeout").map_or(settings.timeout, |time| time.0);
    pace(section, settings);
    let failures = value::<AtLeast<0>>(section, "tolerable-failures").map(|failures| failures.0);
    settings.tolerable_failures = failures.unwrap_or(settings.tolerable_failures);
    settings.num_retained = value::<AtLeast<1>>(section, "num-retained").map_or(settings.num_retained, count);
    settings.on_cancel = section.choice("on-cancel", &[("retain", OnCancel::Retain), ("delete", OnCancel::Delete)]).unwrap_or_default();
    settings.memory_threshold = value::<Threshold>(section, "memory-threshold").map_or(settings.memory_threshold, |size| size.0);
    settings.compression = section.choice("compression", &[("lz4", Compression::Lz4), ("none", Compression::None)]).unwrap_or_default();
}

/// A pause after each checkpoint and several of them at once exclude each other.
fn pace(section: &mut Section<'_>, settings: &mut CheckpointSettings) {
    let pause = section.optional::<Pause>("min-pause");
    let concurrent = section.optional::<AtLeast<1>>("max-concurrent");
    if let (Some(pause), Some(concurrent)) = (&pause, &concurrent)
        && !pause.get_ref().0.is_zero()
        && concurrent.get_ref().0 > 1
    {
        let help = "remove one of the two lines";
        section.fault(
            pause.span(),
            "`min-pause` is kept between one checkpoint and the next, but `max-concurrent` lets them overlap",
            help,
        );
        section.fault(concurrent.span(), "`max-concurrent` lets checkpoints overlap, but `min-pause` is to be kept between them", help);
    }
    settings.min_pause = pause.map_or(settings.min_pause, |pause| pause.into_inner().0);
    settings.max_concurrent = concurrent.map_or(settings.max_concurrent, |concurrent| count(concurrent.into_inner()));
}

fn value<T: Setting>(section: &mut Section<'_>, key: &'static str) -> Option<T> {
    section.optional::<T>(key).map(Spanned::into_inner)
}

fn count(number: AtLeast<1>) -> usize {
    usize::try_from(number.0).unwrap_or(usize::MAX)
}
