//! What all versions of the operator do alike.

use cofferdam_sdk::prelude::*;

use super::{Evolve, told};

/// Numbers are told apart by their remainder by this.
const REMAINDERS: u64 = 3;

#[operator]
impl Evolve {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.subtask = context.subtask();
        if context.restored_from().is_none() {
            self.first.replace([super::number(self.subtask.into())]);
        }
        Ok(())
    }

    /// A line `name,number`.
    #[input(broadcast)]
    fn rules(&mut self, line: &str) -> Result<()> {
        let Some((name, number)) = line.split_once(',') else { bail!("no rule: {line}") };
        let mut seen = self.rules.get(name).unwrap_or_default();
        seen.add(number.parse()?);
        self.rules.insert(name, seen);
        Ok(())
    }

    #[input]
    fn numbers(&mut self, number: u64) -> Result<()> {
        self.seen.update(|seen| seen.add(number));
        self.by_remainder.update(number % REMAINDERS, |seen| seen.add(number));
        self.numbers.push(super::number(number));
        self.last.set(super::number(number));
        // After a restart with fewer subtasks there are those of several.
        self.locals.update(|locals| match locals.first_mut() {
            Some(local) => local.add(number),
            None => {
                locals.push(Default::default());
                locals[0].add(number);
            }
        });
        Ok(())
    }

    /// A line `key,seen,by remainder,numbers,last,subtask,count of the subtask,rules,first subtasks`.
    #[finish]
    fn end(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let by_remainder: Vec<_> = self.by_remainder.iter().map(|(remainder, seen)| format!("{remainder}={}", seen.told())).collect();
        let numbers: Vec<_> = self.numbers.iter().map(|number| told(&number)).collect();
        let local: u64 = self.locals.get().iter().map(|local| local.count).sum();
        let seen = self.seen.get().map(|seen| seen.told()).unwrap_or_default();
        let last = self.last.get().map(|last| told(&last)).unwrap_or_default();
        let rules: Vec<_> = self.rules.iter().map(|(name, seen)| format!("{name}={}", seen.told())).collect();
        let first: Vec<_> = self.first.get().iter().map(told).collect();
        let (by_remainder, numbers, rules, first) = (by_remainder.join(";"), numbers.join(";"), rules.join(";"), first.join(";"));
        out.emit(format_args!("{},{seen},{by_remainder},{numbers},{last},{},{local},{rules},{first}", meta.key(), self.subtask));
        Ok(())
    }
}
