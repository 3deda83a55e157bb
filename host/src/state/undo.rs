//! [`Undo`]: what the call at hand has changed, so that it can be taken back.

use super::parts::Parts;
use super::table::{Mark, Slot, Table};
use crate::record::append;

/// What the call at hand has changed, oldest first.
#[derive(Debug, Default)]
pub(super) struct Undo {
    steps: Vec<Step>,
    /// Old values, back to back.
    values: Vec<u8>,
    /// Beginnings of lists in parts that were replaced, with the steps that did.
    parts: Vec<(usize, Parts)>,
    /// States and slots of which the call has removed the value, or that had none before it.
    vacant: Vec<(u32, u32)>,
}

/// The most room that is kept from call to call, in bytes.
const KEPT: usize = 4 << 20;

/// Empties what is used again in every call. One large call should not cost its memory for ever.
pub(super) fn empty<T>(room: &mut Vec<T>) {
    room.clear();
    if room.capacity() * size_of::<T>() > KEPT {
        *room = Vec::new();
    }
}

#[derive(Debug)]
struct Step {
    state: u32,
    slot: u32,
    /// How many bytes the old value has.
    len: u32,
    /// How many bytes of the old value were in snapshots.
    saved: u32,
    live: bool,
    /// Whether the old value is in `Undo::values`; else it is still in place, as the beginning of the new one.
    replaced: bool,
}

impl Undo {
    /// Whether there is nothing to take back.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it has to take back a change of this slot.
    pub(super) fn has(&self, state: usize, number: u32) -> bool {
        self.steps.iter().any(|step| (step.state as usize, step.slot) == (state, number))
    }

    /// Forgets how to take back what was changed: what was replaced is lost.
    pub(super) fn forget(&mut self, tables: &mut [Table]) {
        for (step, parts) in self.parts.drain(..) {
            let Step { state, slot, .. } = self.steps[step];
            tables[state as usize].lost.push((slot, parts.list));
        }
        empty(&mut self.steps);
        empty(&mut self.values);
    }

    /// Notes a slot whose value is gone.
    #[cold]
    pub(super) fn vacating(&mut self, state: usize, number: u32) {
        // Descriptors have far fewer states than a u32 counts.
        self.vacant.push((state as u32, number));
    }

    /// Gives up the slots that the call has left without a value and of which nobody else has heard. `mark` is that of what is written now.
    pub(super) fn vacate(&mut self, tables: &mut [Table], mark: Mark) {
        if self.vacant.is_empty() {
            return;
        }
        for &(state, number) in &self.vacant {
            let table = &mut tables[state as usize];
            let Slot { live, written, notes, .. } = table.slots[number as usize];
            if !live && written == mark && !notes.is_stored() && !notes.is_below() {
                table.release(number);
            }
        }
        empty(&mut self.vacant);
        tables.iter_mut().for_each(|table| table.tidy(mark));
    }

    /// Notes the parts in which the value began that is to be noted next.
    pub(super) fn replacing_parts(&mut self, parts: Parts) {
        self.parts.push((self.steps.len(), parts));
    }

    /// Notes a slot whose value is about to be replaced.
    #[inline]
    pub(super) fn replacing(&mut self, state: usize, number: u32, slot: &Slot) {
        append(&mut self.values, slot.value());
        self.note(state, number, slot, true);
    }

    /// Notes a slot whose value is about to get longer.
    #[inline]
    pub(super) fn extending(&mut self, state: usize, number: u32, slot: &Slot) {
        self.note(state, number, slot, false);
    }

    #[inline]
    fn note(&mut self, state: usize, number: u32, slot: &Slot, replaced: bool) {
        // Values and lists have limits far below.
        let len = slot.value().len() as u32;
        self.steps.push(Step { state: state as u32, slot: number, len, saved: slot.saved, live: slot.live, replaced });
    }

    /// Takes back everything, newest first.
    pub(super) fn play_back(&mut self, tables: &mut [Table]) {
        let mut end = self.values.len();
        while let Some(step) = self.steps.pop() {
            let table = &mut tables[step.state as usize];
            if let Some((_, parts)) = self.parts.pop_if(|(replaced, _)| *replaced == self.steps.len()) {
                table.set_parts(step.slot, Some(parts));
            }
            table.change(step.slot, |slot| {
                if step.replaced {
                    let start = end - step.len as usize;
                    slot.set_value(&self.values[start..end]);
                    end = start;
                } else {
                    slot.truncate_value(step.len as usize);
                }
                slot.live = step.live;
                slot.saved = step.saved;
            });
            if !step.live {
                self.vacant.push((step.state, step.slot));
            }
        }
        self.forget(tables);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Schema, StateDescriptor, StateKind};

    #[test]
    fn what_one_large_call_has_changed_does_not_cost_its_memory_for_ever() {
        let mut table = Table::new(&StateDescriptor::new("value", StateKind::Value, Schema::text(), 1));
        let number = table.insert((7, b"key"), 0);
        let mut undo = Undo::default();
        for _ in 0..=KEPT / size_of::<Step>() {
            undo.replacing(0, number, &table.slots[number as usize]);
            undo.vacating(0, number);
        }
        undo.forget(std::slice::from_mut(&mut table));
        undo.vacate(std::slice::from_mut(&mut table), 1);
        assert!(undo.steps.capacity() * size_of::<Step>() <= KEPT);
        assert!(undo.vacant.capacity() * size_of::<(u32, u32)>() <= KEPT);
    }
}
