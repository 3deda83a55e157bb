//! [`Cold`]: what a store of entries that are not in memory must be able to do, and under which keys they lie there.

use std::fmt;

use super::field;

/// A sorted store of entries for one subtask, begun empty and forgotten at its end: what must survive is in snapshots. It need not
/// survive anything itself.
pub trait Cold: fmt::Debug + Send {
    /// Puts the value of an entry into `value`; false if there is none.
    ///
    /// # Errors
    /// When the store can't be read.
    fn get(&mut self, place: &[u8], value: &mut Vec<u8>) -> Result<bool, ColdFault>;

    /// Notes an entry to be written by the next [`Cold::commit`], in the place of what was there.
    fn put(&mut self, place: &[u8], value: &[u8]);

    /// Notes an entry to be removed by the next [`Cold::commit`].
    fn remove(&mut self, place: &[u8]);

    /// Writes what was noted. Until then nothing is read.
    ///
    /// # Errors
    /// When the store can't be written.
    fn commit(&mut self) -> Result<(), ColdFault>;

    /// Shows the entries from `from` on, in the order of their places, until `visit` has seen enough and says false.
    ///
    /// # Errors
    /// When the store can't be read.
    fn range(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), ColdFault>;

    /// Fills the store, which is empty, with the entries that `source` hands over, in the order of their places.
    ///
    /// # Errors
    /// When the store can't be written.
    fn fill(&mut self, source: &mut dyn FnMut(&mut Take<'_>)) -> Result<(), ColdFault>;

    /// Bytes of its files.
    fn bytes(&self) -> u64;
}

/// Takes an entry: its place and its value.
pub type Take<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), ColdFault> + 'a;

/// A cold store has failed. One line that says where it lies and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ColdFault(pub String);

impl ColdFault {
    /// What people can do about it.
    pub const HELP: &str = "make room there, or name another directory as `dir` in [state]; checkpoints are not touched by it";
}

/// The longest place. An entry with a longer one stays in memory.
pub const LONGEST_PLACE: usize = 60_000;

/// Bytes of a place before the entry's key.
pub(super) const HEAD: usize = 4;

/// Makes the place of an entry: key group, number of the state and key, so that places have the order of state files. The key of a list is
/// escaped and ended, as that of a map's entry is: so the list's parts stand behind it, and before any other list.
#[inline]
pub(super) fn make_place(group: u16, number: u16, is_list: bool, key: &[u8], place: &mut Vec<u8>) {
    place.clear();
    place.extend_from_slice(&group.to_be_bytes());
    place.extend_from_slice(&number.to_be_bytes());
    if is_list {
        field::push_key(key, place);
    } else {
        place.extend_from_slice(key);
    }
}

/// The key group, the number of the state and the rest of a place.
pub(super) fn split_place(place: &[u8]) -> (u16, u16, &[u8]) {
    match *place {
        [a, b, c, d, ref key @ ..] => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), key),
        // Nobody writes such a place.
        _ => (u16::MAX, u16::MAX, &[]),
    }
}
