//! When the first attempts of something that is accepted now are expected to be over.
//!
//! Comes from: acceptance, with how each channel is doing. Decides: a time to tell, which is what the lane promises unless
//! there is more to do before it than the channel does in that time, or the channel rests. It binds nobody.

use crate::ids::Millis;
use crate::priority::Priority;

/// Speeds are measured over stretches of at least this.
const STRETCH_MS: u64 = 1_000;
/// A speed that nothing was heard of for so long says nothing about now.
const STALE_MS: u64 = 30_000;

/// How many deliveries a channel ends in a second, as seen lately.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Speed {
    began: Millis,
    count: u64,
    per_second: u64,
}

impl Speed {
    /// So many have ended.
    pub fn add(&mut self, now: Millis, count: u64) {
        let elapsed_ms = now.since(self.began);
        if elapsed_ms >= STALE_MS {
            *self = Self { began: now, count: 0, per_second: 0 };
        } else if elapsed_ms >= STRETCH_MS {
            let found = (self.count * 1_000).div_ceil(elapsed_ms);
            let per_second = if self.per_second == 0 { found } else { u64::midpoint(self.per_second, found) };
            *self = Self { began: now, count: 0, per_second };
        }
        self.count += count;
    }

    /// 0 if it is not known.
    #[must_use]
    pub fn per_second(&self, now: Millis) -> u64 {
        if now.since(self.began) < STALE_MS { self.per_second } else { 0 }
    }
}

/// How one channel is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outlook {
    /// How long it rests, by its own wish or because it does not work.
    pub rest_ms: u64,
    /// Deliveries that go first.
    pub ahead: u64,
    /// 0 if it is not known.
    pub per_second: u64,
}

/// How long until the first attempts are expected to be over, by the slowest of its channels.
#[must_use]
pub fn expected_ms(lane: Priority, own: u64, channels: &[Outlook]) -> u64 {
    let promised = promised_ms(lane);
    let one = |channel: &Outlook| {
        let work = (channel.ahead + own).saturating_mul(1_000);
        let working = work.checked_div(channel.per_second).unwrap_or(0);
        channel.rest_ms + working.max(promised)
    };
    channels.iter().map(one).max().unwrap_or(promised)
}

/// What the lane is built for.
fn promised_ms(lane: Priority) -> u64 {
    match lane {
        Priority::Critical => 500,
        Priority::High => 2_000,
        Priority::Normal => 5_000,
        Priority::Low => 60_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: API-01
    #[test]
    fn the_promise_holds_unless_there_is_more_to_do() {
        let outlook = |rest_ms, ahead, per_second| Outlook { rest_ms, ahead, per_second };
        for (lane, own, channels, expected) in [
            (Priority::Critical, 1, vec![], 500),
            (Priority::Normal, 1, vec![outlook(0, 0, 0)], 5_000),
            (Priority::Normal, 1, vec![outlook(0, 1_000_000, 0)], 5_000), // nothing is known
            (Priority::Normal, 1_000, vec![outlook(0, 3_000, 1_000)], 5_000),
            (Priority::Normal, 1_000, vec![outlook(0, 99_000, 1_000)], 100_000),
            (Priority::High, 1, vec![outlook(30_000, 0, 0)], 32_000),
            (Priority::High, 1, vec![outlook(0, 9, 1), outlook(30_000, 0, 5)], 32_000),
            (Priority::High, 1, vec![outlook(0, u64::MAX / 2, 1)], u64::MAX),
        ] {
            assert_eq!(expected_ms(lane, own, &channels), expected, "{channels:?}");
        }
    }

    #[test]
    fn speed_is_what_was_seen_lately() {
        let mut speed = Speed::default();
        for second in 0..5 {
            speed.add(Millis(100_000 + second * 1_000), 500);
        }
        assert_eq!(speed.per_second(Millis(104_000)), 500);
        speed.add(Millis(105_000), 100);
        speed.add(Millis(106_000), 100);
        assert_eq!(speed.per_second(Millis(106_000)), 300, "half of what was, half of what is");
        assert_eq!(speed.per_second(Millis(136_000)), 0, "long ago");
        speed.add(Millis(200_000), 7);
        assert_eq!(speed.per_second(Millis(200_000)), 0);
    }
}
