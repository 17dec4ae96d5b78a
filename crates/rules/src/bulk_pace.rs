//! How fast a bulk send goes over the users of its shards: what a step costs in time, and how far a step goes.
//!
//! Input: the pace that the producer wants, and how many shards share it. Output: the size of the next step, and when the one
//! after it may begin. A step is about a second's worth.
//!
//! Invariant: over time never above the pace, and all of it while there is somebody left: a step that begins late does not
//! put off those behind it, up to [`CATCH_UP_MS`].

use crate::ids::Millis;
use crate::limits::WALK_MEMBERS_MAX;

/// What a scan that is late makes good. What it missed before that (a pause, a closed window) is not sent at once.
pub const CATCH_UP_MS: u64 = 1_000;
/// A step is about so long.
const STEP_MS: u64 = 1_000;

/// How many members one step takes, so that its cost is a whole number of milliseconds or close to it.
#[must_use]
pub fn members_of_step(per_second: u32, shards: u16) -> usize {
    let (rate, shards) = (u64::from(per_second.max(1)), u64::from(shards.max(1)));
    let most = WALK_MEMBERS_MAX as u64;
    let span_ms = STEP_MS.min((most * 1_000 * shards / rate).max(1));
    let members = (rate * span_ms / (1_000 * shards)).clamp(1, most);
    usize::try_from(members).unwrap_or(WALK_MEMBERS_MAX)
}

/// What so many members cost a shard that shares the rate with others.
#[must_use]
pub fn cost_of_members_ms(members: usize, per_second: u32, shards: u16) -> u64 {
    let members_ms = (members as u64).saturating_mul(1_000 * u64::from(shards.max(1)));
    members_ms.div_ceil(u64::from(per_second.max(1)))
}

/// How many users one step looks at, if all of them are to be passed evenly in so long.
#[must_use]
pub fn users_of_step(users: u64, over_ms: u64) -> u64 {
    (users.saturating_mul(STEP_MS) / over_ms.max(1)).max(1)
}

/// What so many of all users cost.
#[must_use]
pub fn cost_of_users_ms(passed: u64, users: u64, over_ms: u64) -> u64 {
    passed.saturating_mul(over_ms).div_ceil(users.max(1))
}

/// When the next step may begin, after one that was due at some time and begins now.
#[must_use]
pub fn next_step_at(due: Millis, now: Millis, cost_ms: u64) -> Millis {
    due.max(Millis(now.0.saturating_sub(CATCH_UP_MS))).plus(cost_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shards with so many members each, whose scans begin so late in every step. Returns when how many were passed.
    fn drain(per_second: u32, mut left: Vec<usize>, late_ms: u64) -> Vec<(Millis, usize)> {
        let mut due = vec![Millis(CATCH_UP_MS); left.len()];
        let mut passed = Vec::new();
        for now in (CATCH_UP_MS..).map(Millis) {
            let is_open = |(left, due): (&usize, &Millis)| *left > 0 || now < *due;
            let open = left.iter().zip(&due).filter(|one| is_open(*one)).count();
            if left.iter().all(|left| *left == 0) {
                return passed;
            }
            let shards = u16::try_from(open).expect("few shards");
            for (left, due) in left.iter_mut().zip(&mut due) {
                if *left > 0 && now >= due.plus(late_ms) {
                    let members = members_of_step(per_second, shards).min(*left);
                    *left -= members;
                    *due = next_step_at(*due, now, cost_of_members_ms(members, per_second, shards));
                    passed.push((now, members));
                }
            }
        }
        passed
    }

    // proves: BLK-04
    // fixes: interop F1
    #[test]
    fn a_scan_goes_at_its_rate_and_never_faster() {
        for per_second in [1, 3, 7, 10, 100, 999, 5_000, 70_001, 700_000] {
            for times in [20, 100] {
                let total = times * per_second as usize;
                let uneven = vec![total * 6 / 10, total * 3 / 10, total / 10, 0];
                for shards in [vec![total], vec![total / 4; 4], uneven] {
                    for late_ms in [0, 7, 40] {
                        let count: usize = shards.iter().sum();
                        let passed = drain(per_second, shards.clone(), late_ms);
                        let (first, last) = (passed[0].0, passed[passed.len() - 1].0);
                        let took_ms = last.since(first);
                        let ideal_ms = count as u64 * 1_000 / u64::from(per_second);
                        // A shard that is left alone learns it at its next step.
                        let step_ms = 1_000.max(4_000 / u64::from(per_second)) + late_ms;
                        let case = format!(
                            "{count} at {per_second}/s in {} shards, {late_ms} ms late",
                            shards.len()
                        );
                        assert!(
                            took_ms <= ideal_ms * 10 / 9 + step_ms,
                            "{took_ms}, not {ideal_ms} ms: {case}"
                        );
                        let mut sum = 0;
                        for (at, members) in &passed {
                            sum += *members as u64;
                            // A step of each shard, and what late steps make good.
                            let span_ms = at.since(first) + step_ms + CATCH_UP_MS;
                            assert!(
                                sum * 1_000 <= u64::from(per_second) * span_ms + 4_000,
                                "{sum} at {at}: {case}"
                            );
                        }
                    }
                }
            }
        }
    }

    // proves: BLK-08
    // fixes: interop F1
    #[test]
    fn what_is_spread_takes_its_time_and_no_longer() {
        for (users, over_ms) in
            [(1, 60_000), (3, 600_000), (1_000, 60_000), (77_777, 60_000), (1_000_000, 3_600_000)]
        {
            for late_ms in [0, 7, 40] {
                let (mut due, mut next, mut last) = (Millis(0), 0, Millis(0));
                while next < users {
                    let now = due.plus(late_ms);
                    let passed = users_of_step(users, over_ms).min(5_000).min(users - next);
                    due = next_step_at(due, now, cost_of_users_ms(passed, users, over_ms));
                    (next, last) = (next + passed, now);
                }
                assert!(
                    last.plus(over_ms * users_of_step(users, over_ms).min(5_000) / users).0
                        >= over_ms * 99 / 100
                );
                assert!(last.0 <= over_ms * 10 / 9, "{users} took {last} ms, not {over_ms}");
            }
        }
    }

    #[test]
    fn a_step_is_no_longer_than_a_second_and_a_late_one_is_made_good() {
        for (rate, shards, members) in
            [(1, 4, 1), (10, 4, 2), (400, 4, 100), (4_000, 4, 1_000), (900_000, 4, 900)]
        {
            assert_eq!(members_of_step(rate, shards), members, "{rate} in {shards}");
        }
        assert_eq!((cost_of_members_ms(2, 10, 4), cost_of_members_ms(900, 900_000, 4)), (800, 4));
        assert_eq!(next_step_at(Millis(5_000), Millis(5_300), 100), Millis(5_100));
        assert_eq!(
            next_step_at(Millis(5_000), Millis(90_000), 100),
            Millis(89_100),
            "a pause is not made good"
        );
    }
}
