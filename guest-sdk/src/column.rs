//! Reading and filling [`Column`]s, the shape in which data crosses the boundary.

pub use crate::bindings::records::{Batch, Cells, Column};

impl Default for Column {
    fn default() -> Self {
        Column::new()
    }
}

impl Column {
    /// An empty column.
    pub(crate) const fn new() -> Self {
        Column { ends: Vec::new(), bytes: Vec::new() }
    }

    /// How many values there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Value `index`.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// Adds the value that `write` appends to the bytes.
    #[inline]
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        // A guest's memory is below 4 GiB, and so is a column.
        self.ends.push(self.bytes.len() as u32);
    }

    /// Adds a value.
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.push_with(|bytes| append(bytes, value));
    }

    /// Keeps the first `len` values.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// Removes all values and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.bytes.clear();
    }

    /// All values in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// Appends bytes, short ones in two pieces that overlap. In Wasm, copying a length that is not known beforehand is a call out of the
/// guest, and a loop asks at each turn whether its time is up; both cost more than all the rest of sending a word.
#[inline]
pub(crate) fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        0 => {}
        1 => out.push(bytes[0]),
        2..4 => append_ends::<2>(out, bytes),
        4..8 => append_ends::<4>(out, bytes),
        8..=16 => append_ends::<8>(out, bytes),
        _ => out.extend_from_slice(bytes),
    }
}

/// Appends bytes, at least `N` and at most twice as many.
#[inline]
fn append_ends<const N: usize>(out: &mut Vec<u8>, bytes: &[u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        let end = out.len() + bytes.len();
        out.extend_from_slice(first);
        out.truncate(end - N);
        out.extend_from_slice(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_are_appended_as_they_are() {
        let all: Vec<u8> = (0..100).collect();
        for len in 0..all.len() {
            let mut out = vec![7];
            append(&mut out, &all[..len]);
            assert_eq!((out[0], &out[1..]), (7, &all[..len]));
        }
    }

    #[test]
    fn truncating_keeps_what_comes_before() {
        let mut column = Column::new();
        for value in ["a", "", "bcd", "e"] {
            column.push(value.as_bytes());
        }
        column.truncate(3);
        assert_eq!(column.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bcd"]);
        assert_eq!(column.bytes, b"abcd");
        column.truncate(0);
        assert!(column.bytes.is_empty());
    }
}
