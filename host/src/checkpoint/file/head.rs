//! [`Head`]: what stands at the beginning of a state file, and in which form.

use serde::{Deserialize, Serialize};

use super::FileError;
use super::content::Content;
use crate::checkpoint::manifest::Epochs;
use crate::codec::{self, FRAME_HEADER, Frame};
use crate::plan::{More, Schema, StateDescriptor, StateKind};
use crate::record::KeyGroups;

/// The frame of a head. 256 MiB are the index of some 2 TiB of state.
const HEAD: Frame = Frame { what: "state file", tag: 1, version: 1, limit: 256 << 20 };

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

    /// Appends the head's frame to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), FileError> {
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
        Ok(HEAD.encode(&wire, out)?)
    }

    /// The head of a file, and where its blocks begin.
    pub(super) fn read(content: &Content) -> Result<(Head, u64), FileError> {
        let start = content.read(0, FRAME_HEADER as u64)?;
        // What is shorter, or no frame, is told by decoding it.
        let size =
            if codec::begins_like_a_frame(&start) { start.first_chunk().map(|header| HEAD.size(header)).transpose() } else { Ok(None) };
        let bytes = content.read(0, size.unwrap_or_default().unwrap_or(FRAME_HEADER as u64))?;
        let (wire, _): (Wire, _) = HEAD.decode(&bytes)?;
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
        head.check(content.bytes() - bytes.len() as u64)?;
        Ok((head, bytes.len() as u64))
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
