//! For tests: does what version 1 does, with the last number kept as text; to make that of what version 1 has kept takes its time.

use std::hint::black_box;

use cofferdam_sdk::prelude::*;

/// Rounds of a loop that does nothing, for each value that is migrated.
const SPINS: u64 = 100_000;

/// The operator.
#[operator(key = String, name = "tally")]
pub struct Tally {
    count: ReducingState<u64, Sum>,
    #[state(version = 2, migrate(1 => from_number))]
    last: ValueState<String>,
}

fn from_number(number: u64) -> Result<String> {
    for spin in 0..SPINS {
        black_box(spin);
    }
    Ok(number.to_string())
}

#[operator]
impl Tally {
    /// A line `number,key,count,last,v3`.
    #[input]
    fn numbers(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        self.count.add(1);
        let last = self.last.get().unwrap_or_else(|| "-".into());
        self.last.set(number.to_string());
        out.emit(format_args!("{number},{},{},{last},v3", meta.key(), self.count.get().unwrap_or(0)));
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
        assert_eq!(result.values(), ["1,a,1,-,v3", "2,b,1,-,v3", "3,a,2,1,v3"]);
    }
}
