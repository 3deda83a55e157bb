//! A block of a state file: some changes, column by column, compressed or not, which the tag of its frame tells. What varies little stands
//! together and compresses to almost nothing; keys and values are one byte string.

use serde::{Deserialize, Serialize};

use super::FileError;
use super::head::BlockPlace;
use crate::codec::{self, CodecError, Frame};
use crate::plan::Compression;
use crate::state::{Change, ChangeKind};

/// A block is closed when what it holds reaches this size.
const TARGET: usize = 64 << 10;
/// The largest block, uncompressed: a single entry may be far above the target, for a list is one entry.
const LARGEST: usize = 1 << 30;
/// The largest key and value together, so that a block can always hold one.
const LARGEST_ENTRY: usize = LARGEST - (1 << 20);
/// The frame of a block, compressed. What does not compress grows by less than one percent.
const LZ4: Frame = Frame { what: "block of a state file", tag: 2, version: 1, limit: (LARGEST + LARGEST / 64) as u64 };
/// The frame of a block that is not compressed.
const PLAIN: Frame = Frame { tag: 5, ..LZ4 };
/// What lz4 can reach at most: one byte of input for 255 of output, and a little.
const LARGEST_RATIO: usize = 256;

/// The content of a block, before compression. `bytes` must stay the last field: see [`Block::decode`].
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    runs: Vec<Run>,
    #[serde(borrow, with = "serde_bytes")]
    kinds: &'a [u8],
    key_lens: Vec<u32>,
    value_lens: Vec<u32>,
    #[serde(borrow, with = "serde_bytes")]
    bytes: &'a [u8],
}

/// Changes of the same key group and state.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Run {
    group: u16,
    state: u16,
    entries: u32,
}

/// How the blocks are packed of which `bytes` are the first, or a file's all.
pub(super) fn compression(bytes: &[u8]) -> Compression {
    if PLAIN.begins(bytes) { Compression::None } else { Compression::Lz4 }
}

/// A block being filled.
#[derive(Default)]
pub(super) struct BlockBuilder {
    compression: Compression,
    runs: Vec<Run>,
    kinds: Vec<u8>,
    key_lens: Vec<u32>,
    value_lens: Vec<u32>,
    bytes: Vec<u8>,
    raw: Vec<u8>,
    packed: Vec<u8>,
}

impl BlockBuilder {
    pub fn new(compression: Compression) -> Self {
        BlockBuilder { compression, ..Self::default() }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether it should be closed before a change of `bytes` more is added.
    pub fn is_full_for(&self, bytes: usize) -> bool {
        // Even empty keys and values take some bytes in the other columns.
        !self.is_empty() && self.bytes.len() + bytes + self.kinds.len() * 4 > TARGET
    }

    /// Adds a change; whoever calls keeps the order.
    pub fn push(&mut self, change: Change<'_>) -> Result<(), FileError> {
        let size = change.key.len() + change.value.len();
        if size > LARGEST_ENTRY {
            return Err(FileError::Refused(format!(
                "key and value of an entry are {size} bytes together, and a state file takes up to {LARGEST_ENTRY} per entry"
            )));
        }
        match self.runs.last_mut() {
            Some(run) if (run.group, run.state) == (change.group, change.state) => run.entries += 1,
            _ => self.runs.push(Run { group: change.group, state: change.state, entries: 1 }),
        }
        self.kinds.push(change.kind as u8);
        // Both are below the largest entry.
        self.key_lens.push(change.key.len() as u32);
        self.value_lens.push(change.value.len() as u32);
        self.bytes.extend_from_slice(change.key);
        self.bytes.extend_from_slice(change.value);
        Ok(())
    }

    /// Appends the block's frame to `out`, says where it lies, and empties the builder. Nothing happens to an empty one.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<Option<BlockPlace>, FileError> {
        let (Some(first), Some(last)) = (self.runs.first().copied(), self.runs.last().copied()) else { return Ok(None) };
        let wire = Wire {
            runs: std::mem::take(&mut self.runs),
            kinds: &self.kinds,
            key_lens: std::mem::take(&mut self.key_lens),
            value_lens: std::mem::take(&mut self.value_lens),
            bytes: &self.bytes,
        };
        self.raw.clear();
        codec::encode(LZ4.what, &wire, &mut self.raw)?;
        let start = out.len();
        match self.compression {
            Compression::Lz4 => {
                self.compress()?;
                LZ4.write(&self.packed, out)?;
            }
            Compression::None => PLAIN.write(&self.raw, out)?,
        }
        // A block holds less than 2^30 bytes, so less than that many entries, and its frame is little more.
        let place =
            BlockPlace { first: first.group, last: last.group, entries: self.kinds.len() as u32, bytes: (out.len() - start) as u32 };
        self.kinds.clear();
        self.bytes.clear();
        Ok(Some(place))
    }

    /// Puts the size of `raw` (u32, little-endian) and `raw`, compressed, into `packed`.
    fn compress(&mut self) -> Result<(), FileError> {
        // Below 2^30, since an entry and what a block holds besides are.
        self.packed.clear();
        self.packed.extend_from_slice(&(self.raw.len() as u32).to_le_bytes());
        self.packed.resize(4 + lz4_flex::block::get_maximum_output_size(self.raw.len()), 0);
        let size = lz4_flex::block::compress_into(&self.raw, &mut self.packed[4..]).map_err(|error| malformed(error.to_string()))?;
        self.packed.truncate(4 + size);
        Ok(())
    }
}

/// A block that was read and checked.
#[derive(Debug)]
pub(super) struct Block {
    raw: Vec<u8>,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    group: u16,
    state: u16,
    kind: ChangeKind,
    start: u32,
    key_len: u32,
    value_len: u32,
}

impl Block {
    /// The block in `frame`, which is to be the one at `place`.
    pub fn decode(frame: &[u8], place: BlockPlace, states: usize) -> Result<Block, FileError> {
        let compression = compression(frame);
        let (packed, rest) = if compression == Compression::None { PLAIN.read(frame)? } else { LZ4.read(frame)? };
        if !rest.is_empty() {
            return Err(CodecError::Trailing { what: LZ4.what, bytes: rest.len() as u64 }.into());
        }
        let raw = if compression == Compression::None { packed.to_vec() } else { decompress(packed)? };
        let wire: Wire<'_> = codec::decode(LZ4.what, &raw)?;
        // The last field ends where the whole ends.
        let start = raw.len() - wire.bytes.len();
        let places = places(&wire, start, states)?;
        let block = Block { raw, places };
        block.check(place)?;
        Ok(block)
    }

    /// How many changes it holds.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Change `index`, which must exist.
    pub fn get(&self, index: usize) -> Change<'_> {
        let place = self.places[index];
        let (key, rest) = self.raw[place.start as usize..].split_at(place.key_len as usize);
        Change { group: place.group, state: place.state, kind: place.kind, key, value: &rest[..place.value_len as usize] }
    }

    fn check(&self, place: BlockPlace) -> Result<(), FileError> {
        let ends = (self.places.first().map(|first| first.group), self.places.last().map(|last| last.group));
        if ends != (Some(place.first), Some(place.last)) || self.len() != place.entries as usize {
            return Err(FileError::inconsistent("a block is not the one that the head describes"));
        }
        let ordered = (1..self.len()).all(|index| order(self.get(index - 1)) < order(self.get(index)));
        if ordered { Ok(()) } else { Err(FileError::inconsistent("the changes of a block are out of order")) }
    }
}

/// By what changes stand in order in a state file.
pub(super) fn order(change: Change<'_>) -> (u16, u16, &[u8]) {
    (change.group, change.state, change.key)
}

fn places(wire: &Wire<'_>, start: usize, states: usize) -> Result<Vec<Place>, FileError> {
    let entries = wire.kinds.len();
    let in_runs: u64 = wire.runs.iter().map(|run| u64::from(run.entries)).sum();
    if in_runs != entries as u64 || wire.key_lens.len() != entries || wire.value_lens.len() != entries {
        return Err(malformed("its columns are not equally long"));
    }
    if wire.runs.iter().any(|run| usize::from(run.state) >= states) {
        return Err(malformed("it names a state that the head does not"));
    }
    let mut places = Vec::with_capacity(entries);
    let mut at = start as u64;
    for run in &wire.runs {
        for _ in 0..run.entries {
            let index = places.len();
            let (key_len, value_len) = (wire.key_lens[index], wire.value_lens[index]);
            let Some(kind) = kind_of(wire.kinds[index]) else { return Err(malformed("it holds a change of an unknown kind")) };
            // A place beyond 32 bits fails the check below before anyone uses it.
            places.push(Place { group: run.group, state: run.state, kind, start: at as u32, key_len, value_len });
            at += u64::from(key_len) + u64::from(value_len);
        }
    }
    if at == (start + wire.bytes.len()) as u64 { Ok(places) } else { Err(malformed("its keys and values don't fill it")) }
}

fn decompress(packed: &[u8]) -> Result<Vec<u8>, FileError> {
    let Some((size, packed)) = packed.split_first_chunk::<4>() else { return Err(malformed("it is too short")) };
    let size = u32::from_le_bytes(*size) as usize;
    if size > LARGEST || size / LARGEST_RATIO > packed.len() {
        return Err(malformed("its size is impossible"));
    }
    let mut raw = vec![0; size];
    let found = lz4_flex::block::decompress_into(packed, &mut raw).map_err(|error| malformed(error.to_string()))?;
    if found == size { Ok(raw) } else { Err(malformed("it is smaller than it says")) }
}

fn kind_of(byte: u8) -> Option<ChangeKind> {
    [ChangeKind::Put, ChangeKind::Append, ChangeKind::Delete].into_iter().find(|&kind| kind as u8 == byte)
}

fn malformed(reason: impl Into<String>) -> FileError {
    CodecError::Malformed { what: LZ4.what, reason: reason.into() }.into()
}
