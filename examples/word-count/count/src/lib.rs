//! Counts words: each record of a word is answered by how often the word has come so far.

use cofferdam_sdk::prelude::*;

/// The operator.
#[operator(key = String)]
pub struct Count {
    n: ValueState<u64>,
}

#[operator]
impl Count {
    /// The word is the key; the record has nothing else to say.
    #[input]
    fn words(&mut self, _: (), out: &mut Output<u64>) -> Result<()> {
        let n = self.n.get().unwrap_or(0) + 1;
        self.n.set(n);
        out.emit(n);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cofferdam_sdk::testing::{Harness, keyed};

    use super::*;

    #[test]
    fn each_word_is_answered_by_its_count_in_batches_of_any_size() {
        // 1,000 words of 37, in an order without a pattern that a batch could hide.
        let words: Vec<String> = (0..1000u64).map(|i| format!("w{}", i.wrapping_mul(i).wrapping_mul(2654435761) % 37)).collect();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let oracle: Vec<u64> = words
            .iter()
            .map(|word| {
                let n = counts.entry(word).or_default();
                *n += 1;
                *n
            })
            .collect();
        for size in [1, 2, 64, 1000] {
            let mut count = Harness::<Count>::new();
            let result = count.process_in_batches(size, words.iter().map(|word| keyed(word, ()))).unwrap();
            assert_eq!(result.values(), oracle, "in batches of {size}");
            for (word, n) in &counts {
                assert_eq!(count.value("n", *word), Some(*n), "of {word}");
            }
        }
    }
}
