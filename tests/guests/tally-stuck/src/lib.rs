//! For tests: does what version 1 does, with the last number kept as text; and never comes back from where it is told to stay.

use std::hint::black_box;

use cofferdam_sdk::prelude::*;
use cofferdam_sdk::{Level, log};
use serde::Deserialize;

/// The operator.
#[operator(key = String, name = "tally")]
pub struct Tally {
    count: ReducingState<u64, Sum>,
    #[state(version = 2, migrate(1 => from_number))]
    last: ValueState<String>,
    config: Config,
}

/// `config` in the job file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// "open" or "close"; else it stays in the migration, which can't be told anything, and says so on standard error.
    stuck: String,
}

fn from_number(number: u64) -> Result<String> {
    eprintln!("stuck in the migration");
    stay();
    Ok(number.to_string())
}

fn stay() {
    while black_box(true) {}
}

impl Tally {
    fn stay_in(&self, hook: &str) {
        if self.config.stuck == hook {
            log(Level::Warn, format_args!("stuck in {hook}"));
            stay();
        }
    }
}

#[operator]
impl Tally {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.config = context.config()?;
        self.stay_in("open");
        Ok(())
    }

    /// A line `number,key,count,last,stuck`.
    #[input]
    fn numbers(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        self.count.add(1);
        let last = self.last.get().unwrap_or_else(|| "-".into());
        self.last.set(number.to_string());
        out.emit(format_args!("{number},{},{},{last},stuck", meta.key(), self.count.get().unwrap_or(0)));
        Ok(())
    }

    #[close]
    fn close(&mut self) {
        self.stay_in("close");
    }
}
