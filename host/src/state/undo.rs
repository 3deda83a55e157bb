//! [`Undo`]: what the call at hand has changed, so that it can be taken back.

use super::parts::Parts;
use super::table::{Slot, Table};
use crate::record::append;

/// What the call at hand has changed, oldest first.
#[derive(Debug, Default)]
pub(super) struct Undo {
    steps: Vec<Step>,
    /// Old values, back to back.
    values: Vec<u8>,
    /// Beginnings of lists in parts that were replaced, with the steps that did.
    parts: Vec<(usize, Parts)>,
}

/// The most room that is kept from call to call, in bytes.
const KEPT: usize = 4 << 20;

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
        self.steps.clear();
        self.values.clear();
        // One large batch should not cost its memory for ever.
        if self.values.capacity() > KEPT {
            self.values = Vec::new();
        }
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
        }
        self.forget(tables);
    }
}
