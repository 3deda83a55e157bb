//! For tests: does to every kind of state what its records say, and tells what there is.

use cofferdam_sdk::prelude::*;

/// A command is a number: `(value * FIELDS + field) * COMMANDS + command`.
const COMMANDS: u64 = 17;
const FIELDS: u64 = 40;

/// The operator. What is mortal lives longer than any test takes, what is brief shorter than any restart.
#[operator(key = String)]
pub struct Model {
    value: ValueState<u64>,
    list: ListState<u64>,
    sum: ReducingState<u64, Sum>,
    mean: AggregatingState<Mean>,
    map: MapState<u64, u64>,
    #[state(ttl = "30days")]
    mortal_value: ValueState<u64>,
    #[state(ttl = "30days", ttl_from = "access")]
    mortal_list: ListState<u64>,
    #[state(ttl = "30days", ttl_from = "access")]
    mortal_sum: ReducingState<u64, Sum>,
    #[state(ttl = "30days")]
    mortal_mean: AggregatingState<Mean>,
    #[state(ttl = "30days")]
    mortal_map: MapState<u64, u64>,
    #[state(ttl = "1ms")]
    brief_value: ValueState<u32>,
    #[state(ttl = "1ms")]
    brief_list: ListState<u32>,
    #[state(ttl = "1ms")]
    brief_map: MapState<u64, u32>,
    pushed: OperatorListState<u64>,
    united: UnionListState<u64>,
    table: BroadcastState<u64, u64>,
    /// The attempt in which the subtask has taken its part of what was united.
    taken: OperatorListState<u32>,
    subtask: u32,
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
impl Model {
    /// Of what all subtasks see of the union list each takes another part, once in an attempt.
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        (self.subtask, self.attempt) = (context.subtask(), context.attempt());
        if self.taken.get() != [self.attempt] {
            let is_ours = |number: &u64| number % u64::from(context.parallelism()) == u64::from(context.subtask());
            let ours: Vec<u64> = self.united.get().iter().copied().filter(is_ours).collect();
            self.united.replace(ours);
            self.taken.replace([self.attempt]);
        }
        Ok(())
    }

    /// A line `field,value` puts a value into the table, `field,-` removes it.
    #[input(broadcast)]
    fn changes(&mut self, line: &str) -> Result<()> {
        let Some((field, value)) = line.split_once(',') else { bail!("no comma in {line:?}") };
        let field: u64 = field.parse()?;
        match value {
            "-" => self.table.remove(field),
            value => self.table.insert(field, value.parse()?),
        }
        Ok(())
    }

    /// Does what the number says.
    #[input]
    fn commands(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        if self.sees_ghosts() {
            out.emit(format_args!("ghost,{},{number}", meta.key()));
        }
        let (command, field, value) = (number % COMMANDS, number / COMMANDS % FIELDS, number / COMMANDS / FIELDS);
        match command {
            0..=11 => self.write(command, field, value),
            12 => self.pushed.push(value),
            13 => {
                let united: Vec<u64> = self.united.get().iter().copied().chain([value]).collect();
                self.united.replace(united);
            }
            14 => out.emit(format_args!("tell,{},{number},{}", meta.key(), self.told())),
            15 => {
                let (map, mortal) = (fields(self.map.iter_from(field)), fields(self.mortal_map.iter_from(field)));
                out.emit(format_args!("scan,{},{number},{map},{mortal}", meta.key()));
            }
            // All that is written, and it fails: none of it may remain.
            _ => {
                out.emit("nothing of this");
                self.pushed.push(value);
                self.united.replace([value]);
                (0..12).for_each(|command| self.write(command, field, value));
                assert!(value.is_multiple_of(2), "an odd value");
                bail!("an even value");
            }
        }
        Ok(())
    }

    /// A line `end,key,…,subtask,pushed,united,table` for a key of which something is left that does not live briefly.
    #[finish]
    fn end(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let told = self.told();
        if told != "-|-|-|-|-,-|-|-|-|-" {
            let (pushed, united) = (numbers(self.pushed.get().iter()), numbers(self.united.get().iter()));
            let table = fields(self.table.iter());
            out.emit(format_args!("end,{},{told},{},{pushed},{united},{table}", meta.key(), self.subtask));
        }
        Ok(())
    }
}

impl Model {
    fn write(&mut self, command: u64, field: u64, value: u64) {
        match command {
            0 => (self.value.set(value), self.mortal_value.set(value)),
            1 => (self.value.clear(), self.mortal_value.clear()),
            2 => (self.list.push(value), self.mortal_list.push(value)),
            3 => (self.list.replace([value, field]), self.mortal_list.replace([value, field])),
            4 => (self.list.clear(), self.mortal_list.clear()),
            5 => (self.sum.add(value), self.mortal_sum.add(value)),
            6 => (self.sum.clear(), self.mortal_sum.clear()),
            7 => (self.mean.add(value), self.mortal_mean.add(value)),
            8 => (self.mean.clear(), self.mortal_mean.clear()),
            9 => (self.map.insert(field, value), self.mortal_map.insert(field, value)),
            10 => (self.map.remove(field), self.mortal_map.remove(field)),
            _ => (self.map.clear(), self.mortal_map.clear()),
        };
    }

    /// Whether something is there of what an earlier attempt has written to live briefly. Writes it anew.
    fn sees_ghosts(&mut self) -> bool {
        let attempt = self.attempt;
        let values = self.brief_value.get().into_iter().chain(self.brief_list.iter());
        let found = values.chain(self.brief_map.iter().map(|(_, written)| written)).any(|written| written != attempt);
        self.brief_value.set(attempt);
        self.brief_list.push(attempt);
        self.brief_map.insert(u64::from(attempt), attempt);
        found
    }

    /// What there is of the key, once of what lives for ever and once of what is mortal: `value|list|sum|mean|map`.
    fn told(&mut self) -> String {
        let text = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
        let mean = |mean: Option<String>| mean.unwrap_or("-".into());
        let eternal =
            [text(self.value.get()), numbers(self.list.iter()), text(self.sum.get()), mean(self.mean.get()), fields(self.map.iter())];
        let mortal = [
            text(self.mortal_value.get()),
            numbers(self.mortal_list.iter()),
            text(self.mortal_sum.get()),
            mean(self.mortal_mean.get()),
            fields(self.mortal_map.iter()),
        ];
        format!("{},{}", eternal.join("|"), mortal.join("|"))
    }
}

/// Numbers as `1;2`, none as `-`.
fn numbers(numbers: impl Iterator<Item = impl std::fmt::Display>) -> String {
    let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
    if texts.is_empty() { "-".into() } else { texts.join(";") }
}

/// Fields and values as `1=2;3=4`, none as `-`.
fn fields(entries: impl Iterator<Item = (u64, u64)>) -> String {
    numbers(entries.map(|(field, value)| format!("{field}={value}")))
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed, value};

    use super::*;

    #[test]
    fn commands_are_carried_out_on_both() {
        let mut model = Harness::<Model>::new();
        let number = |command: u64, field: u64, value: u64| keyed("k", (value * FIELDS + field) * COMMANDS + command);
        let writes = [(0, 0, 5), (2, 0, 6), (3, 1, 7), (2, 0, 8), (5, 0, 9), (7, 0, 10), (9, 3, 11), (9, 2, 12), (12, 0, 13), (13, 0, 14)];
        model.process(writes.map(|(command, field, value)| number(command, field, value))).unwrap();
        model.broadcast::<String>("changes", ["4,1", "5,2", "4,-"].map(value)).unwrap();
        assert_eq!(model.process([number(16, 0, 2)]).unwrap().rejected.len(), 1);
        model.process([number(16, 0, 3)]).unwrap_err();
        let told = "5|7;1;8|9|10/1|2=12;3=11";
        assert_eq!(model.process([number(15, 3, 0)]).unwrap().values(), ["scan,k,66,3=11,3=11"]);
        assert_eq!(model.finish().unwrap().values(), [format!("end,k,{told},{told},0,13,14,5=2")]);
    }
}
