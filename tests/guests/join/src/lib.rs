//! For tests: joins the numbers of two inputs by their key, whichever comes first. The inputs share all state.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String)]
pub struct Join {
    left: ListState<u64>,
    right: ListState<u64>,
    /// How many numbers have come on the left and on the right.
    counts: ValueState<(u32, u32)>,
}

#[operator]
impl Join {
    /// Sends a line `key,left,right` for each number that is on the right already.
    #[input]
    fn left(&mut self, left: u64, meta: &Meta<String>, out: &mut Output<String>, odd: &mut KeyedOutput<u64, String>) -> Result<()> {
        self.counts.update(|(count, _)| *count += 1);
        self.left.push(left);
        self.right.iter().for_each(|right| out.emit(format_args!("{},{left},{right}", meta.key())));
        tell_odd("left", left, meta, odd)
    }

    /// The other way round.
    #[input]
    fn right(&mut self, right: u64, meta: &Meta<String>, out: &mut Output<String>, odd: &mut KeyedOutput<u64, String>) -> Result<()> {
        self.counts.update(|(_, count)| *count += 1);
        self.right.push(right);
        self.left.iter().for_each(|left| out.emit(format_args!("{},{left},{right}", meta.key())));
        tell_odd("right", right, meta, odd)
    }

    /// A line `key,2,0` for a key that has numbers on one side only.
    #[finish]
    fn rest(&mut self, meta: &Meta<String>, lonely: &mut Output<String>) -> Result<()> {
        let (left, right) = self.counts.get().unwrap_or_default();
        if left == 0 || right == 0 {
            lonely.emit(format_args!("{},{left},{right}", meta.key()));
        }
        Ok(())
    }
}

/// Sends a line for each odd number. Refuses each that is divisible by a hundred, when all is done for it.
fn tell_odd(side: &str, number: u64, meta: &Meta<String>, odd: &mut KeyedOutput<u64, String>) -> Result<()> {
    if number.is_multiple_of(50) || !number.is_multiple_of(2) {
        odd.emit(number, format_args!("{side},{},{number}", meta.key()));
    }
    if number.is_multiple_of(100) {
        bail!("{number} on the {side}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn every_pair_comes_once_in_either_order_and_none_of_a_rejected_record() {
        let mut join = Harness::<Join>::new();
        join.process_on::<u64>("left", [keyed("a", 1), keyed("b", 2), keyed("c", 4)]).unwrap();
        let right = join.process_on::<u64>("right", [keyed("a", 3), keyed("b", 200), keyed("a", 6), keyed("d", 8)]).unwrap();
        assert_eq!(right.values(), ["a,1,3", "a,1,6"]);
        assert_eq!((right.rejected.len(), right.side::<u64, String>("odd")), (1, vec![keyed(3, "right,a,3".to_owned())]));
        let left = join.process_on::<u64>("left", [keyed("a", 10), keyed("b", 12)]).unwrap();
        assert_eq!(left.values(), ["a,10,3", "a,10,6"]);
        let lonely = join.finish().unwrap().side::<String, String>("lonely");
        assert_eq!(lonely.into_iter().map(|record| record.value).collect::<Vec<_>>(), ["b,2,0", "c,1,0", "d,0,1"]);
    }
}
