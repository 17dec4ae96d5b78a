//! Has this request been accepted before?
//!
//! Comes from: the front, with what its tables (and the batches still being made durable) know of the key.
//! Decides: new, the same again, or the same key with another body.
//! Goes to: an `Admitted` record, the first answer again, or a refusal.

use crate::ids::Millis;
use crate::limits::IDEMPOTENCY_WINDOW_MS;
use crate::ulid::Ulid;

/// What the front remembers of an accepted request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    pub event: Ulid,
    /// Hash of the decoded request.
    pub body_hash: [u8; 16],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    New,
    Repeat(Ulid),
    OtherBody,
}

#[must_use]
pub fn decide(known: Option<Known>, body_hash: [u8; 16]) -> Verdict {
    match known {
        None => Verdict::New,
        Some(known) if known.body_hash == body_hash => Verdict::Repeat(known.event),
        Some(_) => Verdict::OtherBody,
    }
}

/// Keys are remembered in buckets as long as the window, so that forgetting is dropping a whole bucket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bucket(pub u32);

impl Bucket {
    #[must_use]
    pub fn of(now: Millis) -> Self {
        Self(u32::try_from(now.0 / IDEMPOTENCY_WINDOW_MS).unwrap_or(u32::MAX))
    }

    /// The buckets a repeat may be in: this one and the one before.
    #[must_use]
    pub fn searched(now: Millis) -> [Self; 2] {
        let current = Self::of(now);
        [current, Self(current.0.saturating_sub(1))]
    }

    /// Buckets below this one hold nothing inside the window.
    #[must_use]
    pub fn oldest_kept(now: Millis) -> Self {
        Self(Self::of(now).0.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: DED-08
    #[test]
    fn same_body_repeats_and_another_is_refused() {
        let known = Known { event: Ulid(7), body_hash: [1; 16] };
        assert_eq!(decide(None, [1; 16]), Verdict::New);
        assert_eq!(decide(Some(known), [1; 16]), Verdict::Repeat(Ulid(7)));
        assert_eq!(decide(Some(known), [2; 16]), Verdict::OtherBody);
    }

    #[test]
    fn every_key_is_found_for_the_whole_window() {
        for start in [0, 1, IDEMPOTENCY_WINDOW_MS - 1, 5 * IDEMPOTENCY_WINDOW_MS + 17] {
            let written = Bucket::of(Millis(start));
            for age in [0, 1, IDEMPOTENCY_WINDOW_MS / 2, IDEMPOTENCY_WINDOW_MS] {
                let now = Millis(start + age);
                assert!(Bucket::searched(now).contains(&written), "{start} {age}");
                assert!(written >= Bucket::oldest_kept(now));
            }
        }
    }
}
