//! For tests: sends each record many times, so that much more comes out than goes in.

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator]
pub struct FlatMap {
    times: u32,
}

/// `config` in the job file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    times: u32,
}

#[operator]
impl FlatMap {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.times = context.config::<Config>()?.times;
        Ok(())
    }

    #[input]
    fn lines(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
        for _ in 0..self.times {
            out.emit(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, value};

    use super::*;

    #[test]
    fn each_record_comes_as_often_as_configured() {
        let mut operator = Harness::<FlatMap>::with_config(r#"{"times":3}"#).unwrap();
        assert_eq!(operator.process(["a", "b"].map(value)).unwrap().values(), ["a", "a", "a", "b", "b", "b"]);
    }
}
