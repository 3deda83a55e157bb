//! [`Sweeper`]: removes from memory, and from what lies below, what has expired, little by little, so that what nobody asks for any more
//! does not stay for ever. That needs no note in a snapshot: what older files still hold of it has expired there too, if they hold the value that was written
//! last. So a slot of which a snapshot holds something waits until the last value is in one, too.

use super::KeyedState;
use super::changed::split_listed;
use super::cold::split_place;
use super::ttl;
use crate::plan::{StateDescriptor, StateKind, Ttl};
use crate::record::hash_key;

/// What one sweep may cost, on average. The unit is a look at a slot: some ten nanoseconds.
const BUDGET: usize = 64;
/// Bytes of a list that are looked at for one unit.
const BYTES_PER_UNIT: usize = 64;
/// A list is rewritten in memory when this part of it has expired, so that rewriting costs little in proportion to what it frees.
const WORTH_IT: usize = 4;

/// One sweep in so many looks at what lies below,
const SWEEPS_BELOW: usize = 64;
/// and then at so many entries for each of them.
const LOOKS_BELOW: usize = 16;

/// Where the sweep is.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    /// The states with a time to live.
    states: Vec<usize>,
    /// Slots in which calls have met something that has expired.
    noted: Vec<(usize, u32)>,
    /// The next slot: which of `states`, and the slot's number.
    next: (usize, usize),
    /// What the sweeps so far have cost and those that follow have to save.
    debt: usize,
}

impl Sweeper {
    pub(super) fn new(states: &[StateDescriptor]) -> Self {
        Sweeper { states: (0..states.len()).filter(|&state| states[state].ttl.is_some()).collect(), ..Sweeper::default() }
    }

    /// Notes a slot to be looked at by the next sweep.
    #[cold]
    pub(super) fn note(&mut self, state: usize, number: u32) {
        if self.noted.len() < BUDGET {
            self.noted.push((state, number));
        }
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
        let mut cost = self.sweeper.debt.saturating_sub(BUDGET);
        while cost < BUDGET / 2
            && let Some((state, number)) = self.sweeper.noted.pop()
        {
            cost += self.sweep_slot(state, number);
        }
        self.sweeper.noted.clear();
        while cost < BUDGET {
            cost += self.sweep_next();
        }
        self.sweeper.debt = cost;
        self.sweep_below();
    }

    /// Removes what has expired of what lies below, in every so many sweeps, as looking for where to begin takes long.
    fn sweep_below(&mut self) {
        let Some(below) = self.below.as_mut().filter(|below| below.is_readable()) else { return };
        below.swept.1 += 1;
        if below.swept.1 < SWEEPS_BELOW {
            return;
        }
        let (mut looks, mut next, mut vain, mut listed) = (SWEEPS_BELOW * LOOKS_BELOW, Vec::new(), Vec::new(), Vec::new());
        let read = below.store.range(&below.swept.0, &mut |place, laid| {
            if looks == 0 {
                next = place.to_vec();
                return false;
            }
            looks -= 1;
            if split_listed(place).is_some() {
                // A change that stands there itself is needed.
                listed.extend(laid.is_empty().then(|| place.to_vec()));
                return true;
            }
            let (_, number, key) = split_place(place);
            let Some(table) = below.state_of(number).map(|state| &self.tables[state]) else { return true };
            let (facts, value) = below.facts(place, laid);
            let is_expired = facts.live && table.ttl.is_some_and(|ttl| ttl::is_expired(table.kind, value, ttl, self.now));
            let is_needed = facts.written != 0 && facts.stored;
            // Of what is in memory as well, memory knows better.
            if is_expired && !is_needed && table.find((hash_key(key), key)).is_none() {
                vain.push(place.to_vec());
            }
            true
        });
        below.swept = (next, 0);
        below.settle(read);
        vain.extend(listed.into_iter().filter(|place| below.is_idle(place, &self.tables)));
        vain.iter().for_each(|place| below.store.remove(place));
        below.commit();
    }

    /// Looks at the slot whose turn it is.
    fn sweep_next(&mut self) -> usize {
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
    fn sweep_slot(&mut self, state: usize, number: u32) -> usize {
        let table = &mut self.tables[state];
        let slot = &mut table.slots[number as usize];
        let Some(ttl) = table.ttl else { return 1 };
        let is_list = table.kind == StateKind::List;
        let cost = if is_list { 1 + slot.value().len() / BYTES_PER_UNIT } else { 1 };
        // A slot that was given up is neither live nor written.
        let in_use = slot.live || slot.written != 0;
        if in_use && (!slot.live || ttl::is_expired(table.kind, slot.value(), ttl, self.now)) {
            if !slot.notes.is_stored() || (slot.live && slot.written == 0) {
                slot.live = false;
                table.release(number);
            }
        } else if slot.live && is_list {
            let now = self.now;
            table.change(number, |slot| shorten(slot, ttl, now));
        }
        cost
    }
}

/// Takes the expired elements out of a list, if they are many.
fn shorten(slot: &mut super::table::Slot, ttl: Ttl, now: i64) {
    let value = slot.value();
    let (saved, unsaved) = value.split_at(slot.saved as usize);
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
    slot.saved = saved as u32;
}
