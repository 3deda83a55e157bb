//! [`Sweeper`]: removes from memory, and from what lies below, what has expired, little by little, so that what nobody asks for any more
//! does not stay for ever. That needs no note in a snapshot: what older files still hold of it has expired there too, if they hold the value
//! that was written last. So a slot of which a snapshot holds something waits until the last value is in one, too.
//!
//! A sweep looks at [`PER_GROWTH`] times as much as has been added since the one before it, and a little more. So what has expired and is
//! still there stays in proportion to what lives, however much each call adds. Let there be M units to look at, at the most that there
//! ever are, of which L at most have not expired at once. While the sweep looks at the last M of them, M / 2 are added at most; any other
//! that is there then has been looked at, and lived when that began, or at its look: L of them at most. So M ≤ L + M / 2, which is
//! M ≤ 2 L; and what one call adds comes on top, as the sweep comes after the call. Of lists it is a third more, for a look leaves up to a
//! quarter of one that has expired.

use super::KeyedState;
use super::below::Placed;
use super::changed::split_listed;
use super::parts::{Disowned, prefix};
use super::table::{Slot, Table};
use super::ttl;
use crate::plan::{StateDescriptor, StateKind, Ttl};
use crate::record::hash_key;

/// What one sweep may cost, on average, if nothing was added. The unit is a look at a slot: some ten nanoseconds.
const BUDGET: isize = 64;
/// What it may cost beyond that for each unit by which there is more to look at than after the one before it.
const PER_GROWTH: usize = 2;
/// What may be spent on slots that calls have noted.
const FOR_NOTED: isize = BUDGET / 2;
/// Slots that are noted for a sweep, at most.
const NOTED: usize = 64;
/// Bytes of a list that are looked at for one unit.
const BYTES_PER_UNIT: usize = 64;
/// A list is rewritten in memory when this part of it has expired, so that rewriting costs little in proportion to what it frees.
const WORTH_IT: usize = 4;

/// Entries below that are looked at for each sweep, besides [`PER_GROWTH`] for each one that was added there.
const LOOKS_BELOW: usize = 16;
/// Entries below that are looked at in one go, at least: finding where to begin takes long.
const LEAST_LOOKS_BELOW: usize = 64 * LOOKS_BELOW;
/// Entries below that are looked at in one go, at most. More come there at once only by what is no call, a migration say, and are looked at in
/// their turn.
const MOST_LOOKS_BELOW: usize = 64 << 10;
/// Bytes of an entry below that count as one entry more.
const BYTES_PER_LOOK: usize = 1 << 10;
/// Of the lists that a sweep meets below, one loses what has expired at its beginning for so many looks.
const LOOKS_PER_AGED: usize = 256;

/// Where the sweep is.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    /// The states with a time to live.
    states: Vec<usize>,
    /// Slots in which calls have met something that has expired.
    noted: Vec<(usize, u32)>,
    /// The next slot: which of `states`, and the slot's number.
    next: (usize, usize),
    /// What the last sweep has left to look at; not known before the first one, as what is restored is not added by calls.
    left: Option<usize>,
    /// What the next sweep may spend besides its budget: less than nothing if the one before it has spent too much.
    credit: isize,
    /// The same for noted slots, which must not keep the sweep from going on.
    credit_for_noted: isize,
}

impl Sweeper {
    pub(super) fn new(states: &[StateDescriptor]) -> Self {
        Sweeper { states: (0..states.len()).filter(|&state| states[state].ttl.is_some()).collect(), ..Sweeper::default() }
    }

    /// Notes a slot to be looked at by the next sweep.
    #[cold]
    pub(super) fn note(&mut self, state: usize, number: u32) {
        if self.noted.len() < NOTED {
            self.noted.push((state, number));
        }
    }

    /// Forgets what was noted, as slots are about to get other numbers.
    pub(super) fn forget(&mut self) {
        self.noted.clear();
    }
}

impl KeyedState {
    /// Removes some of what has expired from memory: what calls have met since the last sweep, and a little more. To be called between
    /// calls. What it costs is bounded on average.
    pub fn sweep(&mut self) {
        if self.sweeper.states.is_empty() {
            return;
        }
        debug_assert!(!self.is_dirty(), "a sweep falls between calls");
        let to_look_at = self.to_look_at();
        let grown = to_look_at.saturating_sub(self.sweeper.left.unwrap_or(to_look_at));
        let mut credit = FOR_NOTED.min(self.sweeper.credit_for_noted + FOR_NOTED);
        while credit > 0
            && let Some((state, number)) = self.sweeper.noted.pop()
        {
            credit -= self.sweep_slot(state, number);
        }
        self.sweeper.noted.clear();
        self.sweeper.credit_for_noted = credit;
        // There are fewer units than bytes in memory.
        let mut credit = self.sweeper.credit + BUDGET + (PER_GROWTH * grown) as isize;
        while credit > 0 {
            credit -= self.sweep_next();
        }
        self.sweeper.credit = credit;
        self.sweeper.left = Some(self.to_look_at());
        self.sweep_below();
    }

    /// What it costs to look at all that has a time to live.
    fn to_look_at(&self) -> usize {
        let of = |table: &Table| table.len() + if table.kind == StateKind::List { table.bytes() / BYTES_PER_UNIT } else { 0 };
        self.sweeper.states.iter().map(|&state| of(&self.tables[state])).sum()
    }

    /// Removes what has expired of what lies below, when enough entries are to be looked at.
    fn sweep_below(&mut self) {
        let Some(below) = self.below.as_mut().filter(|below| below.is_readable()) else { return };
        below.due += LOOKS_BELOW;
        if below.due < LEAST_LOOKS_BELOW {
            return;
        }
        let mut looks = std::mem::take(&mut below.due).min(MOST_LOOKS_BELOW);
        let most_aged = looks / LOOKS_PER_AGED;
        let (mut next, mut vain, mut listed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut aged, mut disowned) = (Vec::new(), Vec::new());
        let read = below.store.range(&below.swept, &mut |place, laid| {
            if looks == 0 {
                next = place.to_vec();
                return false;
            }
            looks = looks.saturating_sub(looks_at(laid));
            if split_listed(place).is_some() {
                // A change that stands there itself is needed.
                listed.extend(laid.is_empty().then(|| place.to_vec()));
                return true;
            }
            let Some(Placed { state, key, .. }) = below.placed(place) else { return true };
            let (table, (facts, value)) = (&self.tables[state], below.facts(place, laid));
            let Some(ttl) = table.ttl.filter(|_| facts.live) else { return true };
            let is_expired = facts.is_expired(table.kind, value, Some(ttl), self.now);
            let is_aged = !is_expired && facts.parts.is_some_and(|parts| ttl::is_past(parts.first, ttl, self.now));
            let is_vain = is_expired && !(facts.written != 0 && facts.stored);
            // Of what is in memory as well, memory knows better.
            if (!is_vain && !is_aged) || table.find((hash_key(&key), &key)).is_some() {
                return true;
            }
            if is_vain {
                disowned.extend(facts.parts.map(|parts| Disowned::new(prefix(place, parts.list))));
                vain.push(place.to_vec());
            } else if aged.len() < most_aged {
                aged.push((state, key.into_owned()));
            }
            true
        });
        below.swept = next;
        below.settle(read);
        vain.extend(listed.into_iter().filter(|place| below.is_idle(place, &self.tables)));
        vain.iter().for_each(|place| below.store.remove(place));
        below.disowned.extend(disowned);
        below.commit();
        for (state, key) in aged {
            let hash = hash_key(&key);
            // Whatever comes into memory leaves behind what has expired.
            self.look(state, (hash, &key), hash);
        }
    }

    /// Looks at the slot whose turn it is.
    fn sweep_next(&mut self) -> isize {
        let (at, number) = self.sweeper.next;
        let state = self.sweeper.states[at];
        if number >= self.tables[state].slots.len() {
            self.tables[state].tidy(self.mark);
            self.sweeper.next = ((at + 1) % self.sweeper.states.len(), 0);
            return 1;
        }
        self.sweeper.next.1 += 1;
        // Slot numbers are u32.
        self.sweep_slot(state, number as u32)
    }

    /// Removes what has expired of a slot, or was deleted, and says what that cost.
    fn sweep_slot(&mut self, state: usize, number: u32) -> isize {
        let table = &mut self.tables[state];
        let slot = &table.slots[number as usize];
        let Some(ttl) = table.ttl else { return 1 };
        let is_list = table.kind == StateKind::List;
        // Lists have a limit far below.
        let cost = if is_list { 1 + (slot.value().len() / BYTES_PER_UNIT) as isize } else { 1 };
        if slot.live && !table.is_expired(number, self.now) {
            return cost + if is_list { self.shorten_list(state, number, ttl) } else { 0 };
        }
        if !table.slots[number as usize].is_free() {
            table.release_spent(number);
        }
        cost
    }

    /// Takes the expired elements out of a list, if they are many, and says what that cost beside the looks at what is in memory.
    fn shorten_list(&mut self, state: usize, number: u32, ttl: Ttl) -> isize {
        let (gone, now, table) = (self.shed_parts(state, number), self.now, &mut self.tables[state]);
        let in_parts = table.parts(number).map_or(0, |parts| parts.bytes);
        table.change(number, |slot| shorten(slot, in_parts, ttl, now));
        (gone / BYTES_PER_UNIT) as isize
    }

    /// Removes some of the parts at the beginning of a list of which nothing has not expired. The call at hand must not have changed the
    /// list, for this can't be taken back. Returns how many bytes they had.
    pub(super) fn shed_parts(&mut self, state: usize, number: u32) -> usize {
        debug_assert!(!self.undo.has(state, number), "a list that a call has changed keeps its parts until the call is over");
        let KeyedState { tables, below: Some(below), now, .. } = self else { return 0 };
        let table = &mut tables[state];
        let Some((parts, ttl)) = table.parts(number).zip(table.ttl).filter(|(parts, ttl)| ttl::is_past(parts.first, *ttl, *now)) else {
            return 0;
        };
        let slot = &mut table.slots[number as usize];
        let left = below.shed(state, slot.group, slot.key(), parts, ttl, *now);
        let gone = parts.bytes - left.map_or(0, |left| left.bytes);
        slot.notes.changing();
        slot.saved = slot.saved.saturating_sub(gone);
        table.set_parts(number, left);
        gone as usize
    }
}

/// As how many looks one at an entry below counts, by what is laid down there.
fn looks_at(laid: &[u8]) -> usize {
    1 + laid.len() / BYTES_PER_LOOK
}

/// How many more entries a sweep has to look at below when one is added there.
pub(super) fn due_for(laid: &[u8]) -> usize {
    PER_GROWTH * looks_at(laid)
}

/// Takes the expired elements out of the tail of a list, before which so many bytes lie in parts, if they are many.
fn shorten(slot: &mut Slot, in_parts: u32, ttl: Ttl, now: i64) {
    let value = slot.value();
    let (saved, unsaved) = value.split_at(slot.saved.saturating_sub(in_parts) as usize);
    let mut fresh = Vec::new();
    ttl::push_fresh_elements(saved, ttl, now, &mut fresh);
    let saved = fresh.len();
    ttl::push_fresh_elements(unsaved, ttl, now, &mut fresh);
    if (value.len() - fresh.len()) * WORTH_IT < value.len() {
        return;
    }
    slot.notes.changing();
    slot.set_value(&fresh);
    slot.shrink();
    // With nothing of it left in older snapshots, the next one replaces what they hold.
    slot.saved = slot.saved.min(in_parts) + saved as u32;
}
