//! [`Output`]: where a file goes while it is written: on, in pieces, so that it is never in memory as a whole.

use bytes::Bytes;

use crate::error::{Error, Kind};

/// The first pieces of a file have so many bytes, but the last, which has fewer. Stores take parts of this size, and most want them equal.
pub const PIECE: usize = 8 << 20;

/// After so many pieces they are twice as large, and again after as many more: stores take no more than ten thousand parts.
const DOUBLED_AFTER: u32 = 1000;

/// How many bytes the next piece of a file has after so many, unless it is the last.
pub fn next_piece(pieces: u32) -> usize {
    PIECE << (pieces / DOUBLED_AFTER).min(9)
}

/// Takes a piece of a file; the next one follows it.
pub type Take<'t> = dyn FnMut(Bytes) -> Result<(), Unwanted> + 't;

/// Nobody waits for what is being written any more. Whoever did knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody waits for it any more")]
pub struct Unwanted;

impl From<Unwanted> for Error {
    fn from(unwanted: Unwanted) -> Self {
        Error::new(Kind::Internal, unwanted.to_string())
    }
}

/// What is written of a file, of which only the last piece is here.
pub(super) struct Output<'t> {
    take: &'t mut Take<'t>,
    piece: Vec<u8>,
    /// How many pieces were handed over.
    pieces: u32,
    bytes: u64,
    checksum: u32,
}

impl<'t> Output<'t> {
    pub fn new(take: &'t mut Take<'t>) -> Self {
        Output { take, piece: Vec::new(), pieces: 0, bytes: 0, checksum: 0 }
    }

    /// Has `write` append to the file.
    pub fn append<T, E: From<Unwanted>>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<T, E>) -> Result<T, E> {
        let written = write(&mut self.piece)?;
        if self.piece.len() >= self.next() {
            let mut whole = Bytes::from(std::mem::take(&mut self.piece));
            while whole.len() >= self.next() {
                self.hand_over(whole.split_to(self.next()))?;
            }
            // And for the block that makes it more than one.
            self.piece.reserve(self.next() + PIECE / 8);
            self.piece.extend_from_slice(&whole);
        }
        Ok(written)
    }

    /// How many bytes the file has so far.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.piece.len() as u64
    }

    /// Hands over what is left. Returns how many bytes the file has, and their crc32c.
    pub fn finish(mut self) -> Result<(u64, u32), Unwanted> {
        let last = std::mem::take(&mut self.piece);
        if !last.is_empty() {
            self.hand_over(last.into())?;
        }
        Ok((self.bytes, self.checksum))
    }

    /// How many bytes the next piece has, unless it is the last.
    fn next(&self) -> usize {
        next_piece(self.pieces)
    }

    fn hand_over(&mut self, piece: Bytes) -> Result<(), Unwanted> {
        self.pieces += 1;
        self.bytes += piece.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, &piece);
        (self.take)(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5 TiB, in ten thousand parts of which none is larger than 5 GiB.
    #[test]
    fn a_store_takes_all_pieces_of_the_largest_object() {
        let (mut bytes, mut pieces) = (0, 0);
        while bytes < 5 << 40 {
            let next = next_piece(pieces) as u64;
            assert!(next <= 5 << 30, "piece {pieces} has {next} bytes");
            (bytes, pieces) = (bytes + next, pieces + 1);
        }
        assert!(pieces <= 10_000, "{pieces} pieces");
    }
}
