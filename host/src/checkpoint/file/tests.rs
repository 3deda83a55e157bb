//! State files against an ordered map, and against every way to damage them.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::checkpoint::manifest::Epochs;
use crate::error::{Kind, Result};
use crate::plan::{Compression, Schema, StateDescriptor, StateKind, Ttl, TtlFrom};
use crate::record::KeyGroups;
use crate::state::{Change, ChangeKind, Changes};

const ALL: KeyGroups = KeyGroups { start: 0, end: 16 };
const NAMES: [&str; 3] = ["b", "a", "c"];

/// A change on its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owned {
    group: u16,
    state: String,
    key: Vec<u8>,
    kind: ChangeKind,
    value: Vec<u8>,
}

type Model = BTreeMap<(u16, String, Vec<u8>), Vec<u8>>;

pub(crate) fn states(names: &[&str]) -> Vec<StateDescriptor> {
    let state = |name: &&str| StateDescriptor::new(*name, StateKind::List, Schema::text(), 1);
    names.iter().map(state).collect()
}

fn owned(group: u16, state: &str, key: &[u8], kind: ChangeKind, value: &[u8]) -> Owned {
    Owned { group, state: state.into(), key: key.into(), kind, value: value.into() }
}

/// Spreads changes over `parts` parts, with states numbered as in `names`.
fn pack(changes: &[Owned], names: &[&str], parts: usize) -> Vec<Changes> {
    let mut packed = vec![Changes::default(); parts];
    for (index, change) in changes.iter().enumerate() {
        let state = names.iter().position(|name| *name == change.state).unwrap() as u16;
        packed[index % parts].push(Change { group: change.group, state, kind: change.kind, key: &change.key, value: &change.value });
    }
    packed
}

/// A state file in memory.
#[derive(Debug)]
pub(crate) struct InMemory {
    pub(crate) written: Written,
    pub(crate) bytes: Bytes,
}

impl InMemory {
    pub(crate) fn of(make: impl FnOnce(&mut Take<'_>) -> Result<Written>) -> Result<InMemory> {
        let mut pieces: Vec<Bytes> = Vec::new();
        let written = make(&mut |piece| {
            assert!(!piece.is_empty() && piece.len() <= PIECE && pieces.last().is_none_or(|last| last.len() == PIECE));
            pieces.push(piece);
            Ok(())
        })?;
        let bytes = Bytes::from(pieces.concat());
        assert_eq!((written.bytes, written.checksum), (bytes.len() as u64, crc32c::crc32c(&bytes)));
        Ok(InMemory { written, bytes })
    }
}

pub(crate) fn write(facts: FileFacts<'_>, changes: Vec<Changes>) -> Result<InMemory> {
    InMemory::of(|take| Grouped::new(facts, changes)?.write(take))
}

pub(crate) fn merge(files: &[StateReader], groups: KeyGroups, base: bool, kept: &[StateDescriptor], now: i64) -> Result<InMemory> {
    InMemory::of(|take| super::merge(files, groups, base, kept, now, take))
}

fn try_file(changes: &[Owned], names: &[&str], epoch: u64) -> Result<InMemory> {
    // Files of both kinds meet in merges.
    let compression = if epoch.is_multiple_of(2) { Compression::None } else { Compression::Lz4 };
    let facts = FileFacts { operator: "count", states: &states(names), groups: ALL, epochs: Epochs::only(epoch), compression };
    write(facts, pack(changes, names, 3))
}

fn file(changes: &[Owned], names: &[&str], epoch: u64) -> StateReader {
    let InMemory { written, bytes } = try_file(changes, names, epoch).unwrap();
    assert_eq!(written.entries, changes.len() as u64);
    StateReader::open(format!("file {epoch}"), bytes).unwrap()
}

fn read(reader: &StateReader, groups: KeyGroups) -> Result<Vec<Owned>> {
    let mut cursor = reader.changes(groups);
    let mut all = Vec::new();
    while let Some(change) = cursor.next_change()? {
        let state = &reader.head().states[usize::from(change.state)].name;
        all.push(owned(change.group, state, change.key, change.kind, change.value));
    }
    Ok(all)
}

fn read_bytes(bytes: Vec<u8>) -> Result<Vec<Owned>> {
    read(&StateReader::open("f.state", Bytes::from(bytes))?, KeyGroups { start: 0, end: u16::MAX })
}

fn sorted(changes: &[Owned]) -> Vec<Owned> {
    let mut sorted = changes.to_vec();
    sorted.sort();
    sorted
}

fn apply(model: &mut Model, changes: &[Owned]) {
    for change in changes {
        let entry = (change.group, change.state.clone(), change.key.clone());
        match change.kind {
            ChangeKind::Put => _ = model.insert(entry, change.value.clone()),
            ChangeKind::Append => model.entry(entry).or_default().extend_from_slice(&change.value),
            ChangeKind::Delete => _ = model.remove(&entry),
        }
    }
}

fn kinds() -> impl Strategy<Value = ChangeKind> {
    prop_oneof![Just(ChangeKind::Put), Just(ChangeKind::Append), Just(ChangeKind::Delete)]
}

/// Changes of one snapshot: each entry at most once, in any order, few keys so that snapshots meet.
fn snapshot() -> impl Strategy<Value = Vec<Owned>> {
    let key = prop_oneof![Just(vec![]), proptest::collection::vec(0u8..3, 1..3), Just(b"longer than eight bytes".to_vec())];
    let entry = (0u16..16, 0usize..3, key);
    let content = (kinds(), proptest::collection::vec(any::<u8>(), 0..4));
    proptest::collection::hash_map(entry, content, 0..40).prop_map(|changes| {
        let mut all = Vec::new();
        for ((group, state, key), (kind, value)) in changes {
            let value = if kind == ChangeKind::Delete { vec![] } else { value };
            all.push(owned(group, NAMES[state], &key, kind, &value));
        }
        all
    })
}

fn ranges() -> impl Strategy<Value = KeyGroups> {
    (0u16..16, 1u16..17).prop_filter_map("no range", |(start, end)| (start < end).then_some(KeyGroups { start, end }))
}

/// Many changes, over several blocks.
fn many() -> Vec<Owned> {
    let change = |index: u32| {
        let value = vec![index as u8; 50 + (index % 7) as usize];
        owned((index % 16) as u16, NAMES[(index % 3) as usize], &index.to_be_bytes(), ChangeKind::Put, &value)
    };
    (0..6000).map(change).collect()
}

/// Few changes, so that every byte can be tried.
fn few() -> Vec<Owned> {
    vec![
        owned(1, "a", b"key", ChangeKind::Put, b"value"),
        owned(1, "a", b"", ChangeKind::Append, b"x"),
        owned(3, "b", b"other", ChangeKind::Delete, b""),
        owned(15, "c", b"last", ChangeKind::Put, b""),
    ]
}

#[test]
fn a_file_says_what_it_is_about() {
    let reader = file(&few(), &NAMES, 7);
    let head = reader.head();
    assert_eq!((head.operator.as_str(), head.groups, head.epochs, head.base), ("count", ALL, Epochs::only(7), false));
    assert_eq!(head.states, states(&["a", "b", "c"]));
    assert_eq!((head.counts.as_slice(), head.entries(), head.blocks()), ([2, 1, 1].as_slice(), 4, 1));
}

#[test]
fn an_empty_file_is_a_file() {
    let reader = file(&[], &[], 1);
    assert_eq!(read(&reader, ALL).unwrap(), []);
    assert_eq!(reader.head().blocks(), 0);
}

#[test]
fn many_blocks_hold_everything_in_order() {
    let reader = file(&many(), &NAMES, 1);
    assert!(reader.head().blocks() > 4);
    assert_eq!(read(&reader, ALL).unwrap(), sorted(&many()));
}

#[test]
fn an_entry_larger_than_a_block_is_kept() {
    let mut changes = few();
    changes.push(owned(2, "a", b"big", ChangeKind::Put, &vec![9; 3 << 20]));
    changes.push(owned(
        2,
        "a",
        b"noise",
        ChangeKind::Append,
        &(0..300_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect::<Vec<_>>(),
    ));
    assert_eq!(read(&file(&changes, &NAMES, 1), ALL).unwrap(), sorted(&changes));
}

#[test]
fn empty_keys_and_values_do_not_fill_a_block_without_end() {
    let changes: Vec<Owned> = (0..40_000u16).map(|group| owned(group, "a", b"", ChangeKind::Delete, b"")).collect();
    let groups = KeyGroups { start: 0, end: 40_000 };
    let facts = FileFacts { operator: "count", states: &states(&["a"]), groups, epochs: Epochs::only(1), compression: Compression::Lz4 };
    let reader = StateReader::open("f", write(facts, pack(&changes, &["a"], 1)).unwrap().bytes).unwrap();
    assert!(reader.head().blocks() > 1);
    assert_eq!(read(&reader, groups).unwrap(), changes);
}

/// The file with its last block damaged.
fn damaged(bytes: &Bytes) -> Bytes {
    let (head, start) = head::Head::read(bytes).unwrap();
    let mut damaged = bytes.to_vec();
    damaged[start as usize + head.blocks.iter().map(|block| block.bytes as usize).sum::<usize>() - 1] ^= 1;
    damaged.into()
}

#[test]
fn only_the_blocks_of_the_key_groups_are_read() {
    let reader = StateReader::open("f", damaged(&try_file(&many(), &NAMES, 1).unwrap().bytes)).unwrap();
    let low = KeyGroups { start: 0, end: 8 };
    let expected: Vec<Owned> = sorted(&many()).into_iter().filter(|change| low.contains(change.group)).collect();
    assert_eq!(read(&reader, low).unwrap(), expected);
    assert_eq!(read(&reader, ALL).unwrap_err().kind(), Kind::Checkpoint);
}

#[test]
fn states_are_numbered_as_the_caller_wishes() {
    let reader = file(&few(), &NAMES, 1);
    let now = states(&["x", "c", "b", "a"]);
    let mut cursor = reader.changes_for(ALL, &now).unwrap();
    let mut found = Vec::new();
    while let Some(change) = cursor.next_change().unwrap() {
        found.push(now[usize::from(change.state)].name.clone());
    }
    assert_eq!(found, ["a", "a", "b", "c"]);
}

#[test]
fn a_state_that_is_gone_or_of_another_kind_is_named() {
    let reader = file(&few(), &NAMES, 1);
    let error = reader.changes_for(ALL, &states(&["a", "c"])).unwrap_err();
    assert_eq!(error.message(), "file 1: state `b` of operator `count` is no longer declared");
    let mut other = states(&NAMES);
    other[0].kind = StateKind::Value;
    let error = reader.changes_for(ALL, &other).unwrap_err();
    assert_eq!(error.message(), "file 1: state `b` of operator `count` is of kind list there and value now");
    let mut mortal = states(&NAMES);
    mortal[0].ttl = Some(Ttl::new(5, TtlFrom::Write));
    let error = reader.changes_for(ALL, &mortal).unwrap_err();
    assert_eq!(error.message(), "file 1: state `b` of operator `count` has no time to live there and a time to live now");
    // Nothing is lost with a state that has no changes.
    assert!(file(&few()[..2], &NAMES, 1).changes_for(ALL, &states(&["a"])).is_ok());
}

#[test]
fn what_breaks_the_rules_is_not_written() {
    let twice = [few(), few()].concat();
    let error = try_file(&twice, &NAMES, 4).unwrap_err();
    assert_eq!((error.kind(), error.message().contains("occurs twice")), (Kind::Internal, true), "{error}");
    assert!(error.message().starts_with("operator `count`: its state of epoch 4 can't be written: "));
    let outside = [owned(16, "a", b"", ChangeKind::Put, b"")];
    assert_eq!(try_file(&outside, &NAMES, 1).unwrap_err().kind(), Kind::Internal);
    let facts = FileFacts { operator: "count", states: &[], groups: ALL, epochs: Epochs::only(1), compression: Compression::Lz4 };
    assert_eq!(write(facts, pack(&few(), &NAMES, 1)).unwrap_err().kind(), Kind::Internal);
    assert_eq!(try_file(&[], &["a", "a"], 1).unwrap_err().kind(), Kind::Internal);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let good = try_file(&few(), &NAMES, 7).unwrap().bytes.to_vec();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let error = read_bytes(bad).expect_err("a flipped bit");
            assert_eq!(error.kind(), Kind::Checkpoint);
            assert!(error.message().starts_with("f.state: ") && !error.message().contains('\n'), "{error}");
        }
    }
}

#[test]
fn every_truncation_and_every_trailing_byte_is_noticed() {
    let good = try_file(&few(), &NAMES, 7).unwrap().bytes.to_vec();
    for length in 0..good.len() {
        let error = read_bytes(good[..length].to_vec()).expect_err("a truncated file");
        assert!(error.message().contains("truncated"), "{error}");
    }
    assert!(read_bytes([&good[..], b"x"].concat()).unwrap_err().message().contains("doesn't belong to it"));
}

#[test]
fn blocks_in_another_order_are_noticed() {
    // All in one key group, so that the head alone can't tell.
    let changes: Vec<Owned> = (0..3000u32).map(|key| owned(1, "a", &key.to_be_bytes(), ChangeKind::Put, &[7; 50])).collect();
    let bytes = try_file(&changes, &["a"], 1).unwrap().bytes;
    let (mut head, start) = head::Head::read(&bytes).unwrap();
    let (first, rest) = bytes[start as usize..].split_at(head.blocks[0].bytes as usize);
    let (second, rest) = rest.split_at(head.blocks[1].bytes as usize);
    let rest = &rest[..head.blocks[2..].iter().map(|block| block.bytes as usize).sum()];
    head.blocks.swap(0, 1);
    let mut swapped = Vec::new();
    head::Head::begin(&mut swapped).unwrap();
    [second, first, rest].iter().for_each(|block| swapped.extend_from_slice(block));
    head.end(&mut swapped).unwrap();
    let error = read_bytes(swapped).unwrap_err();
    assert_eq!(error.message(), "f.state: the state file does not hold together: its blocks are out of order");
}

#[test]
fn foreign_files_and_files_from_the_future_are_named() {
    let error = read_bytes(b"{\"format\": 1}".to_vec()).unwrap_err();
    assert_eq!(error.message(), "f.state: this is no state file: it does not begin with Cofferdam's mark");
    let future = crate::codec::Frame { what: "x", tag: 1, version: 3, limit: 9 };
    let mut bytes = Vec::new();
    future.write(b"unknown", &mut bytes).unwrap();
    let error = read_bytes(bytes).unwrap_err();
    assert_eq!(error.message(), "f.state: state file was written by a newer Cofferdam: format 3, this one reads up to 2");
}

#[test]
fn files_of_every_form_are_still_read() {
    for hex in [include_str!("golden.hex"), include_str!("golden2.hex")] {
        let hex = hex.trim();
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let good: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        assert_eq!(read_bytes(good.clone()).unwrap(), sorted(&few()));
        for at in 0..good.len() {
            assert!(read_bytes(good[..at].to_vec()).unwrap_err().message().contains("truncated"), "{at}");
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(read_bytes(bad).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn what_nobody_takes_is_not_written_on() {
    // Far more than a piece, which does not compress.
    let noise = |seed: u32| (0..3 << 18).flat_map(|i: u32| (i ^ seed).wrapping_mul(2_654_435_761).to_le_bytes()).collect::<Vec<_>>();
    let changes: Vec<Owned> = (0..8).map(|key| owned(1, "a", &[key as u8], ChangeKind::Put, &noise(key << 20))).collect();
    let facts =
        FileFacts { operator: "count", states: &states(&["a"]), groups: ALL, epochs: Epochs::only(1), compression: Compression::Lz4 };
    let grouped = Grouped::new(facts, pack(&changes, &["a"], 1)).unwrap();
    let files = [StateReader::open("f", InMemory::of(|take| grouped.write(take)).unwrap().bytes).unwrap()];
    type Make<'a> = &'a dyn Fn(&mut Take<'_>) -> Result<Written>;
    let makes: [Make<'_>; 2] = [&|take| grouped.write(take), &|take| super::merge(&files, ALL, true, &[], 0, take)];
    for make in makes {
        let mut taken = 0;
        let error = make(&mut |_| {
            taken += 1;
            if taken < 2 { Ok(()) } else { Err(Unwanted) }
        });
        assert!(error.unwrap_err().message().ends_with("nobody waits for it any more"));
        assert_eq!(taken, 2);
    }
    // And what was written in vain is written again.
    assert_eq!(read_bytes(InMemory::of(|take| grouped.write(take)).unwrap().bytes.to_vec()).unwrap(), changes);
}

#[test]
fn files_that_do_not_belong_together_are_not_merged() {
    let one = file(&few(), &NAMES, 1);
    let facts = FileFacts { operator: "other", states: &[], groups: ALL, epochs: Epochs::only(2), compression: Compression::Lz4 };
    let other = StateReader::open("file 2", write(facts, Vec::new()).unwrap().bytes).unwrap();
    let error = merge(&[one.clone(), other], ALL, false, &[], 0).unwrap_err();
    assert_eq!(error.message(), "file 2: can't be merged: it belongs to operator `other`, not `count`");
    let mut newer = states(&["a"]);
    newer[0].version = 2;
    let facts = FileFacts { operator: "count", states: &newer, groups: ALL, epochs: Epochs::only(2), compression: Compression::Lz4 };
    let newer = StateReader::open("file 2", write(facts, Vec::new()).unwrap().bytes).unwrap();
    let error = merge(&[one, newer], ALL, false, &[], 0).unwrap_err();
    assert_eq!(
        error.message(),
        "file 2: can't be merged: state `a` differs from that of an older file in kind, schema or version, or in whether it has a time to live"
    );
    assert_eq!(merge(&[], ALL, false, &[], 0).unwrap_err().kind(), Kind::Internal);
}

#[test]
fn merging_takes_the_last_word_on_each_entry() {
    use ChangeKind::{Append, Delete, Put};
    let old = [("p", Put, "1"), ("d", Delete, ""), ("a", Append, "1")];
    let new = [("p", Put, "2"), ("d", Delete, ""), ("a", Append, "2")];
    let change = |(key, kind, value): (&str, ChangeKind, &str)| owned(1, "a", key.as_bytes(), kind, value.as_bytes());
    let expected = [
        [("", Put, "2"), ("", Delete, ""), ("", Put, "12")],
        [("", Put, "2"), ("", Delete, ""), ("", Put, "2")],
        [("", Put, "2"), ("", Delete, ""), ("", Append, "12")],
    ];
    for (below, expected) in old.iter().zip(expected) {
        for (above, (_, kind, value)) in new.iter().zip(expected) {
            let (below, above) = (("k", below.1, below.2), ("k", above.1, above.2));
            let files = [file(&[change(below)], &["a"], 1), file(&[change(above)], &["a"], 2)];
            let merged = |base| read(&StateReader::open("m", merge(&files, ALL, base, &[], 0).unwrap().bytes).unwrap(), ALL).unwrap();
            assert_eq!(merged(false), [change(("k", kind, value))], "{below:?} {above:?}");
            let in_a_base = match kind {
                Delete => vec![],
                _ => vec![change(("k", Put, value))],
            };
            assert_eq!(merged(true), in_a_base, "{below:?} {above:?}");
        }
    }
}

#[test]
fn a_file_is_read_however_it_is_packed_and_a_merge_follows_the_newest() {
    let [lz4, plain] = [1, 2].map(|epoch| file(&many(), &NAMES, epoch));
    assert_eq!((lz4.compression(), plain.compression()), (Compression::Lz4, Compression::None));
    assert_eq!(read(&lz4, ALL).unwrap(), read(&plain, ALL).unwrap());
    assert!(try_file(&many(), &NAMES, 1).unwrap().bytes.len() * 2 < try_file(&many(), &NAMES, 2).unwrap().bytes.len());
    for files in [[lz4.clone(), plain.clone()], [plain, lz4]] {
        let merged = StateReader::open("m", merge(&files, ALL, true, &[], 0).unwrap().bytes).unwrap();
        assert_eq!(merged.compression(), files[1].compression());
        assert_eq!(read(&merged, ALL).unwrap(), sorted(&many()));
    }
}

#[test]
fn every_flipped_bit_of_a_plain_file_is_noticed_too() {
    let good = try_file(&few(), &NAMES, 2).unwrap().bytes.to_vec();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            assert!(read_bytes(bad).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_damaged_input_of_a_merge_is_named() {
    let bytes = damaged(&try_file(&many(), &NAMES, 1).unwrap().bytes);
    let files = [file(&few(), &NAMES, 2), StateReader::open("damaged.state", bytes).unwrap()];
    let error = merge(&files, ALL, false, &[], 0).unwrap_err();
    assert!(error.message().starts_with("damaged.state: block of a state file is damaged"), "{error}");
}

proptest! {
    #[test]
    fn any_range_of_key_groups_gives_its_changes_in_order(changes in snapshot(), groups in ranges()) {
        let reader = file(&changes, &NAMES, 1);
        let expected: Vec<Owned> = sorted(&changes).into_iter().filter(|change| groups.contains(change.group)).collect();
        prop_assert_eq!(read(&reader, groups).unwrap(), expected);
    }

    /// Whatever part of a list of files is merged, restoring gives the same state as applying them all.
    #[test]
    fn merging_changes_nothing_but_the_number_of_files(
        snapshots in proptest::collection::vec(snapshot(), 1..6),
        from in 0usize..6,
        to in 0usize..6,
        groups in ranges(),
    ) {
        let mut expected = Model::new();
        snapshots.iter().for_each(|changes| apply(&mut expected, changes));
        expected.retain(|(group, ..), _| groups.contains(*group));
        // Each file numbers its states in an order of its own.
        let orders = [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]];
        let files: Vec<StateReader> =
            snapshots.iter().enumerate().map(|(index, changes)| file(changes, &orders[index % 3], index as u64 + 1)).collect();
        let (from, to) = (from.min(files.len() - 1), to.min(files.len() - 1));
        prop_assume!(from <= to);
        let merged = merge(&files[from..=to], groups, from == 0, &[], 0).unwrap();
        prop_assert_eq!(merged.written.epochs, Epochs { first: from as u64 + 1, last: to as u64 + 1 });
        prop_assert_eq!((merged.written.base, merged.written.groups), (from == 0, groups));
        let merged = StateReader::open("merged", merged.bytes).unwrap();
        if from == 0 {
            prop_assert!(read(&merged, groups).unwrap().iter().all(|change| change.kind == ChangeKind::Put));
        }
        let mut found = Model::new();
        for file in files[..from].iter().chain([&merged]).chain(&files[to + 1..]) {
            apply(&mut found, &read(file, groups).unwrap());
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), tag in 1u16..8) {
        prop_assert!(read_bytes(bytes.clone()).is_err());
        // Garbage with a right checksum, as head and as block.
        let mut framed = Vec::new();
        crate::codec::Frame { what: "x", tag, version: 1, limit: 1 << 20 }.write(&bytes, &mut framed).unwrap();
        prop_assert!(read_bytes(framed.clone()).is_err());
        // And as what stands behind the blocks.
        let mut ended = Vec::new();
        head::Head::begin(&mut ended).unwrap();
        ended.extend_from_slice(&framed);
        let size = framed.len() as u64 + u64::from(bytes.first().is_some_and(|first| *first == 0));
        crate::codec::Frame { what: "x", tag: 7, version: 1, limit: 8 }.write(&size.to_le_bytes(), &mut ended).unwrap();
        prop_assert!(read_bytes(ended).is_err());
        let mut packed = (bytes.len() as u32).to_le_bytes().to_vec();
        packed.extend_from_slice(&lz4_flex::block::compress(&bytes));
        let mut framed = Vec::new();
        crate::codec::Frame { what: "x", tag: 2, version: 1, limit: 1 << 20 }.write(&packed, &mut framed).unwrap();
        let mut plain = Vec::new();
        crate::codec::Frame { what: "x", tag: 5, version: 1, limit: 1 << 20 }.write(&bytes, &mut plain).unwrap();
        for (entries, framed) in [0, 1, 2].into_iter().flat_map(|entries| [(entries, &framed), (entries, &plain)]) {
            let place = head::BlockPlace { first: 0, last: 0, entries, bytes: framed.len() as u32 };
            let _ = block::Block::decode(framed, place, 3);
        }
    }
}

fn lists() -> (Vec<StateDescriptor>, crate::state::Lists) {
    let mut states = states(&["keyed", "union", "list"]);
    (states[1].kind, states[2].kind) = (StateKind::OperatorUnionList, StateKind::OperatorList);
    let column = |elements: &[&str]| std::sync::Arc::new(elements.iter().map(|element| element.as_bytes()).collect());
    (states, vec![(1, column(&["a", "", "bc"])), (2, column(&[]))])
}

#[test]
fn operator_state_comes_back_under_the_names_of_its_states() {
    let (states, lists) = lists();
    let facts = OperatorStateFacts { operator: "count", subtask: 3, epoch: 41 };
    let written = write_operator(facts, &states, &lists).unwrap();
    assert!(OperatorStateReader::begins(&written.bytes));
    let reader = OperatorStateReader::open("x", &written.bytes).unwrap();
    assert_eq!((reader.operator.as_str(), reader.subtask, reader.epoch), ("count", 3, 41));
    assert_eq!(reader.lists(&states), lists);
    // In another order, with another beside them, and without one.
    let other: Vec<_> = [2, 0, 1].map(|place: usize| states[place].clone()).into();
    let places = |states: &[StateDescriptor]| reader.lists(states).into_iter().map(|(place, list)| (place, list.len())).collect::<Vec<_>>();
    assert_eq!((places(&other), places(&states[..2])), (vec![(2, 3), (0, 0)], vec![(1, 3)]));
    let named = written.at("x".into());
    assert_eq!((named.elements, named.bytes, named.subtask, named.epoch), (3, written.bytes.len() as u64, Some(3), 41));
}

#[test]
fn damage_to_operator_state_is_noticed_wherever_it_is() {
    let (states, lists) = lists();
    let whole = write_operator(OperatorStateFacts { operator: "count", subtask: 3, epoch: 41 }, &states, &lists).unwrap().bytes;
    for at in 0..whole.len() {
        assert_eq!(OperatorStateReader::open("x", &whole[..at]).unwrap_err().kind(), Kind::Checkpoint, "cut at {at}");
        let mut damaged = whole.to_vec();
        damaged[at] ^= 0x10;
        assert!(OperatorStateReader::open("x", &damaged).is_err(), "flipped at {at}");
    }
    let longer = [&whole[..], b"x"].concat();
    assert!(OperatorStateReader::open("x", &longer).unwrap_err().message().contains("1 bytes follow"));
}
