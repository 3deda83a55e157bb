//! For benchmarks: touches one kind of state for each record, as `config` says.

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator(key = String)]
pub struct Kinds {
    list: ListState<u64>,
    sum: ReducingState<u64, Sum>,
    mean: AggregatingState<Mean>,
    map: MapState<u64, u64>,
    #[state(ttl = "1h")]
    mortal: ValueState<u64>,
    what: What,
    found: u64,
}

/// `config`.
#[derive(Deserialize)]
struct Config {
    what: What,
}

/// What to do with each number.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    #[default]
    ListAppend,
    Reduce,
    Aggregate,
    MapPut,
    MapGet,
    Ttl,
}

/// The mean of numbers.
pub struct Mean;

impl Aggregate for Mean {
    type Input = u64;
    type Accumulator = (u64, u64);
    type Output = u64;

    fn begin() -> (u64, u64) {
        (0, 0)
    }

    fn add((sum, count): &mut (u64, u64), number: u64) {
        *sum += number;
        *count += 1;
    }

    fn result((sum, count): &(u64, u64)) -> u64 {
        sum / count
    }
}

#[operator]
impl Kinds {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.what = context.config::<Config>()?.what;
        Ok(())
    }

    #[input]
    fn numbers(&mut self, number: u64) -> Result<()> {
        match self.what {
            What::ListAppend => self.list.push(number),
            What::Reduce => self.sum.add(number),
            What::Aggregate => self.mean.add(number),
            What::MapPut => self.map.insert(number, number),
            What::MapGet => self.found += self.map.get(number).unwrap_or_default(),
            What::Ttl => self.mortal.update(|sum| *sum += number),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn each_kind_is_written() {
        let run = |what: &str| {
            let mut operator = Harness::<Kinds>::with_config(&format!(r#"{{"what":"{what}"}}"#)).unwrap();
            operator.process([3, 4].map(|number| keyed("k", number))).unwrap();
            operator
        };
        assert_eq!(run("list-append").list::<u64>("list", "k"), [3, 4]);
        assert_eq!(run("reduce").value("sum", "k"), Some(7u64));
        assert_eq!(run("aggregate").value("mean", "k"), Some((7u64, 2u64)));
        assert_eq!(run("map-put").map::<u64, u64>("map", "k"), [(3, 3), (4, 4)]);
        assert_eq!(run("ttl").value("mortal", "k"), Some(7u64));
    }
}
