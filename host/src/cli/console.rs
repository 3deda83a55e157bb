//! Standard output and standard error, and the progress line that shares standard error with all else that is written there.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

use crate::error::{Error, Kind, Result};
use crate::job::{Health, Notice, Observer, Progress, in_seconds};
use crate::plan::{NodeKind, Plan, SinkSettings};

/// The progress line on the screen, if there is one. For the whole process, like standard error itself: the log writes there too.
static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Whether standard error takes colours: it is a terminal, and the user hasn't said no (https://no-color.org).
pub(super) fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes a line, or several, to standard output. A reader that has gone away has read what it wanted, which is no error.
///
/// # Errors
/// [`Kind::Storage`]: it can't be written.
pub(super) fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::new(Kind::Storage, format!("can't write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line, or several, to standard error, around the progress line. Where that is closed nobody is there to be told.
pub(super) fn say(text: &str) {
    writeln!(Stderr, "{text}").ok();
}

/// Standard error, around the progress line.
pub(super) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match line() {
            Some(line) => line.suspend(|| io::stderr().write_all(bytes)),
            None => io::stderr().write_all(bytes),
        }
    }

    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        // In one piece, so that lines of several threads don't mix.
        self.write_all(text.to_string().as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Tells how a job goes while it runs.
pub(super) struct Console;

impl Console {
    /// Shows a progress line if somebody looks at it and nothing else is written to the same screen.
    pub(super) fn begin(plan: &Plan) -> Self {
        let prints = |kind: &NodeKind| matches!(kind, NodeKind::Sink(SinkSettings::Stdout));
        let shared = io::stdout().is_terminal() && plan.nodes.iter().any(|node| prints(&node.kind));
        if io::stderr().is_terminal() && !shared {
            set_line(Some(ProgressBar::new_spinner().with_style(style())));
        }
        Console
    }

    /// Takes the progress line off the screen.
    pub(super) fn end(&self) {
        end_line();
    }
}

impl Observer for Console {
    fn notice(&self, notice: &Notice) {
        say(&notice.to_string());
    }

    fn progress(&self, progress: &Progress) {
        if let Some(line) = line() {
            line.set_position(progress.records_in);
            line.set_message(tail(progress));
        }
    }
}

/// Does something that may take its time. Whatever it says meanwhile is on the progress line, if somebody looks at it.
pub(super) fn with_line<T>(work: impl FnOnce(&dyn Fn(String)) -> T) -> T {
    if io::stderr().is_terminal() {
        let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template above is well formed");
        set_line(Some(ProgressBar::new_spinner().with_style(style)));
    }
    let done = work(&|text| line().iter().for_each(|line| line.set_message(text.clone())));
    end_line();
    done
}

/// Takes the progress line off the screen.
fn end_line() {
    if let Some(line) = line() {
        line.finish_and_clear();
    }
    set_line(None);
}

fn line() -> Option<ProgressBar> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn set_line(line: Option<ProgressBar>) {
    *LINE.lock().unwrap_or_else(PoisonError::into_inner) = line;
}

fn style() -> ProgressStyle {
    let template = "{spinner} {human_pos} records in ({rate}/s), {msg}";
    let style = ProgressStyle::with_template(template).expect("the template above is well formed");
    // Smoothed by indicatif over the last seconds.
    style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A line that can't be written to is no worse without its rate.
        write!(out, "{}", HumanCount(state.per_sec() as u64)).ok();
    })
}

/// What the progress line says after the records read.
fn tail(progress: &Progress) -> String {
    let elapsed = Duration::from_secs(progress.elapsed.as_secs());
    let checkpoint = progress.last_checkpoint.map_or("no checkpoint yet".into(), |number| format!("checkpoint {number}"));
    let degraded = degraded(&progress.health).map_or_else(String::new, |degraded| format!(", {degraded}"));
    format!("{} out, {checkpoint}, {}{degraded}", HumanCount(progress.records_out), humantime::format_duration(elapsed))
}

/// What there is to say of checkpoints that fail or take long; none if all is well.
fn degraded(health: &Health) -> Option<String> {
    let last_good =
        health.last_good.map_or_else(|| "none is good yet".into(), |(number, age)| format!("{number} is {} old", in_seconds(age)));
    let late = health.late.map(|(number, taken)| format!("{number} has taken {}", in_seconds(taken)));
    let failed = (health.failed_in_a_row > 0).then(|| format!("{} failed in a row", health.failed_in_a_row));
    let damage = health.damage.as_ref().map(|_| "state is damaged".to_owned());
    let why: Vec<String> = failed.into_iter().chain(late).chain(damage).collect();
    health.is_degraded().then(|| format!("DEGRADED: {}, {last_good}", why.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_says_when_checkpoints_fail() {
        let good = Some((17, Duration::from_millis(83_900)));
        let mut progress = Progress {
            elapsed: Duration::from_millis(99_900),
            records_in: 7,
            records_out: 12_345,
            checkpoints: 3,
            last_checkpoint: Some(17),
            failed_checkpoints: 2,
            checkpoint_bytes: 1 << 20,
            health: Health { last_good: good, ..Health::default() },
            migration: None,
        };
        assert_eq!(tail(&progress), "12,345 out, checkpoint 17, 1m 39s");
        progress.health.failed_in_a_row = 2;
        assert_eq!(tail(&progress), "12,345 out, checkpoint 17, 1m 39s, DEGRADED: 2 failed in a row, 17 is 1m 23s old");
        progress.health.last_good = None;
        progress.health.late = Some((20, Duration::from_millis(301_000)));
        assert!(tail(&progress).ends_with("DEGRADED: 2 failed in a row, 20 has taken 5m 1s, none is good yet"));
    }
}
