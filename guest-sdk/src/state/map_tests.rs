//! Maps and aggregating state against an oracle: ordered maps that are changed record by record, with a copy for each that may fail.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::prelude::*;
use crate::testing::{Harness, Record, keyed};

/// Something that a record does to the state of its key.
#[record]
#[derive(Clone, Debug)]
enum Step {
    Get(String),
    Contains(String),
    Insert(String, u32),
    Update(String, u32),
    Remove(String),
    Clear,
    IsEmpty,
    Iter,
    /// From this field on, so many.
    IterFrom(String, u8),
    Add(String),
    Aggregate,
    Forget,
    Fail,
}

/// The longest text that was added, and how many were; told as one text.
struct Longest;

impl Aggregate for Longest {
    type Input = String;
    type Accumulator = (u32, String);
    type Output = String;

    fn begin() -> (u32, String) {
        (0, "none".into())
    }

    fn add((count, longest): &mut (u32, String), text: String) {
        if *count == 0 || text.len() > longest.len() {
            *longest = text;
        }
        *count += 1;
    }

    fn result((count, longest): &(u32, String)) -> String {
        format!("{longest} of {count}")
    }
}

#[operator(key = String)]
struct Maps {
    map: MapState<String, u32>,
    longest: AggregatingState<Longest>,
}

#[operator]
impl Maps {
    #[input]
    fn steps(&mut self, steps: Vec<Step>, out: &mut Output<String>) -> Result<()> {
        for step in steps {
            match step {
                Step::Get(field) => {
                    let value = self.map.get(field.as_str());
                    assert_eq!(self.map.get_ref(&field), value.as_ref());
                    out.emit(format_args!("{value:?}"));
                }
                Step::Contains(field) => out.emit(format_args!("{}", self.map.contains(field.as_str()))),
                Step::Insert(field, value) => self.map.insert(field, value),
                Step::Update(field, by) => out.emit(format_args!(
                    "{}",
                    self.map.update(field.as_str(), |value| {
                        *value += by;
                        *value
                    })
                )),
                Step::Remove(field) => self.map.remove(field.as_str()),
                Step::Clear => self.map.clear(),
                Step::IsEmpty => out.emit(format_args!("{}", self.map.is_empty())),
                Step::Iter => out.emit(format_args!("{:?}", self.map.iter().collect::<Vec<_>>())),
                Step::IterFrom(field, many) => {
                    out.emit(format_args!("{:?}", self.map.iter_from(field.as_str()).take(many.into()).collect::<Vec<_>>()));
                }
                Step::Add(text) => self.longest.add(text),
                Step::Aggregate => out.emit(format_args!("{:?}", self.longest.get())),
                Step::Forget => self.longest.clear(),
                Step::Fail => bail!("as told"),
            }
        }
        Ok(())
    }

    #[finish]
    fn rest(&mut self, meta: &Meta<String>, out: &mut Output<String>) -> Result<()> {
        let map: Vec<_> = self.map.iter().collect();
        out.emit(format_args!("{} {map:?} {:?}", meta.key(), self.longest.get()));
        Ok(())
    }
}

/// One key's state.
#[derive(Clone, Debug, Default, PartialEq)]
struct Oracle {
    map: BTreeMap<String, u32>,
    added: Vec<String>,
}

impl Oracle {
    fn longest(&self) -> Option<String> {
        // The first of the longest ones, where `max_by_key` tells the last.
        let longest = self.added.iter().rev().max_by_key(|text| text.len())?;
        Some(format!("{longest} of {}", self.added.len()))
    }

    /// What a record does and sends; none if it fails.
    fn run(&mut self, steps: &[Step]) -> Option<Vec<String>> {
        let before = self.clone();
        let mut sent = Vec::new();
        for step in steps {
            match step {
                Step::Get(field) => sent.push(format!("{:?}", self.map.get(field))),
                Step::Contains(field) => sent.push(self.map.contains_key(field).to_string()),
                Step::Insert(field, value) => drop(self.map.insert(field.clone(), *value)),
                Step::Update(field, by) => {
                    let value = self.map.entry(field.clone()).or_default();
                    *value += by;
                    sent.push(value.to_string());
                }
                Step::Remove(field) => drop(self.map.remove(field)),
                Step::Clear => self.map.clear(),
                Step::IsEmpty => sent.push(self.map.is_empty().to_string()),
                Step::Iter => sent.push(format!("{:?}", self.map.iter().collect::<Vec<_>>())),
                Step::IterFrom(field, many) => {
                    let some: Vec<_> = self.map.range(field.clone()..).take(usize::from(*many)).collect();
                    sent.push(format!("{some:?}"));
                }
                Step::Add(text) => self.added.push(text.clone()),
                Step::Aggregate => sent.push(format!("{:?}", self.longest())),
                Step::Forget => self.added.clear(),
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
    let field = || proptest::string::string_regex("[a-b\0é]{0,2}").unwrap();
    let number = || 0u32..1000;
    prop_oneof![
        3 => field().prop_map(Step::Get),
        1 => field().prop_map(Step::Contains),
        4 => (field(), number()).prop_map(|(field, value)| Step::Insert(field, value)),
        3 => (field(), number()).prop_map(|(field, by)| Step::Update(field, by)),
        3 => field().prop_map(Step::Remove),
        1 => Just(Step::Clear),
        1 => Just(Step::IsEmpty),
        2 => Just(Step::Iter),
        2 => (field(), 0u8..4).prop_map(|(field, many)| Step::IterFrom(field, many)),
        2 => "[a-c]{0,3}".prop_map(Step::Add),
        2 => Just(Step::Aggregate),
        1 => Just(Step::Forget),
        2 => Just(Step::Fail),
    ]
}

fn records() -> impl Strategy<Value = Vec<Record<String, Vec<Step>>>> {
    let record = ("[x-z]", proptest::collection::vec(step(), 0..6)).prop_map(|(key, steps)| keyed(key, steps));
    proptest::collection::vec(record, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, rng_seed: RngSeed::Fixed(2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn maps_do_what_ordered_maps_do_in_batches_of_any_size(records in records(), size in 1usize..20) {
        let mut operator = Harness::<Maps>::new();
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
        for (key, Oracle { map, .. }) in &oracle {
            prop_assert_eq!(operator.map::<String, u32>("map", key), map.clone().into_iter().collect::<Vec<_>>());
        }
        oracle.retain(|_, state| *state != Oracle::default());
        let rest: Vec<_> = oracle.iter().map(|(key, state)| {
            format!("{key} {:?} {:?}", state.map.iter().collect::<Vec<_>>(), state.longest())
        }).collect();
        prop_assert_eq!(operator.finish().unwrap().values(), rest);
    }
}

#[test]
fn a_call_reads_a_field_once_and_writes_all_changes_together() {
    let mut operator = Harness::<Maps>::new();
    let records = |steps: Vec<Step>| (0..30).map(move |i| keyed(format!("k{}", i % 3), steps.clone()));
    let insert = |field: &str| Step::Insert(field.into(), 1);

    operator.process(records(vec![insert("a"), insert("b"), insert("c")])).unwrap();
    assert_eq!(operator.take_calls(), ["map-put"], "what is replaced unseen is not read");

    operator.process(records(vec![Step::Update("a".into(), 1), Step::Contains("a".into()), Step::Remove("b".into())])).unwrap();
    assert_eq!(operator.take_calls(), ["map-get-one", "map-get-one", "map-get-one", "map-put", "map-remove", "emit"]);

    operator.process(records(vec![Step::Get("c".into())])).unwrap();
    assert_eq!(operator.take_calls(), ["map-get-one", "map-get-one", "map-get-one", "emit"], "what was only read is not written");

    operator.process(records(vec![Step::Clear, insert("d"), Step::Get("a".into()), Step::Iter])).unwrap();
    assert_eq!(operator.take_calls(), ["clear", "map-put", "emit"], "of what is cleared nothing is read");

    operator.process(records(vec![Step::Clear, insert("e"), Step::Fail])).unwrap();
    assert!(operator.take_calls().iter().all(|&call| call == "reject"));
    assert_eq!(operator.map::<String, u32>("map", "k0"), [("d".into(), 1)]);
}

#[test]
fn a_large_map_is_read_in_pages_as_far_as_it_is_asked_for() {
    #[operator(key = String)]
    struct Large {
        map: MapState<u64, Vec<u8>>,
    }

    #[operator]
    impl Large {
        #[input]
        fn range(&mut self, range: (u64, u64), out: &mut Output<u64>) -> Result<()> {
            if self.map.is_empty() {
                (0..300).for_each(|field| self.map.insert(field * 2, vec![1; 1000]));
                return Ok(());
            }
            // Between the host's fields, and one that hides the host's.
            self.map.insert(range.0 + 3, vec![]);
            self.map.remove(range.0 + 4);
            for (field, _) in self.map.iter_from(range.0).take_while(|(field, _)| *field < range.1) {
                out.emit(field);
            }
            Ok(())
        }
    }

    let mut operator = Harness::<Large>::new();
    operator.process([keyed("k", (0, 0))]).unwrap();
    operator.take_calls();
    let expected: Vec<u64> = [100, 102, 103].into_iter().chain((106..400).step_by(2)).collect();
    assert_eq!(operator.process([keyed("k", (100, 400))]).unwrap().values(), expected);
    let scans = operator.take_calls().into_iter().filter(|&call| call == "map-scan").count();
    // One to see whether it is empty; 65 entries fit into 64 KiB.
    assert_eq!(scans, 1 + 3);
}

#[test]
fn the_descriptor_names_kinds_and_schemas_of_fields_and_of_what_is_kept() {
    let states = crate::operator::describe::<Maps>().states;
    let told: Vec<_> = states.iter().map(|state| format!("{} {} {} {:?}", state.name, state.kind, state.schema, state.more)).collect();
    assert_eq!(told, [r#"map map postcard:u32 [("field-schema", "text")]"#, r#"longest aggregating postcard:(u32,text) []"#]);
}
