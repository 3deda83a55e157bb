//! For tests: does what version 1 does, with its states declared in another order and an output more; and fails from a given number on in a
//! given way.

use std::hint::black_box;

use cofferdam_sdk::prelude::*;
use serde::Deserialize;

/// The operator.
#[operator(key = String, name = "tally")]
pub struct Tally {
    last: ValueState<u64>,
    count: ReducingState<u64, Sum>,
    config: Option<Config>,
}

/// `config` in the job file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// This number and all above it are bad.
    bad: u64,
    how: How,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    /// A panic with a message.
    Panic,
    /// A trap of which nobody was told.
    Trap,
    /// Returns an error.
    Error,
    /// Never comes back.
    Loop,
    /// Takes memory until there is none.
    Allocate,
    /// Emits some MiB.
    Emit,
}

#[operator]
impl Tally {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.config = Some(context.config()?);
        Ok(())
    }

    /// A line `number,key,count,last,v2`, and the number on the other output and in a gauge, by a name that version 1 has for a counter. Fails
    /// when all is done.
    #[input]
    fn numbers(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<String>, seen: &mut Output<u64>) -> Result<()> {
        self.count.add(1);
        let last = self.last.get().map_or("-".into(), |last| last.to_string());
        self.last.set(number);
        metrics::gauge("numbers", number as f64);
        out.emit(format_args!("{number},{},{},{last},v2", meta.key(), self.count.get().unwrap_or(0)));
        seen.emit(number);
        match &self.config {
            Some(Config { bad, how }) if number >= *bad => fail(*how, number, out),
            _ => Ok(()),
        }
    }
}

fn fail(how: How, number: u64, out: &mut Output<String>) -> Result<()> {
    match how {
        How::Panic => panic!("{number} is too much"),
        How::Trap => trap(),
        How::Error => bail!("{number} is not for me"),
        How::Loop => loop {
            black_box(number);
        },
        How::Allocate => {
            let mut taken = Vec::new();
            loop {
                taken.push(black_box(vec![1u8; 1 << 20]));
            }
        }
        How::Emit => {
            out.emit("x".repeat(4 << 20));
            Ok(())
        }
    }
}

#[cfg(target_family = "wasm")]
fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

#[cfg(not(target_family = "wasm"))]
fn trap() -> ! {
    panic!("a trap")
}

#[cfg(test)]
mod tests {
    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn it_fails_from_a_number_on() {
        let mut operator = Harness::<Tally>::with_config(r#"{"bad":3,"how":"error"}"#).unwrap();
        let result = operator.process([("a", 1), ("a", 3), ("a", 2)].map(|(key, number)| keyed(key, number))).unwrap();
        assert_eq!(result.values(), ["1,a,1,-,v2", "2,a,2,1,v2"]);
        assert_eq!(result.rejected[0].message, "3 is not for me");
    }
}
