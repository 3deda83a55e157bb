//! Key groups: the unit in which keyed state is spread over subtasks, and moved when their number changes.

use serde::{Deserialize, Serialize};

/// The key group of a key, given its hash ([`super::hash_key`]).
#[inline]
pub fn key_group(hash: u64, max_parallelism: u16) -> u16 {
    let max = u64::from(max_parallelism);
    // The remainder is below a u16. Mostly it needs no division, which takes longer than all else that places a key.
    (if max.is_power_of_two() { hash & (max - 1) } else { hash % max }) as u16
}

/// The subtask that owns a key group; as in Flink's `KeyGroupRangeAssignment`, so that ranges are contiguous and differ by one at most.
#[inline]
pub fn subtask_of(group: u16, max_parallelism: u16, parallelism: u16) -> u16 {
    // Below `parallelism`, since group is below max_parallelism.
    (u32::from(group) * u32::from(parallelism) / u32::from(max_parallelism)) as u16
}

/// A contiguous range of key groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGroups {
    /// The first key group.
    pub start: u16,
    /// One past the last.
    pub end: u16,
}

impl KeyGroups {
    /// The key groups that `subtask` owns.
    pub fn of_subtask(subtask: u16, parallelism: u16, max_parallelism: u16) -> Self {
        let first = |subtask: u16| (u32::from(subtask) * u32::from(max_parallelism)).div_ceil(u32::from(parallelism)) as u16;
        KeyGroups { start: first(subtask), end: first(subtask + 1) }
    }

    /// Whether `group` lies in it.
    #[inline]
    pub fn contains(self, group: u16) -> bool {
        self.start <= group && group < self.end
    }

    /// Whether the two have a key group in common.
    pub fn overlaps(self, other: KeyGroups) -> bool {
        self.start < other.end && other.start < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_exactly_the_groups_that_are_assigned_to_the_subtask() {
        for max in [1u16, 2, 7, 128, 1000, 32768] {
            for parallelism in (1..=max.min(17)).chain([max]) {
                for group in 0..max {
                    let owner = subtask_of(group, max, parallelism);
                    assert!(owner < parallelism);
                    assert!(KeyGroups::of_subtask(owner, parallelism, max).contains(group), "{group} of {max} at {parallelism}");
                }
                let total: u32 =
                    (0..parallelism).map(|s| KeyGroups::of_subtask(s, parallelism, max)).map(|r| u32::from(r.end - r.start)).sum();
                assert_eq!(total, u32::from(max));
            }
        }
    }
}
