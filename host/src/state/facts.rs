//! [`Facts`]: what a slot knows of its entry besides the value, and how both lie in the cold store once the slot has left memory.
//!
//! ```text
//! 0, value                                             an entry that is in a snapshot as it is: nearly all of them
//! flags, mark (u32), saved (u32), value                one that was written since, or deleted
//! ```

use super::table::{Mark, Slot};

/// What a slot knows of its entry besides the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Before which barrier it was last written; 0: it is in a snapshot as it is.
    pub(super) written: Mark,
    /// Of a list: how many bytes of the value are in earlier snapshots.
    pub(super) saved: u32,
    /// Whether there is a value.
    pub(super) live: bool,
    /// Whether a snapshot holds something of it.
    pub(super) stored: bool,
}

/// An entry as it was read from below: its key, what was known of it, its value.
pub(super) type Laid = (Vec<u8>, Facts, Vec<u8>);

/// The flags.
const WRITTEN: u8 = 1;
const LIVE: u8 = 2;
const STORED: u8 = 4;

impl Facts {
    /// Of an entry that is in a snapshot as it is, with its value or deleted.
    pub(super) fn of_saved(live: bool, value: &[u8]) -> Self {
        // What could be written fits.
        Facts { written: 0, saved: value.len() as u32, live, stored: live }
    }

    pub(super) fn of(slot: &Slot) -> Self {
        Facts { written: slot.written, saved: slot.saved, live: slot.live, stored: slot.notes.is_stored() }
    }

    /// Lays a value down behind them.
    pub(super) fn lay(self, value: &[u8], out: &mut Vec<u8>) {
        out.clear();
        if self.written == 0 {
            out.push(0);
        } else {
            out.push(WRITTEN | if self.live { LIVE } else { 0 } | if self.stored { STORED } else { 0 });
            out.extend_from_slice(&self.written.to_le_bytes());
            out.extend_from_slice(&self.saved.to_le_bytes());
        }
        out.extend_from_slice(value);
    }

    /// What was laid down.
    pub(super) fn split(laid: &[u8]) -> (Facts, &[u8]) {
        match *laid {
            [flags, a, b, c, d, e, f, g, h, ref value @ ..] if flags & WRITTEN != 0 => {
                let (written, saved) = (Mark::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
                (Facts { written, saved, live: flags & LIVE != 0, stored: flags & STORED != 0 }, value)
            }
            [0, ref value @ ..] => (Facts::of_saved(true, value), value),
            // Nobody lays down such a thing.
            _ => (Facts::of_saved(false, &[]), &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_laid_down_is_found_again() {
        let saved = Facts::of_saved(true, b"value");
        let flags = [(true, true), (true, false), (false, true), (false, false)];
        let written = flags.map(|(live, stored)| Facts { written: 70_000, saved: 3, live, stored });
        for facts in written.into_iter().chain([saved]) {
            let mut laid = b"what was here before".to_vec();
            facts.lay(b"value", &mut laid);
            assert_eq!(Facts::split(&laid), (facts, &b"value"[..]));
        }
    }
}
