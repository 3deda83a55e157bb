//! [`Outbox`]: what an output port has emitted in one call, cut into batches for whoever takes it. Keys are hashed, placed and
//! grouped here, once; every later hand works with the result.

use super::dictionary::{Dictionary, Glimpse};
use super::{Batch, hash_key, key_group, slice, subtask_of};

/// A batch is closed when it holds this many records.
pub const BATCH_RECORDS: usize = 8192;
/// A batch is closed when it holds this many bytes of values and keys.
pub const BATCH_BYTES: usize = 128 << 10;

/// How many keys are hashed and looked at before the first of them is placed.
const AHEAD: usize = 32;

/// In which forms the records of a port are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// As they are, without keys, on the same subtask.
    pub plain: bool,
    /// Spread over subtasks by key.
    pub keyed: Option<Spread>,
}

/// Over what records are spread by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many subtasks there are.
    pub parallelism: u16,
    /// How many key groups there are.
    pub max_parallelism: u16,
}

/// What an output port has emitted in one call. Columns and indices handed to it were checked by the caller.
#[derive(Debug)]
pub struct Outbox {
    plain: Option<Open>,
    keyed: Option<Keyed>,
    records: u64,
}

impl Outbox {
    /// For a port whose records are needed in `shape`.
    pub fn new(shape: Shape) -> Self {
        Outbox { plain: shape.plain.then(Open::default), keyed: shape.keyed.map(Keyed::new), records: 0 }
    }

    /// Records without keys.
    pub fn emit(&mut self, value_ends: &[u32], value_bytes: &[u8], timestamps: &[i64]) {
        self.records += value_ends.len() as u64;
        if let Some(open) = &mut self.plain {
            for index in 0..value_ends.len() {
                open.make_room(timestamps.is_empty());
                open.push(slice(value_ends, value_bytes, index), timestamps.get(index));
            }
        }
    }

    /// Records with keys of `call` (the batch or the keys at hand), by index.
    pub fn emit_known(&mut self, call: &Batch, key_of: &[u32], value_ends: &[u32], value_bytes: &[u8], timestamps: &[i64]) {
        self.emit(value_ends, value_bytes, timestamps);
        if let Some(keyed) = &mut self.keyed {
            keyed.known.resize(call.keys.len(), Known::default());
            for (index, &key) in key_of.iter().enumerate() {
                keyed.push_known(call, key as usize, slice(value_ends, value_bytes, index), timestamps.get(index));
            }
        }
    }

    /// Records with keys of their own, one for each.
    pub fn emit_fresh(&mut self, key_ends: &[u32], key_bytes: &[u8], value_ends: &[u32], value_bytes: &[u8], timestamps: &[i64]) {
        self.emit(value_ends, value_bytes, timestamps);
        let Some(keyed) = &mut self.keyed else { return };
        let mut ahead = [Ahead::default(); AHEAD];
        for start in (0..value_ends.len()).step_by(AHEAD) {
            let end = value_ends.len().min(start + AHEAD);
            for (index, ahead) in (start..end).zip(&mut ahead) {
                *ahead = keyed.look(slice(key_ends, key_bytes, index));
            }
            for (index, ahead) in (start..end).zip(&ahead) {
                let (key, value) = (slice(key_ends, key_bytes, index), slice(value_ends, value_bytes, index));
                keyed.push(key, ahead, value, timestamps.get(index));
            }
        }
    }

    /// Hands over everything emitted since the last drain: each batch with the subtask that it is for, or with none if it is plain.
    /// Returns how many records were emitted.
    pub fn drain(&mut self, mut take: impl FnMut(Option<u16>, Batch)) -> u64 {
        if let Some(open) = &mut self.plain {
            open.close();
            open.closed.drain(..).for_each(|batch| take(None, batch));
        }
        if let Some(keyed) = &mut self.keyed {
            keyed.known.clear();
            for (subtask, target) in keyed.targets.iter_mut().enumerate() {
                target.close();
                // There are as many targets as subtasks, a u16.
                target.open.closed.drain(..).for_each(|batch| take(Some(subtask as u16), batch));
            }
        }
        std::mem::take(&mut self.records)
    }

    /// Forgets everything emitted since the last drain.
    pub fn discard(&mut self) {
        self.drain(|_, _| ());
    }
}

/// A batch being filled, and those already full.
#[derive(Debug, Default)]
struct Open {
    batch: Batch,
    closed: Vec<Batch>,
    /// Sizes of the last batch, from which the next takes its room: records, keys, key bytes, value bytes.
    last: [usize; 4],
}

impl Open {
    /// Closes the batch if it is full, or if the next record differs from it in whether it has a time.
    #[inline]
    fn make_room(&mut self, timeless: bool) -> bool {
        let batch = &self.batch;
        let full = batch.len() >= BATCH_RECORDS || batch.values.bytes.len() + batch.keys.bytes.len() >= BATCH_BYTES;
        let mixed = batch.timestamps.is_empty() != timeless;
        let close = !batch.is_empty() && (full || mixed);
        if close {
            self.close();
        }
        close
    }

    #[inline]
    fn push(&mut self, value: &[u8], timestamp: Option<&i64>) {
        self.batch.values.push(value);
        if let Some(&timestamp) = timestamp {
            self.batch.timestamps.push(timestamp);
        }
    }

    fn close(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let full = std::mem::take(&mut self.batch);
        self.last = [full.len(), full.keys.len(), full.keys.bytes.len(), full.values.bytes.len()];
        self.closed.push(full);
    }

    /// Gives an empty batch the room that the last one needed.
    fn reserve(&mut self) {
        let [records, keys, key_bytes, value_bytes] = self.last;
        self.batch.values.ends.reserve(records);
        self.batch.values.bytes.reserve(value_bytes);
        self.batch.key_of.reserve(records);
        self.batch.keys.ends.reserve(keys);
        self.batch.keys.bytes.reserve(key_bytes);
        self.batch.hashes.reserve(keys);
    }
}

/// Where a key of the call at hand stands in its target's batch.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The number of the target's batch in which `index` holds; 0: never placed.
    batch: u64,
    index: u32,
    target: u16,
}

/// What is known of a key before its turn.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    hash: u64,
    target: u16,
    glimpse: Glimpse,
}

#[derive(Debug)]
struct Keyed {
    spread: Spread,
    /// The owner of each key group.
    owners: Vec<u16>,
    targets: Vec<Target>,
    known: Vec<Known>,
}

/// A subtask's batch with the dictionary of its keys.
#[derive(Debug, Default)]
struct Target {
    open: Open,
    dictionary: Dictionary,
    /// Counts its batches, from 1 on.
    number: u64,
}

impl Keyed {
    fn new(spread: Spread) -> Self {
        let owners = (0..spread.max_parallelism).map(|group| subtask_of(group, spread.max_parallelism, spread.parallelism)).collect();
        let targets = (0..spread.parallelism).map(|_| Target { number: 1, ..Target::default() }).collect();
        Keyed { spread, owners, targets, known: Vec::new() }
    }

    #[inline]
    fn owner(&self, hash: u64) -> u16 {
        if self.spread.parallelism == 1 { 0 } else { self.owners[key_group(hash, self.spread.max_parallelism) as usize] }
    }

    #[inline]
    fn look(&self, key: &[u8]) -> Ahead {
        let hash = hash_key(key);
        let target = self.owner(hash);
        Ahead { hash, target, glimpse: self.targets[target as usize].dictionary.glimpse(hash) }
    }

    #[inline]
    fn push(&mut self, key: &[u8], ahead: &Ahead, value: &[u8], timestamp: Option<&i64>) {
        let target = &mut self.targets[ahead.target as usize];
        target.make_room(timestamp.is_none());
        let index = target.place(key, ahead.hash, ahead.glimpse);
        target.push(index, value, timestamp);
    }

    #[inline]
    fn push_known(&mut self, call: &Batch, key: usize, value: &[u8], timestamp: Option<&i64>) {
        let known = self.known[key];
        if known.batch == 0 {
            self.known[key].target = self.owner(call.hashes[key]);
        }
        let known = &mut self.known[key];
        let target = &mut self.targets[known.target as usize];
        target.make_room(timestamp.is_none());
        if known.batch != target.number {
            known.index = target.place(call.keys.get(key), call.hashes[key], Glimpse::default());
            known.batch = target.number;
        }
        target.push(known.index, value, timestamp);
    }
}

impl Target {
    #[inline]
    fn make_room(&mut self, timeless: bool) {
        if self.open.make_room(timeless) {
            self.begin_next();
        }
        if self.open.batch.is_empty() {
            self.open.reserve();
        }
    }

    fn close(&mut self) {
        self.open.close();
        self.begin_next();
    }

    fn begin_next(&mut self) {
        self.dictionary.clear();
        self.number += 1;
    }

    /// The index of a key in the open batch, which gets the key if it is new.
    #[inline]
    fn place(&mut self, key: &[u8], hash: u64, glimpse: Glimpse) -> u32 {
        let batch = &mut self.open.batch;
        let (keys, hashes) = (&mut batch.keys, &mut batch.hashes);
        self.dictionary.find_or_insert(hash, glimpse, hashes.len(), |index| hashes[index] == hash && keys.get(index) == key).unwrap_or_else(
            |new| {
                keys.push(key);
                hashes.push(hash);
                new
            },
        )
    }

    #[inline]
    fn push(&mut self, key: u32, value: &[u8], timestamp: Option<&i64>) {
        self.open.batch.key_of.push(key);
        self.open.push(value, timestamp);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Record = (Vec<u8>, Vec<u8>, Option<i64>);

    /// The records of batches, in order, with the checks that every batch must pass.
    fn unpack(batches: &[Batch]) -> Vec<Record> {
        let mut records = Vec::new();
        for batch in batches {
            assert_eq!(batch.hashes.len(), batch.keys.len());
            let distinct: std::collections::BTreeSet<_> = batch.keys.iter().collect();
            assert_eq!(distinct.len(), batch.keys.len(), "keys are distinct");
            for index in 0..batch.len() {
                let key = batch.keys.get(batch.key_of[index] as usize);
                assert_eq!(batch.hashes[batch.key_of[index] as usize], hash_key(key));
                records.push((key.to_vec(), batch.values.get(index).to_vec(), batch.timestamps.get(index).copied()));
            }
        }
        records
    }

    proptest! {
        /// Whatever is emitted, in whatever mixture of known and fresh keys, each target gets its records in order, and only those.
        #[test]
        fn each_subtask_gets_its_own_records_in_order(
            calls in proptest::collection::vec((proptest::collection::vec((0u8..40, ".{0,6}"), 0..60), any::<bool>(), any::<bool>()), 1..8),
            parallelism in 1u16..5,
        ) {
            let mut outbox = Outbox::new(Shape { plain: true, keyed: Some(Spread { parallelism, max_parallelism: 128 }) });
            let mut call = Batch::default();
            for key in 0u8..40 {
                let key = vec![key; key as usize % 5 + 1];
                call.hashes.push(hash_key(&key));
                call.keys.push(&key);
            }
            let mut all: Vec<Record> = Vec::new();
            for (records, known, timed) in &calls {
                let key_of: Vec<u32> = records.iter().map(|(key, _)| u32::from(*key)).collect();
                let keys: super::super::Column = key_of.iter().map(|&key| call.keys.get(key as usize)).collect();
                let values: super::super::Column = records.iter().map(|(_, value)| value.as_bytes()).collect();
                let times: Vec<i64> = if *timed { (0..records.len() as i64).collect() } else { Vec::new() };
                match known {
                    true => outbox.emit_known(&call, &key_of, &values.ends, &values.bytes, &times),
                    false => outbox.emit_fresh(&keys.ends, &keys.bytes, &values.ends, &values.bytes, &times),
                }
                all.extend((0..records.len()).map(|i| (keys.get(i).to_vec(), values.get(i).to_vec(), times.get(i).copied())));
            }
            let (mut plain, mut targets) = (Vec::new(), vec![Vec::new(); parallelism as usize]);
            let emitted = outbox.drain(|target, batch| match target {
                None => plain.push(batch),
                Some(target) => targets[target as usize].push(batch),
            });
            prop_assert_eq!(emitted, all.len() as u64);
            prop_assert_eq!(plain.iter().map(Batch::len).sum::<usize>(), all.len());
            for (target, batches) in targets.iter().enumerate() {
                let own = |record: &&Record| usize::from(subtask_of(key_group(hash_key(&record.0), 128), 128, parallelism)) == target;
                prop_assert_eq!(unpack(batches), all.iter().filter(own).cloned().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_flood_is_cut_into_batches_of_bounded_size() {
        let mut outbox = Outbox::new(Shape { plain: true, keyed: Some(Spread { parallelism: 2, max_parallelism: 128 }) });
        let values: super::super::Column = std::iter::repeat_n(&[7u8; 100][..], 50_000).collect();
        let keys: super::super::Column = std::iter::repeat_n(&b"k"[..], 50_000).collect();
        outbox.emit_fresh(&keys.ends, &keys.bytes, &values.ends, &values.bytes, &[]);
        let mut records = 0;
        outbox.drain(|_, batch| {
            records += batch.len();
            assert!(batch.len() <= BATCH_RECORDS && batch.values.bytes.len() <= BATCH_BYTES + 100);
        });
        assert_eq!(records, 100_000);
    }
}
