//! What was written since the last snapshot and has left memory: it lies below with the mark of the barrier before which it was written,
//! and a list of such entries lies there too, by mark and place. So a barrier has nothing to do with it, and the snapshot that follows
//! reads the list instead of all that there is. The list may name too much: an entry says itself whether it belongs to the snapshot.
//!
//! Of a snapshot that waits, what was saved because it is about to change again goes there as well when it becomes too much for memory: as
//! changes, in the same list.

use super::below::{Below, Placed};
use super::change::{Change, ChangeKind};
use super::facts::Facts;
use super::freeze::{Freezer, Frozen, SLICE_BYTES, change_of, pass};
use super::sweep::due_for;
use super::table::{Mark, Table};
use crate::record::hash_key;

/// Stands where other places have their key group, of which there are fewer.
const LIST: [u8; 2] = [0xff; 2];

/// Bytes before the entry's place: [`LIST`] and the mark.
const HEAD: usize = 6;

/// How far snapshots are handed over, of what lies below.
#[derive(Debug, Default)]
pub(super) struct Handed {
    /// Snapshots up to this one are handed over; of this one, if `again`, all but the changes that have come into its list meanwhile.
    mark: Mark,
    /// The place up to which the list of the next snapshot is handed over, or of the one that is read `again`; empty if nothing is yet.
    at: Vec<u8>,
    /// Whether the list of the last snapshot is read once more, because changes have come into it meanwhile.
    again: bool,
}

/// The mark and the entry's place in the list, if it is a place in the list.
pub(super) fn split_listed(place: &[u8]) -> Option<(Mark, &[u8])> {
    match *place.strip_prefix(&LIST)? {
        [a, b, c, d, ref entry @ ..] => Some((Mark::from_be_bytes([a, b, c, d]), entry)),
        _ => None,
    }
}

/// Where an entry that was written before a barrier stands in the list.
fn listed(mark: Mark, place: &[u8]) -> Vec<u8> {
    [&LIST[..], &mark.to_be_bytes(), place].concat()
}

impl Below {
    /// What lies at a place. Of what has been handed over since it was written, nobody has written that down.
    pub(super) fn facts<'v>(&self, place: &[u8], laid: &'v [u8]) -> (Facts, &'v [u8]) {
        let (facts, value) = Facts::split(laid);
        let Handed { mark, at, again } = &self.handed;
        let is_handed = facts.written <= *mark || (facts.written == mark + 1 && !again && at.get(HEAD..).is_some_and(|at| place <= at));
        if facts.written != 0 && is_handed { (Facts::of_saved(facts.live, value, facts.parts), value) } else { (facts, value) }
    }

    /// Lists the entry at [`Below::place`] as written before the barrier `mark`.
    pub(super) fn list(&mut self, mark: Mark) {
        self.store.put(&listed(mark, &self.place), &[]);
        self.due += due_for(&[]);
    }

    /// Takes the entry at [`Below::place`] off the list of those written before the barrier `mark`.
    pub(super) fn unlist(&mut self, mark: Mark) {
        self.store.remove(&listed(mark, &self.place));
    }

    /// Whether the list names an entry in vain. `place` is one in the list.
    pub(super) fn is_idle(&mut self, place: &[u8], tables: &[Table]) -> bool {
        let Some((mark, entry)) = split_listed(place).filter(|_| self.fault.is_none()) else { return false };
        let Some(Placed { state, key, .. }) = self.placed(entry) else { return false };
        if let Some(slot) = tables[state].find((hash_key(&key), &key)) {
            return tables[state].slots[slot as usize].written != mark;
        }
        !(self.read(entry) && Facts::split(&self.value).0.written == mark)
    }

    /// Takes over what was saved of snapshots that wait, if it is more than may be in memory.
    pub(super) fn spill(&mut self, freezer: &mut Freezer) {
        if freezer.held() <= self.most_held {
            return;
        }
        freezer.spill(|mark, change| {
            let fits = self.set_place(usize::from(change.state), change.group, change.key);
            if fits {
                self.value.clear();
                self.value.push(change.kind as u8);
                self.value.extend_from_slice(change.value);
                self.store.put(&listed(mark, &self.place), &self.value);
            }
            fits
        });
    }

    /// Adds some of the list of the oldest waiting snapshot to what is handed over of it: at most so many entries. Returns whether that
    /// was all.
    pub(super) fn hand_over(&mut self, frozen: &mut Frozen, entries: usize, tables: &mut [Table]) -> bool {
        if self.fault.is_some() {
            return false;
        }
        let mut from = self.handed.at.clone();
        if from.is_empty() {
            from = listed(frozen.mark, &[]);
            // From here on all of it is met that has come until now.
            frozen.spilled = false;
        } else {
            // The next place that there can be.
            from.push(0);
        }
        let (mut found, mut bytes, mut is_all) = (Vec::new(), frozen.changes.bytes(), true);
        let read = self.store.range(&from, &mut |place, value| {
            if split_listed(place).is_none_or(|(mark, _)| mark != frozen.mark) {
                return false;
            }
            is_all = found.len() < entries && bytes < SLICE_BYTES;
            if is_all {
                bytes += place.len() + value.len();
                found.push((place.to_vec(), value.to_vec()));
            }
            is_all
        });
        self.settle(read);
        let mut gone = Vec::new();
        for (place, change) in found {
            if frozen.changes.bytes() >= SLICE_BYTES {
                is_all = false;
                break;
            }
            if self.hand_over_one(frozen, &place, &change, tables) {
                gone.push(place[HEAD..].to_vec());
            }
            self.handed.at.clone_from(&place);
            gone.push(place);
        }
        gone.iter().for_each(|place| self.store.remove(place));
        self.commit();
        if !is_all || self.fault.is_some() {
            return false;
        }
        // What was saved meanwhile may stand before the end that was just reached.
        self.handed = Handed { mark: frozen.mark, at: Vec::new(), again: frozen.spilled };
        !frozen.spilled
    }

    /// Adds what the list has at `place`: a change, or an entry if it belongs to the snapshot. Returns whether that was a deletion, of
    /// which nothing need lie below any more.
    fn hand_over_one(&mut self, frozen: &mut Frozen, place: &[u8], change: &[u8], tables: &mut [Table]) -> bool {
        let entry = &place[HEAD..];
        let Some(Placed { group, state, key }) = self.placed(entry) else { return false };
        let (table, key) = (&mut tables[state], &*key);
        // Descriptors have far fewer states than a u16 counts.
        let (kind, state) = (table.kind, state as u16);
        if let Some((&kind, value)) = change.split_first() {
            let kind = [ChangeKind::Put, ChangeKind::Append].into_iter().find(|&other| other as u8 == kind).unwrap_or(ChangeKind::Delete);
            frozen.changes.push(Change { group, state, kind, key, value });
            return false;
        }
        if let Some(slot) = table.find((hash_key(key), key)) {
            pass(table, slot, frozen.mark, usize::from(state), Some(self), &mut frozen.changes);
            return false;
        }
        let is_found = self.read(entry);
        let laid = std::mem::take(&mut self.value);
        let (facts, value) = Facts::split(&laid);
        let is_meant = is_found && facts.written == frozen.mark;
        if is_meant {
            let join = |from, tail: &[u8]| facts.parts.map(|parts| self.join(entry, parts, from, tail)).unwrap_or_default();
            let change = change_of(kind, facts, value, join);
            change.into_iter().for_each(|(kind, value)| frozen.changes.push(Change { group, state, kind, key, value: &value }));
        }
        let is_gone = is_meant && !facts.live;
        self.value = laid;
        is_gone
    }
}
