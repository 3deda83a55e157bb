//! Reads flights from lines of CSV, and sends those that departed on under their plane.

use cofferdam_sdk::prelude::*;

/// How many fields a line has.
const FIELDS: usize = 19;
/// Where the fields that matter stand.
const DEP_DELAY: usize = 5;
const TAILNUM: usize = 11;
const ORIGIN: usize = 12;
const DEST: usize = 13;
const MINUTE: usize = 17;
const TIME_HOUR: usize = 18;

/// The operator.
#[operator]
pub struct Legs;

/// A flight that departed.
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

#[operator]
impl Legs {
    /// Flights that were cancelled, and those of no known plane, are passed over.
    #[input]
    fn lines(&mut self, line: &str, out: &mut KeyedOutput<String, Leg>) -> Result<()> {
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() != FIELDS {
            bail!("a flight has {FIELDS} fields, and this line has {}", fields.len());
        }
        if fields[DEP_DELAY] == "NA" || fields[TAILNUM] == "NA" {
            return Ok(());
        }
        let Some(hour) = hour(fields[TIME_HOUR]) else { bail!("time_hour is {:?}", fields[TIME_HOUR]) };
        let (minute, delay) = (number("minute", fields[MINUTE])?, number("dep_delay", fields[DEP_DELAY])?);
        let leg = Leg { departed: hour * 60 + minute + delay, origin: fields[ORIGIN].into(), dest: fields[DEST].into() };
        out.emit(fields[TAILNUM], leg);
        Ok(())
    }
}

fn number(name: &str, text: &str) -> Result<i64> {
    match text.parse() {
        Ok(number) => Ok(number),
        Err(error) => bail!("{name} is {text:?}: {error}"),
    }
}

/// Hours since the Unix epoch, of a time as `2013-01-31T10:00:00Z`.
fn hour(time: &str) -> Option<i64> {
    let part = |from: usize, to: usize| time.get(from..to)?.parse::<i64>().ok();
    let (year, month, day, hour) = (part(0, 4)?, part(5, 7)?, part(8, 10)?, part(11, 13)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || time.get(13..) != Some(":00:00Z") {
        return None;
    }
    // Years that begin in March end with the leap day: then the days before a month follow one rule.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    Some(days * 24 + hour)
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, value};

    use super::*;

    const GOOD: &str = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z";

    #[test]
    fn a_flight_goes_on_under_its_plane_and_a_cancelled_one_does_not() {
        let cancelled = GOOD.replace(",517,515,2,", ",NA,515,NA,");
        let mut legs = Harness::<Legs>::new();
        let result = legs.process([GOOD, &cancelled, "2013,1"].map(value)).unwrap();
        // 2013-01-01 is day 15,706 of the epoch; the flight departed 17 minutes past ten.
        let leg = Leg { departed: (15_706 * 24 + 10) * 60 + 17, origin: "EWR".into(), dest: "IAH".into() };
        assert_eq!(result.pairs(), [("N14228".to_owned(), leg)]);
        assert_eq!(result.rejected[0].message, "a flight has 19 fields, and this line has 2");
    }

    #[test]
    fn times_are_hours_since_the_epoch() {
        let cases =
            [("1970-01-01T00", 0), ("1970-03-01T05", 59 * 24 + 5), ("2000-02-29T23", 11_016 * 24 + 23), ("2013-12-31T00", 16_070 * 24)];
        for (time, expected) in cases {
            assert_eq!(hour(&format!("{time}:00:00Z")), Some(expected), "{time}");
        }
        for time in ["", "2013-01-01", "2013-13-01T00:00:00Z", "2013-01-01T24:00:00Z", "2013-01-01T10:30:00Z"] {
            assert_eq!(hour(time), None, "{time}");
        }
    }
}
