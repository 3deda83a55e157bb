//! Time to live. A value, or an element of a list, with a time to live begins with a stamp: the wall-clock time in milliseconds when it
//! was last written, or read if that counts. The stamp goes with the value wherever it goes, so it survives a restore.
//!
//! Whoever calls tells the time. It is taken as it is told: if it goes backwards, values live longer by as much, and what had expired
//! and is still in memory or in files is seen again.
//!
//! Where another component has a state's values live longer, what has expired stays so, wherever something of it is left: up to which stamp
//! that is goes with the state from then on, in memory and in manifests.

use super::list;
use crate::plan::{StateKind, Ttl};

/// Bytes of a stamp.
pub(super) const STAMP: usize = 8;

/// A stamp.
pub(super) type Stamp = [u8; STAMP];

/// What is written at `now` is stamped with. If time has gone backwards since values live longer, they still live.
#[inline]
pub(super) fn stamp(ttl: Ttl, now: i64) -> Stamp {
    let first = ttl.past.map_or(now, |past| past.saturating_add(1));
    now.max(first).to_le_bytes()
}

/// When something was stamped, and what follows the stamp. What has none, which nobody writes, was stamped long ago.
#[inline]
pub(super) fn split(stamped: &[u8]) -> (i64, &[u8]) {
    match stamped.split_first_chunk::<STAMP>() {
        Some((stamp, rest)) => (i64::from_le_bytes(*stamp), rest),
        None => (i64::MIN, &[]),
    }
}

/// Whether what was stamped at `time` has expired.
#[inline]
pub(super) fn is_past(time: i64, ttl: Ttl, now: i64) -> bool {
    time.saturating_add_unsigned(ttl.ms) <= now || ttl.past.is_some_and(|past| time <= past)
}

/// What is stamped, if it has not expired.
#[inline]
pub(super) fn fresh(stamped: &[u8], ttl: Ttl, now: i64) -> Option<&[u8]> {
    let (time, value) = split(stamped);
    (!is_past(time, ttl, now)).then_some(value)
}

/// Whether nothing of a value, as it is kept, is left.
pub(super) fn is_expired(kind: StateKind, kept: &[u8], ttl: Ttl, now: i64) -> bool {
    match kind {
        StateKind::List => list::elements(kept).all(|element| fresh(element, ttl, now).is_none()),
        _ => fresh(kept, ttl, now).is_none(),
    }
}

/// Appends those elements of a framed list that have not expired to `out`.
pub(super) fn push_fresh_elements(framed: &[u8], ttl: Ttl, now: i64, out: &mut Vec<u8>) {
    for element in list::elements(framed).filter(|element| fresh(element, ttl, now).is_some()) {
        list::push(&[element], |bytes| out.extend_from_slice(bytes));
    }
}

/// A value as a base snapshot is to hold it: without what has expired; none if nothing is left. `room` is for a list that gets shorter.
pub fn without_expired<'a>(kind: StateKind, kept: &'a [u8], ttl: Ttl, now: i64, room: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if kind != StateKind::List {
        return fresh(kept, ttl, now).map(|_| kept);
    }
    room.clear();
    push_fresh_elements(kept, ttl, now, room);
    (!room.is_empty()).then_some(room)
}
