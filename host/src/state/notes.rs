//! [`Notes`]: what a slot knows of copies of its entry elsewhere, in one byte, for a slot has no room for more.

/// Facts about an entry besides what is in its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes(u8);

/// A snapshot, handed over or under way, holds something of it.
const STORED: u8 = 1;
/// The cold store holds something of it.
const BELOW: u8 = 2;
/// The cold store holds the same as the slot. Never so for a slot that was written and is not yet in a snapshot.
const SAME: u8 = 4;
/// It was found in memory since the last round of evictions.
const USED: u8 = 8;
/// As it was written before the barrier that the slot names, the cold store lists it. Means nothing of a slot that was not written.
const LISTED: u8 = 16;

impl Notes {
    /// Of an entry that was just read from the cold store. What was written and is in no snapshot is listed there.
    pub(super) fn of_cold(clean: bool, stored: bool) -> Self {
        Notes(BELOW | if clean { SAME } else { LISTED } | if stored { STORED } else { 0 })
    }

    fn set(&mut self, bit: u8, yes: bool) {
        self.0 = if yes { self.0 | bit } else { self.0 & !bit };
    }

    pub(super) fn is_stored(self) -> bool {
        self.0 & STORED != 0
    }

    pub(super) fn set_stored(&mut self, stored: bool) {
        self.set(STORED, stored);
    }

    pub(super) fn is_below(self) -> bool {
        self.0 & BELOW != 0
    }

    pub(super) fn is_same_below(self) -> bool {
        self.0 & SAME != 0
    }

    /// The cold store has been given what the slot holds; `clean` is one that is not written since the last snapshot.
    pub(super) fn copied(&mut self, clean: bool) {
        self.set(BELOW, true);
        self.set(SAME, clean);
    }

    /// The cold store has lost it.
    pub(super) fn gone_below(&mut self) {
        self.0 &= !(BELOW | SAME | LISTED);
    }

    pub(super) fn is_listed(self) -> bool {
        self.0 & LISTED != 0
    }

    pub(super) fn set_listed(&mut self) {
        self.0 |= LISTED;
    }

    /// The slot is about to change, for the first time since the last barrier.
    #[inline]
    pub(super) fn changing(&mut self) {
        self.0 &= !(SAME | LISTED);
    }

    #[inline]
    pub(super) fn set_used(&mut self) {
        self.0 |= USED;
    }

    /// Whether it was used since this was last asked.
    pub(super) fn take_used(&mut self) -> bool {
        let used = self.0 & USED != 0;
        self.0 &= !USED;
        used
    }
}
