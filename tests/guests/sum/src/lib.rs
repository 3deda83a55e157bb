//! For tests: keeps each key's numbers in all kinds of state, and tells at the end what they hold.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String)]
pub struct Totals {
    count: ValueState<u64>,
    sum: ReducingState<u64, Sum>,
    list: ListState<u64>,
}

#[operator]
impl Totals {
    #[input]
    fn numbers(&mut self, number: u64) -> Result<()> {
        self.count.update(|count| *count += 1);
        self.sum.add(number);
        self.list.push(number);
        Ok(())
    }

    /// A line `key,count,sum,list`, the elements of the list joined by `;`.
    #[finish]
    fn totals(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let count = self.count.get().unwrap_or(0);
        let sum = self.sum.get().unwrap_or(0);
        let list: Vec<String> = self.list.iter().map(|number| number.to_string()).collect();
        out.emit(format_args!("{},{count},{sum},{}", meta.key(), list.join(";")));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn all_states_tell_the_same() {
        for size in [1, 2, 10] {
            let mut operator = Harness::<Totals>::new();
            operator.process_in_batches(size, [("a", 1), ("b", 20), ("a", 3), ("a", 2)].map(|(key, n)| keyed(key, n))).unwrap();
            assert_eq!(operator.finish().unwrap().values(), ["a,3,6,1;3;2", "b,1,20,20"]);
        }
    }
}
