//! For tests: version 2 of an operator whose state's types change: fields were added and reordered, and there is a way back from version 3.

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

/// As version 3 has it.
#[record]
struct SeenV3 {
    sum: i64,
    count: u64,
    greatest: Option<u64>,
    since: String,
}

fn from_v3(SeenV3 { sum, count, greatest, .. }: SeenV3) -> Result<Seen> {
    Ok(Seen { greatest, count, sum: sum.try_into()? })
}

fn number_from_v3(text: String) -> Result<Number> {
    let digits = text.split(':').next().unwrap_or_default();
    Ok(Number { number: digits.parse()?, twice: None })
}

/// The operator.
#[operator(key = String, name = "evolve")]
pub struct Evolve {
    #[state(version = 2, migrate(3 => from_v3))]
    seen: ValueState<Seen>,
    #[state(version = 2, migrate(3 => from_v3))]
    by_remainder: MapState<u64, Seen>,
    #[state(version = 2, migrate(3 => number_from_v3))]
    numbers: ListState<Number>,
    #[state(version = 2, migrate(3 => number_from_v3), ttl = "40days")]
    last: ValueState<Number>,
    #[state(version = 2, migrate(3 => from_v3))]
    locals: OperatorListState<Seen>,
    #[state(version = 2, migrate(3 => from_v3))]
    rules: BroadcastState<String, Seen>,
    /// The first subtasks, which nobody writes again.
    #[state(version = 2, migrate(3 => number_from_v3))]
    first: UnionListState<Number>,
    subtask: u32,
}
