//! Numbers that look random and are the same in every run: SplitMix64.

/// A sequence of numbers.
pub struct Random(u64);

impl Random {
    /// The sequence of a seed, which is printed: it is shown if the test fails. A number in `TEST_SEED` is added to it, for whoever wants to
    /// try more of them.
    pub fn new(seed: u64) -> Self {
        let more = std::env::var("TEST_SEED").map_or(0, |more| more.parse().expect("TEST_SEED is a number"));
        println!("seed: {seed} + {more}");
        Random(seed + more)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    /// One of the given things.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len() as u64) as usize]
    }
}
