//! Reading a state file: some or all of its key groups, block by block, with everything checked.

use std::rc::Rc;
use std::sync::Arc;

use super::FileError;
use super::block::{self, Block, order};
use super::content::Content;
use super::head::Head;
use crate::codec::FRAME_HEADER;
use crate::error::{Error, Kind, Result};
use crate::plan::{Compression, StateDescriptor};
use crate::record::KeyGroups;
use crate::state::Change;

/// An opened state file.
#[derive(Clone, Debug)]
pub struct StateReader {
    path: String,
    head: Head,
    content: Arc<dyn Content>,
    /// Where in it the blocks begin, which stand back to back.
    blocks: u64,
    compression: Compression,
}

impl StateReader {
    /// Opens the state file with this content; `path` is only for errors. Checks the head; blocks are read and checked one by one.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if it is no state file, damaged, truncated, or from the future; [`Kind::Storage`] if it can't be read.
    pub fn open(path: impl Into<String>, content: impl Content + 'static) -> Result<Self> {
        let (path, content): (String, Arc<dyn Content>) = (path.into(), Arc::new(content));
        let open = || {
            let (head, blocks) = Head::read(&*content)?;
            let compression = block::compression(&content.read(blocks, FRAME_HEADER as u64)?);
            Ok((head, blocks, compression))
        };
        let (head, blocks, compression) = open().map_err(|error| broken(&path, &error))?;
        Ok(StateReader { path, head, content, blocks, compression })
    }

    /// The same file for one more reader at the same time.
    #[must_use]
    pub fn beside(&self) -> Self {
        StateReader { content: self.content.beside().unwrap_or_else(|| Arc::clone(&self.content)), ..self.clone() }
    }

    /// What the file says about itself.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The path given when it was opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// How it is packed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The changes in `groups`, in order, with states numbered as in [`Head::states`].
    pub fn changes(&self, groups: KeyGroups) -> ChangeCursor<'_> {
        ChangeCursor { blocks: Blocks::new(self, groups), block: None, next: 0, states: None }
    }

    /// The changes in `groups`, in order, with states numbered by their place in `states`.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if the file holds changes of a state that is not among `states`, or is not kept as it is there.
    pub fn changes_for(&self, groups: KeyGroups, states: &[StateDescriptor]) -> Result<ChangeCursor<'_>> {
        Ok(ChangeCursor { states: Some(self.numbers_in(states)?), ..self.changes(groups) })
    }

    /// For each state of the file its place in `states`, with the errors of [`StateReader::changes_for`].
    pub(super) fn numbers_in(&self, states: &[StateDescriptor]) -> Result<Vec<u16>> {
        let mut numbers = Vec::with_capacity(self.head.states.len());
        for (state, &count) in self.head.states.iter().zip(&self.head.counts) {
            let found = states.iter().position(|other| other.name == state.name && state.is_kept_as(other));
            numbers.push(match found {
                Some(number) => number as u16,
                // Nothing asks for the number of a state without changes.
                None if count == 0 => u16::MAX,
                None => return Err(self.misfit(state, states)),
            });
        }
        Ok(numbers)
    }

    fn misfit(&self, state: &StateDescriptor, states: &[StateDescriptor]) -> Error {
        let (path, operator, name) = (&self.path, &self.head.operator, &state.name);
        let reason = match states.iter().find(|other| other.name == *name) {
            Some(other) => state.difference(other, "there", "now"),
            None => "is no longer declared".into(),
        };
        Error::new(Kind::Checkpoint, format!("{path}: state `{name}` of operator `{operator}` {reason}"))
            .help("declare it as it was, or begin a new run without state with `--fresh`")
    }
}

/// Changes of a state file, one after the other. Not an iterator, because a change borrows from the block at hand.
#[derive(Debug)]
pub struct ChangeCursor<'r> {
    blocks: Blocks<'r>,
    block: Option<Rc<Block>>,
    /// The next change of the block.
    next: usize,
    /// For each state of the file its number for the caller; none: as in the file.
    states: Option<Vec<u16>>,
}

impl ChangeCursor<'_> {
    /// The next change; none at the end.
    ///
    /// # Errors
    /// [`Kind::Checkpoint`] if a block is damaged.
    pub fn next_change(&mut self) -> Result<Option<Change<'_>>> {
        while !self.step() {
            self.next = 0;
            self.block = self.blocks.next().transpose()?;
            if self.block.is_none() {
                return Ok(None);
            }
        }
        let change = self.block.as_ref().map(|block| block.get(self.next - 1));
        Ok(change.map(|change| match &self.states {
            Some(numbers) => Change { state: numbers[usize::from(change.state)], ..change },
            None => change,
        }))
    }

    /// Steps past the next change of the block that lies in the key groups; false if there is none.
    fn step(&mut self) -> bool {
        let Some(block) = &self.block else { return false };
        let groups = self.blocks.groups;
        let found = (self.next..block.len()).find(|&index| groups.contains(block.get(index).group));
        self.next = found.map_or(block.len(), |index| index + 1);
        found.is_some()
    }
}

/// The blocks that hold changes of some key groups. A block may hold others besides.
#[derive(Debug)]
pub(super) struct Blocks<'r> {
    reader: &'r StateReader,
    pub(super) groups: KeyGroups,
    /// The next block.
    next: usize,
    /// Where it lies, from the first one on.
    at: u64,
    /// The block before it, if it was read: the two must be in order.
    before: Option<Rc<Block>>,
}

impl<'r> Blocks<'r> {
    pub fn new(reader: &'r StateReader, groups: KeyGroups) -> Self {
        Blocks { reader, groups, next: 0, at: 0, before: None }
    }

    fn read(&mut self, index: usize, at: u64) -> Result<Rc<Block>, FileError> {
        let head = &self.reader.head;
        let place = head.blocks[index];
        // Opening has checked that the blocks fill the file.
        let frame = self.reader.content.read(self.reader.blocks + at, place.bytes.into())?;
        let block = Block::decode(&frame, place, head.states.len())?;
        if let Some(before) = &self.before
            && order(before.get(before.len() - 1)) >= order(block.get(0))
        {
            return Err(FileError::inconsistent("its blocks are out of order"));
        }
        Ok(Rc::new(block))
    }
}

impl Iterator for Blocks<'_> {
    type Item = Result<Rc<Block>>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(place) = self.reader.head.blocks.get(self.next) {
            let (index, at) = (self.next, self.at);
            self.next += 1;
            self.at += u64::from(place.bytes);
            if place.first >= self.groups.end {
                break;
            }
            if place.last < self.groups.start {
                continue;
            }
            let read = self.read(index, at);
            self.before = read.as_ref().ok().cloned();
            return Some(read.map_err(|error| broken(&self.reader.path, &error)));
        }
        None
    }
}

/// An error about the file at `path`.
fn broken(path: &str, error: &FileError) -> Error {
    let kind = if matches!(error, FileError::Unreadable(_)) { Kind::Storage } else { Kind::Checkpoint };
    Error::new(kind, format!("{path}: {error}"))
}
