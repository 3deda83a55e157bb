//! For tests: keeps the odd numbers of a key for a second in every kind of state, and tells at each number what there is.

mod work;

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String)]
pub struct Mortal {
    #[state(ttl = "1s")]
    value: ValueState<u64>,
    #[state(ttl = "1s")]
    list: ListState<u64>,
    #[state(ttl = "1s")]
    map: MapState<u64, u64>,
    /// Longer than any test takes.
    #[state(ttl = "1day")]
    lasting: ValueState<u64>,
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn what_was_written_is_told() {
        let mut operator = Harness::<Mortal>::new();
        let sent = operator.process([("a", 1), ("b", 2), ("a", 3), ("a", 4)].map(|(key, number)| keyed(key, number))).unwrap();
        assert_eq!(sent.values(), ["1,[1],[1],[1],[1]", "2,[],[],[],[]", "3,[3],[1 3],[1 3],[3]", "4,[3],[1 3],[1 3],[3]"]);
    }
}
