//! The harness behaves as the host does: calls count as a whole, instances are replaced, state outlives them.

use super::*;
use crate::operator::describe;
use crate::prelude::*;

#[operator(key = String, name = "picky", version = "9")]
struct Picky {
    sum: ReducingState<u64, Sum>,
    records: ListState<u64>,
    /// Lost with the instance.
    seen: u64,
    opened_at: i64,
}

#[operator]
impl Picky {
    #[open]
    fn open(&mut self, context: &Context) -> Result<()> {
        self.opened_at = context.processing_time();
        Ok(())
    }

    #[input]
    fn numbers(&mut self, number: u64, out: &mut Output<String>) -> Result<()> {
        self.seen += 1;
        self.sum.add(number);
        self.records.push(number);
        out.emit(format_args!("{number} is {} of this instance", self.seen));
        match number {
            13 => panic!("thirteen"),
            4 => bail!("four"),
            _ => Ok(()),
        }
    }

    #[finish]
    fn end(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        if meta.key() == "unfinishable" {
            bail!("no end in sight");
        }
        out.emit(format_args!("{}", self.sum.get().unwrap_or(0)));
        Ok(())
    }
}

#[test]
fn a_panic_undoes_the_batch_and_replaces_the_instance() {
    let mut operator = Harness::<Picky>::new();
    operator.process([keyed("a", 1), keyed("b", 2)]).unwrap();
    let before = operator.snapshot();
    let failure = operator.process([keyed("a", 5), keyed("c", 13), keyed("b", 6)]).unwrap_err();
    assert_eq!(failure, Failure::Panic { record: Some(1), message: "thirteen".into() });
    assert_eq!(operator.snapshot(), before);
    let result = operator.process([keyed("a", 5)]).unwrap();
    assert_eq!(result.values(), ["5 is 1 of this instance"]);
    assert_eq!(operator.value("sum", "a"), Some(6u64));
}

#[test]
fn records_are_counted_over_all_batches() {
    let mut operator = Harness::<Picky>::new();
    let numbers = |numbers: [u64; 5]| numbers.map(|number| keyed("a", number));
    let result = operator.process_in_batches(2, numbers([1, 2, 4, 3, 4])).unwrap();
    assert_eq!(result.rejected.iter().map(|rejected| rejected.record).collect::<Vec<_>>(), [2, 4]);
    let failure = operator.process_in_batches(2, numbers([1, 2, 3, 13, 5])).unwrap_err();
    assert_eq!(failure.to_string(), "panic on record 3: thirteen");
    assert_eq!(operator.list::<u64>("records", "a"), [1, 2, 3, 1, 2], "batches before the one that failed stand");
}

#[test]
fn a_restored_snapshot_is_the_state_from_then_on() {
    let mut operator = Harness::<Picky>::new();
    operator.process([keyed("a", 1)]).unwrap();
    let snapshot = operator.snapshot();
    assert_eq!((snapshot.keys("sum"), snapshot.keys("nothing")), (1, 0));
    operator.process([keyed("a", 10), keyed("b", 20)]).unwrap();
    assert_ne!(operator.snapshot(), snapshot);
    operator.restore(&snapshot);
    assert_eq!(operator.snapshot(), snapshot);
    assert_eq!((operator.value::<u64>("sum", "a"), operator.value::<u64>("sum", "b")), (Some(1), None));
}

#[test]
fn finish_is_called_for_every_key_in_order_and_fails_as_a_whole() {
    let mut operator = Harness::<Picky>::new();
    operator.process((0..200u64).map(|number| keyed(format!("{number:03}"), 1000 + number))).unwrap();
    let expected: Vec<_> = (0..200).map(|number| (1000 + number).to_string()).collect();
    assert_eq!(operator.finish().unwrap().values(), expected);

    operator.process([keyed("unfinishable", 1)]).unwrap();
    assert_eq!(operator.finish().unwrap_err(), Failure::Error("no end in sight".into()));
}

#[test]
fn an_operator_without_keys_finishes_once() {
    #[operator]
    struct Tally {
        seen: u64,
    }

    #[operator]
    impl Tally {
        #[input]
        fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
            self.seen += bytes.len() as u64;
            Ok(())
        }

        #[finish]
        fn end(&mut self, out: &mut Output<u64>) -> Result<()> {
            out.emit(self.seen);
            Ok(())
        }
    }

    let mut operator = Harness::<Tally>::new();
    operator.process([&b"ab"[..], b"c"].map(value)).unwrap();
    assert_eq!(operator.finish().unwrap().records, [value(3)]);
}

#[test]
fn the_context_has_the_configuration_and_the_time() {
    #[operator]
    struct Configured {
        words: Vec<String>,
    }

    #[operator]
    impl Configured {
        #[open]
        fn open(&mut self, context: &Context) -> Result<()> {
            assert_eq!((context.job(), context.subtask(), context.parallelism(), context.attempt()), ("test", 0, 1, 1));
            assert_eq!((context.max_parallelism(), context.restored_from()), (128, None));
            self.words = context.config()?;
            Ok(())
        }

        #[input]
        fn places(&mut self, place: u32, meta: &Meta, out: &mut Output<String>) -> Result<()> {
            out.emit(format_args!("{} at {}", self.words[place as usize], meta.processing_time()));
            Ok(())
        }
    }

    let mut operator = Harness::<Configured>::with_config(r#"["zero", "one"]"#).unwrap();
    operator.set_processing_time(77);
    assert_eq!(operator.process([value(1)]).unwrap().values(), ["one at 77"]);
    let error = Harness::<Configured>::with_config("{}").err().unwrap();
    assert_eq!(error.message(), "config: invalid type: map, expected a sequence");
}

#[test]
fn descriptors_tell_ports_keys_and_names() {
    let picky = describe::<Picky>();
    assert_eq!((picky.name.as_str(), picky.version.as_str()), ("picky", "9"));
    let ports: Vec<_> = picky
        .inputs
        .iter()
        .chain(&picky.outputs)
        .map(|port| format!("{} {} {} {}", port.name, port.partitioning, port.key_schema, port.value_schema))
        .collect();
    assert_eq!(ports, ["numbers keyed text postcard:u64", "out keyed text text"]);
}

#[test]
fn raw_bytes_reach_the_operator_as_they_are() {
    let mut operator = Harness::<Picky>::new();
    let result = operator.process([keyed("a", Raw([7u8, 7]))]).unwrap();
    assert_eq!(result.rejected, [Rejected { record: 0, message: "the value is not postcard:u64: not one whole number in range".into() }]);
}

#[operator(key = String)]
struct Subtask {
    of_key: ReducingState<u64, Sum>,
    written: OperatorListState<u64>,
    saved: OperatorListState<u64>,
    names: UnionListState<String>,
    /// Saved at each barrier.
    count: u64,
    opened_with: usize,
}

#[operator]
impl Subtask {
    #[open]
    fn open(&mut self) -> Result<()> {
        self.count = self.saved.get().iter().sum();
        self.opened_with = self.names.get().len();
        Ok(())
    }

    /// `0` fails after it has done everything, `13` panics.
    #[input]
    fn numbers(&mut self, number: u64, meta: &Meta<String>, out: &mut Output<u64>) -> Result<()> {
        self.of_key.add(1);
        self.written.push(number);
        self.names.replace([meta.key().to_owned()]);
        if number == 0 {
            self.written.update(|written| written.reverse());
            bail!("zero");
        }
        assert_ne!(number, 13);
        self.count += 1;
        out.emit(self.count);
        Ok(())
    }

    #[snapshot]
    fn snapshot(&mut self, checkpoint: u64) -> Result<()> {
        self.saved.replace([self.count]);
        if checkpoint == 99 {
            bail!("no");
        }
        Ok(())
    }

    #[checkpoint_complete]
    fn checkpoint_complete(&mut self, checkpoint: u64) {
        assert_ne!(checkpoint, 99, "it was not committed");
    }

    #[checkpoint_aborted]
    fn checkpoint_aborted(&mut self, checkpoint: u64) {
        self.written.push(checkpoint);
        assert_ne!(checkpoint, 99, "its barrier has failed");
    }

    #[close]
    fn close(&mut self) {}
}

#[test]
fn a_record_that_fails_leaves_operator_state_as_it_was() {
    let mut operator = Harness::<Subtask>::new();
    let result = operator.process([keyed("a", 1), keyed("b", 0), keyed("a", 2), keyed("c", 0)]).unwrap();
    assert_eq!((result.values(), result.rejected.len()), (vec![1, 2], 2));
    assert_eq!(operator.operator_list::<u64>("written"), [1, 2]);
    assert_eq!(operator.operator_list::<String>("names"), ["a"]);
    // The first record of a batch, with nothing read before.
    operator.process([keyed("b", 0)]).unwrap();
    operator.process([keyed("b", 13)]).unwrap_err();
    assert_eq!(operator.operator_list::<u64>("written"), [1, 2]);
    operator.process([keyed("b", 0), keyed("b", 3)]).unwrap();
    assert_eq!(operator.operator_list::<u64>("written"), [1, 2, 3]);
}

#[test]
fn memory_is_saved_at_a_barrier_and_nothing_of_a_snapshot_that_fails() {
    let mut operator = Harness::<Subtask>::new();
    operator.process([keyed("a", 1), keyed("b", 2)]).unwrap();
    let first = operator.checkpoint(1).unwrap();
    operator.checkpoint_complete(1).unwrap();
    operator.process([keyed("a", 1)]).unwrap();
    let before = operator.snapshot();
    assert_eq!(operator.checkpoint(99).unwrap_err(), Failure::Error("no".into()));
    assert_eq!(operator.snapshot(), before);
    operator.restore(&first);
    assert_eq!(operator.process([keyed("c", 5)]).unwrap().values(), [3]);
    assert_eq!(operator.operator_list::<u64>("saved"), [2]);
    operator.close();
}

#[test]
fn what_is_written_when_a_checkpoint_is_given_up_stays_unless_that_panics() {
    let mut operator = Harness::<Subtask>::new();
    operator.checkpoint(1).unwrap();
    operator.checkpoint_aborted(1).unwrap();
    operator.checkpoint_aborted(99).unwrap_err();
    assert_eq!(operator.operator_list::<u64>("written"), [1]);
}

#[test]
fn keys_of_another_type_are_not_restored() {
    #[operator(key = u64)]
    struct Numbered {
        of_key: ReducingState<u64, Sum>,
    }

    #[operator]
    impl Numbered {
        #[input]
        fn numbers(&mut self, number: u64) -> Result<()> {
            self.of_key.add(number);
            Ok(())
        }
    }

    #[operator(key = String)]
    struct Named {
        of_key: ReducingState<u64, Sum>,
    }

    #[operator]
    impl Named {
        #[input]
        fn numbers(&mut self, number: u64) -> Result<()> {
            self.of_key.add(number);
            Ok(())
        }
    }

    let mut numbered = Harness::<Numbered>::new();
    numbered.process([keyed(1, 1)]).unwrap();
    let parts = Snapshot::spread(&[numbered.snapshot()], 1, |_| 0);
    let refused = Harness::<Named>::new().try_restore(&parts[0]).unwrap_err();
    assert_eq!(refused.message(), "its state has keys of schema u64, and the operator has text");
}

/// Through all changes of the parallelism each element of a list is there once, and a union list that nobody writes does not grow.
#[test]
fn operator_state_is_spread_over_subtasks() {
    let mut one = Harness::<Subtask>::new();
    one.process((1..=10).map(|number| keyed(format!("{number}"), number))).unwrap();
    let subtask_of = |parallelism: usize| move |key: &[u8]| usize::from(key[0]) % parallelism;
    let mut parts = vec![one.checkpoint(1).unwrap()];
    for parallelism in [3, 3, 2, 5, 5, 1] {
        parts = Snapshot::spread(&parts, parallelism, subtask_of(parallelism));
        let mut all = Vec::new();
        let mut sums = 0;
        for part in &mut parts {
            let mut operator = Harness::<Subtask>::new();
            operator.restore(part);
            assert_eq!(operator.operator_list::<String>("names"), ["10"], "every subtask sees it");
            let own = operator.operator_list::<u64>("written");
            assert!(own.len().abs_diff(10 / parallelism) <= 1, "{own:?}");
            all.extend(own);
            *part = operator.checkpoint(2).unwrap();
            sums += operator.operator_list::<u64>("saved").iter().sum::<u64>();
        }
        assert_eq!((all, sums), ((1..=10).collect(), 10), "with {parallelism}");
        assert_eq!(parts.iter().map(|part| part.keys("of_key")).sum::<usize>(), 10);
    }
}
