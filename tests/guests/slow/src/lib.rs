//! For tests: passes records on, and takes its time for each.

use std::hint::black_box;

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator]
pub struct Slow {
    spins: u64,
}

/// `config` in the job file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Rounds of a loop that does nothing, for each record.
    spins: u64,
}

#[operator]
impl Slow {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.spins = context.config::<Config>()?.spins;
        Ok(())
    }

    #[input]
    fn lines(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
        for spin in 0..self.spins {
            black_box(spin);
        }
        out.emit(line);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, value};

    use super::*;

    #[test]
    fn records_pass() {
        let mut operator = Harness::<Slow>::with_config(r#"{"spins":100}"#).unwrap();
        assert_eq!(operator.process(["a", "b"].map(value)).unwrap().values(), ["a", "b"]);
    }
}
