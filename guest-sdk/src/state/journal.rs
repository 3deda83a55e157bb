//! [`Journal`]: how to undo what the record at hand has done.

/// Steps, from the oldest to the newest. All are of one record: the first of another makes the journal forget them.
#[derive(Debug)]
pub(super) struct Journal<S> {
    steps: Vec<S>,
    record: u64,
}

impl<S> Journal<S> {
    pub(super) const fn new() -> Self {
        Journal { steps: Vec::new(), record: 0 }
    }

    /// Notes a step of a record.
    #[inline]
    pub(super) fn note(&mut self, record: u64, step: S) {
        if self.record != record {
            self.record = record;
            self.steps.clear();
        }
        self.steps.push(step);
    }

    /// Takes the newest step off, if it is of this record.
    pub(super) fn pop(&mut self, record: u64) -> Option<S> {
        if self.record == record { self.steps.pop() } else { None }
    }

    /// Forgets all steps.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
    }
}
