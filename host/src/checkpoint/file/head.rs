//! [`Head`]: what a state file says about itself, and in which form.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::FileError;
use super::content::Content;
use crate::checkpoint::manifest::Epochs;
use crate::codec::{self, FRAME_HEADER, Frame};
use crate::plan::{More, Schema, StateDescriptor, StateKind};
use crate::record::KeyGroups;

/// What a file begins with: by its version, the form of the file as a whole. It holds nothing.
const START: Frame = Frame { what: "state file", tag: 1, version: 2, limit: LARGEST };
/// In the first form the head stands here.
const FIRST: Frame = Frame { version: 1, ..START };
/// The frame of a head, behind the blocks.
const HEAD: Frame = Frame { what: "head of a state file", tag: 6, version: 1, limit: LARGEST };
/// The last frame: how many bytes the head's has (u64, little-endian).
const END: Frame = Frame { what: "end of a state file", tag: 7, version: 1, limit: 8 };
/// Its size.
const END_BYTES: u64 = FRAME_HEADER as u64 + END.limit;
/// 256 MiB are the index of some 2 TiB of state.
const LARGEST: u64 = 256 << 20;

/// What a state file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The operator whose state it is.
    pub operator: String,
    /// The key groups that it covers.
    pub groups: KeyGroups,
    /// The epochs whose changes it holds.
    pub epochs: Epochs,
    /// Whether nothing lies below it: it holds all state of its key groups.
    pub base: bool,
    /// The operator's states by name. Changes name them by their place here.
    pub states: Vec<StateDescriptor>,
    /// For each state, how many changes there are.
    pub counts: Vec<u64>,
    pub(super) blocks: Vec<BlockPlace>,
}

/// Where a block lies: right after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BlockPlace {
    /// The key group of its first change.
    pub first: u16,
    /// The key group of its last change.
    pub last: u16,
    /// How many changes it holds.
    pub entries: u32,
    /// Bytes of its frame.
    pub bytes: u32,
}

/// The head as it is encoded. Apart from [`Head`], so that a change of the types of other modules can't change the format.
#[derive(Serialize, Deserialize)]
struct Wire {
    operator: String,
    groups: (u16, u16),
    epochs: (u64, u64),
    base: bool,
    states: Vec<WireState>,
    blocks: Vec<BlockPlace>,
}

#[derive(Serialize, Deserialize)]
struct WireState {
    name: String,
    kind: String,
    schema: String,
    version: u32,
    /// What more there is to say, by name: a later version may say more, and an earlier one refuses what it doesn't know.
    more: More,
    count: u64,
}

impl Head {
    /// How many changes the file holds.
    pub fn entries(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many blocks the file has.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Appends to `out` what stands before the blocks.
    pub(super) fn begin(out: &mut Vec<u8>) -> Result<(), FileError> {
        Ok(START.write(&[], out)?)
    }

    /// Appends to `out` what stands behind the blocks.
    pub(super) fn end(&self, out: &mut Vec<u8>) -> Result<(), FileError> {
        let states = self.states.iter().zip(&self.counts).map(|(state, &count)| WireState {
            name: state.name.clone(),
            kind: state.kind.name().into(),
            schema: state.schema.0.clone(),
            version: state.version,
            more: state.more(),
            count,
        });
        let wire = Wire {
            operator: self.operator.clone(),
            groups: (self.groups.start, self.groups.end),
            epochs: (self.epochs.first, self.epochs.last),
            base: self.base,
            states: states.collect(),
            blocks: self.blocks.clone(),
        };
        let start = out.len();
        HEAD.encode(&wire, out)?;
        let bytes = (out.len() - start) as u64;
        Ok(END.write(&bytes.to_le_bytes(), out)?)
    }

    /// The head of a file, and where its blocks begin.
    pub(super) fn read(content: &dyn Content) -> Result<(Head, u64), FileError> {
        // The end comes first: whoever fetches what is read, and what follows it, has the first blocks then.
        let start = FRAME_HEADER as u64;
        let last = behind(content, start).and_then(|(at, bytes)| Ok((at, content.read(at, bytes)?)));
        let first = first(content)?;
        if codec::version(&first) == Some(FIRST.version) {
            let (wire, _): (Wire, _) = FIRST.decode(&first)?;
            let start = first.len() as u64;
            return Ok((Head::of(wire, content.bytes() - start)?, start));
        }
        START.read(&first)?;
        let (at, head) = last?;
        let (wire, rest): (Wire, _) = HEAD.decode(&head)?;
        if !rest.is_empty() {
            return Err(cut(&"something follows its head"));
        }
        Ok((Head::of(wire, at - start)?, start))
    }

    /// The head of a file of which the blocks are `body` bytes.
    fn of(wire: Wire, body: u64) -> Result<Head, FileError> {
        let mut states = Vec::with_capacity(wire.states.len());
        let mut counts = Vec::with_capacity(wire.states.len());
        for state in wire.states {
            counts.push(state.count);
            states.push(state.descriptor()?);
        }
        let head = Head {
            operator: wire.operator,
            groups: KeyGroups { start: wire.groups.0, end: wire.groups.1 },
            epochs: Epochs { first: wire.epochs.0, last: wire.epochs.1 },
            base: wire.base,
            states,
            counts,
            blocks: wire.blocks,
        };
        head.check(body)?;
        Ok(head)
    }

    /// Checks what must hold between the parts of a head, and that the blocks are `body` bytes.
    pub(super) fn check(&self, body: u64) -> Result<(), FileError> {
        if self.groups.start >= self.groups.end || self.epochs.first > self.epochs.last {
            return Err(FileError::inconsistent("its key groups or epochs are no range"));
        }
        if !self.states.is_sorted_by(|a, b| a.name < b.name) || self.states.len() > usize::from(u16::MAX) {
            return Err(FileError::inconsistent("its states don't stand by name"));
        }
        let mut at = self.groups.start;
        let (mut bytes, mut entries) = (0u64, 0u64);
        for block in &self.blocks {
            if block.first < at || block.last < block.first || block.last >= self.groups.end || block.entries == 0 {
                return Err(FileError::inconsistent("its blocks are out of order"));
            }
            at = block.last;
            // 2^32 blocks of 2^32 bytes at most.
            bytes = bytes.saturating_add(block.bytes.into());
            entries = entries.saturating_add(block.entries.into());
        }
        if self.counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count)) != Some(entries) {
            return Err(FileError::inconsistent("its counts differ"));
        }
        match bytes.cmp(&body) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => Err(FileError::Inconsistent(format!("{} bytes follow that don't belong to it", body - bytes))),
            std::cmp::Ordering::Greater => Err(FileError::Inconsistent(format!("it is truncated by {} bytes", bytes - body))),
        }
    }
}

/// The first frame of a file, as far as there is one.
fn first(content: &dyn Content) -> Result<Bytes, FileError> {
    let start = content.read(0, FRAME_HEADER as u64)?;
    // What is shorter, or no frame, is told by decoding it.
    let size = if codec::begins_like_a_frame(&start) { start.first_chunk().map(|header| START.size(header)).transpose() } else { Ok(None) };
    Ok(content.read(0, size.unwrap_or_default().unwrap_or(FRAME_HEADER as u64))?)
}

/// Where the head's frame lies, by what the end of a file says, and how many bytes it has. Before it come `start` bytes and the blocks.
fn behind(content: &dyn Content, start: u64) -> Result<(u64, u64), FileError> {
    let end = content.bytes().saturating_sub(END_BYTES).max(start);
    let tail = content.read(end, END_BYTES)?;
    let (bytes, _) = END.read(&tail).map_err(|error| cut(&error))?;
    let bytes = bytes.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
    match end.checked_sub(bytes).filter(|at| *at >= start && bytes <= LARGEST + FRAME_HEADER as u64) {
        Some(at) => Ok((at, bytes)),
        None => Err(cut(&"its head has more bytes than there are")),
    }
}

/// What is wrong with a file that does not end as it should.
fn cut(reason: &dyn fmt::Display) -> FileError {
    FileError::Inconsistent(format!("it is truncated, damaged where it ends, or something follows that doesn't belong to it: {reason}"))
}

impl WireState {
    fn descriptor(self) -> Result<StateDescriptor, FileError> {
        let WireState { name, kind, schema, version, more, .. } = self;
        let Some(kind) = StateKind::named(&kind) else {
            return Err(FileError::Inconsistent(format!("state `{name}` is of the unknown kind `{kind}`")));
        };
        let state = StateDescriptor::new(name.as_str(), kind, Schema(schema), version).with_more(&more);
        state.map_err(|cause| FileError::Inconsistent(format!("state `{name}`: {cause}")))
    }
}
