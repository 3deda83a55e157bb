//! The guest boundary in process: what a record costs on its way into a guest and out again, and what keyed state costs from inside
//! one, each beside the same work in native Rust.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use cofferdam::plan::{Limits, OnError};
use cofferdam::record::{AttemptId, Batch, Outbox, Shape, hash_key};
use cofferdam::state::SubtaskState;
use cofferdam::wasm::{Component, Context, Engine, GuestLog, Instance, Interrupt};

use crate::{Row, best};

const RUNS: usize = 15;

pub(crate) fn instance(name: &str, config: &str, shape: Shape) -> Instance {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let engine = Engine::new(None).expect("an engine");
    let path = root.join(format!("target/wasm32-wasip2/guest/{name}.wasm"));
    let component = Component::load(&engine, &path, Limits::default(), &Interrupt::default()).expect("a component; `make bench` builds it");
    let context = Context {
        job: "bench".into(),
        operator: name.into(),
        subtask: 0,
        parallelism: 1,
        max_parallelism: 128,
        attempt: AttemptId { run: 1, attempt: 1 },
        restored_from: None,
        config: config.into(),
        environment: [].into(),
        log: GuestLog::new(name, 0, 100),
        metrics: Arc::default(),
        interrupt: Interrupt::default(),
    };
    let state = SubtaskState::new(&component.descriptor().states, 128);
    let outputs = component.descriptor().outputs.iter().map(|_| Outbox::new(shape)).collect();
    Instance::open(&component, &context, Limits::default(), OnError::Fail, state, outputs).expect("an instance")
}

fn drain(instance: &mut Instance) {
    instance.outputs().iter_mut().for_each(|outbox| {
        outbox.drain(|_, batch| drop(black_box(batch)));
    });
}

/// Text of 50 bytes in and the same out.
pub(crate) fn calls() -> Vec<Row> {
    let mut instance = instance("fixture_flat_map", r#"{"times":1}"#, Shape { plain: true, keyed: None });
    [1usize, 64, 1024]
        .map(|records| {
            let mut batch = Batch::default();
            (0..records).for_each(|_| batch.values.push(&[b'x'; 50]));
            let calls = (200_000 / records).max(100);
            let units = (calls * records) as u64;
            let guest = best(RUNS, units, || {
                for _ in 0..calls {
                    instance.process(0, &mut batch).expect("it passes records on");
                    drain(&mut instance);
                }
            });
            let mut outbox = Outbox::new(Shape { plain: true, keyed: None });
            let native = best(RUNS, units, || {
                for _ in 0..calls {
                    outbox.emit(&batch.values.ends, &batch.values.bytes, &[]);
                    outbox.drain(|_, batch| drop(black_box(batch)));
                }
            });
            Row(format!("boundary, in and out, batches of {records}"), format!("{guest:.1} ns per record; native {native:.1}"))
        })
        .into()
}

/// Counting per key, evenly drawn, batches of 1024.
pub(crate) fn state() -> Vec<Row> {
    [100u64, 10_000, 1_000_000]
        .map(|keys| {
            let batches = batches(keys);
            let units = (batches.len() * 1024) as u64;
            let mut instance = instance("word_count_count", "{}", Shape::default());
            let mut owned: Vec<Batch> = batches.clone();
            let guest = best(RUNS.min(5), units, || {
                for batch in &mut owned {
                    instance.process(0, batch).expect("it counts");
                    drain(&mut instance);
                }
            });
            let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
            let native = best(RUNS.min(5), units, || {
                for batch in &batches {
                    for &key in &batch.key_of {
                        let key = batch.keys.get(key as usize);
                        match counts.get_mut(key) {
                            Some(count) => *count += 1,
                            None => drop(counts.insert(key.to_vec(), 1)),
                        }
                    }
                }
            });
            Row(format!("keyed counting, {keys} keys"), format!("{guest:.0} ns per record; a native HashMap {native:.0}"))
        })
        .into()
}

pub(crate) fn batches(keys: u64) -> Vec<Batch> {
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % keys
    };
    let batch = |_| {
        let mut batch = Batch::default();
        let mut places: HashMap<u64, u32> = HashMap::new();
        for _ in 0..1024 {
            let number = next();
            let fresh = u32::try_from(places.len()).expect("at most 1024");
            let place = *places.entry(number).or_insert_with(|| {
                let key = format!("w{number:07}");
                batch.hashes.push(hash_key(key.as_bytes()));
                batch.keys.push(key.as_bytes());
                fresh
            });
            batch.key_of.push(place);
            batch.values.push(&[]);
        }
        batch
    };
    (0..2000.max(keys / 500)).map(batch).collect()
}
