//! For tests: version 1 of an operator whose state's types change.

mod work;

use cofferdam_sdk::prelude::*;

/// What was seen of numbers.
#[record]
#[derive(Clone, Default)]
pub struct Seen {
    sum: u64,
    count: u64,
}

impl Seen {
    fn add(&mut self, number: u64) {
        self.sum += number;
        self.count += 1;
    }

    /// `count/sum/greatest/since`.
    fn told(&self) -> String {
        format!("{}/{}/-/-", self.count, self.sum)
    }
}

/// A number.
#[record]
#[derive(Clone)]
pub struct Number {
    number: u64,
}

fn number(number: u64) -> Number {
    Number { number }
}

fn told(number: &Number) -> String {
    number.number.to_string()
}

/// The operator.
#[operator(key = String, name = "evolve")]
pub struct Evolve {
    #[state(version = 1)]
    seen: ValueState<Seen>,
    #[state(version = 1)]
    by_remainder: MapState<u64, Seen>,
    #[state(version = 1)]
    numbers: ListState<Number>,
    #[state(version = 1, ttl = "30days")]
    last: ValueState<Number>,
    #[state(version = 1)]
    locals: OperatorListState<Seen>,
    #[state(version = 1)]
    rules: BroadcastState<String, Seen>,
    /// The first subtasks, which nobody writes again.
    #[state(version = 1)]
    first: UnionListState<Number>,
    subtask: u32,
}
