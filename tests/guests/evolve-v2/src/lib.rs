//! For tests: version 2 of an operator whose state's types change: fields were added and reordered.

#[path = "../../evolve-v1/src/work.rs"]
mod work;

use cofferdam_sdk::prelude::*;

/// What was seen of numbers.
#[record]
#[derive(Clone, Default)]
pub struct Seen {
    greatest: Option<u64>,
    count: u64,
    sum: u64,
}

impl Seen {
    fn add(&mut self, number: u64) {
        self.sum += number;
        self.count += 1;
        self.greatest = self.greatest.max(Some(number));
    }

    /// `count/sum/greatest/since`.
    fn told(&self) -> String {
        let greatest = self.greatest.map_or("-".into(), |number| number.to_string());
        format!("{}/{}/{greatest}/-", self.count, self.sum)
    }
}

/// A number.
#[record]
#[derive(Clone)]
pub struct Number {
    number: u64,
    twice: Option<u64>,
}

fn number(number: u64) -> Number {
    Number { number, twice: Some(2 * number) }
}

fn told(number: &Number) -> String {
    number.twice.map_or(number.number.to_string(), |twice| format!("{}:{twice}", number.number))
}

/// The operator.
#[operator(key = String, name = "evolve")]
pub struct Evolve {
    #[state(version = 2)]
    seen: ValueState<Seen>,
    #[state(version = 2)]
    by_remainder: MapState<u64, Seen>,
    #[state(version = 2)]
    numbers: ListState<Number>,
    #[state(version = 2, ttl = "40days")]
    last: ValueState<Number>,
    #[state(version = 2)]
    locals: OperatorListState<Seen>,
    #[state(version = 2)]
    rules: BroadcastState<String, Seen>,
    /// The first subtasks, which nobody writes again.
    #[state(version = 2)]
    first: UnionListState<Number>,
    subtask: u32,
}
