//! For tests: keeps the odd numbers of a key for a second in every kind of state, and tells at each number what there is.

use std::fmt::Debug;

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

#[operator]
impl Mortal {
    /// A line `number,value,list,map,lasting`, each of which but the first is like `[1 3]`.
    #[input]
    fn numbers(&mut self, number: u64, out: &mut Output<String>) -> Result<()> {
        if !number.is_multiple_of(2) {
            self.value.set(number);
            self.list.push(number);
            self.map.insert(number, number);
            self.lasting.set(number);
        }
        let (value, lasting) = (told(self.value.get()), told(self.lasting.get()));
        let (list, map) = (told(self.list.iter()), told(self.map.iter().map(|(field, _)| field)));
        out.emit(format_args!("{number},{value},{list},{map},{lasting}"));
        Ok(())
    }
}

/// What there is, as `[1 2]`.
fn told(found: impl IntoIterator<Item = impl Debug>) -> String {
    let found: Vec<String> = found.into_iter().map(|found| format!("{found:?}")).collect();
    format!("[{}]", found.join(" "))
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
