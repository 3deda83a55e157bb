//! [`Column`]: byte strings back to back, the unit in which data crosses every boundary of the host.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Byte strings, back to back: value i ends at `ends[i]` and begins where value i - 1 ended (at 0 for the first).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The end of each value in `bytes`.
    pub ends: Vec<u32>,
    /// The values themselves.
    pub bytes: Vec<u8>,
}

/// Why a column from outside can't be taken as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedColumn {
    /// The end at this index lies before the one before it.
    Decreasing(usize),
    /// The last end is not the length of the bytes.
    Length {
        /// The last end, 0 if there is none.
        last: u32,
        /// How many bytes there are.
        bytes: usize,
    },
}

impl fmt::Display for MalformedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MalformedColumn::Decreasing(index) => write!(f, "ends[{index}] lies before ends[{}]", index - 1),
            MalformedColumn::Length { last, bytes } => write!(f, "the last end is {last}, but there are {bytes} bytes"),
        }
    }
}

impl Column {
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Value `index`.
    ///
    /// # Panics
    /// If there is no such value.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        slice(&self.ends, &self.bytes, index)
    }

    /// Adds a value.
    ///
    /// # Panics
    /// If the column would hold 4 GiB or more: whoever fills one keeps it far below.
    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        append(&mut self.bytes, value);
        self.ends.push(end_of(self.bytes.len()));
    }

    /// Adds values.
    ///
    /// # Panics
    /// As [`push`](Self::push).
    #[inline]
    pub fn extend<'a>(&mut self, values: impl Iterator<Item = &'a [u8]>) {
        let Column { ends, bytes } = self;
        ends.extend(values.map(|value| {
            append(bytes, value);
            end_of(bytes.len())
        }));
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Keeps the first `len` values.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// Removes all values and keeps the room.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.bytes.clear();
    }

    /// Checks ends and bytes that came from outside. After it, [`slice`] can't panic for any index below `ends.len()`.
    ///
    /// # Errors
    /// Which rule of a column is broken.
    pub fn check(ends: &[u32], bytes: &[u8]) -> Result<(), MalformedColumn> {
        let mut last = 0;
        for (index, &end) in ends.iter().enumerate() {
            if end < last {
                return Err(MalformedColumn::Decreasing(index));
            }
            last = end;
        }
        if last as usize == bytes.len() { Ok(()) } else { Err(MalformedColumn::Length { last, bytes: bytes.len() }) }
    }
}

/// Appends bytes. Most values are short, and a call to copy them takes longer than copying them, as does one of this: those go as one
/// word, of which as many bytes stay as are theirs.
#[inline(always)]
pub fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    let end = out.len() + bytes.len();
    match bytes.len() {
        0 => return,
        1..=8 => out.extend_from_slice(&word(bytes).to_le_bytes()),
        9..=16 => out.extend_from_slice(&two_words(bytes)),
        _ => return out.extend_from_slice(bytes),
    }
    out.truncate(end);
}

/// At most eight bytes as a word, read as two pieces that overlap; what follows them is 0.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let shift = |piece: usize| 8 * (bytes.len() - piece) as u32;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift(4);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u16::from_le_bytes(*first)) | u64::from(u16::from_le_bytes(*last)) << shift(2);
    }
    bytes.first().copied().map_or(0, u64::from)
}

/// Eight to sixteen bytes as [`word`] does.
#[inline(always)]
fn two_words(bytes: &[u8]) -> [u8; 16] {
    let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else { return [0; 16] };
    let (first, last) = (u128::from(u64::from_le_bytes(*first)), u128::from(u64::from_le_bytes(*last)));
    (first | last << (8 * (bytes.len() - 8))).to_le_bytes()
}

/// Copies bytes over as many others, short ones as [`append`] does.
#[inline]
pub fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        0 => {}
        1 => to[0] = from[0],
        2..4 => copy_ends::<2>(from, to),
        4..8 => copy_ends::<4>(from, to),
        8..=16 => copy_ends::<8>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies bytes, at least `N` and at most twice as many.
#[inline]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        to[..N].copy_from_slice(first);
        let rest = to.len() - N;
        to[rest..].copy_from_slice(last);
    }
}

/// A length within a column as its end.
#[inline]
fn end_of(length: usize) -> u32 {
    u32::try_from(length).expect("a column stays below 4 GiB")
}

/// Value `index` of a column given as its two parts.
///
/// # Panics
/// If there is no such value, or the parts are not a column (see [`Column::check`]).
#[inline]
pub fn slice<'a>(ends: &[u32], bytes: &'a [u8], index: usize) -> &'a [u8] {
    let start = if index == 0 { 0 } else { ends[index - 1] as usize };
    &bytes[start..ends[index] as usize]
}

impl<T: AsRef<[u8]>> FromIterator<T> for Column {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut column = Column::default();
        for value in values {
            column.push(value.as_ref());
        }
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_are_appended_and_copied_as_they_are() {
        let all: Vec<u8> = (0..100).collect();
        for len in 0..all.len() {
            let mut out = vec![7];
            append(&mut out, &all[..len]);
            assert_eq!((out[0], &out[1..]), (7, &all[..len]));
            let mut over = vec![7; len];
            copy(&all[..len], &mut over);
            assert_eq!(over, all[..len]);
        }
    }
}
