//! For tests: version 3 of an operator whose state's types change: functions make them of those of version 2.

#[path = "../../evolve-v1/src/work.rs"]
mod work;

use cofferdam_sdk::prelude::*;

/// As version 2 had it.
#[record]
struct SeenV2 {
    greatest: Option<u64>,
    count: u64,
    sum: u64,
}

/// What was seen of numbers.
#[record]
#[derive(Clone)]
pub struct Seen {
    sum: i64,
    count: u64,
    greatest: Option<u64>,
    since: String,
}

impl Default for Seen {
    fn default() -> Self {
        Seen { sum: 0, count: 0, greatest: None, since: "v3".into() }
    }
}

fn from_v2(SeenV2 { greatest, count, sum }: SeenV2) -> Result<Seen> {
    Ok(Seen { sum: sum.try_into()?, count, greatest, since: "v2".into() })
}

impl Seen {
    fn add(&mut self, number: u64) {
        self.sum = self.sum.wrapping_add_unsigned(number);
        self.count += 1;
        self.greatest = self.greatest.max(Some(number));
    }

    /// `count/sum/greatest/since`.
    fn told(&self) -> String {
        let greatest = self.greatest.map_or("-".into(), |number| number.to_string());
        format!("{}/{}/{greatest}/{}", self.count, self.sum, self.since)
    }
}

/// As version 2 had it.
#[record]
struct NumberV2 {
    number: u64,
    twice: Option<u64>,
}

/// A number, and what versions before have told of it.
type Number = String;

fn number(number: u64) -> Number {
    number.to_string()
}

fn told(number: &Number) -> String {
    number.clone()
}

/// So that there is one that can't be migrated.
const TOO_LARGE: u64 = 1_000_000_000_000_000_000;

fn number_from_v2(NumberV2 { number, twice }: NumberV2) -> Result<Number> {
    if number >= TOO_LARGE {
        bail!("{number} is too large");
    }
    Ok(twice.map_or(number.to_string(), |twice| format!("{number}:{twice}")))
}

/// The operator.
#[operator(key = String, name = "evolve")]
pub struct Evolve {
    #[state(version = 3, migrate(2 => from_v2))]
    seen: ValueState<Seen>,
    #[state(version = 3, migrate(2 => from_v2))]
    by_remainder: MapState<u64, Seen>,
    #[state(version = 3, migrate(2 => number_from_v2))]
    numbers: ListState<Number>,
    #[state(version = 3, migrate(2 => number_from_v2), ttl = "30days")]
    last: ValueState<Number>,
    #[state(version = 3, migrate(2 => from_v2))]
    locals: OperatorListState<Seen>,
    #[state(version = 3, migrate(2 => from_v2))]
    rules: BroadcastState<String, Seen>,
    /// The first subtasks, which nobody writes again.
    #[state(version = 3, migrate(2 => number_from_v2))]
    first: UnionListState<Number>,
    subtask: u32,
}
