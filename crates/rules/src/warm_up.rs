//! How many mails a new sender may send on each of its first days. Mailbox providers trust nobody who begins with a crowd:
//! the amount grows by the same factor every day and reaches its target after 45 of them.
//!
//! ```text
//! allowed(day) = FIRST × (target / FIRST) ^ (day / 44)        day 0 … 44
//! ```
//! What must never happen: a day that allows less than the one before, or more than the target.

/// After so many days the target is reached.
pub const WARM_UP_DAYS: u32 = 45;
/// What the first day allows, unless the target is smaller.
const FIRST_DAY: u64 = 50;
pub const DAY_MS: u64 = 86_400_000;

/// Messages that may be sent on this day, the first one being 0. `None` once the sender is warm.
#[must_use]
pub fn allowed(day: u32, target: u64) -> Option<u64> {
    if day >= WARM_UP_DAYS {
        return None;
    }
    if target <= FIRST_DAY {
        return Some(target);
    }
    Some(grown(day, target))
}

/// By integers alone, so that every machine has the same curve: logarithms in 1/65536.
fn grown(day: u32, target: u64) -> u64 {
    if day + 1 == WARM_UP_DAYS {
        return target;
    }
    let way = log2(target) - log2(FIRST_DAY);
    let exponent = way * u64::from(day) / u64::from(WARM_UP_DAYS - 1);
    exp2(log2(FIRST_DAY) + exponent).clamp(FIRST_DAY, target)
}

const ONE: u64 = 1 << 16;

/// In 1/65536. At least 1.
fn log2(number: u64) -> u64 {
    let number = number.max(1);
    let whole = u64::from(number.ilog2());
    // Between 1 and 2, in 1/2^32.
    let mut rest = (u128::from(number) << 32) >> whole;
    let mut fraction = 0;
    for _ in 0..16 {
        rest = (rest * rest) >> 32;
        fraction <<= 1;
        if rest >= 2 << 32 {
            rest >>= 1;
            fraction |= 1;
        }
    }
    whole * ONE + fraction
}

/// Of a number in 1/65536. Inverts `log2`, by looking for it.
fn exp2(exponent: u64) -> u64 {
    let whole = exponent / ONE;
    if whole >= 63 {
        return u64::MAX;
    }
    let (mut low, mut high) = (1u64 << whole, 2u64 << whole);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if log2(middle) <= exponent { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // proves: EML-01
    #[test]
    fn the_curve_is_as_it_was() {
        let day = |day| allowed(day, 1_000_000);
        assert_eq!(day(0), Some(50));
        assert_eq!(day(44), Some(1_000_000));
        assert_eq!(day(45), None);
        for (no, expected) in [(11, 594), (22, 7_070), (33, 84_089)] {
            let found = day(no).expect("not warm yet");
            assert!(found.abs_diff(expected) * 1_000 <= expected * 2, "day {no}: {found}, not {expected}");
        }
    }

    #[test]
    fn small_targets_need_no_curve() {
        for target in [0, 1, 50] {
            assert_eq!(allowed(0, target), Some(target));
            assert_eq!(allowed(44, target), Some(target));
        }
    }

    proptest! {
        // proves: EML-01
        #[test]
        fn it_only_grows_and_never_beyond_the_target(target in 0u64..1 << 40) {
            let days: Vec<u64> = (0..WARM_UP_DAYS).filter_map(|day| allowed(day, target)).collect();
            prop_assert_eq!(days.len(), WARM_UP_DAYS as usize);
            prop_assert!(days.is_sorted());
            prop_assert_eq!(days.last(), Some(&target));
        }
    }
}
