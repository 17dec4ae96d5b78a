//! Who pays for a large audience: the writer or the readers.
//!
//! Comes from: the front, when it admits an event for a list.
//! Decides: whether the event is written into every follower's inbox, or kept as one pointer that followers merge
//! when they read. Decided once, recorded with the event, never asked again (so a list that grows past the
//! threshold in mid-flight shows every event exactly once).
//! Goes to: the `Admitted` record.

/// Frozen numbers: they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Tier {
    /// One inbox entry per follower.
    #[default]
    Written = 0,
    /// One pointer, merged by readers.
    Pointer = 1,
}

/// The tier of the next event of a list: up at `up` followers, down again below four fifths of it, so that a
/// list near the threshold does not flap.
#[must_use]
pub fn decide(current: Tier, followers: u64, up: u32) -> Tier {
    let up = u64::from(up);
    let down = up * 4 / 5;
    match current {
        Tier::Written if followers >= up => Tier::Pointer,
        Tier::Written => Tier::Written,
        Tier::Pointer if followers < down => Tier::Written,
        Tier::Pointer => Tier::Pointer,
    }
}

/// Whether a shard should tell the fronts the new size of its part of a list. Small parts never matter; large
/// ones are told in steps of about 1/64, so that a million follows cost hundreds of reports, not a million.
#[must_use]
pub fn worth_reporting(count: u64, reported: u64) -> bool {
    let step = (reported / 64).max(1);
    let relevant = count >= crate::limits::REPORT_MEMBERS_MIN || reported > 0;
    relevant && count.abs_diff(reported) >= step
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: FAN-01, FAN-02
    #[test]
    fn threshold_has_hysteresis() {
        let check = |current, followers, expected| assert_eq!(decide(current, followers, 10_000), expected);
        check(Tier::Written, 0, Tier::Written);
        check(Tier::Written, 9_999, Tier::Written);
        check(Tier::Written, 10_000, Tier::Pointer);
        check(Tier::Pointer, 9_999, Tier::Pointer);
        check(Tier::Pointer, 8_000, Tier::Pointer);
        check(Tier::Pointer, 7_999, Tier::Written);
        check(Tier::Written, 100_000_000, Tier::Pointer);
    }

    #[test]
    fn reports_are_exact_for_small_and_sparse_for_large_lists() {
        for (count, reported, expected) in [
            (1, 0, false),
            (15, 0, false),
            (16, 0, true),
            (17, 16, true),
            (16, 16, false),
            (15, 16, true),
            (10_100, 10_000, false),
            (10_156, 10_000, true),
            (9_844, 10_000, true),
            (0, 1, true),
        ] {
            assert_eq!(worth_reporting(count, reported), expected, "{count} after {reported}");
        }
    }

    #[test]
    fn growing_to_a_million_costs_hundreds_of_reports() {
        let (mut reported, mut reports) = (0, 0);
        for count in 1..=1_000_000 {
            if worth_reporting(count, reported) {
                reported = count;
                reports += 1;
            }
        }
        assert!(reports < 800, "{reports}");
    }
}
