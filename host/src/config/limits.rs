//! `limits` of an operator.

use toml::Spanned;

use super::section::Section;
use super::setting::{Setting, Size, SizeUpTo, Time, Whole};
use crate::plan::Limits;

/// What one call may hand over. Far below 4 GiB, because a column counts its bytes in 32 bits.
type PerCall = SizeUpTo<{ 1 << 30 }>;

/// Names of metrics, or lines in a second.
type Count = Whole<0, 100_000>;

/// The limits of the operator that `operator` is about.
pub(super) fn read(operator: &mut Section<'_>) -> Limits {
    let mut limits = Limits::default();
    let Some(mut section) = operator.section("limits") else { return limits };
    set(&mut limits.memory, section.optional("memory"), |SizeUpTo(size): Size| size);
    set(&mut limits.time, section.optional("time"), |Time(time)| time);
    set(&mut limits.emitted, section.optional("emitted"), |SizeUpTo(size): PerCall| size);
    set(&mut limits.written, section.optional("written"), |SizeUpTo(size): PerCall| size);
    set(&mut limits.read, section.optional("read"), |SizeUpTo(size): PerCall| size);
    set(&mut limits.metrics, section.optional("metrics"), |Whole(count): Count| count);
    set(&mut limits.log_lines, section.optional("log-lines"), |Whole(count): Count| count);
    section.finish();
    limits
}

fn set<T, S: Setting>(limit: &mut T, written: Option<Spanned<S>>, value: impl FnOnce(S) -> T) {
    if let Some(written) = written {
        *limit = value(written.into_inner());
    }
}
