//! For tests: one state of each way in which state is spread when the number of subtasks changes.

use cofferdam_sdk::prelude::*;
use cofferdam_sdk::{Level, log};

/// The operator.
#[operator(key = String)]
pub struct Scale {
    count: ReducingState<u64, Sum>,
    /// Every hundredth number, where it came by.
    hundreds: OperatorListState<u64>,
    /// The first subtasks, which nobody writes again.
    names: UnionListState<String>,
    /// The last subtasks, of which each odd one is in it twice.
    last: UnionListState<String>,
    rules: BroadcastState<String, u64>,
    subtask: u32,
}

#[operator]
impl Scale {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.subtask = context.subtask();
        if context.restored_from().is_none() && self.names.get().is_empty() {
            self.names.replace([format!("{}of{}", context.subtask(), context.parallelism())]);
        }
        let (restored, last) = (context.restored_from().unwrap_or("nothing"), self.last.get().join(" "));
        let rules = self.told_rules();
        let hundreds = self.hundreds.get();
        let (count, sum) = (hundreds.len(), hundreds.iter().sum::<u64>());
        log(Level::Info, format_args!("scale {}: restored from {restored} with [{last}] [{count} {sum}] [{rules}]", self.subtask));
        let name = format!("{}of{}", context.subtask(), context.parallelism());
        self.last.replace(vec![name; 1 + self.subtask as usize % 2]);
        Ok(())
    }

    /// A line `name=value`.
    #[input(broadcast)]
    fn rules(&mut self, line: &str) -> Result<()> {
        let Some((name, value)) = line.split_once('=') else { bail!("no rule: {line}") };
        self.rules.insert(name, value.parse()?);
        Ok(())
    }

    /// Now and then a line `number,key,count`: how many numbers the key has had by then.
    #[input]
    fn numbers(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        self.count.add(1);
        if number.is_multiple_of(100) {
            self.hundreds.push(number);
        }
        if number.is_multiple_of(20) {
            out.emit(format_args!("{number},{},{}", meta.key(), self.count.get().unwrap_or_default()));
        }
        Ok(())
    }

    /// A line `key,count,subtask,hundreds,names,rules`, of which all but key and count is the subtask's.
    #[finish]
    fn end(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let hundreds: Vec<String> = self.hundreds.get().iter().map(u64::to_string).collect();
        let (hundreds, rules) = (hundreds.join(";"), self.told_rules());
        let (count, names) = (self.count.get().unwrap_or_default(), self.names.get().join(" "));
        out.emit(format_args!("{},{count},{},{hundreds},{names},{rules}", meta.key(), self.subtask));
        Ok(())
    }
}

impl Scale {
    fn told_rules(&mut self) -> String {
        let rules: Vec<String> = self.rules.iter().map(|(name, value)| format!("{name}={value}")).collect();
        rules.join(";")
    }
}
