//! How much one user gets on one channel: so many in an hour, so many in a day, and a bucket against bursts.
//!
//! Comes from: the user's caps, the tenant's pace, and twelve bytes of what was sent. Decides: whether one more would be
//! too much ([`Used::would_exceed`]), and what is remembered of it ([`Used::counted`]). Goes to: `gates::frequency`, and
//! to the fold of the `Intend` record, which counts what it allows.
//!
//! An hour is a clock hour of UTC, the same for everybody; a day is the user's own if the zone is known, else UTC's.
//! What must never happen: more than a cap in its hour or day, critical ones aside, which count and are never stopped.

use crate::ids::Millis;
use crate::limits::{CAP_PER_DAY_MAX, CAP_PER_HOUR_MAX};
use crate::wall::LocalNow;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// What a user wants at most on one channel; 0 is no cap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Caps {
    pub per_hour: u16,
    pub per_day: u16,
}

impl Caps {
    /// Whether they can be counted.
    #[must_use]
    pub fn are_valid(self) -> bool {
        self.per_hour <= CAP_PER_HOUR_MAX && self.per_day <= CAP_PER_DAY_MAX
    }
}

/// What a tenant sends to one user on one channel at most: so many at once, and one more after each rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    pub burst: u16,
    pub refill_seconds: u32,
}

/// What somebody wants to get at most on one channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    pub caps: Caps,
    pub pace: Option<Pace>,
}

impl Limit {
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// This, and where it says nothing, the other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let or = |own: u16, usual: u16| if own == 0 { usual } else { own };
        let caps = Caps {
            per_hour: or(self.caps.per_hour, other.caps.per_hour),
            per_day: or(self.caps.per_day, other.caps.per_day),
        };
        Self { caps, pace: self.pace.or(other.pace) }
    }

    /// Frozen: caps of the hour and of the day, burst, and seconds; each little-endian. No burst is no pace.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 10] {
        let Self { caps, pace } = self;
        let (burst, seconds) = pace.map_or((0, 0), |pace| (pace.burst, pace.refill_seconds));
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&caps.per_hour.to_le_bytes());
        bytes[2..4].copy_from_slice(&caps.per_day.to_le_bytes());
        bytes[4..6].copy_from_slice(&burst.to_le_bytes());
        bytes[6..].copy_from_slice(&seconds.to_le_bytes());
        bytes
    }

    #[must_use]
    pub fn from_stored(bytes: [u8; 10]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j] = bytes;
        let caps = Caps { per_hour: u16::from_le_bytes([a, b]), per_day: u16::from_le_bytes([c, d]) };
        let (burst, refill_seconds) = (u16::from_le_bytes([e, f]), u32::from_le_bytes([g, h, i, j]));
        Self { caps, pace: (burst > 0).then_some(Pace { burst, refill_seconds }) }
    }
}

/// The hour and the day that something counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When {
    now: Millis,
    /// Since 1970, UTC.
    hour: u32,
    /// Since 1970, on the user's calendar.
    day: u16,
}

impl When {
    /// `local` is the clock of the user's zone, if it is known.
    #[must_use]
    pub fn new(now: Millis, local: Option<&LocalNow>) -> Self {
        let day = match local {
            Some(local) => u16::try_from(local.day.max(0)).unwrap_or(u16::MAX),
            None => u16::try_from(now.0 / DAY_MS).unwrap_or(u16::MAX),
        };
        Self::on_day(now, day)
    }

    /// For whoever folds a record: the day was decided when it was planned, and no zone is asked again.
    #[must_use]
    pub fn on_day(now: Millis, day: u16) -> Self {
        Self { now, hour: u32::try_from(now.0 / HOUR_MS).unwrap_or(HOUR_MAX).min(HOUR_MAX), day }
    }

    /// On the user's calendar, since 1970: at most one from UTC's either way.
    #[must_use]
    pub fn day(self) -> u16 {
        self.day
    }
}

/// What one user got on one channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    hour: u32,
    in_hour: u16,
    day: u16,
    in_day: u16,
    /// The second at which the bucket is full again. What is missing till then is in use.
    full_at_s: u32,
}

const HOUR_BITS: u32 = 21;
const HOUR_MAX: u32 = (1 << HOUR_BITS) - 1;
/// Counting stops here, above every cap.
const IN_HOUR_MAX: u16 = (1 << (32 - HOUR_BITS)) - 1;

impl Used {
    /// Whether one more is too much.
    #[must_use]
    pub fn would_exceed(&self, caps: Caps, pace: Option<Pace>, when: When) -> bool {
        let (in_hour, in_day) = self.counts(when);
        (caps.per_hour != 0 && in_hour >= caps.per_hour)
            || (caps.per_day != 0 && in_day >= caps.per_day)
            || pace.is_some_and(|pace| self.is_empty(pace, when))
    }

    /// One more was allowed.
    #[must_use]
    pub fn counted(&self, pace: Option<Pace>, when: When) -> Self {
        let (in_hour, in_day) = self.counts(when);
        Self {
            hour: self.hour.max(when.hour),
            in_hour: (in_hour + 1).min(IN_HOUR_MAX),
            day: self.day.max(when.day),
            in_day: in_day.saturating_add(1),
            full_at_s: pace.map_or(self.full_at_s, |pace| self.full_at_after(pace, when)),
        }
    }

    /// Frozen: hour and count of the hour in 21 and 11 bits, day and count of the day in 16 and 16, the second at which
    /// the bucket is full; each little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 12] {
        let words = [
            self.hour << (32 - HOUR_BITS) | u32::from(self.in_hour),
            u32::from(self.day) << 16 | u32::from(self.in_day),
            self.full_at_s,
        ];
        let mut bytes = [0; 12];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[must_use]
    pub fn from_stored(bytes: [u8; 12]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let hour = u32::from_le_bytes([a, b, c, d]);
        Self {
            hour: hour >> (32 - HOUR_BITS),
            in_hour: u16::try_from(hour & u32::from(IN_HOUR_MAX)).unwrap_or(IN_HOUR_MAX),
            in_day: u16::from_le_bytes([e, f]),
            day: u16::from_le_bytes([g, h]),
            full_at_s: u32::from_le_bytes([i, j, k, l]),
        }
    }

    /// In this hour and on this day. A user who moves west may have the same day again: it goes on counting.
    fn counts(&self, when: When) -> (u16, u16) {
        let in_hour = if when.hour > self.hour { 0 } else { self.in_hour };
        let in_day = if when.day > self.day { 0 } else { self.in_day };
        (in_hour, in_day)
    }

    fn is_empty(&self, pace: Pace, when: When) -> bool {
        let missing_s = u64::from(self.full_at_s).saturating_sub(when.now.0 / 1_000);
        missing_s > u64::from(pace.burst.max(1) - 1) * u64::from(pace.refill_seconds)
    }

    /// Parts of a second are rounded against the user's phone ringing too often. What is critical may take from an empty
    /// bucket, which does not become emptier than empty.
    fn full_at_after(&self, pace: Pace, when: When) -> u32 {
        let now_s = when.now.0.div_ceil(1_000);
        let refill_s = u64::from(pace.refill_seconds);
        let full_at_s = u64::from(self.full_at_s).max(now_s) + refill_s;
        let empty_s = now_s + u64::from(pace.burst.max(1)) * refill_s;
        u32::try_from(full_at_s.min(empty_s)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::ZoneNo;
    use proptest::prelude::*;

    /// A Tuesday, 00:00 UTC.
    const START: u64 = 1_780_963_200_000;

    fn at_minute(minute: u64) -> When {
        When::new(Millis(START + minute * 60_000), None)
    }

    // proves: PRF-02, RL-03
    #[test]
    fn caps_hold_in_their_hour_and_day() {
        let caps = Caps { per_hour: 2, per_day: 3 };
        let mut used = Used::default();
        // (minute of the day, allowed)
        for (minute, allowed) in [
            (0, true),
            (59, true),
            (59, false),
            (60, true), // the third of the day
            (61, false),
            (23 * 60, false),
            (24 * 60, true),
            (24 * 60 + 1, true),
            (24 * 60 + 2, false),
            (24 * 60 + 60, true),
            (24 * 60 + 120, false),
        ] {
            assert_eq!(!used.would_exceed(caps, None, at_minute(minute)), allowed, "at {minute}");
            if allowed {
                used = used.counted(None, at_minute(minute));
            }
        }
        assert!(!used.would_exceed(Caps::default(), None, at_minute(24 * 60 + 120)), "no caps");
        assert!(used.would_exceed(Caps { per_hour: 0, per_day: 3 }, None, at_minute(24 * 60 + 120)));
    }

    // proves: RL-03
    #[test]
    fn a_day_is_the_users_own() {
        let caps = Caps { per_hour: 0, per_day: 1 };
        let when = |zone: &str, minute: u64| {
            let now = Millis(START + minute * 60_000);
            When::new(now, LocalNow::new(ZoneNo::find(zone).expect("a zone"), now).as_ref())
        };
        let used = Used::default().counted(None, when("Asia/Tokyo", 14 * 60));
        assert!(used.would_exceed(caps, None, when("Asia/Tokyo", 14 * 60 + 59)));
        assert!(!used.would_exceed(caps, None, when("Asia/Tokyo", 15 * 60)), "midnight in Tokyo");
        assert!(used.would_exceed(caps, None, when("UTC", 15 * 60)));
        // Whoever folds the record asks no zone.
        let planned = when("Asia/Tokyo", 15 * 60);
        assert_eq!(When::on_day(planned.now, planned.day()), planned);
        // Who flies back over midnight has yesterday's date again, but not yesterday's count.
        let used = Used::default().counted(None, when("Asia/Tokyo", 15 * 60));
        assert!(used.would_exceed(caps, None, when("America/New_York", 15 * 60 + 1)));
    }

    // proves: RL-01
    #[test]
    fn a_bucket_refills_one_by_one() {
        let pace = Some(Pace { burst: 2, refill_seconds: 600 });
        let when = |second: u64| When::new(Millis(START + second * 1_000), None);
        let mut used = Used::default();
        // (second, allowed)
        for (second, allowed) in [
            (0, true),
            (1, true),
            (2, false),
            (599, false),
            (600, true),
            (601, false),
            (1_200, true),
            (1_800, true),
            (3_600, true),
            (3_600, true),
            (3_600, false),
        ] {
            assert_eq!(!used.would_exceed(Caps::default(), pace, when(second)), allowed, "at {second}");
            if allowed {
                used = used.counted(pace, when(second));
            }
        }
        // Critical ones take what is not there; it is not owed for longer than the bucket takes to fill.
        let used = (0..100).fold(used, |used, _| used.counted(pace, when(3_600)));
        assert!(used.would_exceed(Caps::default(), pace, when(3_600 + 599)));
        assert!(!used.would_exceed(Caps::default(), pace, when(3_600 + 600)));
    }

    // proves: DEL-18
    #[test]
    fn what_is_critical_counts() {
        let caps = Caps { per_hour: 3, per_day: 0 };
        let used = (0..5_000).fold(Used::default(), |used, _| used.counted(None, at_minute(0)));
        assert!(used.would_exceed(caps, None, at_minute(1)));
        let widest = Caps { per_hour: CAP_PER_HOUR_MAX, per_day: 0 };
        assert!(used.would_exceed(widest, None, at_minute(1)), "counting goes beyond every cap");
    }

    // proves: RL-01, RL-03
    #[test]
    fn limits_are_filled_up_and_frozen() {
        let caps = |per_hour, per_day| Caps { per_hour, per_day };
        let pace = |burst| Some(Pace { burst, refill_seconds: 0x0102_0304 });
        let own = Limit { caps: caps(3, 0), pace: None };
        let usual = Limit { caps: caps(9, 513), pace: pace(5) };
        let both = Limit { caps: caps(3, 513), pace: pace(5) };
        assert_eq!((own.or(usual), Limit::default().or(usual)), (both, usual));
        assert_eq!((usual.or(own), own.or(Limit::default())), (usual, own));
        assert!(Limit::default().is_none() && !own.is_none());
        assert_eq!(both.to_bytes(), [3, 0, 1, 2, 5, 0, 4, 3, 2, 1]);
        for limit in [own, usual, both, Limit::default()] {
            assert_eq!(Limit::from_stored(limit.to_bytes()), limit);
        }
    }

    #[test]
    fn what_is_stored_is_frozen() {
        let pace = Some(Pace { burst: 5, refill_seconds: 60 });
        let used = (0..3).fold(Used::default(), |used, _| used.counted(pace, at_minute(0)));
        assert_eq!(used.to_bytes(), [3, 192, 99, 60, 3, 0, 133, 80, 52, 88, 39, 106]);
        assert_eq!(Used::default().to_bytes(), [0; 12]);
    }

    proptest! {
        #[test]
        fn stored_counts_are_read_as_they_were(bytes in any::<[u8; 12]>()) {
            prop_assert_eq!(Used::from_stored(bytes).to_bytes(), bytes);
        }

        /// Whatever comes when, in no hour and no day there are more than the caps, and in no stretch of time more than
        /// burst + rate × time.
        #[test]
        fn caps_are_never_exceeded(
            gaps_ms in proptest::collection::vec(0u64..4_000_000, 1..300),
            per_hour in 1u16..10,
            per_day in 1u16..30,
            burst in 1u16..6,
            refill_seconds in 1u32..5_000,
        ) {
            let (caps, pace) = (Caps { per_hour, per_day }, Pace { burst, refill_seconds });
            let (mut now, mut used, mut allowed) = (START, Used::default(), Vec::new());
            for gap in gaps_ms {
                // Half of them at once after the one before.
                now += if gap % 2 == 0 { 0 } else { gap };
                let when = When::new(Millis(now), None);
                if !used.would_exceed(caps, Some(pace), when) {
                    used = Used::from_stored(used.counted(Some(pace), when).to_bytes());
                    allowed.push(now);
                }
            }
            for (index, first) in allowed.iter().enumerate() {
                let until = |end: u64| allowed[index..].iter().filter(|at| **at < end).count();
                prop_assert!(until((first / HOUR_MS + 1) * HOUR_MS) <= usize::from(per_hour));
                prop_assert!(until((first / DAY_MS + 1) * DAY_MS) <= usize::from(per_day));
                for (more, last) in allowed[index..].iter().enumerate() {
                    let refilled = (last - first) / (u64::from(refill_seconds) * 1_000);
                    prop_assert!((more as u64) < u64::from(burst) + refilled);
                }
            }
        }
    }
}
