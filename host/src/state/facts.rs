//! [`Facts`]: what a slot knows of its entry besides the value, and how both lie in the cold store once the slot has left memory.
//!
//! ```text
//! 0, value                                     an entry that is in a snapshot as it is: nearly all of them
//! flags, mark (u32), saved (u32), ..., value   one that was written since, or deleted
//! flags, ..., parts (see there), tail          a list that begins in parts
//! ```

use super::parts::Parts;
use super::table::{Mark, Table};

/// What a slot knows of its entry besides the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Before which barrier it was last written; 0: it is in a snapshot as it is.
    pub(super) written: Mark,
    /// Of a list: how many bytes of it are in earlier snapshots.
    pub(super) saved: u32,
    /// Whether there is a value.
    pub(super) live: bool,
    /// Whether a snapshot holds something of it.
    pub(super) stored: bool,
    /// Of a list: what of it lies in parts. The value is the rest then.
    pub(super) parts: Option<Parts>,
}

/// An entry as it was read from below: its key, what was known of it, its value.
pub(super) type Laid = (Vec<u8>, Facts, Vec<u8>);

/// The flags.
const WRITTEN: u8 = 1;
const LIVE: u8 = 2;
const STORED: u8 = 4;
const PARTS: u8 = 8;

impl Facts {
    /// Of an entry that is in a snapshot as it is, with its value or deleted.
    pub(super) fn of_saved(live: bool, value: &[u8], parts: Option<Parts>) -> Self {
        // What could be written fits.
        let saved = value.len() as u32 + parts.map_or(0, |parts| parts.bytes);
        Facts { written: 0, saved, live, stored: live, parts }
    }

    #[inline]
    pub(super) fn of(table: &Table, number: u32) -> Self {
        let slot = &table.slots[number as usize];
        let parts = table.parts(number);
        Facts { written: slot.written, saved: slot.saved, live: slot.live, stored: slot.notes.is_stored(), parts }
    }

    /// Lays a value down behind them.
    pub(super) fn lay(self, value: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let flag = |flag: u8, set: bool| if set { flag } else { 0 };
        let parts = flag(PARTS, self.parts.is_some());
        if self.written == 0 {
            out.push(parts);
        } else {
            out.push(WRITTEN | flag(LIVE, self.live) | flag(STORED, self.stored) | parts);
            out.extend_from_slice(&self.written.to_le_bytes());
            out.extend_from_slice(&self.saved.to_le_bytes());
        }
        self.parts.iter().for_each(|parts| parts.lay(out));
        out.extend_from_slice(value);
    }

    /// What was laid down.
    pub(super) fn split(laid: &[u8]) -> (Facts, &[u8]) {
        // Nobody lays down anything else.
        Self::take(laid).unwrap_or((Facts::of_saved(false, &[], None), &[]))
    }

    fn take(laid: &[u8]) -> Option<(Facts, &[u8])> {
        let (&flags, laid) = laid.split_first()?;
        let (marks, laid) = if flags & WRITTEN != 0 { laid.split_at_checked(8)? } else { (&[][..], laid) };
        let (parts, value) = if flags & PARTS != 0 { Parts::split(laid).map(|(parts, value)| (Some(parts), value))? } else { (None, laid) };
        let facts = match *marks {
            [a, b, c, d, e, f, g, h] => {
                let (written, saved) = (Mark::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
                Facts { written, saved, live: flags & LIVE != 0, stored: flags & STORED != 0, parts }
            }
            _ => Facts::of_saved(true, value, parts),
        };
        Some((facts, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_laid_down_is_found_again() {
        let flags = [(true, true), (true, false), (false, true), (false, false)];
        for parts in [None, Some(Parts { list: 1 << 40, start: 1 << 33, bytes: 300, first: -5, last: 1 << 50 })] {
            let written = flags.map(|(live, stored)| Facts { written: 70_000, saved: 3, live, stored, parts });
            for facts in written.into_iter().chain([Facts::of_saved(true, b"value", parts)]) {
                let mut laid = b"what was here before".to_vec();
                facts.lay(b"value", &mut laid);
                assert_eq!(Facts::split(&laid), (facts, &b"value"[..]));
            }
        }
    }
}
