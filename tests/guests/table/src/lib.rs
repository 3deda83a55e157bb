//! For tests: keeps a table that changes all the time on every subtask, and tells at the end what each has.

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator(key = String)]
pub struct Table {
    table: BroadcastState<String, u64>,
    seen: ReducingState<u64, Sum>,
    /// The subtask's number, if it is to go into its table, which none may.
    subtask: Option<u32>,
}

/// `config`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    differ: bool,
}

#[operator]
impl Table {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.subtask = context.config::<Config>()?.differ.then(|| context.subtask());
        Ok(())
    }

    /// A line `field,number` adds to a field, `field,-` removes it.
    #[input(broadcast)]
    fn changes(&mut self, line: &str) -> Result<()> {
        if let Some(subtask) = self.subtask {
            self.table.insert("subtask", subtask.into());
        }
        match line.split_once(',') {
            Some((field, "-")) => self.table.remove(field),
            Some((field, number)) => {
                let sum = self.table.get(field).unwrap_or(0) + number.parse::<u64>()?;
                self.table.insert(field, sum);
            }
            None => bail!("no comma in {line:?}"),
        }
        Ok(())
    }

    #[input]
    fn numbers(&mut self, number: u64) -> Result<()> {
        // What is looked up here stays in the instance, where changes must reach it.
        self.table.contains(number.to_string());
        self.seen.add(1);
        Ok(())
    }

    /// A line `key,count,table`, the table as `field=number;…` as its iterator tells it, and behind it as single reads do.
    #[finish]
    fn end(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let entries: Vec<(String, u64)> = self.table.iter().collect();
        let told = |entries: &[(String, u64)]| entries.iter().map(|(field, sum)| format!("{field}={sum}")).collect::<Vec<_>>().join(";");
        let read: Vec<_> = entries.iter().filter_map(|(field, _)| Some((field.clone(), self.table.get(field)?))).collect();
        out.emit(format_args!("{},{},{},{}", meta.key(), self.seen.get().unwrap_or(0), told(&entries), told(&read)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed, value};

    use super::*;

    #[test]
    fn changes_reach_what_was_looked_up() {
        let mut table = Harness::<Table>::new();
        table.process_on::<u64>("numbers", [keyed("k", 1), keyed("k", 2)]).unwrap();
        table.broadcast::<String>("changes", ["1,5", "2,7", "1,5", "2,-", "x,1"].map(value)).unwrap();
        table.process_on::<u64>("numbers", [keyed("k", 1), keyed("l", 2)]).unwrap();
        assert_eq!(table.finish().unwrap().values(), ["k,3,1=10;x=1,1=10;x=1", "l,1,1=10;x=1,1=10;x=1"]);
    }
}
