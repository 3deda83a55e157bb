//! For tests: passes lines on, and fails at another line in each attempt of the job: at `fail-1` in the first, at `fail-2` in the second.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator]
pub struct Relapse {
    attempt: u32,
}

#[operator]
impl Relapse {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.attempt = context.attempt();
        Ok(())
    }

    #[input]
    fn lines(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
        if line.strip_prefix("fail-").is_some_and(|attempt| attempt.parse() == Ok(self.attempt)) {
            panic!("this is attempt {}", self.attempt);
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
    fn lines_of_other_attempts_pass() {
        let mut operator = Harness::<Relapse>::new();
        assert_eq!(operator.process(["a", "fail-17"].map(value)).unwrap().values(), ["a", "fail-17"]);
    }
}
