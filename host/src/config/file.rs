//! The job file as a whole, and the host file: their text, `format`, `[job]`, `[checkpoint]`, `[state]`, and what its nodes make together.

use std::path::Path;

use toml::de::DeTable;

use super::checkpoint::Draft;
use super::faults::Faults;
use super::section::Section;
use super::setting::{JobName, Whole};
use super::{Overrides, links, locations, nodes, restart, state};
use crate::plan::{Plan, Restart};

/// The format of job files and host files that this version reads.
const FORMAT: u64 = 1;

/// As in Flink, and one for which all arithmetic on key groups fits into a u16.
const MAX_PARALLELISM: u64 = 32_768;

/// After so many syntax errors the rest is most likely an echo of the first ones, or the file no job file at all.
const MAX_SYNTAX_ERRORS: usize = 10;

/// What settings are that a job file leaves out: as a host file says, or by themselves.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    checkpoint: Draft,
    restart: Restart,
    state: state::Defaults,
}

/// The defaults that the host file sets; none if a fault keeps them from being known. `base` is the directory that paths count from.
pub(super) fn read_host(faults: &Faults, base: &Path) -> Option<Defaults> {
    let document = parse(faults)?;
    let mut root = Section::new(faults, &document, "", 0..0);
    if !format_is_known(&mut root) {
        return None;
    }
    let mut defaults = Defaults::default();
    if let Some(mut job) = root.section("job") {
        defaults.restart = restart::read(&mut job, &defaults.restart);
        job.finish();
    }
    read_checkpoint(&mut root, base, &mut defaults.checkpoint);
    defaults.state = state::read(&mut root, base, defaults.state);
    root.finish();
    Some(defaults)
}

/// The plan that the job file describes; none if a fault keeps it from being known. `base` is the directory that paths count from.
pub(super) fn read(faults: &Faults, base: &Path, overrides: &Overrides) -> Option<Plan> {
    let document = parse(faults)?;
    let mut root = Section::new(faults, &document, "", 0..0);
    if !format_is_known(&mut root) {
        return None;
    }
    let Defaults { mut checkpoint, restart, state } = overrides.defaults.clone();
    let job = job(&mut root, &restart, overrides);
    read_checkpoint(&mut root, base, &mut checkpoint);
    let checkpoint = checkpoint.finish(base);
    let state = state::read(&mut root, base, state);
    let drafts = nodes::read(&mut root, base, &state);
    root.finish();
    let name = job.as_ref().and_then(|job| job.name.clone());
    locations::check(faults, &drafts, name.as_ref().map(|name| checkpoint.dir.join(name)).as_ref());
    let nodes = links::connect(faults, drafts);
    let Job { parallelism, max_parallelism, restart, .. } = job?;
    Some(Plan {
        file: faults.file().into(),
        text: faults.text().into(),
        base: base.into(),
        name: name?,
        parallelism,
        max_parallelism,
        restart,
        checkpoint,
        state_dir: state.dir.unwrap_or_else(|| base.join("local-state")),
        nodes: nodes?,
    })
}

/// The file as a table; none if it is no TOML, which was noted.
fn parse(faults: &Faults) -> Option<DeTable<'_>> {
    let (document, errors) = DeTable::parse_recoverable(faults.text());
    if errors.is_empty() {
        return Some(document.into_inner());
    }
    // What was salvaged around a syntax error would give faults that aren't there.
    for error in errors.into_iter().take(MAX_SYNTAX_ERRORS) {
        let help = "the file is TOML: `key = \"text\"`, `[table]`, `[[list-of-tables]]`";
        faults.add(error.span().unwrap_or_default(), error.message(), help);
    }
    None
}

/// Whether the rest of the file can be judged. A missing `format` is a fault like others; another one makes all else meaningless.
fn format_is_known(root: &mut Section<'_>) -> bool {
    let Some(format) = root.required::<Whole<1, { u32::MAX as u64 }>>("format") else { return true };
    let known = format.get_ref().0 == FORMAT;
    if !known {
        let message = format!("this version of cofferdam reads files of format {FORMAT}, this one says {}", format.get_ref().0);
        root.fault(format.span(), message, "use the version of cofferdam that the file was written for");
    }
    known
}

/// `[job]`.
struct Job {
    name: Option<String>,
    parallelism: u16,
    max_parallelism: u16,
    restart: Restart,
}

fn job(root: &mut Section<'_>, restart: &Restart, overrides: &Overrides) -> Option<Job> {
    root.require("job", "name the job: `[job]` and a line `name = \"word-count\"`");
    let mut job = root.section("job")?;
    let name = job.required::<JobName>("name").map(|name| name.into_inner().0);
    let parallelism = job.optional::<Whole<1, MAX_PARALLELISM>>("parallelism");
    let max_parallelism = job.optional::<Whole<1, MAX_PARALLELISM>>("max-parallelism");
    let max = max_parallelism.as_ref().map_or(128, |max| max.get_ref().0);
    let written = parallelism.as_ref().map_or(1, |parallelism| parallelism.get_ref().0);
    let effective = overrides.parallelism.map_or(written, u64::from);
    if effective == 0 {
        job.fault(job.span(), "parallelism 0 (-p on the command line) leaves nobody to do the work", format!("it is 1 to {max}"));
    }
    if effective > max {
        let (span, origin) = match overrides.parallelism {
            Some(_) => (max_parallelism.map(|max| max.span()), " (-p on the command line)"),
            None => (parallelism.map(|parallelism| parallelism.span()), ""),
        };
        let message = format!("parallelism {effective}{origin} is above max-parallelism {max}");
        job.fault(
            span.unwrap_or(job.span()),
            message,
            "lower the one or raise the other; max-parallelism is fixed for the life of the state",
        );
    }
    let restart = restart::read(&mut job, restart);
    job.finish();
    // A larger number than MAX_PARALLELISM is a fault that was noted.
    let small = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
    Some(Job { name, parallelism: small(effective), max_parallelism: small(max), restart })
}

fn read_checkpoint(root: &mut Section<'_>, base: &Path, draft: &mut Draft) {
    if let Some(mut section) = root.section("checkpoint") {
        draft.read(&mut section, base);
        section.finish();
    }
}
