//! What a post costs: now, if it is written into every follower's inbox, or later, if every reader merges a pointer.
//!
//! Comes from: unit costs that `make bench` measures. Decides: from how many followers on an author should be a
//! celebrity, as a budget for one post. Goes to: the default threshold, and `fantail plan`.

use crate::limits::TIER_UP_DEFAULT;

/// Unit costs on one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Processor time to materialise one entry, merging included.
    pub entry_write_ns: u64,
    /// Bytes written for one entry, merging included, in hundredths.
    pub entry_bytes_x100: u64,
    /// Processor time that one followed celebrity adds to one read.
    pub pointer_read_ns: u64,
}

/// Measured on two cores at 2.8 GHz. Entries: `make bench ARGS="--only index"`. Pointers: server CPU of the same pages
/// read by followers of the same 50 authors, once as celebrities and once written out.
pub const MEASURED: Costs = Costs { entry_write_ns: 30, entry_bytes_x100: 340, pointer_read_ns: 400 };

/// What one post may cost its writer, in processor time: a core then fans out more than 3,000 such posts a second.
pub const POST_BUDGET_US: u64 = 300;

/// How much is posted and read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Habits {
    /// Posts of one author in a day.
    pub posts: u64,
    /// Inbox reads of one follower in a day.
    pub reads: u64,
}

/// What an author with so many followers costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bill {
    /// Written: processor time of one post.
    pub write_us: u64,
    /// Written: bytes of one post, rewriting included.
    pub write_bytes: u64,
    /// Written: processor time of a day's posts.
    pub writes_day_us: u64,
    /// As a celebrity: processor time that a day's reads of all followers take longer.
    pub reads_day_us: u64,
}

#[must_use]
pub fn bill(costs: Costs, followers: u64, habits: Habits) -> Bill {
    let micros = |nanos: u128| u64::try_from(nanos / 1_000).unwrap_or(u64::MAX);
    let for_all = |one: u64| u128::from(followers) * u128::from(one);
    let write = for_all(costs.entry_write_ns);
    Bill {
        write_us: micros(write),
        write_bytes: u64::try_from(for_all(costs.entry_bytes_x100) / 100).unwrap_or(u64::MAX),
        writes_day_us: micros(write.saturating_mul(u128::from(habits.posts))),
        reads_day_us: micros(for_all(costs.pointer_read_ns).saturating_mul(u128::from(habits.reads))),
    }
}

/// From how many followers on a post goes beyond its budget.
#[must_use]
pub fn threshold(costs: Costs, post_budget_us: u64) -> u64 {
    post_budget_us.saturating_mul(1_000) / costs.entry_write_ns.max(1)
}

const _: () = assert!(
    POST_BUDGET_US * 1_000 / MEASURED.entry_write_ns == TIER_UP_DEFAULT as u64,
    "the default threshold is what the budget gives"
);

#[cfg(test)]
mod tests {
    use super::*;

    // proves: FAN-02
    #[test]
    fn bills_grow_with_followers_and_habits() {
        let habits = Habits { posts: 10, reads: 20 };
        for (followers, write_us, write_bytes, writes_day_us, reads_day_us) in [
            (0, 0, 0, 0, 0),
            (10_000, 300, 34_000, 3_000, 80_000),
            (1_000_000, 30_000, 3_400_000, 300_000, 8_000_000),
            (100_000_000, 3_000_000, 340_000_000, 30_000_000, 800_000_000),
        ] {
            let expected = Bill { write_us, write_bytes, writes_day_us, reads_day_us };
            assert_eq!(bill(MEASURED, followers, habits), expected, "{followers} followers");
        }
    }

    #[test]
    fn a_larger_budget_makes_fewer_celebrities() {
        assert_eq!(threshold(MEASURED, POST_BUDGET_US), 10_000);
        assert_eq!(threshold(MEASURED, 30_000), 1_000_000);
        assert_eq!(threshold(Costs { entry_write_ns: 0, ..MEASURED }, 1), 1_000);
        let most = Habits { posts: u64::MAX, reads: u64::MAX };
        assert_eq!(bill(MEASURED, u64::MAX, most).reads_day_us, u64::MAX);
    }
}
