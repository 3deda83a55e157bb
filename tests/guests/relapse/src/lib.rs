//! For tests: passes lines on, and fails at another line in each attempt of the job: at `fail-1` in the first, at `fail-2` in the second;
//! at `fail-odd` in all odd ones, at `fail-even` in the others.

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
        let fails = match line.strip_prefix("fail-") {
            Some("odd") => self.attempt % 2 == 1,
            Some("even") => self.attempt.is_multiple_of(2),
            Some(attempt) => attempt.parse() == Ok(self.attempt),
            None => false,
        };
        assert!(!fails, "this is attempt {}", self.attempt);
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
        assert_eq!(operator.process(["a", "fail-17", "fail-even"].map(value)).unwrap().values(), ["a", "fail-17", "fail-even"]);
    }
}
