//! For tests: counts records per key in keyed state and per subtask in memory, which it saves at each barrier.

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator(key = String)]
pub struct LocalMemory {
    of_key: ReducingState<u64, Sum>,
    saved: OperatorListState<u64>,
    of_subtask: u64,
    subtask: u32,
    attempt: u32,
    config: Config,
    fatal: Option<u64>,
}

/// `config` in the job file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// At which number it panics in each attempt, the first ones.
    fatal: Vec<u64>,
    /// In which attempts, at which checkpoints, the first subtask does not save, and says so.
    refuses: Vec<(u32, u64)>,
    /// The same, and it panics.
    panics: Vec<(u32, u64)>,
}

#[operator]
impl LocalMemory {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        (self.subtask, self.attempt) = (context.subtask(), context.attempt());
        self.config = context.config()?;
        self.fatal = self.config.fatal.get(context.attempt() as usize - 1).copied();
        self.of_subtask = self.saved.get().iter().sum();
        Ok(())
    }

    #[input]
    fn numbers(&mut self, number: u64) -> Result<()> {
        self.of_key.add(1);
        self.of_subtask += 1;
        assert_ne!(Some(number), self.fatal);
        Ok(())
    }

    #[snapshot]
    fn save(&mut self, checkpoint: u64) -> Result<()> {
        self.saved.replace([self.of_subtask]);
        let fails = |moments: &[(u32, u64)]| self.subtask == 0 && moments.contains(&(self.attempt, checkpoint));
        assert!(!fails(&self.config.panics), "as configured");
        if fails(&self.config.refuses) {
            bail!("not now");
        }
        Ok(())
    }

    /// A line `key,count,subtask,count of the subtask`.
    #[finish]
    fn counts(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        out.emit(format_args!("{},{},{},{}", meta.key(), self.of_key.get().unwrap_or(0), self.subtask, self.of_subtask));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn what_came_after_the_checkpoint_is_forgotten() {
        let mut operator = Harness::<LocalMemory>::new();
        operator.process(["a", "b", "a"].map(|key| keyed(key, 1))).unwrap();
        let checkpoint = operator.checkpoint(1).unwrap();
        operator.process([keyed("a", 1)]).unwrap();
        operator.restore(&checkpoint);
        operator.process([keyed("c", 1)]).unwrap();
        assert_eq!(operator.finish().unwrap().values(), ["a,2,0,4", "b,1,0,4", "c,1,0,4"]);
    }
}
