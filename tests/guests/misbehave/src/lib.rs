//! For tests: passes records on, but on those that contain a given text it fails in a given way.

use std::hint::black_box;

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator]
pub struct Misbehave {
    config: Option<Config>,
    /// What it has been told that it is.
    whoami: String,
}

/// `config` in the job file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Records that contain it are the bad ones.
    on: String,
    how: How,
    /// Rounds of a loop that does nothing, for each record.
    #[serde(default)]
    spins: u64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    /// A panic with a message.
    Panic,
    /// A panic that says which attempt of the job it is, and whose.
    Anew,
    /// A trap of which nobody was told.
    Trap,
    /// Never comes back.
    Loop,
    /// Takes memory until there is none.
    Allocate,
    /// Calls itself until the stack is full.
    Recurse,
    /// Returns an error.
    Error,
}

#[operator]
impl Misbehave {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.config = Some(context.config()?);
        let (job, operator, subtask) = (context.job(), context.operator(), context.subtask());
        let (parallelism, run, attempt) = (context.parallelism(), context.run(), context.attempt());
        self.whoami = format!("attempt {attempt} of run {run}, subtask {subtask} of {parallelism} of `{operator}` of `{job}`");
        Ok(())
    }

    #[input]
    fn lines(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
        for spin in 0..self.config.as_ref().map_or(0, |config| config.spins) {
            black_box(spin);
        }
        // Sent before it fails, so that a test sees whether that is taken back.
        out.emit(line);
        match &self.config {
            Some(Config { on, how, .. }) if line.contains(on.as_str()) => misbehave(*how, line, &self.whoami),
            _ => Ok(()),
        }
    }
}

fn misbehave(how: How, line: &str, whoami: &str) -> Result<()> {
    match how {
        How::Anew => panic!("told to panic in {whoami}"),
        How::Panic => panic!("told to panic on {line:?}"),
        How::Trap => trap(),
        How::Loop => loop {
            black_box(line);
        },
        How::Allocate => {
            let mut taken = Vec::new();
            loop {
                taken.push(black_box(vec![1u8; 1 << 20]));
            }
        }
        How::Recurse => {
            recurse(1);
            Ok(())
        }
        How::Error => bail!("told to refuse {line:?}"),
    }
}

#[cfg(target_family = "wasm")]
fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

#[cfg(not(target_family = "wasm"))]
fn trap() -> ! {
    panic!("a trap")
}

/// Ends only in theory.
fn recurse(depth: u64) -> u64 {
    if black_box(depth) == 0 { 0 } else { black_box(recurse(depth + 1)) + 1 }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Failure, Harness, value};

    use super::*;

    #[test]
    fn an_error_takes_back_what_the_record_sent_and_a_panic_what_the_batch_sent() {
        let mut refuse = Harness::<Misbehave>::with_config(r#"{"on":"bad","how":"error"}"#).unwrap();
        let result = refuse.process(["a", "bad", "b"].map(value)).unwrap();
        assert_eq!(result.values(), ["a", "b"]);
        assert_eq!((result.rejected[0].record, result.rejected[0].message.as_str()), (1, "told to refuse \"bad\""));

        let mut panic = Harness::<Misbehave>::with_config(r#"{"on":"bad","how":"panic"}"#).unwrap();
        let failure = panic.process(["a", "bad", "b"].map(value)).unwrap_err();
        assert_eq!(failure, Failure::Panic { record: Some(1), message: "told to panic on \"bad\"".into() });
        assert_eq!(panic.process(["b"].map(value)).unwrap().values(), ["b"]);
    }
}
