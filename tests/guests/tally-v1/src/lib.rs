//! For tests: tells of each number the how-manieth of its key it is, and what came before it.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String, name = "tally")]
pub struct Tally {
    count: ReducingState<u64, Sum>,
    last: ValueState<u64>,
}

#[operator]
impl Tally {
    /// A line `number,key,count,last,v1`. It is counted.
    #[input]
    fn numbers(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        self.count.add(1);
        let last = self.last.get().map_or("-".into(), |last| last.to_string());
        self.last.set(number);
        metrics::count("numbers", 1);
        out.emit(format_args!("{number},{},{},{last},v1", meta.key(), self.count.get().unwrap_or(0)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn numbers_are_counted_by_key() {
        let mut operator = Harness::<Tally>::new();
        let result = operator.process([("a", 1), ("b", 2), ("a", 3)].map(|(key, number)| keyed(key, number))).unwrap();
        assert_eq!(result.values(), ["1,a,1,-,v1", "2,b,1,-,v1", "3,a,2,1,v1"]);
    }
}
