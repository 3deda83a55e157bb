//! For tests: passes records on, and takes its time for each, or for one of them.

use std::hint::black_box;

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator]
pub struct Slow {
    config: Config,
}

/// `config` in the job file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Rounds of a loop that does nothing, for each record that is slow.
    spins: u64,
    /// Milliseconds of sleep for it.
    sleep: u64,
    /// The record that is slow; without, all are.
    on: Option<String>,
}

#[operator]
impl Slow {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.config = context.config()?;
        Ok(())
    }

    #[input]
    fn lines(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
        let is_slow = self.config.on.as_ref().is_none_or(|on| on == line);
        for spin in 0..if is_slow { self.config.spins } else { 0 } {
            black_box(spin);
        }
        if is_slow {
            std::thread::sleep(std::time::Duration::from_millis(self.config.sleep));
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
