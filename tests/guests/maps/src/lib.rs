//! For tests: keeps what each key's numbers have in common, in maps and aggregating state, some of it with a time to live.

use cofferdam_sdk::prelude::*;

/// Numbers are told apart by their remainder by this.
const REMAINDERS: u64 = 97;

/// The operator.
#[operator(key = String)]
pub struct Maps {
    counts: MapState<u64, u64>,
    mean: AggregatingState<Mean>,
    /// Longer than any test takes.
    #[state(ttl = "30days")]
    last: MapState<String, u64>,
    #[state(ttl = "30days", ttl_from = "access")]
    first: ListState<u64>,
    /// Shorter than any restart takes.
    #[state(ttl = "1ms")]
    brief: ValueState<u32>,
    #[state(ttl = "1ms")]
    garbage: MapState<u64, u64>,
    attempt: u32,
}

/// Sum and count of numbers, told as a text.
pub struct Mean;

impl Aggregate for Mean {
    type Input = u64;
    type Accumulator = (u64, u64);
    type Output = String;

    fn begin() -> (u64, u64) {
        (0, 0)
    }

    fn add((sum, count): &mut (u64, u64), number: u64) {
        *sum += number;
        *count += 1;
    }

    fn result((sum, count): &(u64, u64)) -> String {
        format!("{sum}/{count}")
    }
}

#[operator]
impl Maps {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.attempt = context.attempt();
        Ok(())
    }

    /// Counts the number under its remainder. Every 13th number removes another remainder, every 1009th all of them. Every 500th sends
    /// what there is from its remainder on.
    #[input]
    fn numbers(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        if self.brief.get().is_some_and(|attempt| attempt != self.attempt) {
            bail!("what lives for a millisecond has survived a restart");
        }
        self.brief.set(self.attempt);
        self.garbage.insert(number, number);
        if number.is_multiple_of(1009) {
            self.counts.clear();
        }
        if number.is_multiple_of(13) {
            self.counts.remove(number / 13 % REMAINDERS);
        }
        self.counts.update(number % REMAINDERS, |count| *count += 1);
        self.mean.add(number);
        self.last.insert(if number.is_multiple_of(2) { "even" } else { "odd" }, number);
        if self.first.iter().next().is_none() {
            self.first.push(number);
        }
        if number.is_multiple_of(500) {
            let counts = told(self.counts.iter_from(number % REMAINDERS));
            out.emit(format_args!("{},{number},{counts}", meta.key()));
        }
        Ok(())
    }

    /// A line `key,counts,mean,last,first`.
    #[finish]
    fn end(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let (counts, last) = (told(self.counts.iter()), told(self.last.iter()));
        let mean = self.mean.get().unwrap_or_default();
        let first: Vec<u64> = self.first.iter().collect();
        out.emit(format_args!("{},{counts},{mean},{last},{first:?}", meta.key()));
        Ok(())
    }
}

/// Fields and values as `field=value;field=value`.
fn told<F: std::fmt::Display>(entries: impl Iterator<Item = (F, u64)>) -> String {
    entries.map(|(field, value)| format!("{field}={value}")).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn all_states_tell_of_the_numbers() {
        for size in [1, 2, 10] {
            let mut operator = Harness::<Maps>::new();
            let numbers = [("a", 1), ("b", 20), ("a", 98), ("a", 500), ("a", 13 * 15)];
            let sent = operator.process_in_batches(size, numbers.map(|(key, number)| keyed(key, number))).unwrap();
            assert_eq!(sent.values(), ["a,500,15=1"]);
            assert_eq!(operator.finish().unwrap().values(), ["a,1=3,794/4,even=500;odd=195,[1]", "b,20=1,20/1,even=20,[20]"]);
        }
    }
}
