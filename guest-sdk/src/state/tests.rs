//! The states against an oracle: plain maps that are changed record by record, with a copy for each record that may fail.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::prelude::*;
use crate::testing::{Harness, Record, keyed};

/// Something that a record does to the states of its key. The first word says to which.
#[record]
#[derive(Clone, Debug)]
enum Step {
    ValueGet,
    ValueSet(String),
    ValueUpdate(String),
    ValueClear,
    ReducingAdd(i64),
    ReducingGet,
    ReducingClear,
    ListPush(String),
    ListRead,
    ListReplace(Vec<String>),
    ListClear,
    Fail,
}

#[operator(key = String)]
struct All {
    value: ValueState<String>,
    total: ReducingState<i64, Sum>,
    list: ListState<String>,
    #[state(name = "untouched", version = 7)]
    other: ValueState<u64>,
    /// Never undone.
    seen: u32,
}

#[operator]
impl All {
    #[input]
    fn steps(&mut self, steps: Vec<Step>, out: &mut Output<String>) -> Result<()> {
        self.seen += 1;
        for step in steps {
            match step {
                Step::ValueGet => out.emit(self.value.get().unwrap_or("none".into())),
                Step::ValueSet(text) => self.value.set(text),
                Step::ValueUpdate(text) => self.value.update(|value| value.push_str(&text)),
                Step::ValueClear => self.value.clear(),
                Step::ReducingAdd(number) => self.total.add(number),
                Step::ReducingGet => out.emit(format_args!("{:?}", self.total.get())),
                Step::ReducingClear => self.total.clear(),
                Step::ListPush(text) => self.list.push(text),
                Step::ListRead => out.emit(self.list.iter().collect::<Vec<_>>().join(";")),
                Step::ListReplace(texts) => self.list.replace(texts),
                Step::ListClear => self.list.clear(),
                Step::Fail => bail!("as told"),
            }
        }
        Ok(())
    }

    #[finish]
    fn rest(&mut self, out: &mut Output<String>) -> Result<()> {
        let list: Vec<_> = self.list.iter().collect();
        out.emit(format_args!("{:?} {:?} {list:?} {:?}", self.value.get(), self.total.get(), self.other.get()));
        Ok(())
    }
}

/// One key's states.
#[derive(Clone, Debug, Default, PartialEq)]
struct Oracle {
    value: Option<String>,
    total: Option<i64>,
    list: Vec<String>,
}

impl Oracle {
    /// What a record does and sends; none if it fails.
    fn run(&mut self, steps: &[Step]) -> Option<Vec<String>> {
        let before = self.clone();
        let mut sent = Vec::new();
        for step in steps {
            match step {
                Step::ValueGet => sent.push(self.value.clone().unwrap_or("none".into())),
                Step::ValueSet(text) => self.value = Some(text.clone()),
                Step::ValueUpdate(text) => self.value.get_or_insert_default().push_str(text),
                Step::ValueClear => self.value = None,
                Step::ReducingAdd(number) => self.total = Some(self.total.unwrap_or(0) + number),
                Step::ReducingGet => sent.push(format!("{:?}", self.total)),
                Step::ReducingClear => self.total = None,
                Step::ListPush(text) => self.list.push(text.clone()),
                Step::ListRead => sent.push(self.list.join(";")),
                Step::ListReplace(texts) => self.list.clone_from(texts),
                Step::ListClear => self.list.clear(),
                Step::Fail => {
                    *self = before;
                    return None;
                }
            }
        }
        Some(sent)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let text = || "[a-c]{0,3}";
    prop_oneof![
        2 => Just(Step::ValueGet),
        2 => text().prop_map(Step::ValueSet),
        2 => text().prop_map(Step::ValueUpdate),
        1 => Just(Step::ValueClear),
        2 => (-3i64..300).prop_map(Step::ReducingAdd),
        2 => Just(Step::ReducingGet),
        1 => Just(Step::ReducingClear),
        4 => text().prop_map(Step::ListPush),
        2 => Just(Step::ListRead),
        1 => proptest::collection::vec(text(), 0..3).prop_map(Step::ListReplace),
        1 => Just(Step::ListClear),
        2 => Just(Step::Fail),
    ]
}

fn records() -> impl Strategy<Value = Vec<Record<String, Vec<Step>>>> {
    let record = ("[x-z]", proptest::collection::vec(step(), 0..6)).prop_map(|(key, steps)| keyed(key, steps));
    proptest::collection::vec(record, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn states_do_what_maps_do_in_batches_of_any_size(records in records(), size in 1usize..20) {
        let mut operator = Harness::<All>::new();
        let result = operator.process_in_batches(size, records.clone()).unwrap();

        let mut oracle: BTreeMap<String, Oracle> = BTreeMap::new();
        let (mut sent, mut rejected) = (Vec::new(), Vec::new());
        for (index, record) in records.iter().enumerate() {
            match oracle.entry(record.key.clone()).or_default().run(&record.value) {
                Some(values) => sent.extend(values.into_iter().map(|value| (record.key.clone(), value))),
                None => rejected.push(index),
            }
        }
        prop_assert_eq!(result.pairs(), sent);
        prop_assert_eq!(result.rejected.iter().map(|rejected| rejected.record).collect::<Vec<_>>(), rejected);
        oracle.retain(|_, states| *states != Oracle::default());
        let rest: Vec<_> = oracle.values().map(|Oracle { value, total, list }| format!("{value:?} {total:?} {list:?} None")).collect();
        prop_assert_eq!(operator.finish().unwrap().values(), rest);
    }
}

#[test]
fn a_call_reads_and_writes_each_state_once_whatever_the_number_of_records() {
    let mut operator = Harness::<All>::new();
    let records = |steps: Vec<Step>| (0..100).map(move |i| keyed(format!("k{}", i % 10), steps.clone()));

    operator.process(records(vec![Step::ValueUpdate("a".into()), Step::ReducingAdd(1), Step::ListPush("x".into())])).unwrap();
    assert_eq!(operator.take_calls(), ["get", "get", "put", "put", "list-append"]);

    operator.process(records(vec![Step::ValueGet])).unwrap();
    assert_eq!(operator.take_calls(), ["get", "emit"], "what was only read is not written");

    operator.process(records(vec![Step::ValueSet("b".into())])).unwrap();
    assert_eq!(operator.take_calls(), ["put"], "what is replaced unseen is not read");

    operator.process(records(vec![Step::ValueSet("c".into()), Step::ValueGet, Step::Fail])).unwrap();
    let calls = operator.take_calls();
    assert_eq!(calls.len(), 100, "nothing but rejections: {calls:?}");

    operator.process(records(vec![Step::ValueClear])).unwrap();
    assert_eq!(operator.take_calls(), ["clear"]);
}

#[test]
fn a_long_list_is_read_in_pages() {
    let mut operator = Harness::<All>::new();
    let long = "x".repeat(1000);
    operator.process((0..200).map(|i| keyed("k", vec![Step::ListPush(format!("{i}{long}"))]))).unwrap();
    operator.take_calls();
    let result = operator.process([keyed("k", vec![Step::ListPush("last".into()), Step::ListRead])]).unwrap();
    let expected: Vec<_> = (0..200).map(|i| format!("{i}{long}")).chain(["last".into()]).collect();
    assert_eq!(result.values(), [expected.join(";")]);
    // 65 elements fit into 64 KiB; the empty page ends it. What is sent is more than is held back to the end of the call.
    assert_eq!(operator.take_calls(), ["list-read", "list-read", "list-read", "list-read", "list-read", "emit", "list-append"]);
}

#[test]
fn the_descriptor_names_fields_kinds_schemas_and_versions() {
    let described: Vec<_> = crate::operator::describe::<All>()
        .states
        .into_iter()
        .map(|state| format!("{} {} {} {}", state.name, state.kind, state.schema, state.version))
        .collect();
    assert_eq!(described, ["value value text 1", "total reducing postcard:i64 1", "list list text 1", "untouched value postcard:u64 7"]);
}

/// JSON has one schema, whatever it holds, so only reading it tells.
#[test]
fn state_of_another_type_ends_the_instance_and_names_the_state() {
    #[operator(key = String)]
    struct Old {
        value: ValueState<Json<u64>>,
    }

    #[operator]
    impl Old {
        #[input]
        fn numbers(&mut self, value: u64) -> Result<()> {
            self.value.set(Json(value));
            Ok(())
        }
    }

    #[operator(key = String)]
    struct New {
        value: ValueState<Json<String>>,
    }

    #[operator]
    impl New {
        #[input]
        fn texts(&mut self, value: String) -> Result<()> {
            self.value.update(|old| old.0 += &value);
            Ok(())
        }
    }

    let mut old = Harness::<Old>::new();
    old.process([keyed("k", 7)]).unwrap();
    let mut new = Harness::<New>::new();
    new.restore(&old.snapshot());
    let failure = new.process([keyed("k", "x")]).unwrap_err().to_string();
    assert!(failure.starts_with("panic on record 0: state `value` holds something else than its schema says: not json"), "{failure}");
}

/// Of small values all are in one reply, of large ones in the stand-in's each has its own.
#[test]
fn values_are_asked_for_once_however_many_replies_they_take() {
    let records = |steps: [(&'static str, Option<Step>); 5]| steps.map(|(key, step)| keyed(key, Vec::from_iter(step)));
    for (text, replies) in [("", 1), (&*"!".repeat(200), 3)] {
        let mut operator = Harness::<All>::new();
        let set = |key| keyed(key, vec![Step::ValueSet(format!("{key}{text}"))]);
        operator.process(["x", "y", "z"].map(set)).unwrap();
        operator.take_calls();
        let get = || Some(Step::ValueGet);
        // `x` is passed over before it is read, and its value is in the first reply all the same.
        let read = records([("x", None), ("y", get()), ("x", get()), ("z", get()), ("y", get())]);
        let told = ["y", "x", "z", "y"].map(|key| format!("{key}{text}"));
        assert_eq!(operator.process(read).unwrap().values(), told);
        assert_eq!(operator.take_calls().iter().filter(|&&call| call == "get").count(), replies, "{text}");
    }
}
