//! [`Written`]: the slots of a table that were written since the last barrier. They are kept in pieces, so that the list grows without being
//! moved, and a snapshot gives it back piece by piece: to free that of millions of slots at once would keep a worker for milliseconds.

use std::collections::VecDeque;

/// Slots in a piece.
const PIECE: usize = 4096;

/// Numbers of slots, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// None is empty.
    pieces: VecDeque<Vec<u32>>,
}

impl Written {
    #[inline]
    pub(super) fn push(&mut self, number: u32) {
        match self.pieces.back_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(number),
            _ => self.pieces.push_back(vec![number]),
        }
    }

    pub(super) fn len(&self) -> usize {
        // All but the last are full.
        self.pieces.back().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    /// The piece that stands first.
    pub(super) fn first(&self) -> Option<&[u32]> {
        self.pieces.front().map(Vec::as_slice)
    }

    /// Gives the piece back that stands first.
    pub(super) fn give_back(&mut self) {
        self.pieces.pop_front();
    }

    /// Leaves each slot once, of those for which `stays` holds.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(u32) -> bool) {
        let mut numbers: Vec<u32> = std::mem::take(&mut self.pieces).into_iter().flatten().collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().filter(|&number| stays(number)).for_each(|number| self.push(number));
    }
}
