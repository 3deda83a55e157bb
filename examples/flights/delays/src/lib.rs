//! Statistics of delays for each carrier, or whatever else the flights are keyed by.

use cofferdam_sdk::prelude::*;

/// At every so many flights of a key a line is sent.
const EVERY: u64 = 50;

/// The operator.
#[operator(key = String)]
pub struct Delays {
    stats: ValueState<Stats>,
}

/// What is known of a key's flights.
#[record]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All flights.
    pub flights: u64,
    /// Those that never departed.
    pub cancelled: u64,
    /// Minutes by which the others departed late; early ones count against it.
    pub delay: i64,
}

impl Stats {
    /// Minutes of delay for each departed flight, rounded to the nearest whole one, halves away from zero; none if none departed.
    pub fn mean(&self) -> Option<i64> {
        let departed = i64::try_from(self.flights - self.cancelled).ok().filter(|&departed| departed > 0)?;
        Some((2 * self.delay + departed * self.delay.signum()) / (2 * departed))
    }
}

#[operator]
impl Delays {
    /// A flight is by how many minutes it departed late, or none if it was cancelled.
    #[input]
    fn flights(&mut self, delay: Option<i64>, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let flights = self.stats.update(|stats| {
            stats.flights += 1;
            match delay {
                Some(minutes) => stats.delay += minutes,
                None => stats.cancelled += 1,
            }
            stats.flights
        });
        if flights.is_multiple_of(EVERY) {
            out.emit(format_args!("{},{flights}", meta.key()));
        }
        Ok(())
    }

    #[finish]
    fn totals(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let stats = self.stats.get().unwrap_or_default();
        let Stats { flights, cancelled, delay } = stats;
        let mean = stats.mean().map_or("NA".into(), |mean| mean.to_string());
        out.emit(format_args!("total,{},{flights},{cancelled},{delay},{mean}", meta.key()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    /// January's flights as `parse` sends them.
    fn january() -> Vec<(&'static str, Option<i64>)> {
        let lines = include_str!("../../input/flights-january.csv").lines().skip(1);
        lines
            .map(|line| {
                let fields: Vec<_> = line.split(',').collect();
                (fields[9], fields[5].parse().ok())
            })
            .collect()
    }

    /// The lines that January makes, told by a fold over all of it.
    fn oracle() -> (Vec<String>, Vec<String>) {
        let mut delays: BTreeMap<&str, Vec<Option<i64>>> = BTreeMap::new();
        let mut every = Vec::new();
        for (carrier, delay) in january() {
            let all = delays.entry(carrier).or_default();
            all.push(delay);
            if all.len().is_multiple_of(50) {
                every.push(format!("{carrier},{}", all.len()));
            }
        }
        let total = |(carrier, all): (&str, Vec<Option<i64>>)| {
            let departed: Vec<i64> = all.iter().copied().flatten().collect();
            let sum: i64 = departed.iter().sum();
            let mean = (sum as f64 / departed.len() as f64).round();
            format!("total,{carrier},{},{},{sum},{mean}", all.len(), all.len() - departed.len())
        };
        (every, delays.into_iter().map(total).collect())
    }

    #[test]
    fn january_gives_the_same_lines_in_batches_of_any_size_and_across_a_restart() {
        let (every, totals) = oracle();
        let records: Vec<_> = january().into_iter().map(|(carrier, delay)| keyed(carrier, delay)).collect();
        for size in [1, 7, 1000, 100_000] {
            let mut operator = Harness::<Delays>::new();
            let (first, second) = records.split_at(records.len() / 3);
            let mut lines = operator.process_in_batches(size, first.to_vec()).unwrap().values();
            let snapshot = operator.snapshot();
            operator.process_in_batches(size, second.to_vec()).unwrap();
            operator.restore(&snapshot);
            lines.extend(operator.process_in_batches(size, second.to_vec()).unwrap().values());
            assert!(lines == every, "in batches of {size}");
            assert_eq!(operator.finish().unwrap().values(), totals, "in batches of {size}");
        }
    }

    #[test]
    fn the_mean_is_rounded_to_the_nearest_minute_and_halves_away_from_zero() {
        let mean = |delay, flights, cancelled| Stats { flights, cancelled, delay }.mean();
        assert_eq!(mean(7, 3, 1), Some(4));
        assert_eq!(mean(-7, 3, 1), Some(-4));
        assert_eq!(mean(10, 3, 0), Some(3));
        assert_eq!(mean(-10, 3, 0), Some(-3));
        assert_eq!(mean(0, 1, 0), Some(0));
        assert_eq!(mean(0, 2, 2), None);
    }

    #[test]
    fn a_carrier_without_departures_has_no_mean() {
        let mut operator = Harness::<Delays>::new();
        operator.process([keyed("ZZ", None::<i64>)]).unwrap();
        assert_eq!(operator.finish().unwrap().values(), ["total,ZZ,1,1,0,NA"]);
    }
}
