//! Reads flights from lines of CSV, and sends each on under its carrier, its origin or its plane.

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// How many fields a line has.
const FIELDS: usize = 19;
/// Where the fields that matter stand.
const DEP_TIME: usize = 3;
const DEP_DELAY: usize = 5;
const CARRIER: usize = 9;
const TAILNUM: usize = 11;
const ORIGIN: usize = 12;

/// The operator.
#[operator]
#[derive(Default)]
pub struct Parse {
    by: By,
}

/// `config` in the job file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    by: By,
}

/// What becomes the key.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum By {
    #[default]
    Carrier,
    Origin,
    Tailnum,
}

#[operator]
impl Parse {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.by = context.config::<Config>()?.by;
        Ok(())
    }

    /// What goes on is by how many minutes the flight departed late, or none if it was cancelled.
    #[input]
    fn lines(&mut self, line: &str, out: &mut KeyedOutput<String, Option<i64>>) -> Result<()> {
        let fields = split(line)?;
        let delay = match (fields[DEP_TIME], fields[DEP_DELAY]) {
            ("NA", _) => None,
            (_, minutes) => match minutes.parse() {
                Ok(minutes) => Some(minutes),
                Err(error) => bail!("dep_delay is {minutes:?}: {error}"),
            },
        };
        let key = match self.by {
            By::Carrier => fields[CARRIER],
            By::Origin => fields[ORIGIN],
            By::Tailnum => fields[TAILNUM],
        };
        out.emit(key, delay);
        Ok(())
    }
}

fn split(line: &str) -> Result<[&str; FIELDS]> {
    let mut fields = [""; FIELDS];
    let mut found = 0;
    for field in line.split(',') {
        if let Some(place) = fields.get_mut(found) {
            *place = field;
        }
        found += 1;
    }
    if found != FIELDS {
        bail!("a flight has {FIELDS} fields, and this line has {found}");
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, value};

    use super::*;

    const JANUARY: &str = include_str!("../../input/flights-january.csv");

    #[test]
    fn each_flight_goes_on_with_its_delay_under_the_configured_key() {
        for (by, column) in [("carrier", CARRIER), ("origin", ORIGIN), ("tailnum", TAILNUM)] {
            let lines = || JANUARY.lines().skip(1);
            let oracle: Vec<(String, Option<i64>)> = lines()
                .map(|line| {
                    let fields: Vec<_> = line.split(',').collect();
                    (fields[column].to_owned(), fields[DEP_DELAY].parse().ok())
                })
                .collect();
            let mut parse = Harness::<Parse>::with_config(&format!(r#"{{"by":"{by}"}}"#)).unwrap();
            let result = parse.process_in_batches(1000, lines().map(value)).unwrap();
            assert_eq!(result.rejected, []);
            assert!(result.pairs() == oracle, "by {by}");
        }
    }

    #[test]
    fn a_malformed_line_is_rejected_and_the_others_go_on() {
        let good = JANUARY.lines().nth(1).unwrap();
        let late = good.replacen(",517,515,2,", ",517,515,x,", 1);
        assert_ne!(good, late);
        let mut parse = Harness::<Parse>::new();
        let result = parse.process([good, "", &late, good].map(value)).unwrap();
        assert_eq!(result.pairs(), [("UA".to_owned(), Some(2)), ("UA".to_owned(), Some(2))]);
        let messages: Vec<_> = result.rejected.iter().map(|rejected| (rejected.record, rejected.message.as_str())).collect();
        assert_eq!(
            messages,
            [(1, "a flight has 19 fields, and this line has 1"), (2, "dep_delay is \"x\": invalid digit found in string"),]
        );
    }

    #[test]
    fn an_unknown_setting_is_refused_by_name() {
        let error = Harness::<Parse>::with_config(r#"{"bye":"origin"}"#).err().unwrap();
        assert_eq!(error.message(), "config: unknown field `bye`, expected `by`");
    }
}
