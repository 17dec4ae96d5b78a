//! How often links save something in an hour: a holder who saves on and on would push the older proof of consent out of a user's
//! history.
//!
//! Invariant: memory is fixed, whatever links are followed. A link is counted at a place that follows from a hash under a random
//! key, so that no client can choose to share the place of another link. Links that share one share its count.

use aws_lc_rs::hmac;
use fantail_rules::ids::Millis;
use fantail_rules::limits::{LINK_SAVE_PLACES, LINK_SAVES_PER_HOUR_MAX};
use std::sync::{Mutex, MutexGuard, PoisonError};

const HOUR_MS: u64 = 3_600_000;
const _: () = assert!(LINK_SAVE_PLACES.is_power_of_two() && LINK_SAVE_PLACES <= 1 << 32);

pub struct LinkSaves {
    key: hmac::Key,
    hour: Mutex<SavesOfHour>,
}

struct SavesOfHour {
    /// Since 1970.
    number: u64,
    /// Saves by place. Nothing is allocated before the first one.
    counts: Vec<u8>,
}

/// The link has saved too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManySaves {
    pub retry_after_s: u64,
}

/// A save that counts, unless it is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountedSave {
    hour: u64,
    place: usize,
}

impl LinkSaves {
    #[must_use]
    pub fn new(key: u128) -> Self {
        let hour = SavesOfHour { number: 0, counts: Vec::new() };
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key.to_le_bytes()), hour: Mutex::new(hour) }
    }

    pub fn count(&self, link: &str, now: Millis) -> Result<CountedSave, TooManySaves> {
        let (number, place) = (now.0 / HOUR_MS, self.place(link));
        let mut hour = self.hour();
        if hour.number != number || hour.counts.is_empty() {
            *hour = SavesOfHour { number, counts: vec![0; LINK_SAVE_PLACES] };
        }
        if hour.counts[place] >= LINK_SAVES_PER_HOUR_MAX {
            let left_ms = HOUR_MS - now.0 % HOUR_MS;
            return Err(TooManySaves { retry_after_s: left_ms.div_ceil(1_000) });
        }
        hour.counts[place] += 1;
        Ok(CountedSave { hour: number, place })
    }

    /// Nothing was changed by it.
    pub fn give_back(&self, save: CountedSave) {
        let mut hour = self.hour();
        if hour.number == save.hour {
            hour.counts[save.place] = hour.counts[save.place].saturating_sub(1);
        }
    }

    fn place(&self, link: &str) -> usize {
        let tag = hmac::sign(&self.key, link.as_bytes());
        let first = tag.as_ref().first_chunk().expect("a SHA-256 tag has more than four bytes");
        u32::from_le_bytes(*first) as usize % LINK_SAVE_PLACES
    }

    fn hour(&self) -> MutexGuard<'_, SavesOfHour> {
        self.hour.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Millis = Millis(500_000 * HOUR_MS);

    // fixes: security L10
    #[test]
    fn a_link_saves_so_often_in_an_hour_and_others_are_not_kept_from_it() {
        let saves = LinkSaves::new(7);
        for _ in 0..LINK_SAVES_PER_HOUR_MAX {
            assert!(saves.count("one", NOON).is_ok());
        }
        let refused = |now| saves.count("one", now).expect_err("too many").retry_after_s;
        assert_eq!((refused(NOON), refused(NOON.plus(HOUR_MS - 1))), (3_600, 1));
        assert!(saves.count("another", NOON).is_ok());
        assert!(saves.count("one", NOON.plus(HOUR_MS)).is_ok(), "in the next hour");
    }

    // fixes: security L10
    #[test]
    fn what_changed_nothing_does_not_count() {
        let saves = LinkSaves::new(7);
        for _ in 0..1_000 {
            let save = saves.count("one", NOON).expect("none counts");
            saves.give_back(save);
        }
        let last = saves.count("one", NOON).expect("none counts");
        let next = saves.count("one", NOON.plus(HOUR_MS)).expect("another hour");
        saves.give_back(last);
        saves.give_back(next);
        assert!(saves.hour().counts.iter().all(|count| *count == 0), "each hour has its own");
    }
}
