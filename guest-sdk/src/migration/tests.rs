//! Values rewritten without code, against serde; those rewritten by functions; and what is refused, and why.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use super::plan::Plan;
use crate::codec::Value;
use crate::prelude::*;
use crate::testing::{Harness, Snapshot, keyed, value};

/// Types as version 1 had them.
mod one {
    use super::*;

    #[record]
    #[derive(Clone, Default)]
    pub struct Leg {
        pub from: String,
        pub delay: Option<i64>,
        pub seats: [u8; 3],
    }

    #[record]
    pub struct All {
        pub text: String,
        pub bytes: Vec<u8>,
        pub numbers: (u8, i8, u16, i16, u32, i32, u64, i64),
        pub large: (u128, i128, usize, isize),
        pub other: (bool, char, f32, f64, ()),
        pub duration: Duration,
        pub result: Result<u8, String>,
        pub legs: Vec<Leg>,
        pub by_name: BTreeMap<String, Leg>,
        pub by_leg: BTreeMap<(u8, bool), Option<Box<Leg>>>,
        pub pair: Pair,
        pub events: Vec<Event>,
        pub nothing: Vec<Nothing>,
        pub units: Vec<()>,
        pub array: [Leg; 2],
    }

    #[record]
    pub struct Pair(pub Leg, pub u64);

    #[record]
    pub struct Nothing {}

    #[record]
    pub enum Event {
        Started,
        Landed(Leg),
        Moved { to: Leg, at: u64 },
        Both(u8, Leg),
        Empty {},
    }

    #[record]
    pub enum Tree {
        Leaf { name: String },
        Fork(Box<Tree>, Box<Tree>),
        Many(Vec<Tree>),
    }

    #[record]
    pub struct Chain {
        pub next: Option<Box<Chain>>,
        pub value: u16,
    }
}

/// The same with optional fields more, at the beginning, in the middle and at the end, and in another order.
mod two {
    use super::*;

    #[record]
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Leg {
        pub gate: Option<String>,
        pub seats: [u8; 3],
        pub delay: Option<i64>,
        pub from: String,
        pub nested: Option<Option<Vec<u8>>>,
    }

    #[record]
    #[derive(Debug, PartialEq)]
    pub struct All {
        pub array: [Leg; 2],
        pub text: String,
        pub bytes: Vec<u8>,
        pub numbers: (u8, i8, u16, i16, u32, i32, u64, i64),
        pub large: (u128, i128, usize, isize),
        pub other: (bool, char, f32, f64, ()),
        pub more: Option<Pair>,
        pub duration: Duration,
        pub result: Result<u8, String>,
        pub legs: Vec<Leg>,
        pub by_name: BTreeMap<String, Leg>,
        pub by_leg: BTreeMap<(u8, bool), Option<Box<Leg>>>,
        pub pair: Pair,
        pub events: Vec<Event>,
        pub nothing: Vec<Nothing>,
        pub units: Vec<()>,
        pub end: Option<u8>,
    }

    #[record]
    #[derive(Debug, PartialEq)]
    pub struct Pair(pub Leg, pub u64);

    #[record]
    #[derive(Debug, PartialEq)]
    pub struct Nothing {
        pub something: Option<u64>,
    }

    #[record]
    #[derive(Debug, PartialEq)]
    pub enum Event {
        Started,
        Landed(Leg),
        Moved { at: u64, why: Option<String>, to: Leg },
        Both(u8, Leg),
        Empty { no: Option<bool> },
    }

    #[record]
    #[derive(Debug, PartialEq)]
    pub enum Tree {
        Leaf { colour: Option<u8>, name: String },
        Fork(Box<Tree>, Box<Tree>),
        Many(Vec<Tree>),
    }

    #[record]
    #[derive(Debug, PartialEq)]
    pub struct Chain {
        pub value: u16,
        pub next: Option<Box<Chain>>,
        pub last: Option<Box<Chain>>,
    }
}

fn old_leg(from: &str, delay: Option<i64>) -> one::Leg {
    one::Leg { from: from.into(), delay, seats: [1, 2, 255] }
}

fn new_leg(from: &str, delay: Option<i64>) -> two::Leg {
    two::Leg { from: from.into(), delay, seats: [1, 2, 255], gate: None, nested: None }
}

fn encoded(value: &impl Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

/// Rewrites `old`, which must become `new`; each of its beginnings must be refused or at least be no more than that.
#[track_caller]
fn becomes<Old: Value, New: Value + Debug + PartialEq>(old: &Old, new: &New) {
    let plan = Plan::new(&Old::schema(), &New::schema()).unwrap();
    let bytes = encoded(old);
    let mut out = vec![7];
    plan.rewrite(&bytes, &mut out).unwrap();
    assert_eq!((out[0], &New::decode(&out[1..]).unwrap()), (7, new));
    for end in 0..bytes.len() {
        assert!(plan.rewrite(&bytes[..end], &mut Vec::new()).is_err(), "{end} of {} bytes", bytes.len());
    }
    assert!(plan.rewrite(&[&bytes[..], &[0]].concat(), &mut Vec::new()).is_err());
}

#[test]
fn optional_fields_may_be_added_and_fields_reordered_anywhere() {
    let numbers = (u8::MAX, i8::MIN, u16::MAX, i16::MIN, u32::MAX, i32::MIN, u64::MAX, i64::MIN);
    let large = (u128::MAX, i128::MIN, usize::MAX, isize::MIN);
    let other = (true, '🛫', -0.5f32, f64::MAX, ());
    let duration = Duration::new(u64::MAX, 999_999_999);
    let leg = |from| (old_leg(from, Some(-1)), new_leg(from, Some(-1)));
    let (a, b) = (leg("Zürich"), (old_leg("", None), new_leg("", None)));
    let old = one::All {
        text: "tail".into(),
        bytes: (0..=255).collect(),
        numbers,
        large,
        other,
        duration,
        result: Err("x".into()),
        legs: vec![a.0.clone(), b.0.clone(), a.0.clone()],
        by_name: [("a".into(), a.0.clone()), (String::new(), b.0.clone())].into(),
        by_leg: [((1, true), Some(Box::new(a.0.clone()))), ((2, false), None)].into(),
        pair: one::Pair(b.0.clone(), 300),
        events: vec![
            one::Event::Started,
            one::Event::Landed(a.0.clone()),
            one::Event::Moved { to: b.0.clone(), at: 1 << 40 },
            one::Event::Both(9, a.0.clone()),
            one::Event::Empty {},
        ],
        nothing: vec![one::Nothing {}, one::Nothing {}],
        units: vec![(); 1000],
        array: [b.0, a.0],
    };
    let new = two::All {
        more: None,
        end: None,
        text: "tail".into(),
        bytes: (0..=255).collect(),
        numbers,
        large,
        other,
        duration,
        result: Err("x".into()),
        legs: vec![a.1.clone(), b.1.clone(), a.1.clone()],
        by_name: [("a".into(), a.1.clone()), (String::new(), b.1.clone())].into(),
        by_leg: [((1, true), Some(Box::new(a.1.clone()))), ((2, false), None)].into(),
        pair: two::Pair(b.1.clone(), 300),
        events: vec![
            two::Event::Started,
            two::Event::Landed(a.1.clone()),
            two::Event::Moved { to: b.1.clone(), at: 1 << 40, why: None },
            two::Event::Both(9, a.1.clone()),
            two::Event::Empty { no: None },
        ],
        nothing: vec![two::Nothing { something: None }, two::Nothing { something: None }],
        units: vec![(); 1000],
        array: [b.1, a.1],
    };
    becomes(&old, &new);
}

#[test]
fn types_within_themselves_are_rewritten_however_deep() {
    let leaf = |name: &str| one::Tree::Leaf { name: name.into() };
    let new_leaf = |name: &str| two::Tree::Leaf { name: name.into(), colour: None };
    becomes(
        &one::Tree::Fork(Box::new(leaf("a")), Box::new(one::Tree::Many(vec![leaf("b"), one::Tree::Many(vec![])]))),
        &two::Tree::Fork(Box::new(new_leaf("a")), Box::new(two::Tree::Many(vec![new_leaf("b"), two::Tree::Many(vec![])]))),
    );
    let (mut old, mut new) = (one::Chain { next: None, value: 0 }, two::Chain { next: None, value: 0, last: None });
    for value in 1..300 {
        old = one::Chain { next: Some(Box::new(old)), value };
        new = two::Chain { next: Some(Box::new(new)), value, last: None };
    }
    becomes(&old, &new);
}

#[test]
fn what_was_not_just_added_is_refused_by_the_name_of_its_field() {
    let cases = [
        ("postcard:u32", "postcard:u64", "u32 has become u64"),
        ("text", "postcard:text", "text has become postcard:text"),
        ("json", "text", "json has become text"),
        ("postcard:{a:option<i64>}", "postcard:{a:i64}", "field `a` was option<i64> and is i64"),
        ("postcard:{a:i64}", "postcard:{a:option<i64>}", "field `a` was i64 and is option<i64>"),
        ("postcard:{a:u8,b:u8}", "postcard:{a:u8}", "field `b` is missing"),
        ("postcard:{a:u8}", "postcard:{a:u8,b:u8}", "field `b` was added and is u8"),
        ("postcard:{a:u8}", "postcard:{c:option<u8>}", "field `a` is missing"),
        ("postcard:list<{a:{b:u8}}>", "postcard:list<{a:{b:i8}}>", "field `a.b` was u8 and is i8"),
        ("postcard:map<u8,{a:(u8,{b:u8})}>", "postcard:map<u8,{a:(u8,{b:u8,c:text})}>", "field `a.c` was added and is text"),
        ("postcard:map<u8,u8>", "postcard:map<u16,u8>", "u8 has become u16"),
        ("postcard:(u8,u8)", "postcard:(u8,u8,option<u8>)", "(u8,u8) has become (u8,u8,option<u8>)"),
        ("postcard:{a:array<u8,2>}", "postcard:{a:array<u8,3>}", "field `a` was array<u8,2> and is array<u8,3>"),
        ("postcard:enum{A,B(u8)}", "postcard:enum{A,B(u16)}", "field `B` was u8 and is u16"),
        ("postcard:enum{A,B{x:u8}}", "postcard:enum{A,B{y:option<u8>}}", "field `B.x` is missing"),
        ("postcard:{e:enum{A,B}}", "postcard:{e:enum{B,A}}", "field `e` was enum{A,B} and is enum{B,A}"),
        ("postcard:enum{A}", "postcard:enum{A,B}", "enum{A} has become enum{A,B}"),
        ("postcard:enum{A}", "postcard:enum{A(u8)}", "field `A` was unit and is (u8)"),
        ("postcard:{a:decimal}", "postcard:{a:decimal,b:option<u8>}", "`decimal` is no type that is known"),
        ("postcard:{a:u8,a:u8}", "postcard:{a:u8}", "a field is there twice in {a,a}"),
        ("postcard:{a:u8", "postcard:{a:u8}", "the old schema can't be read: at byte 5: expected a comma or the end of the bracket"),
    ];
    for (old, new, reason) in cases {
        assert_eq!(Plan::new(old, new).unwrap_err(), reason, "{old} to {new}");
    }
}

#[test]
fn damaged_values_are_refused() {
    let plan = Plan::new("postcard:{a:list<unit>,b:option<enum{A,B}>,c:u16}", "postcard:{c:u16,a:list<unit>,b:option<enum{A,B}>}").unwrap();
    // A list of 2^63 units is as short as any other.
    let long = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1];
    let mut out = Vec::new();
    plan.rewrite(&[&long[..], &[0, 5]].concat(), &mut out).unwrap();
    assert_eq!(out, [&[5][..], &long, &[0]].concat());
    // Unless something comes of each.
    let grown = Plan::new("postcard:list<{}>", "postcard:list<{a:option<u8>,b:option<u8>}>").unwrap();
    let mut out = Vec::new();
    grown.rewrite(&[3], &mut out).unwrap();
    assert_eq!(out, [3, 0, 0, 0, 0, 0, 0]);
    let refused = grown.rewrite(&long, &mut Vec::new()).unwrap_err();
    assert_eq!(refused.message(), "a value is not what its schema says: it has too many elements");
    let cases: [(&[u8], &str); 6] = [
        (&[0, 2, 0], "an option is neither there nor not"),
        (&[0, 1, 2, 0], "there is no such variant"),
        (&[0, 0, 0x80, 0x80, 0x80, 1], "a number is too long"),
        (&[0, 0, 0x80], "it ends early"),
        (&[0, 0, 0, 0], "1 bytes too many"),
        (&[0x80; 11], "a number is too long"),
    ];
    for (bytes, reason) in cases {
        let refused = plan.rewrite(bytes, &mut Vec::new()).unwrap_err();
        assert_eq!(refused.message(), format!("a value is not what its schema says: {reason}"));
    }
    let text = Plan::new("postcard:{a:text}", "postcard:{a:text,b:option<u8>}").unwrap();
    assert!(text.rewrite(&[&long[..9], &[1, b'a']].concat(), &mut Vec::new()).is_err());
}

/// An operator with every kind of state, of some types and versions.
macro_rules! operator {
    ($name:ident, $leg:ty, $number:ty, #[$leg_state:meta], #[$number_state:meta]) => {
        #[operator(key = String, name = "legs")]
        struct $name {
            #[$leg_state]
            last: ValueState<$leg>,
            #[$leg_state]
            legs: ListState<$leg>,
            #[$leg_state]
            by_day: MapState<u8, $leg>,
            #[$number_state]
            sum: ReducingState<$number, Total>,
            #[$number_state]
            mean: AggregatingState<Mean<$number>>,
            #[$number_state]
            locals: OperatorListState<$number>,
            #[$number_state]
            all: UnionListState<$number>,
        }

        #[operator]
        impl $name {
            #[input]
            fn legs(&mut self, (leg, number): ($leg, $number)) -> Result<()> {
                self.last.set(leg.clone());
                self.legs.push(&leg);
                self.by_day.insert(1, leg);
                self.sum.add(number.clone());
                self.mean.add(number.clone());
                self.locals.push(number.clone());
                self.all.replace([number]);
                Ok(())
            }
        }
    };
}

struct Total;

impl Reduce<u32> for Total {
    fn reduce(into: &mut u32, value: u32) {
        *into += value;
    }
}

impl Reduce<String> for Total {
    fn reduce(into: &mut String, value: String) {
        into.push_str(&value);
    }
}

struct Mean<T>(std::marker::PhantomData<T>);

impl<T: Value + Clone + Default> Aggregate for Mean<T> {
    type Input = T;
    type Accumulator = T;
    type Output = T;

    fn begin() -> T {
        T::default()
    }

    fn add(accumulator: &mut T, input: T) {
        *accumulator = input;
    }

    fn result(accumulator: &T) -> T {
        accumulator.clone()
    }
}

fn up(number: u32) -> Result<String> {
    match number {
        13 => bail!("thirteen"),
        number => Ok(format!("#{number}")),
    }
}

fn down(text: String) -> Result<u32> {
    Ok(text.trim_start_matches('#').parse()?)
}

operator!(One, one::Leg, u32, #[state(version = 1)], #[state(version = 1)]);
operator!(Two, two::Leg, String, #[state(version = 2)], #[state(version = 2, migrate(1 => up))]);
operator!(Three, two::Leg, u32, #[state(version = 3, migrate(2 => |leg: two::Leg| leg))], #[state(version = 3, migrate(2 => down, 4 => |_: u8| 0))]);

fn snapshot_of_one(number: u32) -> Snapshot {
    let mut one = Harness::<One>::new();
    let legs = [("a", old_leg("x", None), 5), ("b", old_leg("y", Some(1)), 6), ("a", old_leg("z", None), number)];
    one.process(legs.map(|(key, leg, number)| keyed(key, (leg, number)))).unwrap();
    one.snapshot()
}

#[test]
fn a_snapshot_of_another_version_is_restored_by_its_migrations() {
    let mut two = Harness::<Two>::new();
    two.restore(&snapshot_of_one(7));
    let (x, y, z) = (new_leg("x", None), new_leg("y", Some(1)), new_leg("z", None));
    assert_eq!(two.value("last", "a"), Some(z.clone()));
    assert_eq!(two.list::<two::Leg>("legs", "a"), [x, z.clone()]);
    assert_eq!(two.map("by_day", "b"), [(1u8, y)]);
    assert_eq!((two.value("sum", "a"), two.value("mean", "a")), (Some("#12".to_owned()), Some("#7".to_owned())));
    assert_eq!(two.operator_list::<String>("locals"), ["#5", "#6", "#7"]);
    assert_eq!(two.operator_list::<String>("all"), ["#7"]);
    // And on, with both subtasks' worth of a restart in between.
    let parts = Snapshot::spread(&[two.snapshot()], 2, |key| usize::from(key == b"b"));
    let mut three = Harness::<Three>::new();
    three.restore(&parts[0]);
    assert_eq!((three.value("last", "a"), three.value("sum", "a")), (Some(z), Some(12u32)));
    assert_eq!(three.operator_list::<u32>("locals"), [5, 6]);
    three.process([keyed("a", (new_leg("w", None), 1))]).unwrap();
    assert_eq!(three.value("sum", "a"), Some(13u32));
}

#[test]
fn a_snapshot_that_does_not_fit_changes_nothing() {
    let mut two = Harness::<Two>::new();
    two.restore(&snapshot_of_one(7));
    let before = two.snapshot();
    let refused = |error: Result<()>| error.unwrap_err().to_string();
    assert_eq!(refused(two.try_restore(&snapshot_of_one(13))), "state `mean`: thirteen");
    assert_eq!(two.snapshot(), before);
    let mut one = Harness::<One>::new();
    let down = "state `last`: only added optional fields need no code, and field `gate` is missing: \
        `#[state(version = 1, migrate(2 => …))]` says how values are rewritten";
    assert_eq!(refused(one.try_restore(&before)), down);
    let mut three = Harness::<Three>::new();
    let jump = "state `last`: a version lies between, in which the meaning may have changed: \
        `#[state(version = 3, migrate(1 => …))]` says how values are rewritten";
    assert_eq!(refused(three.try_restore(&snapshot_of_one(1))), jump);
}

#[operator]
struct Texts {
    #[state(version = 2, migrate(1 => |old: u64| old.to_string()))]
    list: OperatorListState<String>,
    #[state(version = 2, migrate(1 => |old: Grown| format!("{} {:?}", old.number, old.unit)))]
    grown: OperatorListState<String>,
}

/// Of version 1, at the end of which it had a second field.
#[record]
struct Grown {
    unit: Option<String>,
    number: u64,
}

#[operator]
impl Texts {
    #[input]
    fn texts(&mut self, text: String) -> Result<()> {
        self.list.push(text);
        Ok(())
    }
}

#[test]
fn a_migration_is_offered_from_the_schema_that_it_takes_and_no_other() {
    let ask = |state, version, schema: &str| super::migrate::<Texts>(state, version, schema, &crate::column::Column::new());
    assert_eq!(ask(0, 1, "postcard:u64").unwrap().len(), 0);
    let same_version = "only added optional fields need no code, and bytes has become text: \
        `#[state(version = 3, migrate(2 => …))]` says how values are rewritten";
    assert_eq!(ask(0, 2, "bytes").unwrap_err().message(), same_version);
    let same_schema =
        "the schema is the same, and the version is not: `#[state(version = 2, migrate(3 => …))]` says how values are rewritten";
    assert_eq!(ask(0, 3, "text").unwrap_err().message(), same_schema);
    let other = ask(0, 1, "postcard:u32").unwrap_err();
    assert_eq!(other.message(), "the migration from version 1 takes postcard:u64: u32 has become u64");
    let fewer = ask(0, 1, "postcard:{}").unwrap_err();
    assert_eq!(fewer.message(), "the migration from version 1 takes postcard:u64: {} has become u64");
    assert_eq!(ask(2, 1, "text").unwrap_err().message(), "there is no state 2");
    let mut texts = Harness::<Texts>::new();
    texts.process([value("a")]).unwrap();
    texts.restore(&Snapshot::default());
    assert_eq!(texts.operator_list::<String>("list").len(), 0);
}

#[test]
fn a_migration_takes_what_has_grown_within_its_version() {
    let migrated = |schema: &str, value: &[u8]| {
        let mut values = crate::column::Column::new();
        values.push(value);
        let new = super::migrate::<Texts>(1, 1, schema, &values).map_err(|error| error.message().to_owned())?;
        Ok::<_, String>(String::from_utf8(new.get(0).to_vec()).unwrap())
    };
    assert_eq!(migrated("postcard:{unit:option<text>,number:u64}", &[1, 1, b'm', 7]).unwrap(), "7 Some(\"m\")");
    assert_eq!(migrated("postcard:{number:u64}", &[7]).unwrap(), "7 None");
    let refused = "the migration from version 1 takes postcard:{unit:option<text>,number:u64}: field `size` is missing";
    assert_eq!(migrated("postcard:{number:u64,size:u8}", &[7, 8]).unwrap_err(), refused);
}
