//! [`Dictionary`]: finds a key among those already in a batch. A table of its own because it is emptied for every batch: here that
//! costs nothing, in a general map a pass over the table.

/// Places of a table: twice the largest batch, so that probes stay short.
const PLACES: usize = 2 * super::outbox::BATCH_RECORDS;

/// Bits of a place that hold an index; the others hold the generation.
const INDEX_BITS: u32 = super::outbox::BATCH_RECORDS.ilog2();

/// The generations that a place can hold, 0 aside, which is that of places never used.
const GENERATIONS: u32 = u32::MAX >> INDEX_BITS;

/// Maps hashes to indices of keys that the caller holds. Linear probing over places of generation and index; places of older generations
/// count as empty. Small, because each key is looked for somewhere else: half of the second-level cache would be full of a larger one.
#[derive(Debug)]
pub(super) struct Dictionary {
    places: Vec<u32>,
    generation: u32,
}

/// What stands at the first place of a hash, looked at ahead of its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Glimpse(u32);

impl Default for Dictionary {
    fn default() -> Self {
        Dictionary { places: Vec::new(), generation: 1 }
    }
}

impl Dictionary {
    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.generation += 1;
        if self.generation > GENERATIONS {
            self.places.clear();
            self.generation = 1;
        }
    }

    /// Looks at where `hash` would stand. Several such looks in a row wait for memory together, where each search would wait by itself.
    #[inline]
    pub(super) fn glimpse(&self, hash: u64) -> Glimpse {
        Glimpse(self.places.get(first_place(hash)).copied().unwrap_or_default())
    }

    /// The index of the key with `hash` for which `same` holds; otherwise notes `next` as its index and returns it as an error.
    /// `next` must stay below [`super::outbox::BATCH_RECORDS`]. `glimpse` is what was seen at its place since the last clear, or the
    /// default: what stood there then still does.
    #[inline]
    pub(super) fn find_or_insert(
        &mut self,
        hash: u64,
        glimpse: Glimpse,
        next: usize,
        mut same: impl FnMut(usize) -> bool,
    ) -> Result<u32, u32> {
        if self.places.is_empty() {
            self.places.resize(PLACES, 0);
        }
        let index_of = |place: u32| place & ((1 << INDEX_BITS) - 1);
        let mut at = first_place(hash);
        let mut place = if glimpse.0 >> INDEX_BITS == self.generation { glimpse.0 } else { self.places[at] };
        loop {
            if place >> INDEX_BITS != self.generation {
                // Indices stay below the records of a batch.
                let next = next as u32;
                self.places[at] = self.generation << INDEX_BITS | next;
                return Err(next);
            }
            if same(index_of(place) as usize) {
                return Ok(index_of(place));
            }
            at = (at + 1) % PLACES;
            place = self.places[at];
        }
    }
}

#[inline]
fn first_place(hash: u64) -> usize {
    (hash >> 40) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_a_clear_is_gone_even_when_generations_begin_again() {
        let mut dictionary = Dictionary::default();
        let mut insert = |hash: u64, next| {
            let found = dictionary.find_or_insert(hash, Glimpse::default(), next, |_| true);
            let glimpse = dictionary.glimpse(hash);
            assert_eq!(dictionary.find_or_insert(hash, glimpse, next + 1, |_| true), Ok(next as u32));
            dictionary.clear();
            found
        };
        for round in 0..2 * u64::from(GENERATIONS) {
            assert_eq!(insert((round % 7) << 40, 5), Err(5), "round {round}");
        }
    }
}
