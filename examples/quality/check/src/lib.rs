//! Lets whole flights through and rejects those that miss a value, saying which.

use cofferdam_sdk::prelude::*;

/// The columns of a flight, in order.
const COLUMNS: [&str; 19] = [
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
];

/// The operator.
#[operator]
pub struct Check;

#[operator]
impl Check {
    /// A line of CSV. The data has no quoted fields.
    #[input]
    fn flights(&mut self, line: &str, out: &mut Output<String>) -> Result<()> {
        let fields = line.split(',').count();
        if fields != COLUMNS.len() {
            bail!("it has {fields} fields instead of {}", COLUMNS.len());
        }
        if let Some((_, column)) = line.split(',').zip(COLUMNS).find(|(field, _)| *field == "NA") {
            bail!("{column} is missing");
        }
        out.emit(line);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, value};

    use super::*;

    const WHOLE: &str = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z";

    #[test]
    fn a_flight_that_misses_a_value_is_rejected_by_the_first_column_that_it_misses() {
        let cancelled = WHOLE.replace("517", "NA").replace("830", "NA");
        let mut check = Harness::<Check>::new();
        let result = check.process([WHOLE, &cancelled, "2013,1", WHOLE].map(value)).unwrap();
        assert_eq!(result.values(), [WHOLE, WHOLE]);
        let told: Vec<_> = result.rejected.iter().map(|rejected| (rejected.record, rejected.message.as_str())).collect();
        assert_eq!(told, [(1, "dep_time is missing"), (2, "it has 2 fields instead of 19")]);
    }
}
