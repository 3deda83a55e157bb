//! [`Buffer`]: records on their way out.

use std::mem;

use crate::backend::EmitKeys;
use crate::column::Column;
use crate::scope::Scope;

/// Bytes from which on the buffer is given to the host before the call ends.
const FULL: usize = 64 * 1024;

/// Under which key a record goes.
pub(super) enum To<W> {
    /// None.
    Nobody,
    /// The current one.
    Current,
    /// The one that this appends.
    Fresh(W),
}

/// Records that have one kind of key, and either all an event time or none.
#[derive(Debug)]
struct Chunk {
    keys: EmitKeys,
    values: Column,
    times: Vec<i64>,
}

/// Records on their way out. A record's own are held back until its method has succeeded, so that they can be taken back.
#[derive(Debug)]
pub struct Buffer {
    scope: Scope,
    /// The output's number.
    port: u32,
    /// The record at hand: its key and its event time.
    key: u32,
    time: Option<i64>,
    /// Chunks that came before `chunk`. Mostly none: a new one begins only where the kind of records changes. Between records there is
    /// none.
    before: Vec<Chunk>,
    chunk: Chunk,
    /// How many records there were in the chunk before the record at hand.
    mark: usize,
    /// Whether keys both known and fresh have come in this call: then all go as fresh ones, in few large chunks.
    mixed: bool,
}

impl Chunk {
    const fn new() -> Self {
        Chunk { keys: EmitKeys::None, values: Column::new(), times: Vec::new() }
    }

    #[inline]
    fn len(&self) -> usize {
        self.values.ends.len()
    }

    fn truncate(&mut self, len: usize) {
        match &mut self.keys {
            EmitKeys::None => {}
            EmitKeys::Known(keys) => keys.truncate(len),
            EmitKeys::Fresh(keys) => keys.truncate(len),
        }
        self.values.truncate(len);
        self.times.truncate(len);
    }

    /// Bytes that it takes, about.
    #[inline]
    fn bytes(&self) -> usize {
        let keys = match &self.keys {
            EmitKeys::None => 0,
            EmitKeys::Known(keys) => keys.len() * 4,
            EmitKeys::Fresh(keys) => keys.bytes.len() + keys.ends.len() * 4,
        };
        keys + self.values.bytes.len() + self.values.ends.len() * 4 + self.times.len() * 8
    }
}

impl Buffer {
    pub(super) fn new(scope: &Scope, port: u32) -> Self {
        let (before, chunk) = (Vec::new(), Chunk::new());
        Buffer { scope: scope.clone(), port, key: 0, time: None, before, chunk, mark: 0, mixed: false }
    }

    /// The next record, or key of `finish`, begins.
    #[inline]
    pub(crate) fn step(&mut self, key: u32, time: Option<i64>) {
        self.key = key;
        self.time = time;
        self.mark = self.chunk.len();
    }

    /// The event time of the record at hand.
    #[inline]
    pub(super) fn time(&self) -> Option<i64> {
        self.time
    }

    /// Whether the current key may go as its index, or has to go as bytes because others went so.
    #[inline]
    pub(super) fn takes_known(&self) -> bool {
        !self.mixed && (self.chunk.len() == 0 || matches!(self.chunk.keys, EmitKeys::Known(_)))
    }

    /// Adds a record that goes under no key or the current one.
    #[inline]
    pub(super) fn push(&mut self, to: To<fn(&mut Vec<u8>)>, time: Option<i64>, value: impl FnOnce(&mut Vec<u8>)) {
        self.push_to(to, time, value);
    }

    /// Adds a record.
    #[inline]
    pub(super) fn push_to<W: FnOnce(&mut Vec<u8>)>(&mut self, to: To<W>, time: Option<i64>, value: impl FnOnce(&mut Vec<u8>)) {
        if !self.fits(&to, time) {
            self.begin_chunk(&to);
        }
        match (&mut self.chunk.keys, to) {
            (EmitKeys::None, To::Nobody) => {}
            (EmitKeys::Known(keys), To::Current) => keys.push(self.key),
            (EmitKeys::Fresh(keys), To::Fresh(write)) => keys.push_with(write),
            _ => unreachable!("the chunk was begun for this kind of key"),
        }
        self.chunk.values.push_with(value);
        if let Some(time) = time {
            self.chunk.times.push(time);
        }
    }

    /// Whether a record can go into the chunk at hand.
    #[inline]
    fn fits<W>(&self, to: &To<W>, time: Option<i64>) -> bool {
        let same_kind = matches!(
            (&self.chunk.keys, to),
            (EmitKeys::None, To::Nobody) | (EmitKeys::Known(_), To::Current) | (EmitKeys::Fresh(_), To::Fresh(_))
        );
        same_kind && self.chunk.times.len() == if time.is_some() { self.chunk.len() } else { 0 }
    }

    /// Begins a chunk for a record that doesn't fit into the one at hand.
    #[cold]
    fn begin_chunk<W>(&mut self, to: &To<W>) {
        if self.chunk.len() > 0 {
            self.mixed |= matches!((&self.chunk.keys, to), (EmitKeys::Known(_), To::Fresh(_)));
            self.before.push(mem::replace(&mut self.chunk, Chunk::new()));
        }
        match to {
            To::Nobody => self.chunk.keys = EmitKeys::None,
            To::Current => self.chunk.keys = EmitKeys::Known(Vec::new()),
            To::Fresh(_) => self.chunk.keys = EmitKeys::Fresh(Column::new()),
        }
    }

    /// Takes back what the record at hand has sent.
    pub(crate) fn undo(&mut self) {
        if !self.before.is_empty() {
            self.chunk = self.before.swap_remove(0);
            self.before.clear();
        }
        self.chunk.truncate(self.mark);
    }

    /// Between two records: gives everything to the host if enough has gathered, or the kind of records has changed.
    #[inline]
    pub(crate) fn flush_if_full(&mut self) {
        if !self.before.is_empty() || self.chunk.bytes() >= FULL {
            self.flush();
        }
    }

    /// The call ends: gives everything to the host.
    pub(crate) fn end(&mut self) {
        self.flush();
        self.mixed = false;
    }

    /// The call has failed: forgets everything that is not yet with the host.
    pub(crate) fn forget(&mut self) {
        self.before.clear();
        self.chunk.truncate(0);
        self.mixed = false;
    }

    fn flush(&mut self) {
        let host = self.scope.backend();
        for chunk in self.before.drain(..) {
            host.emit(self.port, &chunk.keys, &chunk.values, &chunk.times);
        }
        if self.chunk.len() > 0 {
            host.emit(self.port, &self.chunk.keys, &self.chunk.values, &self.chunk.times);
            self.chunk.truncate(0);
        }
    }
}
