//! For tests: does what the flights example's `delays` does, over the same state, until the flights of a key are too many for it.

use cofferdam_sdk::prelude::*;

/// At every so many flights of a key a line is sent.
const EVERY: u64 = 50;
/// It fails on this flight of a key, and on all after it.
const TOO_MANY: u64 = 1500;

/// The operator.
#[operator(key = String)]
pub struct Delays {
    stats: ValueState<Stats>,
}

/// What is known of a key's flights.
#[record]
#[derive(Clone, Default)]
pub struct Stats {
    flights: u64,
    cancelled: u64,
    delay: i64,
}

#[operator]
impl Delays {
    /// Fails when all is done.
    #[input]
    fn flights(&mut self, delay: Option<i64>, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let flights = self.stats.update(|stats| {
            stats.flights += 1;
            stats.cancelled += u64::from(delay.is_none());
            stats.delay += delay.unwrap_or(0);
            stats.flights
        });
        if flights.is_multiple_of(EVERY) {
            out.emit(format_args!("{},{flights}", meta.key()));
        }
        assert!(flights < TOO_MANY, "{flights} flights are too many");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Failure, Harness, keyed};

    use super::*;

    #[test]
    fn it_fails_from_a_flight_on() {
        let mut operator = Harness::<Delays>::new();
        let result = operator.process((1..TOO_MANY).map(|_| keyed("UA", Some(1i64)))).unwrap();
        assert_eq!((result.values().len(), result.values()[0].as_str()), (29, "UA,50"));
        let failure = operator.process([keyed("UA", None::<i64>)]).unwrap_err();
        assert_eq!(failure, Failure::Panic { record: Some(0), message: "1500 flights are too many".into() });
    }
}
