//! Merging state files into one: what newer ones say wins over, or comes after, what older ones say.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::FileError;
use super::block::{Block, order};
use super::output::Take;
use super::read::{Blocks, StateReader};
use super::write::{Writer, Written};
use crate::error::{Error, Kind, Result};
use crate::plan::StateDescriptor;
use crate::record::KeyGroups;
use crate::state::{Change, ChangeKind, without_expired};

/// Merges what `files` (from the oldest to the newest, at least one, all of the same operator) say about `groups`. With `base`, nothing
/// lies below the oldest: then deletes are forgotten, appends are values, what has expired at the time `now` (milliseconds since the
/// Unix epoch) is left out, and the result is a base. How long values live the operator's states in `kept` say, of states that are not
/// among them the newest file. It is packed as the newest file is.
///
/// # Errors
/// [`Kind::Checkpoint`] if a file is damaged, or if they don't belong together.
pub fn merge(
    files: &[StateReader],
    groups: KeyGroups,
    base: bool,
    kept: &[StateDescriptor],
    now: i64,
    take: &mut Take<'_>,
) -> Result<Written> {
    let (Some(first), Some(newest)) = (files.first(), files.last()) else {
        return Err(Error::new(Kind::Internal, "no state files to merge"));
    };
    if let Some(other) = files.iter().find(|file| file.head().operator != first.head().operator) {
        let (one, two) = (&first.head().operator, &other.head().operator);
        return Err(refused(other, &FileError::Refused(format!("it belongs to operator `{two}`, not `{one}`"))));
    }
    let states = unite(files)?;
    let ttl = |state: &StateDescriptor| kept.iter().find(|kept| kept.name == state.name).map_or(state.ttl, |kept| kept.ttl);
    let mortal: Vec<_> = states.iter().map(|state| ttl(state).filter(|_| base).map(|ttl| (state.kind, ttl))).collect();
    let epochs = files.iter().skip(1).fold(first.head().epochs, |all, file| all.union(file.head().epochs));
    let operator = &first.head().operator;
    let writer = Writer::new(operator, states, groups, epochs, base, take).map_err(|error| refused(first, &error))?;
    let mut writer = writer.packed(newest.compression());
    let number = |state: &StateDescriptor| writer.number(&state.name);
    let numbers = files.iter().map(|file| file.head().states.iter().map(number).collect()).collect();
    let mut room = Vec::new();
    Sources::new(files, groups, numbers)?.each(base, |change| {
        let left = match mortal[usize::from(change.state)] {
            Some((kind, ttl)) => without_expired(kind, change.value, ttl, now, &mut room).map(|value| Change { value, ..change }),
            None => Some(change),
        };
        left.map_or(Ok(()), |change| writer.push(change).map_err(|error| refused(first, &error)))
    })?;
    writer.finish().map_err(|error| refused(first, &error))
}

/// Shows what `files` (from the oldest to the newest) come to for `groups`: each entry that there is once, in order, with states numbered
/// by their place in `states`, which stand by name.
///
/// # Errors
/// What `visit` says; [`Kind::Checkpoint`] if a file is damaged, or holds changes of a state that is not among `states`, or is not kept as
/// it is there.
pub fn each_entry(
    files: &[StateReader],
    groups: KeyGroups,
    states: &[StateDescriptor],
    visit: impl FnMut(Change<'_>) -> Result<()>,
) -> Result<()> {
    let numbers = files.iter().map(|file| file.numbers_in(states)).collect::<Result<_>>()?;
    Sources::new(files, groups, numbers)?.each(true, visit)
}

/// What several changes of one entry, from the oldest to the newest, come to. None: nothing is left to say.
fn combine<'v>(entry: impl Iterator<Item = Change<'v>>, base: bool, value: &'v mut Vec<u8>) -> Option<Change<'v>> {
    let mut entry = entry.peekable();
    let mut result = entry.next()?;
    // Most entries occur once, and need no copy.
    if entry.peek().is_some() {
        value.clear();
        value.extend_from_slice(result.value);
        for change in entry {
            result.kind = match (result.kind, change.kind) {
                (_, ChangeKind::Put | ChangeKind::Delete) => {
                    value.clear();
                    change.kind
                }
                // What is appended to nothing is all that there is.
                (ChangeKind::Put | ChangeKind::Delete, ChangeKind::Append) => ChangeKind::Put,
                (ChangeKind::Append, ChangeKind::Append) => ChangeKind::Append,
            };
            value.extend_from_slice(change.value);
        }
        result.value = value;
    }
    match result.kind {
        ChangeKind::Delete if base => None,
        ChangeKind::Append if base => Some(Change { kind: ChangeKind::Put, ..result }),
        _ => Some(result),
    }
}

/// All states of all files by name.
fn unite(files: &[StateReader]) -> Result<Vec<StateDescriptor>> {
    let mut all: Vec<StateDescriptor> = Vec::new();
    for file in files {
        for state in &file.head().states {
            match all.binary_search_by(|other| other.name.cmp(&state.name)) {
                Err(place) => all.insert(place, state.clone()),
                // How long values live may change; the newest word on it counts.
                Ok(place) if all[place].is_kept_as(state) => all[place].ttl = state.ttl,
                // Bytes of two schemas in one state would be read by either as its own.
                Ok(_) => {
                    let reason = format!(
                        "state `{}` differs from that of an older file in kind, schema or version, or in whether it has a time to live",
                        state.name
                    );
                    return Err(refused(file, &FileError::Refused(reason)));
                }
            }
        }
    }
    Ok(all)
}

fn refused(file: &StateReader, error: &FileError) -> Error {
    Error::new(Kind::Checkpoint, format!("{}: can't be merged: {error}", file.path()))
}

/// The place of a file's next change.
struct Item {
    block: Rc<Block>,
    index: usize,
    /// The file: the larger, the newer.
    file: usize,
    /// The state's number in the merged file.
    state: u16,
}

impl Item {
    fn change(&self) -> Change<'_> {
        Change { state: self.state, ..self.block.get(self.index) }
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        order(self.change()).cmp(&order(other.change())).then(self.file.cmp(&other.file))
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Item {}

/// The files being merged, each at its next change.
struct Sources<'r> {
    blocks: Vec<Blocks<'r>>,
    /// For each file and each of its states, the state's number in the merged file. Numbers keep the order, since both are by name.
    numbers: Vec<Vec<u16>>,
    groups: KeyGroups,
    heap: BinaryHeap<Reverse<Item>>,
}

impl<'r> Sources<'r> {
    fn new(files: &'r [StateReader], groups: KeyGroups, numbers: Vec<Vec<u16>>) -> Result<Self> {
        let blocks = files.iter().map(|file| Blocks::new(file, groups));
        let mut sources = Sources { blocks: blocks.collect(), numbers, groups, heap: BinaryHeap::new() };
        (0..files.len()).try_for_each(|file| sources.enter_block(file))?;
        Ok(sources)
    }

    /// Shows what is left to say of each entry, in order; with `base`, nothing lies below.
    fn each(mut self, base: bool, mut visit: impl FnMut(Change<'_>) -> Result<()>) -> Result<()> {
        let (mut same, mut value) = (Vec::new(), Vec::new());
        while self.take_entry(&mut same) {
            if let Some(change) = combine(same.iter().map(Item::change), base, &mut value) {
                visit(change)?;
            }
            same.drain(..).try_for_each(|item| self.advance(item))?;
        }
        Ok(())
    }

    /// Takes the changes of the next entry, from the oldest to the newest, into `same`; false at the end.
    fn take_entry(&mut self, same: &mut Vec<Item>) -> bool {
        let Some(Reverse(first)) = self.heap.pop() else { return false };
        same.push(first);
        while let Some(Reverse(next)) = self.heap.peek()
            && order(next.change()) == order(same[0].change())
        {
            same.extend(self.heap.pop().map(|Reverse(item)| item));
        }
        true
    }

    /// Puts the change after `item` in line.
    fn advance(&mut self, item: Item) -> Result<()> {
        let Item { block, index, file, .. } = item;
        if self.enter(block, index + 1, file) { Ok(()) } else { self.enter_block(file) }
    }

    /// Puts the first change of the file's next blocks in line.
    fn enter_block(&mut self, file: usize) -> Result<()> {
        while let Some(block) = self.blocks[file].next().transpose()? {
            if self.enter(block, 0, file) {
                break;
            }
        }
        Ok(())
    }

    /// Puts the first change in `groups` from `index` on in line; false if the block has none.
    fn enter(&mut self, block: Rc<Block>, index: usize, file: usize) -> bool {
        let Some(index) = (index..block.len()).find(|&index| self.groups.contains(block.get(index).group)) else { return false };
        let state = self.numbers[file][usize::from(block.get(index).state)];
        self.heap.push(Reverse(Item { block, index, file, state }));
        true
    }
}
