//! Reading and filling [`Column`]s, the shape in which data crosses the boundary.

pub use crate::bindings::records::{Batch, Cells, Column};

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
        self.push_with(|bytes| bytes.extend_from_slice(value));
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

#[cfg(test)]
mod tests {
    use super::*;

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
