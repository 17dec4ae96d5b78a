//! When messages come back that found no room at a limit: one after the other, at the limit's own rate.
//!
//! Input: when the limit has room, and its interval. Output: after how long each message comes back, a little before its
//! slot, because timers of deliveries go by the second. Early messages wait at the limit, so it never runs dry.
//!
//! Invariant: no slot is further away than `PUT_OFF_MS_MAX`, or than the time at which there is room: what is slow may
//! become fast.

use crate::ids::Millis;
use crate::limits::{PUT_OFF_LEAD_MS, PUT_OFF_MS_MAX};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slots {
    /// The end of the last slot that was given out, in microseconds.
    booked_us: u64,
}

impl Slots {
    /// One more message that waits for room. `room_at` is when the limit has room for it, `interval_us` the time between
    /// two calls at the limit's rate. Returns after how many milliseconds it comes back.
    pub fn book(&mut self, now: Millis, room_at: Millis, interval_us: u64) -> u64 {
        let latest_us = micros(now.plus(PUT_OFF_MS_MAX).max(room_at));
        let slot_us = self.booked_us.max(micros(room_at)).min(latest_us);
        self.booked_us = slot_us.saturating_add(interval_us).min(latest_us);
        let slot = Millis(slot_us / 1_000);
        slot.since(now).saturating_sub(PUT_OFF_LEAD_MS)
    }
}

fn micros(at: Millis) -> u64 {
    at.0.saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(100_000);

    #[test]
    fn messages_come_back_at_the_rate_and_a_little_early() {
        let mut slots = Slots::default();
        let waits: Vec<u64> = (0..2_000).map(|_| slots.book(NOW, NOW.plus(500), 10_000)).collect();
        assert_eq!((waits[0], waits[50]), (0, 0));
        assert_eq!(waits[100], 500, "its slot is at 1,500 ms");
        assert_eq!(waits[1_999], 500 + 19_990 - PUT_OFF_LEAD_MS);
        assert_eq!(slots.book(NOW.plus(30_000), NOW.plus(30_000), 10_000), 0, "the queue is over");
    }

    #[test]
    fn no_slot_is_far_behind_the_time_at_which_there_is_room() {
        let mut slots = Slots::default();
        let waits: Vec<u64> = (0..500).map(|_| slots.book(NOW, NOW, 1_000_000)).collect();
        assert_eq!(waits[499], PUT_OFF_MS_MAX - PUT_OFF_LEAD_MS);
        let mut slots = Slots::default();
        let rest: Vec<u64> = (0..500).map(|_| slots.book(NOW, NOW.plus(3_600_000), 1_000_000)).collect();
        assert!(rest.iter().all(|wait| *wait == 3_600_000 - PUT_OFF_LEAD_MS));
    }
}
