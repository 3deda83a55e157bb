//! [`Draw`]: which keys a line's words have. The same bits on every machine: integers, and additions and multiplications of f64 in a
//! fixed order, which IEEE 754 defines exactly; no `ln` and no `exp`, whose last bit differs between libraries.

use crate::plan::Distribution;

/// Fraction bits of a binary logarithm in fixed point.
const FRACTION: u32 = 58;

/// The step of the generator: 2^64 divided by the golden ratio, as in SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finisher: spreads every bit over all.
#[inline]
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A distribution over the keys from 0 on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Draw {
    /// Draws floor(2^(u · log2(keys + 1))) − 1, which is floor(exp(u · ln(keys + 1))) − 1, for u uniform in [0, 1).
    Zipf { keys: u64, log2: u64 },
    /// Draws floor(u · keys), for u uniform in [0, 1).
    Uniform { keys: u64 },
}

impl Draw {
    /// Over `keys` keys: at least 1, at most 2^52.
    pub(super) fn new(distribution: Distribution, keys: u64) -> Self {
        match distribution {
            Distribution::Zipf => Draw::Zipf { keys, log2: log2(keys + 1) },
            Distribution::Uniform => Draw::Uniform { keys },
        }
    }

    /// Calls `take` with the number and the key of each of `words` words, drawn from `state` on.
    #[inline]
    pub(super) fn each(self, state: u64, words: usize, take: impl FnMut(usize, u64)) {
        match self {
            Draw::Zipf { keys, log2 } => each(state, words, |random| zipf(random, keys, log2), take),
            Draw::Uniform { keys } => each(state, words, |random| scale(random, keys), take),
        }
    }
}

/// One loop per distribution, so that nothing is decided within it.
#[inline]
fn each(mut state: u64, words: usize, key: impl Fn(u64) -> u64, mut take: impl FnMut(usize, u64)) {
    for number in 0..words {
        state = state.wrapping_add(GOLDEN);
        take(number, key(mix(state)));
    }
}

/// Computes floor(u · `factor`), with `random` as u in units of 2^-64.
#[inline]
fn scale(random: u64, factor: u64) -> u64 {
    ((u128::from(random) * u128::from(factor)) >> 64) as u64
}

#[inline]
fn zipf(random: u64, keys: u64, log2: u64) -> u64 {
    let exponent = scale(random, log2);
    let fraction = (exponent & ((1 << FRACTION) - 1)) as f64 * (1.0 / (1u64 << FRACTION) as f64);
    // In [1, 2), so its 52 explicit bits and the leading 1 are 2^52 times its value: shifted, they are the floor without a conversion.
    let bits = (exp2(fraction).to_bits() & ((1 << 52) - 1)) | 1 << 52;
    let rank = bits >> (52 - (exponent >> FRACTION));
    // The polynomial's error may reach one beyond.
    rank.min(keys) - 1
}

/// 2^x for x in [0, 1], to a relative error of 1.2e-10: exactly 1 at 0, and below 2 at 1. The rest is a Chebyshev approximation of
/// (2^x − 1) / x, evaluated in pairs, which is shorter than one product after another.
#[inline]
fn exp2(x: f64) -> f64 {
    let (x2, x4) = (x * x, (x * x) * (x * x));
    let low = (0.6931471807718957 + 0.2402264862038437 * x) + (0.05550443944747713 + 0.009616159879565793 * x) * x2;
    let high = (0.001338905281913464 + 0.0001460963217042943 * x) + 2.0731864617625084e-5 * x2;
    1.0 + (low + high * x4) * x
}

/// The binary logarithm of `n`, which is not 0, in fixed point, bit by bit in integers; rounded down, to about the last bit.
fn log2(n: u64) -> u64 {
    let whole = n.ilog2();
    // n / 2^whole, in [1, 2), with 63 fraction bits. Squaring it doubles the logarithm and moves its next bit before the point.
    let mut mantissa = n << n.leading_zeros();
    let mut log = u64::from(whole);
    for _ in 0..FRACTION {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let bit = (square >> 64) as u64;
        mantissa = (square >> bit) as u64;
        log = log << 1 | bit;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_standard_library() {
        for n in (1..2000).chain([4095, 4096, 4097, 1_000_001, 10_000_001, (1 << 52) + 1]) {
            let ours = log2(n) as f64 / (1u64 << FRACTION) as f64;
            assert!((ours - (n as f64).log2()).abs() < 1e-14, "log2({n}) = {ours}");
        }
    }

    #[test]
    fn the_power_is_that_of_the_standard_library_and_stays_below_2() {
        assert_eq!(exp2(0.0), 1.0);
        assert!(exp2(1.0) < 2.0);
        for step in 0..=100_000 {
            let x = f64::from(step) / 100_000.0;
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1.2e-10, "2^{x} = {}", exp2(x));
        }
    }

    #[test]
    fn keys_are_those_of_the_formula() {
        for keys in [1, 2, 3, 10, 1000, 1_000_000, 10_000_000, 1 << 40, 1 << 52] {
            let draw = |random| zipf(random, keys, log2(keys + 1));
            let mut different = 0;
            for random in (0..10_000).map(mix).chain([0, u64::MAX]) {
                let u = random as f64 / 2f64.powi(64);
                let expected = ((u * ((keys + 1) as f64).ln()).exp().floor() as u64).min(keys) - 1;
                let key = draw(random);
                assert!(key < keys);
                different += u32::from(key != expected);
                assert!(key.abs_diff(expected) as f64 <= 1.0 + keys as f64 * 3e-10, "{key} for {expected} of {keys} keys");
            }
            assert!(keys > 10_000_000 || different <= 10, "{different} of 10,000 differ for {keys} keys");
            assert_eq!((draw(0), draw(u64::MAX) >= keys - 1 - keys / 1_000_000_000), (0, true));
        }
    }

    #[test]
    fn uniform_reaches_the_first_and_the_last_key() {
        assert_eq!((scale(0, 1000), scale(u64::MAX, 1000)), (0, 999));
    }
}
