//! Sessions of planes: flights that follow each other, until a plane was not seen for a while. And where each plane has been.

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator(key = String)]
pub struct Trips {
    /// The flights of the session that is open.
    legs: ListState<Leg>,
    /// When the last of them departed.
    last: ValueState<i64>,
    /// How often the plane has gone where, over all sessions.
    dests: MapState<String, u32>,
    gap: i64,
}

/// A flight that departed, as `legs` sends it.
#[record]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// When it departed: minutes since the Unix epoch.
    pub departed: i64,
    /// From where.
    pub origin: String,
    /// To where.
    pub dest: String,
}

/// `config` in the job file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// A session ends when no flight follows for so many hours.
    #[serde(default = "a_day")]
    gap_hours: i64,
}

fn a_day() -> i64 {
    24
}

#[operator]
impl Trips {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.gap = context.config::<Config>()?.gap_hours * 60;
        Ok(())
    }

    /// Flights come in the order of the data. One that departs long after the one before begins a session.
    #[input]
    fn legs(&mut self, leg: Leg, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let last = self.last.get();
        if last.is_some_and(|last| leg.departed - last > self.gap) {
            self.close(meta.key(), out);
        }
        // After midnight, the data has a flight of the day before among those of its own day.
        self.last.set(last.map_or(leg.departed, |last| last.max(leg.departed)));
        self.dests.update(leg.dest.as_str(), |flights| *flights += 1);
        self.legs.push(leg);
        Ok(())
    }

    /// The session that is open, and a line `dests,N14228,BOS=2;IAH=1`.
    #[finish]
    fn end(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        self.close(meta.key(), out);
        let dests: Vec<String> = self.dests.iter().map(|(dest, flights)| format!("{dest}={flights}")).collect();
        out.emit(format_args!("dests,{},{}", meta.key(), dests.join(";")));
        Ok(())
    }
}

impl Trips {
    /// Sends a line `session,N14228,3,1710,EWR-IAH;LGA-BOS;EWR-IAH`: the plane, its flights from New York, the minutes from the first
    /// departure to the last, and the ways.
    fn close(&mut self, plane: &str, out: &mut Output<String>) {
        let legs: Vec<Leg> = self.legs.iter().collect();
        let departures = || legs.iter().map(|leg| leg.departed);
        let minutes = departures().max().unwrap_or(0) - departures().min().unwrap_or(0);
        let ways: Vec<String> = legs.iter().map(|leg| format!("{}-{}", leg.origin, leg.dest)).collect();
        out.emit(format_args!("session,{plane},{},{minutes},{}", legs.len(), ways.join(";")));
        self.legs.clear();
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, Record, keyed};

    use super::*;

    fn leg(plane: &str, hour: i64, origin: &str, dest: &str) -> Record<String, Leg> {
        keyed(plane.to_owned(), Leg { departed: hour * 60, origin: origin.into(), dest: dest.into() })
    }

    #[test]
    fn a_session_ends_when_a_plane_was_not_seen_for_a_day() {
        let legs = [
            leg("N1", 10, "EWR", "IAH"),
            leg("N2", 11, "LGA", "BOS"),
            leg("N1", 34, "JFK", "BOS"),
            leg("N1", 33, "JFK", "LAX"),
            leg("N1", 59, "EWR", "IAH"),
        ];
        for size in [1, 2, 5] {
            let mut trips = Harness::<Trips>::new();
            let (first, second) = legs.split_at(3);
            assert!(trips.process_in_batches(size, first.to_vec()).unwrap().values().is_empty());
            let snapshot = trips.snapshot();
            trips.process_in_batches(size, second.to_vec()).unwrap();
            trips.restore(&snapshot);
            let sent = trips.process_in_batches(size, second.to_vec()).unwrap().values();
            assert_eq!(sent, ["session,N1,3,1440,EWR-IAH;JFK-BOS;JFK-LAX"]);
            let rest = trips.finish().unwrap().values();
            let expected = ["session,N1,1,0,EWR-IAH", "dests,N1,BOS=1;IAH=2;LAX=1", "session,N2,1,0,LGA-BOS", "dests,N2,BOS=1"];
            assert_eq!(rest, expected);
        }
    }

    #[test]
    fn the_gap_is_configured() {
        let mut trips = Harness::<Trips>::with_config(r#"{"gap_hours":1}"#).unwrap();
        let sent = trips.process([leg("N1", 10, "EWR", "IAH"), leg("N1", 11, "EWR", "IAH"), leg("N1", 13, "EWR", "BOS")]).unwrap();
        assert_eq!(sent.values(), ["session,N1,2,60,EWR-IAH;EWR-IAH"]);
        assert!(Harness::<Trips>::with_config(r#"{"gap":1}"#).is_err());
    }
}
