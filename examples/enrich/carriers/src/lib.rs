//! Puts the names of their carriers to flights. The names come on an input of their own, and every subtask has all of them.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String)]
pub struct Carriers {
    /// By carrier.
    names: BroadcastState<String, String>,
    /// Of each carrier, so far.
    flights: ReducingState<u64, Sum>,
}

#[operator]
impl Carriers {
    /// A line `UA,United Air Lines Inc.`.
    #[input(broadcast)]
    fn airlines(&mut self, line: &str) -> Result<()> {
        let Some((carrier, name)) = line.split_once(',') else { bail!("an airline has a carrier and a name, and this line has no comma") };
        self.names.insert(carrier, name.to_owned());
        Ok(())
    }

    /// A flight is by how many minutes it departed late, or none if it was cancelled. Sends a line `United Air Lines Inc.,3,-4`: the
    /// airline, the number of its flight, and the delay or NA; for a carrier without a name the same to `unknown`, with its letters.
    #[input(waits_for = "airlines")]
    fn flights(&mut self, delay: Option<i64>, meta: &Meta<String>, out: &mut Output<String>, unknown: &mut Output<String>) -> Result<()> {
        self.flights.add(1);
        let number = self.flights.get().unwrap_or(0);
        let (name, output) = match self.names.get_ref(meta.key()) {
            Some(name) => (name.as_str(), out),
            None => {
                metrics::count("unknown", 1);
                (meta.key(), unknown)
            }
        };
        match delay {
            Some(minutes) => output.emit(format_args!("{name},{number},{minutes}")),
            None => output.emit(format_args!("{name},{number},NA")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Failure, Harness, Snapshot, keyed, value};

    use super::*;

    const AIRLINES: &str = include_str!("../../input/airlines.csv");

    fn carriers() -> Harness<Carriers> {
        let mut carriers = Harness::<Carriers>::new();
        carriers.broadcast::<String>("airlines", AIRLINES.lines().skip(1).map(value)).unwrap();
        carriers
    }

    #[test]
    fn flights_get_their_carriers_names_and_numbers() {
        let mut carriers = carriers();
        let flights = [("UA", Some(-4)), ("WN", None), ("ZZ", Some(7)), ("UA", Some(0))];
        let result = carriers.process(flights.map(|(carrier, delay)| keyed(carrier, delay))).unwrap();
        assert_eq!(result.values(), ["United Air Lines Inc.,1,-4", "Southwest Airlines Co.,1,NA", "United Air Lines Inc.,2,0"]);
        assert_eq!(result.side::<String, String>("unknown"), [keyed("ZZ".to_owned(), "ZZ,1,7".to_owned())]);
        assert_eq!(carriers.counter("unknown"), 1);
    }

    #[test]
    fn after_a_restart_every_subtask_knows_every_name() {
        let parts = Snapshot::spread(&[carriers().snapshot()], 2, |key| usize::from(key == b"UA"));
        for part in &parts {
            let mut carriers = Harness::<Carriers>::new();
            carriers.restore(part);
            assert_eq!(carriers.broadcast_state::<String, String>("names").len(), 16);
            assert_eq!(carriers.process([keyed("AS", Some(1))]).unwrap().values(), ["Alaska Airlines Inc.,1,1"]);
        }
    }

    #[test]
    fn an_airline_without_a_name_fails_the_job() {
        let failure = Harness::<Carriers>::new().broadcast::<String>("airlines", ["UA,United", "AA"].map(value)).unwrap_err();
        let message = "record 1 on broadcast input `airlines`: an airline has a carrier and a name, and this line has no comma";
        assert_eq!(failure, Failure::Error(message.into()));
    }
}
