//! Writing a state file: from the packed, unsorted changes that a worker hands over.

use super::FileError;
use super::block::BlockBuilder;
use super::head::Head;
use super::output::{Output, Take};
use crate::checkpoint::manifest::{Epochs, StateFile};
use crate::error::{Error, Kind, Result};
use crate::plan::{Compression, StateDescriptor};
use crate::record::KeyGroups;
use crate::state::{Change, Changes};

/// What a state file is about.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts<'a> {
    /// The operator whose state it is.
    pub operator: &'a str,
    /// The operator's states, in the order by which changes number them.
    pub states: &'a [StateDescriptor],
    /// The key groups that it covers.
    pub groups: KeyGroups,
    /// The epochs whose changes it holds.
    pub epochs: Epochs,
    /// How it is packed.
    pub compression: Compression,
}

/// A state file all of whose pieces were taken.
#[derive(Clone, Debug)]
pub struct Written {
    /// How many bytes it has.
    pub bytes: u64,
    /// The key groups that it covers.
    pub groups: KeyGroups,
    /// The epochs whose changes it holds.
    pub epochs: Epochs,
    /// How many changes it holds.
    pub entries: u64,
    /// The crc32c of its content.
    pub checksum: u32,
    /// Whether nothing lies below it.
    pub base: bool,
}

impl Written {
    /// What a manifest says about it when it lies at `path`, relative to the run's directory.
    pub fn at(&self, path: String) -> StateFile {
        let Written { bytes, groups, epochs, entries, base, checksum } = *self;
        let checksum = format!("{checksum:08x}");
        StateFile { path, groups, epochs, entries, bytes, checksum, base, inline: None }
    }
}

/// Changes of one snapshot by key group, of which a state file can be written, and written again.
#[derive(Debug)]
pub struct Grouped {
    operator: String,
    /// The operator's states by name, by whose places changes number them.
    states: Vec<StateDescriptor>,
    groups: KeyGroups,
    epochs: Epochs,
    compression: Compression,
    /// Of each key group its changes, in no order.
    changes: Vec<Changes>,
}

impl Grouped {
    /// All `changes` together: one or several parts of the same snapshot, each entry at most once over all of them.
    ///
    /// # Errors
    /// [`Kind::Internal`] if an entry lies outside of the key groups or states.
    pub fn new(facts: FileFacts<'_>, changes: Vec<Changes>) -> Result<Self> {
        let FileFacts { operator, groups, epochs, compression, .. } = facts;
        let (states, places) = by_name(facts.states);
        let changes = by_group(groups, &places, changes).map_err(|error| unwritten(operator, epochs, &error))?;
        Ok(Grouped { operator: operator.into(), states, groups, epochs, compression, changes })
    }

    /// Writes them as a state file: each time the very same.
    ///
    /// # Errors
    /// [`Kind::Internal`] if an entry occurs twice; [`Kind::Checkpoint`] if one is too large for a state file.
    pub fn write(&self, take: &mut Take<'_>) -> Result<Written> {
        self.sorted(take).map_err(|error| unwritten(&self.operator, self.epochs, &error))
    }

    fn sorted(&self, take: &mut Take<'_>) -> Result<Written, FileError> {
        let mut writer = Writer::new(&self.operator, self.states.clone(), self.groups, self.epochs, false, take)?.packed(self.compression);
        let mut ranks = Vec::new();
        for group in &self.changes {
            rank(group, &mut ranks);
            ranks.iter().try_for_each(|&rank| writer.push(group.get(number(rank))))?;
        }
        writer.finish()
    }
}

fn unwritten(operator: &str, epochs: Epochs, error: &FileError) -> Error {
    let kind = if matches!(error, FileError::Refused(_)) { Kind::Checkpoint } else { Kind::Internal };
    Error::new(kind, format!("operator `{operator}`: its state of epoch {} can't be written: {error}", epochs.last))
}

/// The changes of each key group, with their states by their `places`. A group is small enough for a processor's cache, where sorting
/// and packing it then happen; all changes at once are not, and would be waited for one by one.
fn by_group(groups: KeyGroups, places: &[u16], changes: Vec<Changes>) -> Result<Vec<Changes>, FileError> {
    let mut sizes = vec![(0, 0); usize::from(groups.end - groups.start)];
    for (group, bytes) in changes.iter().flat_map(Changes::sizes) {
        if !groups.contains(group) {
            let KeyGroups { start, end } = groups;
            return Err(FileError::Inconsistent(format!("a change lies in key group {group}, outside of {start} to {end}")));
        }
        let (changes, total) = &mut sizes[usize::from(group - groups.start)];
        (*changes, *total) = (*changes + 1, *total + bytes);
    }
    let mut by_group: Vec<Changes> = sizes.into_iter().map(|(changes, bytes)| Changes::with_capacity(changes, bytes)).collect();
    // Each part is freed when it is spread.
    for part in changes {
        for mut change in part.iter() {
            let Some(&state) = places.get(usize::from(change.state)) else {
                return Err(FileError::Inconsistent(format!("a change is of state {}, and there are {}", change.state, places.len())));
            };
            change.state = state;
            by_group[usize::from(change.group - groups.start)].push(change);
        }
    }
    Ok(by_group)
}

/// The order of the changes of one key group, as ranks: state, the first eight bytes of the key and the change's number in one integer,
/// so that sorting moves little and seldom looks at keys.
fn rank(changes: &Changes, ranks: &mut Vec<u128>) {
    let rank = |(number, change): (usize, Change<'_>)| {
        // A snapshot has far fewer entries than a u32 counts: each takes more than a byte of memory.
        u128::from(change.state) << 96 | u128::from(prefix(change.key)) << 32 | u128::from(number as u32)
    };
    ranks.clear();
    ranks.extend(changes.iter().enumerate().map(rank));
    ranks.sort_unstable();
    // Where the first eight bytes are equal, the whole keys decide.
    for run in ranks.chunk_by_mut(|a, b| a >> 32 == b >> 32).filter(|run| run.len() > 1) {
        run.sort_unstable_by_key(|&rank| changes.get(number(rank)).key);
    }
}

/// The change's number in a rank.
fn number(rank: u128) -> usize {
    rank as u32 as usize
}

/// The first eight bytes of a key as a number that sorts as they do.
fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

/// The states by name, and for each of `states` its place among them.
fn by_name(states: &[StateDescriptor]) -> (Vec<StateDescriptor>, Vec<u16>) {
    let mut order: Vec<usize> = (0..states.len()).collect();
    order.sort_by(|&a, &b| states[a].name.cmp(&states[b].name));
    let mut places = vec![0; states.len()];
    for (place, &state) in order.iter().enumerate() {
        // Descriptors hold far fewer states than a u16 counts; reading checks it.
        places[state] = place as u16;
    }
    (order.into_iter().map(|state| states[state].clone()).collect(), places)
}

/// Takes changes in order and packs them into blocks.
pub(super) struct Writer<'t> {
    head: Head,
    block: BlockBuilder,
    output: Output<'t>,
    /// Where the blocks begin.
    blocks: u64,
    /// Key group and state of the last change; none before the first.
    last: Option<(u16, u16)>,
    last_key: Vec<u8>,
}

impl<'t> Writer<'t> {
    /// A writer for an operator with `states`, which stand by name.
    pub fn new(
        operator: &str,
        states: Vec<StateDescriptor>,
        groups: KeyGroups,
        epochs: Epochs,
        base: bool,
        take: &'t mut Take<'t>,
    ) -> Result<Self, FileError> {
        let counts = vec![0; states.len()];
        let head = Head { operator: operator.into(), groups, epochs, base, states, counts, blocks: Vec::new() };
        let mut output = Output::new(take);
        output.append(Head::begin)?;
        let blocks = output.bytes();
        Ok(Writer { head, block: BlockBuilder::default(), output, blocks, last: None, last_key: Vec::new() })
    }

    /// Has what is written from now on be packed so.
    pub fn packed(self, compression: Compression) -> Self {
        Writer { block: BlockBuilder::new(compression), ..self }
    }

    /// The number of the state with this name, which must exist.
    pub fn number(&self, name: &str) -> u16 {
        // Fewer than 2^16: decoding a head has checked it, and all files of an operator name much the same states.
        self.head.states.partition_point(|state| state.name.as_str() < name) as u16
    }

    /// Adds a change, which must come after the one before it.
    pub fn push(&mut self, change: Change<'_>) -> Result<(), FileError> {
        if !self.head.groups.contains(change.group) {
            let KeyGroups { start, end } = self.head.groups;
            return Err(FileError::Inconsistent(format!("a change lies in key group {}, outside of {start} to {end}", change.group)));
        }
        let place = (change.group, change.state);
        if self.last.is_some_and(|last| (last, self.last_key.as_slice()) >= (place, change.key)) {
            return Err(FileError::inconsistent("an entry occurs twice or out of order"));
        }
        if self.block.is_full_for(change.key.len() + change.value.len()) {
            self.close_block()?;
        }
        self.block.push(change)?;
        self.head.counts[usize::from(change.state)] += 1;
        self.last = Some(place);
        self.last_key.clear();
        self.last_key.extend_from_slice(change.key);
        Ok(())
    }

    /// Hands over the last of the file.
    pub fn finish(mut self) -> Result<Written, FileError> {
        self.close_block()?;
        // Never write what can't be read.
        self.head.check(self.output.bytes() - self.blocks)?;
        self.output.append(|out| self.head.end(out))?;
        let (bytes, checksum) = self.output.finish()?;
        let Head { groups, epochs, base, .. } = self.head;
        Ok(Written { entries: self.head.entries(), bytes, groups, epochs, checksum, base })
    }

    fn close_block(&mut self) -> Result<(), FileError> {
        let place = self.output.append(|out| self.block.finish(out))?;
        self.head.blocks.extend(place);
        Ok(())
    }
}
