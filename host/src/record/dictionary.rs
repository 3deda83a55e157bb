//! [`Dictionary`]: finds a key among those already in a batch. A table of its own because it is emptied for every batch: here that
//! costs nothing, in a general map a pass over the table.

/// Places of a table: twice the largest batch, so that probes stay short.
const PLACES: usize = 2 * super::outbox::BATCH_RECORDS;

/// Maps hashes to indices of keys that the caller holds. Linear probing over places of (generation, index); places of older
/// generations count as empty.
#[derive(Debug)]
pub(super) struct Dictionary {
    places: Vec<(u32, u32)>,
    generation: u32,
}

impl Default for Dictionary {
    fn default() -> Self {
        Dictionary { places: Vec::new(), generation: 1 }
    }
}

impl Dictionary {
    /// Counts up at every [`Dictionary::clear`]; never 0.
    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.places.clear();
            self.generation = 1;
        }
    }

    /// The index of the key with `hash` for which `same` holds; otherwise notes `next` as its index and returns it as an error.
    /// `next` must stay below [`super::outbox::BATCH_RECORDS`].
    #[inline]
    pub(super) fn find_or_insert(&mut self, hash: u64, next: usize, mut same: impl FnMut(usize) -> bool) -> Result<u32, u32> {
        if self.places.is_empty() {
            self.places.resize(PLACES, (0, 0));
        }
        let mut at = (hash >> 40) as usize % PLACES;
        loop {
            let (generation, index) = self.places[at];
            if generation != self.generation {
                // Batches end long before a u32 does.
                self.places[at] = (self.generation, next as u32);
                return Err(next as u32);
            }
            if same(index as usize) {
                return Ok(index);
            }
            at = (at + 1) % PLACES;
        }
    }
}
