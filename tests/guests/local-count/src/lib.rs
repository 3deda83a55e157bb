//! For tests: counts records per key in keyed state and per subtask in operator state, both written with each batch.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String)]
pub struct LocalCount {
    of_key: ReducingState<u64, Sum>,
    of_subtask: OperatorListState<u64>,
    subtask: u32,
}

#[operator]
impl LocalCount {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.subtask = context.subtask();
        Ok(())
    }

    /// Panics on every number that ends in 57.
    #[input]
    fn numbers(&mut self, number: u64) -> Result<()> {
        self.of_key.add(1);
        // After a restart with fewer subtasks there are the counts of several.
        let before: u64 = self.of_subtask.get().iter().sum();
        self.of_subtask.replace([before + 1]);
        assert_ne!(number % 100, 57);
        Ok(())
    }

    /// A line `key,count,subtask,count of the subtask`.
    #[finish]
    fn counts(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let of_subtask: u64 = self.of_subtask.get().iter().sum();
        out.emit(format_args!("{},{},{},{of_subtask}", meta.key(), self.of_key.get().unwrap_or(0), self.subtask));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn both_counts_leave_out_what_panics() {
        let mut operator = Harness::<LocalCount>::new();
        operator.process(["a", "b", "a"].map(|key| keyed(key, 1))).unwrap();
        operator.process([keyed("a", 1), keyed("a", 157)]).unwrap_err();
        assert_eq!(operator.finish().unwrap().values(), ["a,2,0,3", "b,1,0,3"]);
    }
}
