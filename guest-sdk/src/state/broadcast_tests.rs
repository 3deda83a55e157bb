//! Broadcast state against an ordered map, and how often the host is asked.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::prelude::*;
use crate::testing::{Failure, Harness, Snapshot, keyed, value};

#[record]
#[derive(Clone, Debug)]
enum Step {
    Get(String),
    Contains(String),
    Iter,
    IterFrom(String, u8),
    Insert(String, u32),
    Remove(String),
    Fail,
}

/// Does what its records tell it to do with a table, and sends on what it has read.
#[operator(key = String)]
struct Table {
    table: BroadcastState<String, u32>,
    of_key: ValueState<u32>,
}

#[operator]
impl Table {
    #[input(broadcast)]
    fn changes(&mut self, steps: Vec<Step>, out: &mut KeyedOutput<String, String>) -> Result<()> {
        self.run(steps, |text| out.emit("", text))
    }

    #[input]
    fn reads(&mut self, steps: Vec<Step>, meta: &Meta<String>, out: &mut KeyedOutput<String, String>) -> Result<()> {
        self.run(steps, |text| out.emit(meta.same_key(), text))
    }

    /// Uses the state of a key where there is none.
    #[input(broadcast)]
    fn keyless(&mut self, number: u32) -> Result<()> {
        self.of_key.set(number);
        Ok(())
    }
}

impl Table {
    fn run(&mut self, steps: Vec<Step>, mut send: impl FnMut(String)) -> Result<()> {
        for step in steps {
            match step {
                Step::Get(field) => send(format!("{:?}", self.table.get(field))),
                Step::Contains(field) => send(self.table.contains(field).to_string()),
                Step::Iter => send(format!("{:?}", self.table.iter().collect::<Vec<_>>())),
                Step::IterFrom(field, many) => {
                    send(format!("{:?}", self.table.iter_from(field).take(many.into()).collect::<Vec<_>>()));
                }
                Step::Insert(field, value) => self.table.insert(field, value),
                Step::Remove(field) => self.table.remove(field),
                Step::Fail => bail!("as told"),
            }
        }
        Ok(())
    }
}

type Oracle = BTreeMap<String, u32>;

/// What a record does and sends; none if it fails.
fn run(oracle: &mut Oracle, steps: &[Step]) -> Option<Vec<String>> {
    let before = oracle.clone();
    let mut sent = Vec::new();
    for step in steps {
        match step {
            Step::Get(field) => sent.push(format!("{:?}", oracle.get(field))),
            Step::Contains(field) => sent.push(oracle.contains_key(field).to_string()),
            Step::Iter => sent.push(format!("{:?}", oracle.iter().collect::<Vec<_>>())),
            Step::IterFrom(field, many) => {
                sent.push(format!("{:?}", oracle.range(field.clone()..).take(usize::from(*many)).collect::<Vec<_>>()));
            }
            Step::Insert(field, value) => drop(oracle.insert(field.clone(), *value)),
            Step::Remove(field) => drop(oracle.remove(field)),
            Step::Fail => {
                *oracle = before;
                return None;
            }
        }
    }
    Some(sent)
}

/// What happens to an operator.
#[derive(Clone, Debug)]
enum Event {
    Changes(Vec<Vec<Step>>),
    Reads(Vec<Vec<Step>>),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let field = || proptest::string::string_regex("[a-b\0é]{0,2}").unwrap();
    let read = move || {
        prop_oneof![
            4 => field().prop_map(Step::Get),
            1 => field().prop_map(Step::Contains),
            1 => Just(Step::Iter),
            1 => (field(), 0u8..4).prop_map(|(field, many)| Step::IterFrom(field, many)),
            1 => Just(Step::Fail),
        ]
    };
    let change = prop_oneof![
        4 => read(),
        4 => (field(), 0u32..1000).prop_map(|(field, value)| Step::Insert(field, value)),
        3 => field().prop_map(Step::Remove),
    ];
    prop_oneof![
        4 => records(change).prop_map(Event::Changes),
        4 => records(read()).prop_map(Event::Reads),
        1 => Just(Event::Restart),
    ]
}

fn records(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Vec<Vec<Step>>> {
    proptest::collection::vec(proptest::collection::vec(step, 0..6), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_does_what_an_ordered_map_does(events in proptest::collection::vec(event(), 0..20)) {
        let mut operator = Harness::<Table>::new();
        let mut oracle = Oracle::new();
        for event in events {
            let (result, records) = match event {
                Event::Restart => {
                    operator.restore(&operator.snapshot());
                    continue;
                }
                Event::Changes(records) => (operator.broadcast_leniently::<Vec<Step>>(0, records.iter().map(value)).unwrap(), records),
                Event::Reads(records) => (operator.process(records.iter().map(|steps| keyed("k", steps))).unwrap(), records),
            };
            let ran: Vec<_> = records.iter().map(|steps| run(&mut oracle, steps)).collect();
            let rejected = (0..).zip(&ran).filter(|(_, sent)| sent.is_none()).map(|(index, _)| index).collect::<Vec<_>>();
            prop_assert_eq!(result.values(), ran.into_iter().flatten().flatten().collect::<Vec<_>>());
            prop_assert_eq!(result.rejected.iter().map(|rejected| rejected.record).collect::<Vec<_>>(), rejected);
            prop_assert_eq!(operator.broadcast_state::<String, u32>("table"), oracle.clone().into_iter().collect::<Vec<_>>());
        }
    }
}

fn get(field: &str) -> Step {
    Step::Get(field.into())
}

fn insert(field: &str, value: u32) -> Step {
    Step::Insert(field.into(), value)
}

#[test]
fn what_was_read_or_written_is_not_read_again_in_later_calls() {
    let mut operator = Harness::<Table>::new();
    let changes = vec![insert("a", 1), insert("b", 2), Step::Remove("c".into())];
    operator.broadcast::<Vec<Step>>("changes", [value(changes)]).unwrap();
    assert_eq!(operator.take_calls(), ["broadcast-put", "broadcast-remove"]);
    let reads = || [keyed("k", vec![get("a"), get("c"), get("d")]), keyed("l", vec![get("d"), get("b")])];
    operator.process(reads()).unwrap();
    assert_eq!(operator.take_calls(), ["broadcast-get", "emit"], "only of `d` nothing was known");
    operator.process(reads()).unwrap();
    assert_eq!(operator.take_calls(), ["emit"]);
    // A new instance knows nothing.
    operator.restore(&operator.snapshot());
    operator.process(reads()).unwrap();
    assert_eq!(operator.take_calls(), [&["broadcast-get"; 4][..], &["emit"]].concat());
}

#[test]
fn an_instance_does_not_keep_more_and_more() {
    let mut operator = Harness::<Table>::new();
    let fields = |count: usize| (0..count).map(|field| get(&field.to_string())).collect::<Vec<_>>();
    operator.process([keyed("k", fields(4096))]).unwrap();
    operator.take_calls();
    operator.process([keyed("k", fields(4096))]).unwrap();
    assert_eq!(operator.take_calls().iter().filter(|&&call| call == "broadcast-get").count(), 0);
    operator.process([keyed("k", fields(4097))]).unwrap();
    operator.take_calls();
    operator.process([keyed("k", fields(1))]).unwrap();
    assert_eq!(operator.take_calls(), ["broadcast-get", "emit"]);
    // Few fields that are long.
    let long = "x".repeat(5 << 20);
    for _ in 0..2 {
        operator.process([keyed("k", vec![get(&long)])]).unwrap();
        assert_eq!(operator.take_calls(), ["broadcast-get", "emit"]);
    }
}

#[test]
fn a_table_is_changed_on_broadcast_inputs_only_and_there_is_no_key_there() {
    let mut operator = Harness::<Table>::new();
    let failure = operator.process([keyed("k", vec![insert("a", 1)])]).unwrap_err();
    let message = "broadcast state `table` is changed by broadcast inputs only: else the subtasks' copies would come to differ";
    assert_eq!(failure, Failure::Panic { record: Some(0), message: message.into() });
    let failure = operator.broadcast::<u32>("keyless", [value(1)]).unwrap_err();
    let message = "state `of_key` was used where no key is current";
    assert_eq!(failure, Failure::Panic { record: Some(0), message: message.into() });
}

#[test]
fn a_rejected_broadcast_record_fails_the_call() {
    let mut operator = Harness::<Table>::new();
    operator.broadcast::<Vec<Step>>("changes", [value(vec![insert("a", 1)])]).unwrap();
    let records = [vec![insert("a", 2)], vec![insert("b", 2), Step::Fail]];
    let failure = operator.broadcast::<Vec<Step>>("changes", records.map(value)).unwrap_err();
    assert_eq!(failure, Failure::Error("record 1 on broadcast input `changes`: as told".into()));
    assert_eq!(operator.broadcast_state::<String, u32>("table"), [("a".into(), 1)]);
    assert_eq!(operator.process([keyed("k", vec![get("a")])]).unwrap().values(), ["Some(1)"]);
}

#[test]
fn every_subtask_is_restored_with_the_whole_table() {
    let mut one = Harness::<Table>::new();
    one.broadcast::<Vec<Step>>("changes", [value(vec![insert("a", 1), insert("b", 2)])]).unwrap();
    let mut parts = vec![one.snapshot()];
    for parallelism in [3, 2, 1] {
        parts = Snapshot::spread(&parts, parallelism, |_| 0);
        for part in &mut parts {
            let mut operator = Harness::<Table>::new();
            operator.restore(part);
            assert_eq!(operator.broadcast_state::<String, u32>("table"), [("a".into(), 1), ("b".into(), 2)]);
            assert!(operator.finish().unwrap().records.is_empty(), "a table is of no key");
            *part = operator.snapshot();
        }
    }
    let mut other = Harness::<Table>::new();
    other.broadcast::<Vec<Step>>("changes", [value(vec![insert("a", 1)])]).unwrap();
    parts.push(other.snapshot());
    assert!(std::panic::catch_unwind(|| Snapshot::spread(&parts, 1, |_| 0)).is_err(), "two that differ");
}

#[test]
fn the_descriptor_names_the_kind_and_both_schemas() {
    let table = &crate::operator::describe::<Table>().states[0];
    let told = format!("{} {} {} {:?}", table.name, table.kind, table.schema, table.more);
    assert_eq!(told, r#"table broadcast postcard:u32 [("field-schema", "text")]"#);
}
