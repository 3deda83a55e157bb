//! The kinds of state from inside a guest, each beside the same work in native Rust.

use std::collections::{BTreeMap, HashMap};

use cofferdam::record::{Batch, Shape};

use crate::boundary::{batches, instance};
use crate::{Row, best};

const RUNS: usize = 5;
const KEYS: u64 = 10_000;
/// Fields of each map: so few that the key and not the field decides what is in the processor's caches.
const FIELDS: u64 = 64;

/// What a native program keeps for each key.
#[derive(Default)]
struct Native {
    list: Vec<u64>,
    sum: u64,
    count: u64,
    map: BTreeMap<u64, u64>,
}

type Work = fn(&mut Native, u64);

/// One record is one use of the state of its key; 10,000 keys, evenly drawn, batches of 1024.
pub(crate) fn kinds() -> Vec<Row> {
    let parts: [(&str, &str, Work); 6] = [
        ("list append", "list-append", |native, number| native.list.push(number)),
        ("reducing", "reduce", |native, number| native.sum += number),
        ("aggregating", "aggregate", |native, number| (native.sum, native.count) = (native.sum + number, native.count + 1)),
        ("map put", "map-put", |native, number| _ = native.map.insert(number, number)),
        ("map get, fields known one by one", "map-get", |native, number| native.sum += native.map.get(&number).copied().unwrap_or(0)),
        ("value with a time to live", "ttl", |native, number| native.sum += number),
    ];
    let batches = numbered();
    parts.map(|(what, config, work)| row(what, config, work, &batches)).into()
}

/// Batches whose records carry numbers below [`FIELDS`].
fn numbered() -> Vec<Batch> {
    let mut batches = batches(KEYS);
    batches.truncate(500);
    for (index, batch) in batches.iter_mut().enumerate() {
        let records = batch.key_of.len();
        batch.values.clear();
        // As postcard writes them.
        (0..records).for_each(|record| batch.values.push(&[((index * 7 + record * 13) as u64 % FIELDS) as u8]));
    }
    batches
}

fn row(what: &str, config: &str, work: Work, batches: &[Batch]) -> Row {
    let units = (batches.len() * 1024) as u64;
    let mut owned = batches.to_vec();
    let mut guest = f64::MAX;
    let mut native = f64::MAX;
    // A list grows with every run, so each begins anew; only maps that are read are filled first.
    for _ in 0..RUNS {
        let mut instance = instance("fixture_kinds", &format!(r#"{{"what":"{config}"}}"#), Shape::default());
        let mut run = || owned.iter_mut().for_each(|batch| instance.process(0, batch).expect("it counts"));
        run();
        guest = guest.min(best(1, units, run));
        let mut keys: HashMap<Vec<u8>, Native> = HashMap::new();
        let mut run = || batches.iter().for_each(|batch| natively(&mut keys, batch, work));
        run();
        native = native.min(best(1, units, run));
    }
    Row(format!("{what}, {KEYS} keys"), format!("{guest:.0} ns per record; native {native:.0}"))
}

fn natively(keys: &mut HashMap<Vec<u8>, Native>, batch: &Batch, work: Work) {
    for (index, &key) in batch.key_of.iter().enumerate() {
        let (key, number) = (batch.keys.get(key as usize), u64::from(batch.values.get(index)[0]));
        match keys.get_mut(key) {
            Some(native) => work(native, number),
            None => {
                let mut native = Native::default();
                work(&mut native, number);
                keys.insert(key.to_vec(), native);
            }
        }
    }
}
