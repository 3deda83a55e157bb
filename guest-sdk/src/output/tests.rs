//! What leaves, in which order, and in how many calls.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::prelude::*;
use crate::testing::{Harness, Record, keyed, value};

/// A record to send: its key if not the current one, its time if not the current one, its value.
type Send = (Option<String>, Option<i64>, u32);

/// Sends what each record tells, and then fails if its flag says so.
#[operator(key = String)]
struct Forward;

#[operator]
impl Forward {
    #[input]
    fn told(&mut self, (sends, fail): (Vec<Send>, bool), meta: &Meta<String>, out: &mut KeyedOutput<String, u32>) -> Result<()> {
        for (key, time, value) in sends {
            match (key, time) {
                (Some(key), Some(time)) => out.emit_at(key, value, time),
                (Some(key), None) => out.emit(&key, value),
                (None, Some(time)) => out.emit_at(meta.same_key(), value, time),
                (None, None) => out.emit(meta.same_key(), value),
            }
        }
        if fail { bail!("as told") } else { Ok(()) }
    }
}

fn record() -> impl Strategy<Value = (String, (Vec<Send>, bool))> {
    let send = (proptest::option::weighted(0.3, "[a-d]{1,2}"), proptest::option::weighted(0.1, -9i64..9), any::<u32>());
    ("[a-c]", (proptest::collection::vec(send, 0..5), proptest::bool::weighted(0.2)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_leave_in_order_with_their_keys_and_times_and_without_those_of_rejected_records(
        told in proptest::collection::vec(record(), 0..30),
        size in 1usize..30,
        timed: bool,
    ) {
        let time = |index: usize| timed.then_some(index as i64 * 10);
        let records = told.iter().enumerate().map(|(index, (key, told))| Record { key, value: told, time: time(index) });
        let result = Harness::<Forward>::new().process_in_batches(size, records).unwrap();
        let expected: Vec<_> = told
            .iter()
            .enumerate()
            .filter(|(_, (_, (_, fail)))| !fail)
            .flat_map(|(index, (current, (sends, _)))| {
                sends.iter().map(move |(key, at, value)| Record {
                    key: key.clone().unwrap_or(current.clone()),
                    value: *value,
                    time: at.or(time(index)),
                })
            })
            .collect();
        prop_assert_eq!(result.records, expected);
    }
}

#[test]
fn known_and_fresh_keys_in_turn_take_few_calls() {
    let turn = |i: u32| (vec![(None, None, i), (Some("other".to_owned()), None, i)], false);
    let mut operator = Harness::<Forward>::new();
    operator.process((0..100).map(|i| keyed("k", turn(i)))).unwrap();
    assert_eq!(operator.take_calls(), ["emit"; 3]);
}

#[test]
fn much_output_leaves_in_parts_and_little_in_one() {
    #[operator]
    struct Repeat;

    #[operator]
    impl Repeat {
        #[input]
        fn counts(&mut self, count: u32, out: &mut Output<u64>) -> Result<()> {
            (0..count).for_each(|_| out.emit(7));
            Ok(())
        }
    }

    let mut operator = Harness::<Repeat>::new();
    operator.process((0..1000).map(|_| value(10))).unwrap();
    // Each record takes its byte and an end of four.
    assert_eq!(operator.take_calls(), ["emit"]);
    let result = operator.process((0..1000).map(|_| value(100))).unwrap();
    assert_eq!(operator.take_calls().len(), 100 * 1000 * 5 / (64 * 1024) + 1);
    assert_eq!(result.values(), [7; 100_000]);
}

#[test]
fn text_is_sent_from_whatever_has_it() {
    #[operator(key = u32)]
    struct Say;

    #[operator]
    impl Say {
        #[input]
        fn words(&mut self, word: String, meta: &Meta<u32>, out: &mut Output<String>) -> Result<()> {
            out.emit("borrowed");
            out.emit(&word);
            out.emit(format_args!("{} at {:?}", meta.key(), meta.time()));
            out.emit_at(word, 5);
            Ok(())
        }
    }

    let result = Harness::<Say>::new().process([keyed(3, "w").at(4)]).unwrap();
    let expected = [("borrowed", 4), ("w", 4), ("3 at Some(4)", 4), ("w", 5)];
    assert_eq!(result.records, expected.map(|(text, time)| keyed(3, text.to_owned()).at(time)));
}
