//! Which runs are merged next. Pure: sizes in, a stretch of neighbours out.
//!
//! Runs of about the same size are merged when there are enough of them, so that each entry is rewritten once per
//! tier. The largest runs are left alone: retention drops them whole.

use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierOptions {
    /// Neighbours of one tier that are merged into one run of the next.
    pub fan_in: usize,
    /// The same for small runs: filters make many of them cheap to read.
    pub fan_in_small: usize,
    /// Entries below which a run is small.
    pub small_entries: u64,
    /// Entries above which a run is not merged any more.
    pub run_entries_max: u64,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self { fan_in: 8, fan_in_small: 16, small_entries: 1 << 20, run_entries_max: 1 << 29 }
    }
}

/// The stretch of runs to merge, if any. `entries` is the size of each run, oldest first.
pub fn choose(entries: &[u64], options: TierOptions) -> Option<Range<usize>> {
    // The newest stretch first: it is the smallest, and the one that readers walk through most.
    for tier in 0..u64::BITS as u64 {
        let mut end = entries.len();
        while end > 0 {
            let is_here = |size: &u64| tier_of(*size, options) == Some(tier);
            let start = entries[..end].iter().rposition(|size| !is_here(size)).map_or(0, |at| at + 1);
            let fan_in = if tier == 0 { options.fan_in_small } else { options.fan_in };
            if end - start >= fan_in.max(2) {
                return Some(start..start + fan_in.max(2));
            }
            end = start.saturating_sub(usize::from(start == end));
        }
    }
    stragglers(entries, options)
}

/// A small run between larger ones would never find neighbours of its size: it joins the larger of the two.
fn stragglers(entries: &[u64], options: TierOptions) -> Option<Range<usize>> {
    let tier = |at: usize| tier_of(entries[at], options);
    (1..entries.len().saturating_sub(1)).find_map(|at| {
        let (before, here, after) = (tier(at - 1)?, tier(at)?, tier(at + 1));
        let is_between = here < before && after.is_none_or(|after| here < after);
        is_between.then_some(at - 1..at + 1)
    })
}

/// Tier 0 are the small runs; each further tier is `fan_in` times larger. `None` is never merged again.
fn tier_of(entries: u64, options: TierOptions) -> Option<u64> {
    if entries >= options.run_entries_max {
        return None;
    }
    let (mut tier, mut bound) = (0, options.small_entries.max(1));
    while entries >= bound {
        tier += 1;
        bound = bound.saturating_mul(options.fan_in.max(2) as u64);
    }
    Some(tier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: TierOptions =
        TierOptions { fan_in: 3, fan_in_small: 4, small_entries: 10, run_entries_max: 1_000 };

    #[test]
    fn neighbours_of_one_tier_are_merged() {
        for (entries, expected) in [
            (&[][..], None),
            (&[1, 1, 1], None),
            (&[1, 1, 1, 1], Some(0..4)),
            (&[50, 1, 0, 9, 1, 1], Some(1..5)),
            (&[10, 20, 29], Some(0..3)),
            (&[10, 20, 29, 5], Some(0..3)),
            (&[10, 20, 95, 1, 1, 1], None),
            (&[10, 20, 29, 1, 1, 1, 1], Some(3..7)),
            (&[2_000, 2_000, 2_000, 2_000], None),
            (&[100, 200, 269], Some(0..3)),
            (&[100, 200, 2_000, 269], None),
            (&[100, 5, 100], Some(0..2)),
            (&[2_000, 5, 2_000], None),
        ] {
            assert_eq!(choose(entries, OPTIONS), expected, "{entries:?}");
        }
    }

    #[test]
    fn each_entry_is_rewritten_once_per_tier() {
        let (mut runs, mut rewritten, mut most) = (Vec::new(), 0, 0);
        for _ in 0..900 {
            runs.push(1u64);
            while let Some(chosen) = choose(&runs, OPTIONS) {
                let merged = runs.drain(chosen.clone()).sum();
                rewritten += merged;
                runs.insert(chosen.start, merged);
            }
            most = most.max(runs.len());
        }
        assert!(rewritten <= 900 * 6, "{rewritten} entries were rewritten");
        assert!(most <= 16, "{most} runs at once");
    }
}
