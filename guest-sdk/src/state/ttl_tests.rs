//! Time to live, with the harness as the clock.

use crate::prelude::*;
use crate::testing::{Harness, keyed};

#[operator(key = String)]
struct Mortal {
    #[state(ttl = "1s")]
    value: ValueState<u64>,
    #[state(ttl = "1s", ttl_from = "write")]
    list: ListState<u64>,
    #[state(ttl = "1s 500ms", ttl_from = "access")]
    read: MapState<u64, u64>,
    #[state(ttl = "2s", ttl_from = "access")]
    sum: ReducingState<u64, Sum>,
    count: ValueState<u64>,
}

#[operator]
impl Mortal {
    /// Zero only reads.
    #[input]
    fn numbers(&mut self, number: u64, out: &mut Output<String>) -> Result<()> {
        if number > 0 {
            self.value.set(number);
            self.list.push(number);
            self.read.insert(number, number);
            self.sum.add(number);
            self.count.update(|count| *count += 1);
        }
        let list: Vec<_> = self.list.iter().collect();
        let map: Vec<_> = self.read.iter().map(|(field, _)| field).collect();
        out.emit(format_args!("{:?} {list:?} {map:?} {:?} {:?}", self.value.get(), self.sum.get(), self.count.get()));
        Ok(())
    }

    #[finish]
    fn end(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        out.emit(meta.key());
        Ok(())
    }
}

fn at(operator: &mut Harness<Mortal>, time: i64, number: u64) -> String {
    operator.set_processing_time(time);
    operator.process([keyed("k", number)]).unwrap().values().concat()
}

#[test]
fn values_expire_one_by_one_after_their_last_write_or_read() {
    let mut operator = Harness::<Mortal>::new();
    assert_eq!(at(&mut operator, 0, 7), "Some(7) [7] [7] Some(7) Some(1)");
    assert_eq!(at(&mut operator, 600, 8), "Some(8) [7, 8] [7, 8] Some(15) Some(2)");
    assert_eq!(at(&mut operator, 999, 0), "Some(8) [7, 8] [7, 8] Some(15) Some(2)");
    assert_eq!(at(&mut operator, 1000, 0), "Some(8) [8] [7, 8] Some(15) Some(2)");
    assert_eq!(at(&mut operator, 1600, 0), "None [] [7, 8] Some(15) Some(2)");
    assert_eq!(at(&mut operator, 3099, 0), "None [] [7, 8] Some(15) Some(2)");
    assert_eq!(at(&mut operator, 4599, 0), "None [] [] Some(15) Some(2)");
    assert_eq!(at(&mut operator, 6599, 0), "None [] [] None Some(2)");
    assert_eq!(at(&mut operator, 6600, 3), "Some(3) [3] [3] Some(3) Some(3)");
}

#[test]
fn snapshots_and_the_end_of_input_know_only_what_lives() {
    let mut operator = Harness::<Mortal>::new();
    at(&mut operator, 0, 1);
    let early = operator.snapshot();
    operator.set_processing_time(1200);
    assert_eq!((operator.snapshot().keys("value"), operator.snapshot().keys("read")), (0, 1));
    assert!(operator.list::<u64>("list", "k").is_empty());
    assert_eq!(operator.finish().unwrap().values(), ["k"], "it has a count");
    // What was saved expires by when it was written, not by when it was restored.
    operator.restore(&early);
    assert_eq!(at(&mut operator, 1200, 0), "None [] [1] Some(1) Some(1)");
}

#[test]
fn a_failed_call_undoes_what_reading_did_to_a_life() {
    #[operator(key = String)]
    struct Read {
        #[state(ttl = "10ms", ttl_from = "access")]
        value: ValueState<u64>,
    }

    #[operator]
    impl Read {
        #[input]
        fn numbers(&mut self, number: u64) -> Result<()> {
            match number {
                0 => assert!(self.value.get().is_none(), "it lives"),
                1 => self.value.set(1),
                2 => {
                    self.value.get();
                    panic!("as told");
                }
                3 => drop(self.value.get()),
                _ => {}
            }
            Ok(())
        }
    }

    let mut operator = Harness::<Read>::new();
    operator.process([keyed("k", 1)]).unwrap();
    operator.set_processing_time(9);
    operator.process([keyed("k", 2)]).unwrap_err();
    operator.set_processing_time(10);
    operator.process([keyed("k", 0)]).unwrap();
    // Reading one key of a batch leaves the others alone.
    operator.process([keyed("k", 1), keyed("l", 1)]).unwrap();
    operator.set_processing_time(15);
    operator.process([keyed("k", 3), keyed("l", 4)]).unwrap();
    operator.set_processing_time(20);
    operator.process([keyed("l", 0)]).unwrap();
    assert_eq!(operator.value("value", "k"), Some(1u64));
}

#[test]
fn the_descriptor_tells_how_long_values_live() {
    let states = crate::operator::describe::<Mortal>().states;
    let more: Vec<Vec<_>> = states.iter().map(|state| state.more.iter().map(|(name, value)| format!("{name}={value}")).collect()).collect();
    let expected: [&[&str]; 5] = [
        &["ttl-ms=1000", "ttl-from=write"],
        &["ttl-ms=1000", "ttl-from=write"],
        &["ttl-ms=1500", "ttl-from=access", "field-schema=u64"],
        &["ttl-ms=2000", "ttl-from=access"],
        &[],
    ];
    assert_eq!(more, expected);
}
